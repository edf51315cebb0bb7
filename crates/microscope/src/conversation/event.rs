//! What a conversation tells.

use bytes::Bytes;
use ottla_wire::explain::{self, Explanation, Options};
use ottla_wire::frame::read_request_header;
use ottla_wire::messages::MetadataResponse;
use ottla_wire::tables::{Direction, TableSet};
use ottla_wire::{ApiKey, Message, Text, Uuid, frame};
use std::collections::BTreeMap;
use std::fmt;
use std::net::SocketAddr;
use std::time::Duration;

/// Bytes of the size in front of a frame.
pub(super) const SIZE: usize = 4;

/// A moment: nanoseconds since 1970.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Time(pub i64);

impl Time {
    /// How long after `earlier` it is; zero if it is before.
    pub fn since(self, earlier: Time) -> Duration {
        Duration::from_nanos(u64::try_from(self.0.saturating_sub(earlier.0)).unwrap_or(0))
    }
}

/// A connection between a client and a broker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Connection {
    /// Its number: 1 for the first of a capture.
    pub number: u64,
    /// The side that asks.
    pub client: SocketAddr,
    /// The side that answers.
    pub server: SocketAddr,
}

impl fmt::Display for Connection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "#{} {} > {}", self.number, self.client, self.server)
    }
}

/// What the header of a request says. A response bears the head of its request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Head {
    /// The API; may be a number that no schema has.
    pub key: ApiKey,
    /// The version of the message. A response to an ApiVersions request that the broker does not know is version 0.
    pub version: i16,
    /// The number that ties a response to its request.
    pub correlation_id: i32,
    /// What the client calls itself.
    pub client_id: Option<Text>,
}

impl Head {
    /// Reads the header of a request frame, its size included. Of an API that no schema has, or a header that is damaged, only
    /// the fixed part is read.
    pub fn of_request(whole: &Bytes) -> Option<Head> {
        if let Ok((header, _)) = read_request_header(&whole.slice(whole.len().min(SIZE)..)) {
            return Some(Head {
                key: header.api_key,
                version: header.api_version,
                correlation_id: header.correlation_id,
                client_id: header.client_id,
            });
        }
        let [k0, k1, v0, v1, correlation_id @ ..] = *whole.get(SIZE..)?.first_chunk::<8>()?;
        Some(Head {
            key: ApiKey(i16::from_be_bytes([k0, k1])),
            version: i16::from_be_bytes([v0, v1]),
            correlation_id: i32::from_be_bytes(correlation_id),
            client_id: None,
        })
    }

    /// Whether the schemas have this API and version.
    pub fn is_known(&self) -> bool {
        self.key.info().is_some_and(|info| info.request_versions.contains(self.version))
    }
}

/// What kind of frame it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A message that the schemas have: [`Frame::head`] says which.
    Message,
    /// The head is there, but no schema has that API or version.
    Unknown,
    /// A SASL token without a header, as they follow a SaslHandshake of version 0. Secret.
    Token,
    /// A response whose request was not seen, or a frame too short for a header.
    Orphan,
}

/// A whole frame.
#[derive(Clone, Debug)]
pub struct Frame {
    /// Which way it went.
    pub direction: Direction,
    /// What it is.
    pub kind: Kind,
    /// Its bytes, the size in front included.
    pub bytes: Bytes,
    /// What the request's header says, of a response too; `None` for tokens and orphans.
    pub head: Option<Head>,
    /// Of a response: how long after the end of the request it was complete.
    pub latency: Option<Duration>,
    /// Of a request: whether a response is due. Produce with acks 0 has none.
    pub is_answered: bool,
}

impl Frame {
    /// The tree of the frame; `None` for tokens, orphans and what no schema has.
    pub fn explain(&self, tables: &'static TableSet, options: &Options) -> Option<Explanation> {
        let head = self.head.as_ref().filter(|_| self.kind == Kind::Message)?;
        Some(match self.direction {
            Direction::Request => explain::request(tables, &self.bytes, options),
            Direction::Response => explain::response(tables, head.key, head.version, &self.bytes, options),
        })
    }
}

/// Something worth saying that is no frame.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Notice {
    /// The connection is encrypted: left alone from here on.
    Tls,
    /// Nothing in the first bytes looks like Kafka: left alone from here on.
    NotKafka,
    /// Neither the beginning of the connection nor a port said which side is the client: the higher port was taken for it.
    Guessed,
    /// Bytes that were never captured.
    Lost {
        /// How many.
        bytes: u64,
    },
    /// Bytes passed over in search of the beginning of a frame.
    Skipped {
        /// How many.
        bytes: u64,
        /// Whether a frame begins behind them; else the search was given up or the connection ended.
        found: bool,
    },
    /// A frame larger than the limit, passed over.
    TooLarge {
        /// Its bytes, the size in front included.
        size: u64,
        /// What its header says, where that is known.
        head: Option<Head>,
    },
    /// A frame of which bytes were lost, passed over.
    Broken {
        /// Its bytes, the size in front included.
        size: u64,
        /// What its header says, where that is known.
        head: Option<Head>,
    },
    /// The direction ended inside a frame.
    Cut {
        /// Bytes of it that were there.
        bytes: u64,
        /// Its whole size, the size in front included, where that is known.
        size: Option<u64>,
    },
    /// The connection or the capture ended with requests that were not answered.
    Unanswered {
        /// How many.
        requests: usize,
    },
}

impl fmt::Display for Notice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let frame = |f: &mut fmt::Formatter<'_>, head: &Option<Head>, size: &u64| match head {
            Some(head) => write!(f, "a {} frame version {} of {size} bytes", head.key, head.version),
            None => write!(f, "a frame of {size} bytes"),
        };
        match self {
            Notice::Tls => f.write_str("TLS: encrypted, left alone"),
            Notice::NotKafka => f.write_str("nothing that looks like Kafka: left alone"),
            Notice::Guessed => f.write_str("client and server on_event apart by their ports alone"),
            Notice::Lost { bytes } => write!(f, "{bytes} bytes missing from the capture"),
            Notice::Skipped { bytes, found: true } => {
                write!(f, "{bytes} bytes skipped up to the beginning of a frame")
            }
            Notice::Skipped { bytes, found: false } => {
                write!(f, "{bytes} bytes skipped without finding the beginning of a frame")
            }
            Notice::TooLarge { size, head } => {
                frame(f, head, size)?;
                f.write_str(" is larger than the limit: passed over")
            }
            Notice::Broken { size, head } => {
                frame(f, head, size)?;
                f.write_str(" has bytes missing: passed over")
            }
            Notice::Cut { bytes, size: Some(size) } => {
                write!(f, "ends inside a frame: {bytes} of its {size} bytes are there")
            }
            Notice::Cut { bytes, size: None } => {
                write!(f, "ends inside a frame: {bytes} bytes of it are there")
            }
            Notice::Unanswered { requests } => write!(f, "{requests} requests without an answer"),
        }
    }
}

/// What is on_event about a connection.
#[derive(Clone, Debug)]
pub enum Event {
    /// It is seen for the first time.
    Opened,
    /// A frame.
    Frame(Frame),
    /// Something else about a direction.
    Notice(Direction, Notice),
    /// It is over, or the capture is.
    Closed,
}

/// The names of topics by id, learned from Metadata responses, since newer requests only bear ids. At most 100,000 are kept.
#[derive(Clone, Debug, Default)]
pub struct Topics {
    names: BTreeMap<Uuid, String>,
}

impl Topics {
    const MAX: usize = 100_000;

    /// The name of a topic, if it was seen.
    pub fn name(&self, id: Uuid) -> Option<&str> {
        self.names.get(&id).map(String::as_str)
    }

    /// All of them, as [`Options::topics`] wants them.
    pub fn names(&self) -> &BTreeMap<Uuid, String> {
        &self.names
    }

    /// Looks at a frame; whether there was something new in it.
    pub fn learn(&mut self, seen: &Frame) -> bool {
        let Some(head) = &seen.head else { return false };
        if (seen.direction, seen.kind, head.key) != (Direction::Response, Kind::Message, ApiKey::METADATA) {
            return false;
        }
        let content = seen.bytes.slice(seen.bytes.len().min(SIZE)..);
        let Ok((_, mut body)) = frame::read_response_header(&content, head.key, head.version) else {
            return false;
        };
        let Ok(metadata) = MetadataResponse::decode(&mut body, head.version) else { return false };
        let mut is_new = false;
        for topic in metadata.topics.iter().filter(|topic| topic.topic_id != Uuid::default()) {
            let Some(name) = topic.name.as_ref().map(|name| name.as_str()) else { continue };
            if self.names.len() < Self::MAX && self.name(topic.topic_id) != Some(name) {
                self.names.insert(topic.topic_id, name.to_owned());
                is_new = true;
            }
        }
        is_new
    }
}
