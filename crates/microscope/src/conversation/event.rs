//! The events of a conversation.

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

/// The length of the size field in bytes.
pub(super) const SIZE: usize = 4;

/// A time in nanoseconds since 1970.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Time(pub i64);

impl Time {
    /// The time since `earlier`; zero if `earlier` is later.
    pub fn since(self, earlier: Time) -> Duration {
        Duration::from_nanos(u64::try_from(self.0.saturating_sub(earlier.0)).unwrap_or(0))
    }
}

/// A connection between a client and a broker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Connection {
    /// Its number: 1 for the first of a capture.
    pub number: u64,
    /// The endpoint that sends requests.
    pub client: SocketAddr,
    /// The endpoint that sends responses.
    pub server: SocketAddr,
}

impl fmt::Display for Connection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "#{} {} > {}", self.number, self.client, self.server)
    }
}

/// The header of a request. A response has the header of its request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Head {
    /// The API; may be a number that no schema has.
    pub key: ApiKey,
    /// The version of the message. A response to an ApiVersions request that the broker does not know is version 0.
    pub version: i16,
    /// The number that assigns a response to its request.
    pub correlation_id: i32,
    /// The name that the client gave itself.
    pub client_id: Option<Text>,
}

impl Head {
    /// Reads the header of a request frame, including its size field. If no schema has the API or the header is
    /// damaged, only the part of fixed length is read.
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

/// The kind of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A message that the schemas have; [`Frame::head`] has its API and version.
    Message,
    /// A frame with a header whose API or version no schema has.
    Unknown,
    /// A SASL token without a header, as they follow a SaslHandshake of version 0. Secret.
    Token,
    /// A response whose request was not captured, or a frame that is too short for a header.
    Orphan,
}

/// A whole frame.
#[derive(Clone, Debug)]
pub struct Frame {
    /// Its direction.
    pub direction: Direction,
    /// Its kind.
    pub kind: Kind,
    /// Its bytes, including the size field.
    pub bytes: Bytes,
    /// The header of the request, for a response too; `None` for tokens and orphans.
    pub head: Option<Head>,
    /// For a response: the time from the end of the request to the end of the response.
    pub latency: Option<Duration>,
    /// For a request: whether the broker responds. It does not respond to Produce with acks 0.
    pub is_answered: bool,
}

impl Frame {
    /// The tree of the frame; `None` for tokens, orphans and frames that no schema has.
    pub fn explain(&self, tables: &'static TableSet, options: &Options) -> Option<Explanation> {
        let head = self.head.as_ref().filter(|_| self.kind == Kind::Message)?;
        Some(match self.direction {
            Direction::Request => explain::request(tables, &self.bytes, options),
            Direction::Response => explain::response(tables, head.key, head.version, &self.bytes, options),
        })
    }
}

/// A notice about bytes that are not a frame.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Notice {
    /// The connection is encrypted and is not read any more.
    Tls,
    /// The first bytes contain no Kafka request. The connection is not read any more.
    NotKafka,
    /// Neither the start of the connection nor a port shows which endpoint is the client. The endpoint with the higher
    /// port is taken for it.
    Guessed,
    /// Bytes that were not captured.
    Lost {
        /// The number of them.
        bytes: u64,
    },
    /// Bytes that were skipped in search of the start of a frame.
    Skipped {
        /// The number of them.
        bytes: u64,
        /// Whether a frame starts after them; else the search was given up or the connection ended.
        found: bool,
    },
    /// A frame larger than the limit, which was skipped.
    TooLarge {
        /// Its bytes, including the size field.
        size: u64,
        /// Its header, if it is known.
        head: Option<Head>,
    },
    /// A frame with lost bytes, which was skipped.
    Broken {
        /// Its bytes, including the size field.
        size: u64,
        /// Its header, if it is known.
        head: Option<Head>,
    },
    /// The direction ended within a frame.
    Cut {
        /// The bytes of the frame that were captured.
        bytes: u64,
        /// Its size, including the size field, if it is known.
        size: Option<u64>,
    },
    /// The connection or the capture ended before the responses of some requests.
    Unanswered {
        /// The number of them.
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
            Notice::Guessed => f.write_str("client and server are guessed from their ports alone"),
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

/// An event of a connection.
#[derive(Clone, Debug)]
pub enum Event {
    /// The connection appears for the first time.
    Opened,
    /// A frame.
    Frame(Frame),
    /// A notice about a direction.
    Notice(Direction, Notice),
    /// The connection or the capture has ended.
    Closed,
}

/// The names of topics by id, from Metadata responses, because newer requests contain only ids. At most 100,000 are
/// kept.
#[derive(Clone, Debug, Default)]
pub struct Topics {
    names: BTreeMap<Uuid, String>,
}

impl Topics {
    const MAX: usize = 100_000;

    /// The name of a topic, if it is known.
    pub fn name(&self, id: Uuid) -> Option<&str> {
        self.names.get(&id).map(String::as_str)
    }

    /// All names, for [`Options::topics`].
    pub fn names(&self) -> &BTreeMap<Uuid, String> {
        &self.names
    }

    /// Takes the topic names from a frame; returns whether one of them is new.
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
