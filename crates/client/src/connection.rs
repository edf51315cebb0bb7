//! One connection to one broker. Responses are matched to requests by correlation id.
//!
//! Two tasks own the halves of the socket, so a caller that is cancelled leaves no half-written frame.

use crate::error::ClientError;
use crate::security::{Exchange, Login, Security};
use crate::versions::{BrokerVersions, offered, ours};
use bytes::{Bytes, BytesMut};
use ottla_auth::scram::ScramError;
use ottla_wire::frame::{self, Frame};
use ottla_wire::messages::{ApiVersionsRequest, SaslAuthenticateRequest, SaslHandshakeRequest};
use ottla_wire::{DecodeError, ErrorCode, Message, Request, Text, Versions};
use std::collections::HashMap;
use std::sync::atomic::{AtomicI32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinHandle;
use tokio::time::timeout;

/// Bytes of the largest frame that is accepted; a larger size is an error.
const LARGEST_FRAME: usize = 256 << 20;

/// An open connection. Requests may be pipelined; dropping it closes the socket.
pub(crate) struct Connection {
    peer: String,
    client_id: Text,
    requests: mpsc::UnboundedSender<Frame>,
    next_id: AtomicI32,
    waiting: Arc<PendingCalls>,
    served: BrokerVersions,
    tasks: [JoinHandle<()>; 2],
}

/// The calls that wait for a response, by correlation id; after the connection is closed, the reason.
#[derive(Default)]
struct PendingCalls(Mutex<CallTable>);

#[derive(Default)]
struct CallTable {
    answers: HashMap<i32, oneshot::Sender<Bytes>>,
    closed: Option<String>,
}

impl Connection {
    /// Connects and sends ApiVersions; each of both may take `limit`.
    pub(crate) async fn open(
        peer: &str,
        client_id: &str,
        limit: Duration,
        security: &Security,
    ) -> Result<Connection, ClientError> {
        let socket = match timeout(limit, TcpStream::connect(peer)).await {
            Ok(Ok(socket)) => socket,
            Ok(Err(error)) => return Err(lost(peer, error)),
            Err(_) => return Err(waited(format!("a connection to {peer}"), limit)),
        };
        socket.set_nodelay(true).map_err(|error| lost(peer, error))?;
        let stream = match timeout(limit, security.encrypt(peer, socket)).await {
            Ok(stream) => stream?,
            Err(_) => return Err(waited(format!("the TLS handshake with {peer}"), limit)),
        };
        let mut connection = match stream {
            Err(socket) => {
                let (reader, writer) = socket.into_split();
                Connection::start(peer, client_id, reader, writer)
            }
            Ok(stream) => {
                let (reader, writer) = tokio::io::split(stream);
                Connection::start(peer, client_id, reader, writer)
            }
        };
        connection.served = connection.ask_versions(limit).await?;
        if let Some(login) = security.login() {
            connection.log_in(login, limit).await?;
        }
        Ok(connection)
    }

    /// Authenticates with SASL.
    async fn log_in(&self, login: &Login, limit: Duration) -> Result<(), ClientError> {
        let refused = |code: i16, api: &'static str, message: Option<String>| ClientError::Kafka {
            code: ErrorCode(code),
            api,
            about: self.peer().to_owned(),
            message,
        };
        let request = SaslHandshakeRequest { mechanism: login.mechanism().into(), ..Default::default() };
        let answer = self.call(&request, 1, limit).await?;
        if answer.error_code != 0 {
            let enabled: Vec<&str> = answer.mechanisms.iter().map(|name| &name[..]).collect();
            let message = format!("the broker takes {}", enabled.join(", "));
            return Err(refused(answer.error_code, "SaslHandshake", Some(message)));
        }
        let (mut exchange, mut token) = login.begin()?;
        let versions = ours::<SaslAuthenticateRequest>(Versions::new(0, i16::MAX));
        let version = self.served.choose::<SaslAuthenticateRequest>(self.peer(), versions)?;
        loop {
            let request = SaslAuthenticateRequest { auth_bytes: token.into(), ..Default::default() };
            let answer = self.call(&request, version, limit).await?;
            if answer.error_code != 0 {
                let message = answer.error_message.as_deref().map(str::to_owned);
                return Err(refused(answer.error_code, "SaslAuthenticate", message));
            }
            let (next, last) = match exchange {
                Exchange::Plain => return Ok(()),
                Exchange::Scram(mut scram) if !scram.is_answered() => {
                    let next = scram.answer(&answer.auth_bytes);
                    (next.map_err(|error| self.untrusted(&error))?, scram)
                }
                Exchange::Scram(scram) => {
                    return scram.finish(&answer.auth_bytes).map_err(|error| self.untrusted(&error));
                }
            };
            (token, exchange) = (next, Exchange::Scram(last));
        }
    }

    /// The broker did not prove that it knows the user.
    fn untrusted(&self, error: &ScramError) -> ClientError {
        let what = format!("answer to SaslAuthenticate (with {})", self.peer);
        ClientError::Malformed { what, reason: error.to_string() }
    }

    fn start<R, W>(peer: &str, client_id: &str, reader: R, writer: W) -> Connection
    where
        R: AsyncRead + Unpin + Send + 'static,
        W: AsyncWrite + Unpin + Send + 'static,
    {
        let (requests, frames) = mpsc::unbounded_channel();
        let waiting = Arc::<PendingCalls>::default();
        let tasks = [
            tokio::spawn(write_frames(writer, frames, waiting.clone())),
            tokio::spawn(read_frames(reader, waiting.clone())),
        ];
        Connection {
            peer: peer.to_owned(),
            client_id: client_id.into(),
            requests,
            next_id: AtomicI32::new(0),
            waiting,
            served: BrokerVersions::default(),
            tasks,
        }
    }

    /// The broker's address, as the caller gave it.
    pub(crate) fn peer(&self) -> &str {
        &self.peer
    }

    /// The versions that the broker serves.
    pub(crate) fn served(&self) -> &BrokerVersions {
        &self.served
    }

    /// False once the socket is closed.
    pub(crate) fn is_open(&self) -> bool {
        self.waiting.list().closed.is_none()
    }

    /// Sends a request in the given version and waits at most `limit` for its response.
    pub(crate) async fn call<R: Request>(
        &self,
        request: &R,
        version: i16,
        limit: Duration,
    ) -> Result<R::Response, ClientError> {
        let answer = self.exchange(request, version, limit).await?;
        body::<R>(&answer, version).map_err(|error| self.malformed::<R>("answer to", error))
    }

    /// As [`Connection::call`], but the response stays undecoded: all bytes after the size.
    pub(crate) async fn exchange<R: Request>(
        &self,
        request: &R,
        version: i16,
        limit: Duration,
    ) -> Result<Bytes, ClientError> {
        let id = self.next_id.fetch_add(1, Ordering::Relaxed) & i32::MAX;
        let frame = frame::request(id, Some(&self.client_id), request, version)
            .map_err(|error| self.malformed::<R>("request", error))?;
        let (answer, answered) = oneshot::channel();
        self.waiting.add(id, answer, &self.peer)?;
        if self.requests.send(frame).is_err() {
            self.waiting.close("the socket is closed");
        }
        match timeout(limit, answered).await {
            Ok(Ok(bytes)) => Ok(bytes),
            Ok(Err(_)) => Err(lost(&self.peer, self.waiting.reason())),
            Err(_) => {
                // Responses arrive in order, so later ones would wait too: permanently, if the peer disappeared without
                // closing.
                self.waiting.close(format!("no answer to {} within {} ms", R::KEY.name(), limit.as_millis()));
                Err(waited(format!("the answer to {} from {}", R::KEY.name(), self.peer), limit))
            }
        }
    }

    /// Sends ApiVersions in the newest version. An older broker answers in version 0, with error 35 and its own range.
    async fn ask_versions(&self, limit: Duration) -> Result<BrokerVersions, ClientError> {
        let mut version = ours::<ApiVersionsRequest>(Versions::new(0, i16::MAX)).max;
        loop {
            let request = ApiVersionsRequest {
                client_software_name: "ottla".into(),
                client_software_version: env!("CARGO_PKG_VERSION").into(),
                ..Default::default()
            };
            let answer = self.exchange(&request, version, limit).await?;
            let decoded = body::<ApiVersionsRequest>(&answer, version)
                .or_else(|_| body::<ApiVersionsRequest>(&answer, 0));
            let answer = decoded.map_err(|error| ClientError::Malformed {
                what: format!("answer to ApiVersions of {}", self.peer()),
                reason: error.to_string(),
            })?;
            match ErrorCode(answer.error_code) {
                ErrorCode::NONE => return Ok(BrokerVersions::from(answer)),
                ErrorCode::UNSUPPORTED_VERSION if version > 0 => version = offered(&answer).min(version - 1),
                code => {
                    let about = self.peer().to_owned();
                    return Err(ClientError::Kafka { code, api: "ApiVersions", about, message: None });
                }
            }
        }
    }

    fn malformed<R: Request>(&self, which: &str, error: impl ToString) -> ClientError {
        let what = format!("{which} {} (with {})", R::KEY.name(), self.peer);
        ClientError::Malformed { what, reason: error.to_string() }
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.tasks.iter().for_each(JoinHandle::abort);
    }
}

impl PendingCalls {
    fn list(&self) -> MutexGuard<'_, CallTable> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn add(&self, id: i32, answer: oneshot::Sender<Bytes>, peer: &str) -> Result<(), ClientError> {
        let mut list = self.list();
        if let Some(reason) = &list.closed {
            return Err(lost(peer, reason));
        }
        list.answers.insert(id, answer);
        Ok(())
    }

    /// Passes a response to the call that waits for it. After a timeout there is none.
    fn answer(&self, id: i32, bytes: Bytes) {
        if let Some(waiting) = self.list().answers.remove(&id) {
            let _ = waiting.send(bytes);
        }
    }

    /// Fails every waiting call; the first reason is kept.
    fn close(&self, reason: impl ToString) {
        let mut list = self.list();
        list.closed.get_or_insert_with(|| reason.to_string());
        list.answers.clear();
    }

    fn reason(&self) -> String {
        self.list().closed.clone().unwrap_or_else(|| "the socket is closed".to_owned())
    }
}

async fn write_frames(
    mut socket: impl AsyncWrite + Unpin,
    mut frames: mpsc::UnboundedReceiver<Frame>,
    waiting: Arc<PendingCalls>,
) {
    while let Some(frame) = frames.recv().await {
        for mut chunk in frame.into_chunks() {
            if let Err(error) = socket.write_all_buf(&mut chunk).await {
                return waiting.close(error);
            }
        }
        // An encrypted stream keeps what was written until it is flushed.
        if let Err(error) = socket.flush().await {
            return waiting.close(error);
        }
    }
}

async fn read_frames(mut socket: impl AsyncRead + Unpin, waiting: Arc<PendingCalls>) {
    loop {
        match read_frame(&mut socket).await {
            Ok((id, frame)) => waiting.answer(id, frame),
            Err(reason) => return waiting.close(reason),
        }
    }
}

/// Reads one frame and the correlation id it starts with.
async fn read_frame(socket: &mut (impl AsyncRead + Unpin)) -> Result<(i32, Bytes), String> {
    let size = match socket.read_i32().await {
        Ok(size) => size,
        Err(error) if error.kind() == std::io::ErrorKind::UnexpectedEof => {
            return Err("the broker closed the connection".to_owned());
        }
        Err(error) => return Err(error.to_string()),
    };
    let size = usize::try_from(size).ok().filter(|size| (4..=LARGEST_FRAME).contains(size));
    let size = size.ok_or_else(|| "the broker sent a frame of an impossible size".to_owned())?;
    let mut frame = BytesMut::with_capacity(size.min(1 << 20));
    let mut rest = (&mut *socket).take(size as u64);
    while frame.len() < size {
        if rest.read_buf(&mut frame).await.map_err(|error| error.to_string())? == 0 {
            return Err("the broker closed the connection within a frame".to_owned());
        }
    }
    let mut id = [0; 4];
    id.copy_from_slice(&frame[..4]);
    Ok((i32::from_be_bytes(id), frame.freeze()))
}

/// Decodes the response to a request of that version.
fn body<R: Request>(answer: &Bytes, version: i16) -> Result<R::Response, DecodeError> {
    let (_, mut reader) = frame::read_response_header(answer, R::KEY, version)?;
    R::Response::decode(&mut reader, version)
}

fn lost(peer: &str, reason: impl ToString) -> ClientError {
    ClientError::ConnectionLost { peer: peer.to_owned(), reason: reason.to_string() }
}

fn waited(what: String, after: Duration) -> ClientError {
    ClientError::Timeout { what, after, last: None }
}
