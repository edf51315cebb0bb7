//! What is kept of a request and its answer.

use bytes::{BufMut, Bytes, BytesMut};
use ottla_wire::{ApiKey, ErrorCode};
use std::fmt;
use std::net::SocketAddr;

/// A request and what it came to.
#[derive(Clone, Debug, PartialEq)]
pub struct Exchange {
    /// Its number: exchanges are numbered from 1 in the order in which they came to their end.
    pub seq: u64,
    /// The number of its connection, from 1 since the broker started.
    pub connection: u64,
    /// The other end of the connection.
    pub peer: SocketAddr,
    /// What the client calls itself; empty if it does not say or the header cannot be read.
    pub client_id: String,
    /// The API, whether it is served or not.
    pub api: ApiKey,
    /// The version of the request.
    pub version: i16,
    /// The number that ties the response to the request.
    pub correlation_id: i32,
    /// The transactional ids in the request.
    pub transactional_ids: Vec<String>,
    /// The groups in the request.
    pub groups: Vec<String>,
    /// The topics in the request, by name; by id if no topic has the id.
    pub topics: Vec<String>,
    /// When the request was there, in milliseconds since 1970.
    pub received_at: i64,
    /// How long after that each stage was reached.
    pub stages: Stages,
    /// The request as it came, its length prefix included.
    pub request: TracedFrame,
    /// The response as it went; none unless [`Exchange::ending`] is [`Ending::Answered`] or [`Ending::Lost`].
    pub response: Option<TracedFrame>,
    /// How it ended.
    pub ending: Ending,
    /// The error codes in the response, each once.
    pub errors: Vec<ErrorCode>,
    /// Why the broker refused what it refused.
    pub verdicts: Vec<Verdict>,
    /// Verdicts that were left out because there were too many.
    pub more_verdicts: usize,
}

/// How long after the request was there each stage was reached, in nanoseconds; none if it was not. They never go down from one
/// stage to the next.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stages {
    /// Header and body were decoded. Before it the request may have waited for earlier ones of its connection.
    pub decoded: Option<u64>,
    /// The first question was put to the core.
    pub asked: Option<u64>,
    /// The core gave its last judgement.
    pub judged: Option<u64>,
    /// Everything that judgement rests on was durable.
    pub durable: Option<u64>,
    /// The response was encoded.
    pub answered: Option<u64>,
    /// The system had taken the last byte of it.
    pub written: Option<u64>,
}

impl Stages {
    /// The stages that were reached with their names, in order.
    pub fn reached(&self) -> impl Iterator<Item = (&'static str, u64)> {
        let all = [
            ("decoded", self.decoded),
            ("asked", self.asked),
            ("judged", self.judged),
            ("durable", self.durable),
            ("answered", self.answered),
            ("written", self.written),
        ];
        all.into_iter().filter_map(|(name, at)| Some((name, at?)))
    }
}

/// A frame, or the beginning of one.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TracedFrame {
    /// Its first bytes, the length prefix included; secrets are overwritten with `*`.
    pub bytes: Bytes,
    /// How many bytes it had.
    pub size: usize,
}

impl TracedFrame {
    /// Whether bytes at its end were not kept.
    pub fn is_cut(&self) -> bool {
        self.bytes.len() < self.size
    }
}

/// How an exchange ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ending {
    /// The response was written.
    Answered,
    /// There is no response, as the request wished (Produce with acks 0).
    Silent,
    /// The connection was closed instead: why.
    Closed(String),
    /// The connection ended before the response was written.
    Lost,
}

/// Why the broker refused something.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Verdict {
    /// What was refused: `orders-0`, `transactional id "x"`, `group "g"`; empty for the request as a whole.
    pub subject: String,
    /// The error code that says so in the response.
    pub code: ErrorCode,
    /// The rule of the specification of transactions that decided, `T-33` for example; none if it is not one of those.
    pub rule: Option<&'static str>,
    /// The reason in words, with the values it rests on.
    pub words: String,
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(rule) = self.rule {
            write!(f, "{rule}: ")?;
        }
        if !self.subject.is_empty() {
            write!(f, "{}: ", self.subject)?;
        }
        f.write_str(&self.words)
    }
}

impl Exchange {
    /// Bytes it takes in memory, about.
    pub(super) fn cost(&self) -> usize {
        /// Of the shared pointer and of two entries in trees.
        const BESIDE: usize = 128;
        let texts = self.transactional_ids.iter().chain(&self.groups).chain(&self.topics);
        let texts: usize = texts.map(|text| size_of::<String>() + text.len()).sum();
        let words = |verdict: &Verdict| size_of::<Verdict>() + verdict.subject.len() + verdict.words.len();
        let verdicts: usize = self.verdicts.iter().map(words).sum();
        let response = self.response.as_ref().map_or(0, |frame| frame.bytes.len());
        let frames = self.request.bytes.len() + response;
        let closed = if let Ending::Closed(why) = &self.ending { why.len() } else { 0 };
        let errors = self.errors.len() * size_of::<ErrorCode>();
        BESIDE + size_of::<Exchange>() + self.client_id.len() + texts + verdicts + frames + closed + errors
    }
}

/// What the header of a request says.
#[derive(Clone, Debug)]
pub(super) struct Asked {
    pub(super) api: ApiKey,
    pub(super) version: i16,
    pub(super) correlation_id: i32,
    pub(super) client_id: String,
    /// Where the body starts; none if the header cannot be read.
    pub(super) body: Option<usize>,
}

impl Asked {
    /// Reads the header of a frame without its length prefix.
    pub(super) fn read(frame: &Bytes) -> Asked {
        match ottla_wire::frame::read_request_header(frame) {
            Ok((header, body)) => Asked {
                api: header.api_key,
                version: header.api_version,
                correlation_id: header.correlation_id,
                client_id: header.client_id.map(|text| text.to_string()).unwrap_or_default(),
                body: Some(frame.len() - body.remaining()),
            },
            Err(_) => {
                let short = |at: usize| match frame.get(at..at + 2) {
                    Some(&[high, low]) => i16::from_be_bytes([high, low]),
                    _ => -1,
                };
                let client_id = String::new();
                Asked { api: ApiKey(short(0)), version: short(2), correlation_id: -1, client_id, body: None }
            }
        }
    }
}

/// Joins the chunks of a frame, at most so many bytes of them.
pub(super) fn joined(chunks: &[Bytes], most: usize) -> BytesMut {
    let size: usize = chunks.iter().map(Bytes::len).sum();
    let mut all = BytesMut::with_capacity(size.min(most));
    for chunk in chunks {
        let left = most - all.len();
        all.put_slice(&chunk[..chunk.len().min(left)]);
    }
    all
}
