//! Connections to a broker, which send and receive frames.

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
    connections: BTreeMap<String, Connection>,
    next: i32,
}

impl Peer {
    /// A broker at an address, without a connection yet.
    pub fn new(address: SocketAddr) -> Peer {
        Peer { address, connections: BTreeMap::new(), next: 1 }
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
            let broker = BlockingConnection::open(self.address, CLIENT, LIMIT)
                .map_err(|e| format!("cannot connect to {}: {e}", self.address))?;
            self.connections.insert(name.to_owned(), Connection { broker, due: VecDeque::new() });
        }
        let Some(connection) = self.connections.get_mut(name) else { return Ok(()) };
        connection.due.push_back(Due { id, api, version });
        // A broker that has hung up shows when its answer is read.
        let _ = connection.broker.send_bytes(&frame);
        Ok(())
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
