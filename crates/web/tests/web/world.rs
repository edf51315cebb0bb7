//! A broker in memory, a client of it, and its HTTP side without a socket.

use axum::Router;
use axum::body::{Body, to_bytes};
use axum::http::{HeaderMap, Method, Request, StatusCode, header};
use bytes::Bytes;
use ottla_broker::host::{self, Host, HostOptions, Snapshots};
use ottla_broker::{AdvertisedAddress, Context, ContextOptions, Server};
use ottla_client::{Client, GroupOffset, Membership, Node, Producer, ProducerOptions, Record};
use ottla_core::config::Settings;
use ottla_store::{MemoryMedium, Options};
use ottla_web::{App, routes};
use ottla_wire::messages::CreateTopicsRequest;
use ottla_wire::messages::create_topics_request::CreatableTopic;
use serde_json::Value;
use std::sync::Arc;
use tokio::net::TcpListener;
use tokio::sync::watch;
use tower::ServiceExt;

/// A text that is a script unless it is escaped, and that turns the direction of the following text around.
pub(crate) const HOSTILE: &str = "<script>alert('&\"')</script>\u{202e}";
/// [`HOSTILE`] in a query.
pub(crate) const HOSTILE_IN_QUERY: &str = "%3Cscript%3Ealert%28%27%26%22%27%29%3C%2Fscript%3E%E2%80%AE";

pub(crate) struct World {
    pub(crate) client: Client,
    pub(crate) router: Router,
    pub(crate) host: Host,
    /// Says that the log failed.
    pub(crate) failure: watch::Sender<Option<String>>,
    _server: Server,
}

/// An answer, read.
pub(crate) struct Answer {
    pub(crate) status: StatusCode,
    pub(crate) headers: HeaderMap,
    pub(crate) text: String,
}

impl Answer {
    pub(crate) fn json(&self) -> Value {
        assert_eq!(self.headers[header::CONTENT_TYPE], "application/json", "{}", self.text);
        serde_json::from_str(&self.text).unwrap()
    }
}

impl World {
    pub(crate) async fn new() -> World {
        World::listening_at("127.0.0.1:9080").await
    }

    /// A broker whose HTTP side believes that it listens at this address.
    pub(crate) async fn listening_at(address: &str) -> World {
        let options = HostOptions {
            settings: Settings::default(),
            log: Options::memory(),
            cluster_id: "ottla-test-cluster-id0".to_owned(),
            snapshots: Snapshots::every(1 << 20),
        };
        let started = host::start(Arc::new(MemoryMedium::new()), options).unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let bootstrap = listener.local_addr().unwrap();
        let advertised = AdvertisedAddress { host: "127.0.0.1".to_owned(), port: bootstrap.port() };
        let host = started.host.clone();
        let options = ContextOptions::new(advertised, "memory");
        let context = Context::new(started.host, started.reader, options).await.unwrap();
        let server = Server::bind(listener, context).unwrap();
        let (failure, failed) = watch::channel(None);
        let names = vec!["Named.Example".to_owned()];
        let app = App::new(Arc::clone(server.context()), failed, address.parse().unwrap(), names).unwrap();
        let client = Client::connect(&bootstrap.to_string()).await.unwrap();
        World { client, router: routes(Arc::new(app)), host, failure, _server: server }
    }

    pub(crate) async fn send(&self, request: Request<Body>) -> Answer {
        let response = self.router.clone().oneshot(request).await.unwrap();
        let (parts, body) = response.into_parts();
        let body = to_bytes(body, 16 << 20).await.unwrap();
        Answer {
            status: parts.status,
            headers: parts.headers,
            text: String::from_utf8(body.to_vec()).unwrap(),
        }
    }

    pub(crate) async fn get(&self, path: &str) -> Answer {
        self.send(request(Method::GET, path).body(Body::empty()).unwrap()).await
    }

    /// A page that must be there.
    pub(crate) async fn page(&self, path: &str) -> String {
        let answer = self.get(path).await;
        assert_eq!(answer.status, StatusCode::OK, "{path}: {}", answer.text);
        assert_eq!(answer.headers[header::CONTENT_TYPE], "text/html; charset=utf-8");
        assert!(!answer.text.contains("<script>alert"), "{path} is not escaped: {}", answer.text);
        for (at, _) in answer.text.match_indices('\u{202e}') {
            // Only values of form fields have it, which are sent back.
            let tag = answer.text[..at].rsplit('<').next().unwrap_or_default();
            assert!(tag.contains("value=\"") && !tag.contains('>'), "{path} is turned around at <{tag}");
        }
        answer.text
    }

    /// The JSON behind a page that must be there.
    pub(crate) async fn json(&self, path: &str) -> Value {
        let answer = self.get(&format!("/api/v1{path}")).await;
        assert_eq!(answer.status, StatusCode::OK, "{path}: {}", answer.text);
        answer.json()
    }

    pub(crate) async fn create(&self, name: &str, partitions: i32) {
        let topic = CreatableTopic {
            name: name.into(),
            num_partitions: partitions,
            replication_factor: -1,
            ..Default::default()
        };
        let request = CreateTopicsRequest { topics: vec![topic], timeout_ms: 30_000, ..Default::default() };
        let answer = self.client.call(Node::Any, request).await.unwrap();
        assert_eq!(answer.topics[0].error_code, 0, "{answer:?}");
    }

    pub(crate) async fn producer(&self, transactional_id: Option<&str>) -> Producer {
        let transactional_id = transactional_id.map(str::to_owned);
        let options = ProducerOptions { transactional_id, ..Default::default() };
        Producer::start(self.client.clone(), options).await.unwrap()
    }
}

/// A request to 127.0.0.1.
pub(crate) fn request(method: Method, path: &str) -> axum::http::request::Builder {
    Request::builder().method(method).uri(path).header(header::HOST, "127.0.0.1:9080")
}

pub(crate) fn record(key: &str, value: &str) -> Record {
    let bytes = |text: &str| Some(Bytes::copy_from_slice(text.as_bytes()));
    Record { key: bytes(key), value: bytes(value), ..Default::default() }
}

/// An open transaction of [`HOSTILE`] with a record on partition 0 of "letters" and an offset for the group
/// [`HOSTILE`].
pub(crate) async fn open_transaction(world: &World) -> Producer {
    world.create("letters", 2).await;
    let mut producer = world.producer(Some(HOSTILE)).await;
    producer.begin().await.unwrap();
    producer.send("letters", Some(0), vec![record(HOSTILE, HOSTILE)]).await.unwrap();
    let offset = GroupOffset { topic: "letters".to_owned(), partition: 1, offset: 0 };
    producer.send_offsets(&Membership::outside(HOSTILE), &[offset]).await.unwrap();
    producer
}
