//! Connections to a broker, which send and receive frames.

use base64::Engine;
use bytes::Bytes;
use ottla_client::BlockingConnection;
use ottla_microscope::json::{self, Options};
use ottla_wire::{ApiInfo, Versions, Writer};
use serde_json::Value;
use std::collections::{BTreeMap, VecDeque};
use std::io::ErrorKind;
use std::net::SocketAddr;
use std::time::Duration;

/// The longest wait for an answer.
const LIMIT: Duration = Duration::from_secs(4);
/// Client id in the headers.
const CLIENT: &str = "conformance";

/// The outcome of a request.
#[derive(Clone, Debug, PartialEq)]
pub enum Outcome {
    /// The body of the answer.
    Answer(Value),
    /// The broker closed the connection.
    Closed,
    /// No answer within the longest wait.
    Silence,
}

/// A request whose answer is due.
struct Due {
    id: i32,
    api: &'static ApiInfo,
    version: i16,
}

struct Connection {
    broker: BlockingConnection,
    due: VecDeque<Due>,
}

/// A broker, and the connections to it by name.
pub struct Peer {
    address: SocketAddr,
    secured: Option<Secured>,
    connections: BTreeMap<String, Connection>,
    next: i32,
}

/// A second listener of the broker, with SASL. A connection whose name begins with that of a user and "-", or is that
/// of a user, logs in there with PLAIN; one whose name begins with "sasl" connects there and does not log in.
#[derive(Clone, Debug)]
pub struct Secured {
    /// Its address.
    pub address: SocketAddr,
    /// Users and passwords.
    pub users: Vec<(String, String)>,
}

impl Secured {
    /// The user that a connection of this name logs in as.
    fn user(&self, connection: &str) -> Option<&(String, String)> {
        let name = connection.split('-').next().unwrap_or_default();
        self.users.iter().find(|(user, _)| user == name)
    }
}

impl Peer {
    /// A broker at an address, without a connection yet.
    pub fn new(address: SocketAddr) -> Peer {
        Peer { address, secured: None, connections: BTreeMap::new(), next: 1 }
    }

    /// The same broker, with its listener that has SASL.
    #[must_use]
    pub fn with_secured(self, secured: Secured) -> Peer {
        Peer { secured: Some(secured), ..self }
    }

    /// The versions that the broker serves, by the number of the API.
    ///
    /// # Errors
    /// The broker does not answer.
    pub fn served(&mut self) -> Result<BTreeMap<i16, Versions>, String> {
        let api = ottla_wire::ApiKey::API_VERSIONS.info().ok_or("no ApiVersions")?;
        self.send("served", (api, 0), &[])?;
        let Outcome::Answer(answer) = self.receive("served")? else {
            return Err(format!("{} does not say what it serves", self.address));
        };
        let number = |row: &Value, name: &str| row[name].as_i64().unwrap_or(-1) as i16;
        let rows = answer["apiKeys"].as_array().into_iter().flatten();
        let ranges = rows.map(|row| {
            (number(row, "apiKey"), Versions::new(number(row, "minVersion"), number(row, "maxVersion")))
        });
        Ok(ranges.collect())
    }

    /// Drops every connection.
    pub fn hang_up(&mut self) {
        self.connections.clear();
    }

    /// Drops every connection and uses the broker at another address from now on.
    pub fn moved(&mut self, address: SocketAddr) {
        self.hang_up();
        self.address = address;
    }

    /// Sends a request: the body without header, and how many of the frame's last bytes are left out.
    ///
    /// # Errors
    /// There is no connection.
    pub fn send(
        &mut self,
        name: &str,
        (api, version): (&'static ApiInfo, i16),
        body: &[u8],
    ) -> Result<(), String> {
        let id = self.next;
        self.next += 1;
        let frame = framed(api, version, id, body)?;
        if !self.connections.contains_key(name) {
            let broker = self.connect(name)?;
            self.connections.insert(name.to_owned(), Connection { broker, due: VecDeque::new() });
        }
        let Some(connection) = self.connections.get_mut(name) else { return Ok(()) };
        connection.due.push_back(Due { id, api, version });
        // A broker that has hung up shows when its answer is read.
        let _ = connection.broker.send_bytes(&frame);
        Ok(())
    }

    /// Opens a connection, and logs in if its name is that of a user.
    fn connect(&self, name: &str) -> Result<BlockingConnection, String> {
        let secured = self.secured.as_ref();
        let user = secured.and_then(|secured| secured.user(name));
        let address = match secured {
            Some(secured) if user.is_some() || name.starts_with("sasl") => secured.address,
            _ => self.address,
        };
        let mut broker = BlockingConnection::open(address, CLIENT, LIMIT)
            .map_err(|e| format!("cannot connect to {address}: {e}"))?;
        if let Some((user, password)) = user {
            log_in(&mut broker, user, password).map_err(|e| format!("{user} cannot log in: {e}"))?;
        }
        Ok(broker)
    }

    /// Takes the oldest answer that is due on a connection. A connection that was closed or stays silent is dropped.
    ///
    /// # Errors
    /// No answer is due, or the frame is not the answer.
    pub fn receive(&mut self, name: &str) -> Result<Outcome, String> {
        let connection = self.connections.get_mut(name).ok_or_else(|| format!("{name} is not connected"))?;
        let due = connection.due.pop_front().ok_or_else(|| format!("no answer is due on {name}"))?;
        let frame = match connection.broker.receive_bytes() {
            Ok(frame) => frame,
            Err(error) => {
                self.connections.remove(name);
                return Ok(outcome_of(&error));
            }
        };
        answer(&due, &frame)
    }

    /// Removes the last request from those whose answer is due, because it has none.
    pub fn no_answer(&mut self, name: &str) {
        if let Some(connection) = self.connections.get_mut(name) {
            connection.due.pop_back();
        }
    }
}

/// Logs in with PLAIN.
fn log_in(broker: &mut BlockingConnection, user: &str, password: &str) -> Result<(), String> {
    let mut call = |api: ottla_wire::ApiKey, body: Value| {
        let info = api.info().ok_or("no such API")?;
        let table = info.request.ok_or("no such request")?;
        let body = json::encode(table, 1, &body).map_err(|e| e.to_string())?;
        let _ = broker.send_bytes(&framed(info, 1, 0, &body)?);
        let frame = broker.receive_bytes().map_err(|e| e.to_string())?;
        let due = Due { id: 0, api: info, version: 1 };
        match answer(&due, &frame)? {
            Outcome::Answer(answer) if answer["errorCode"] == 0 => Ok(()),
            other => Err(format!("{other:?}")),
        }
    };
    let token = base64::engine::general_purpose::STANDARD.encode(format!("\0{user}\0{password}"));
    call(ottla_wire::ApiKey::SASL_HANDSHAKE, serde_json::json!({ "mechanism": "PLAIN" }))?;
    call(ottla_wire::ApiKey::SASL_AUTHENTICATE, serde_json::json!({ "authBytes": token }))
}

fn framed(api: &ApiInfo, version: i16, id: i32, body: &[u8]) -> Result<Vec<u8>, String> {
    let header = api.request_header_version(version);
    let mut w = Writer::with_capacity(body.len() + 64);
    w.i16(api.key.0);
    w.i16(version);
    w.i32(id);
    if header >= 1 {
        w.str(false, CLIENT, &ottla_wire::At("RequestHeader", "ClientId")).map_err(|e| e.to_string())?;
    }
    if header >= 2 {
        w.uvarint(0);
    }
    let header = w.into_bytes();
    let size = i32::try_from(header.len() + body.len()).map_err(|e| e.to_string())?;
    Ok([&size.to_be_bytes()[..], &header, body].concat())
}

fn outcome_of(error: &std::io::Error) -> Outcome {
    match error.kind() {
        ErrorKind::WouldBlock | ErrorKind::TimedOut => Outcome::Silence,
        _ => Outcome::Closed,
    }
}

/// An answer to ApiVersions in a version that the broker does not serve is one of version 0.
fn answer(due: &Due, frame: &Bytes) -> Result<Outcome, String> {
    let options = Options { opened: true };
    let read = json::decode_response(due.api, due.version, frame, options);
    let read = read.or_else(|error| match due.api.key {
        ottla_wire::ApiKey::API_VERSIONS => json::decode_response(due.api, 0, frame, options),
        _ => Err(error),
    });
    let mut shown = read.map_err(|e| format!("the answer to {} v{}: {e}", due.api.name, due.version))?;
    match shown["correlationId"].as_i64() {
        Some(id) if id == i64::from(due.id) => Ok(Outcome::Answer(shown["body"].take())),
        id => Err(format!("{} v{} was answered for {id:?}, not {}", due.api.name, due.version, due.id)),
    }
}
