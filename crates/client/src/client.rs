//! The client: connections to every broker, the choice of the broker for a request, and retries.

use crate::cluster::{Coordinator, Node, View};
use crate::connection::Connection;
use crate::error::{ClientError, check_with};
use crate::security::Security;
use ottla_wire::messages::FindCoordinatorRequest;
use ottla_wire::{ErrorCode, Request, Versions};
use std::collections::HashMap;
use std::future::Future;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep};

/// Every version that the schema has.
const ANY_VERSION: Versions = Versions::new(0, i16::MAX);
const FIRST_PAUSE: Duration = Duration::from_millis(10);
const LONGEST_PAUSE: Duration = Duration::from_secs(1);
/// Attempts before an unknown topic counts as missing, because a broker may not know a topic yet that was just created.
const UNKNOWN_TOPIC_ATTEMPTS: u32 = 6;

/// The options of a client.
#[derive(Clone, Debug)]
pub struct Options {
    /// Client id, which appears in the broker's logs and in descriptions of groups.
    pub client_id: String,
    /// How long to wait for one response.
    pub request_timeout: Duration,
    /// How long to retry after retriable errors.
    pub patience: Duration,
    /// TLS and SASL.
    pub security: Security,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            client_id: "ottla".to_owned(),
            request_timeout: Duration::from_secs(30),
            patience: Duration::from_secs(60),
            security: Security::default(),
        }
    }
}

/// A handle on a cluster; clones share connections and the cached metadata.
#[derive(Clone)]
pub struct Client(Arc<Inner>);

struct Inner {
    options: Options,
    bootstrap: Vec<String>,
    slots: Mutex<HashMap<String, Arc<Slot>>>,
    view: Mutex<View>,
}

/// A slot for one connection; locked while the connection is opened, so that it is opened once.
type Slot = tokio::sync::Mutex<Option<Arc<Connection>>>;

impl Client {
    /// Connects to the first of the addresses (`host:port`, separated by commas) that accepts the connection.
    ///
    /// Fails with [`ClientError::Unreachable`] if none does.
    pub async fn connect(bootstrap: &str) -> Result<Client, ClientError> {
        Client::connect_with(bootstrap, Options::default()).await
    }

    /// As [`Client::connect`], with options.
    pub async fn connect_with(bootstrap: &str, options: Options) -> Result<Client, ClientError> {
        let client = Client(Arc::new(Inner {
            options,
            bootstrap: addresses(bootstrap)?,
            slots: Mutex::default(),
            view: Mutex::default(),
        }));
        client.connection(Node::Any).await?;
        Ok(client)
    }

    /// A client of the same cluster with connections of its own. A broker responds to the requests of one connection in
    /// order, so send requests that the broker may delay (Fetch, JoinGroup) over a connection of their own.
    #[must_use]
    pub fn apart(&self) -> Client {
        let view = View { brokers: self.view().brokers.clone(), ..View::default() };
        Client(Arc::new(Inner {
            options: self.0.options.clone(),
            bootstrap: self.0.bootstrap.clone(),
            slots: Mutex::default(),
            view: Mutex::new(view),
        }))
    }

    /// The options of this client.
    pub fn options(&self) -> &Options {
        &self.0.options
    }

    /// Sends one request in the newest common version and waits for its response. Nothing is retried, and the caller
    /// must check the error codes inside the response.
    pub async fn call<R: Request>(&self, node: Node, request: R) -> Result<R::Response, ClientError> {
        self.call_within(node, request, ANY_VERSION).await
    }

    /// As [`Client::call`], in a version within `versions`.
    pub async fn call_within<R: Request>(
        &self,
        node: Node,
        request: R,
        versions: Versions,
    ) -> Result<R::Response, ClientError> {
        self.call_patiently(node, request, versions, Duration::ZERO).await
    }

    /// As [`Client::call_within`], for requests whose answer the broker may delay for up to `held`.
    pub(crate) async fn call_patiently<R: Request>(
        &self,
        node: Node,
        request: R,
        versions: Versions,
        held: Duration,
    ) -> Result<R::Response, ClientError> {
        let connection = self.connection(node).await?;
        let version = connection.served().choose::<R>(connection.peer(), versions)?;
        connection.call(&request, version, self.0.options.request_timeout + held).await
    }

    /// Sends requests to several brokers at once and waits for all the responses.
    pub(crate) async fn call_each<R: Request + Send + Sync + 'static>(
        &self,
        requests: Vec<(Node, R)>,
        versions: Versions,
        held: Duration,
    ) -> Result<Vec<R::Response>, ClientError>
    where
        R::Response: Send,
    {
        let mut calls = JoinSet::new();
        for (node, request) in requests {
            let client = self.clone();
            calls.spawn(async move { client.call_patiently(node, request, versions, held).await });
        }
        let mut answers = Vec::new();
        while let Some(answer) = calls.join_next().await {
            answers
                .push(answer.map_err(|error| ClientError::Misuse(format!("a call ended early: {error}")))??);
        }
        Ok(answers)
    }

    /// The level at which the cluster has finalized a feature; 0 if it has not.
    pub async fn finalized_feature(&self, feature: &str) -> Result<i16, ClientError> {
        Ok(self.connection(Node::Any).await?.served().finalized(feature))
    }

    /// The coordinator of `key`; cached until a retriable error.
    pub async fn coordinator(&self, kind: Coordinator, key: &str) -> Result<Node, ClientError> {
        if let Some(id) = self.view().coordinators.get(&(kind, key.to_owned())) {
            return Ok(Node::Id(*id));
        }
        let request = FindCoordinatorRequest {
            key_type: kind as i8,
            coordinator_keys: vec![key.into()],
            ..Default::default()
        };
        let answer = self.call(Node::Any, request).await?;
        let found = answer.coordinators.into_iter().next().ok_or_else(|| ClientError::Malformed {
            what: format!("answer to FindCoordinator for {key:?}"),
            reason: "it names no coordinator".to_owned(),
        })?;
        check_with(
            found.error_code,
            "FindCoordinator",
            || format!("{key:?}"),
            found.error_message.as_deref(),
        )?;
        let mut view = self.view();
        view.brokers.insert(found.node_id, format!("{}:{}", found.host, found.port));
        view.coordinators.insert((kind, key.to_owned()), found.node_id);
        Ok(Node::Id(found.node_id))
    }

    /// Repeats `attempt` until it succeeds, fails with an error that is not retriable, or `patience` has passed. Cached
    /// leaders and coordinators are dropped between two attempts, so the next attempt looks them up again.
    pub async fn retrying<T, F: Future<Output = Result<T, ClientError>>>(
        &self,
        what: &str,
        attempt: impl Fn() -> F,
    ) -> Result<T, ClientError> {
        let started = Instant::now();
        let mut pause = FIRST_PAUSE;
        for attempts in 1.. {
            let error = match attempt().await {
                Ok(done) => return Ok(done),
                Err(error) if !error.is_retriable() => return Err(error),
                Err(error) => error,
            };
            if error.is(ErrorCode::UNKNOWN_TOPIC_OR_PARTITION) && attempts >= UNKNOWN_TOPIC_ATTEMPTS {
                return Err(error);
            }
            let after = started.elapsed();
            if after + pause >= self.0.options.patience {
                return Err(ClientError::Timeout {
                    what: what.to_owned(),
                    after,
                    last: Some(Box::new(error)),
                });
            }
            self.view().forget();
            sleep(pause).await;
            pause = (pause * 2).min(LONGEST_PAUSE);
        }
        Err(ClientError::Misuse("more attempts than can be counted".to_owned()))
    }

    pub(crate) fn view(&self) -> MutexGuard<'_, View> {
        self.0.view.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn connection(&self, node: Node) -> Result<Arc<Connection>, ClientError> {
        match node {
            Node::Any => self.any_connection().await,
            Node::Id(id) => {
                let Some(address) = self.view().brokers.get(&id).cloned() else {
                    return Err(ClientError::Misuse(format!("no broker with id {id} is known")));
                };
                self.connection_to(&address).await.map_err(|error| advertised(error, id, &address))
            }
        }
    }

    async fn any_connection(&self) -> Result<Arc<Connection>, ClientError> {
        let known: Vec<String> = self.view().brokers.values().cloned().collect();
        let mut failures = Vec::new();
        for address in self.0.bootstrap.iter().chain(known.iter().filter(|a| !self.0.bootstrap.contains(a))) {
            match self.connection_to(address).await {
                Ok(connection) => return Ok(connection),
                Err(ClientError::ConnectionLost { peer, reason }) => {
                    failures.push(format!("{peer}: {reason}"))
                }
                Err(error) => failures.push(error.to_string()),
            }
        }
        Err(ClientError::Unreachable { reason: failures.join("; ") })
    }

    async fn connection_to(&self, address: &str) -> Result<Arc<Connection>, ClientError> {
        let slot = {
            let mut slots = self.0.slots.lock().unwrap_or_else(PoisonError::into_inner);
            slots.entry(address.to_owned()).or_default().clone()
        };
        let mut slot = slot.lock().await;
        if let Some(connection) = slot.as_ref().filter(|connection| connection.is_open()) {
            return Ok(connection.clone());
        }
        let options = &self.0.options;
        let opened =
            Connection::open(address, &options.client_id, options.request_timeout, &options.security).await?;
        let opened = Arc::new(opened);
        *slot = Some(opened.clone());
        Ok(opened)
    }
}

/// Adds to the error of a failed connection that the address is an advertised one, because a wrong advertised address
/// is hard to find otherwise.
fn advertised(error: ClientError, id: i32, address: &str) -> ClientError {
    match error {
        ClientError::ConnectionLost { peer, reason } if peer == address => {
            ClientError::ConnectionLost { peer: format!("{peer}, where broker {id} says it is"), reason }
        }
        other => other,
    }
}

/// Splits a list of addresses; an address without a port gets Kafka's, 9092.
fn addresses(list: &str) -> Result<Vec<String>, ClientError> {
    let parts = list.split(',').map(str::trim).filter(|part| !part.is_empty());
    let addresses: Vec<String> = parts.map(with_port).collect();
    if addresses.is_empty() {
        return Err(ClientError::Misuse("no broker address was given; expected HOST:PORT".to_owned()));
    }
    Ok(addresses)
}

fn with_port(address: &str) -> String {
    let has_port = address.rsplit_once(':').is_some_and(|(host, port)| {
        port.parse::<u16>().is_ok() && (!host.contains(':') || host.ends_with(']'))
    });
    match has_port {
        true => address.to_owned(),
        false if address.contains(':') && !address.starts_with('[') => format!("[{address}]:9092"),
        false => format!("{address}:9092"),
    }
}

/// A duration in milliseconds as an int32, saturating at the largest value.
pub(crate) fn millis(span: Duration) -> i32 {
    i32::try_from(span.as_millis()).unwrap_or(i32::MAX)
}

#[cfg(test)]
mod tests {
    use super::addresses;

    #[test]
    fn addresses_get_a_port_when_they_have_none() {
        let parsed = |text: &str| addresses(text).unwrap().join(" ");
        assert_eq!(parsed("localhost"), "localhost:9092");
        assert_eq!(parsed("a:1, b:2,,c"), "a:1 b:2 c:9092");
        assert_eq!(parsed("[::1]:5,::1,[::1]"), "[::1]:5 [::1]:9092 [::1]:9092");
        assert!(addresses(" , ").is_err());
    }
}
