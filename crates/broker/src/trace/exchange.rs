//! An exchange: a request, its response, and what the broker noted of them.

use bytes::{BufMut, Bytes, BytesMut};
use ottla_wire::{ApiKey, ErrorCode};
use std::fmt;
use std::net::SocketAddr;

/// A request with its response.
#[derive(Clone, Debug, PartialEq)]
pub struct Exchange {
    /// The sequence number: exchanges are numbered from 1 in the order in which they finish.
    pub seq: u64,
    /// The number of the connection, from 1 since the broker started.
    pub connection: u64,
    /// The client's address.
    pub peer: SocketAddr,
    /// The client id; empty if the header has none or cannot be read.
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
    /// When the last byte of the request arrived, in milliseconds since 1970.
    pub received_at: i64,
    /// The time from there to each stage.
    pub stages: Stages,
    /// The request, its length prefix included.
    pub request: TracedFrame,
    /// The response; none unless [`Exchange::ending`] is [`Ending::Answered`] or [`Ending::Lost`].
    pub response: Option<TracedFrame>,
    /// How the exchange ended.
    pub ending: Ending,
    /// The error codes in the response, each once, without NONE.
    pub errors: Vec<ErrorCode>,
    /// Why the broker refused what it refused.
    pub verdicts: Vec<Verdict>,
    /// The number of verdicts that were left out because there were too many.
    pub more_verdicts: usize,
}

/// The time from the arrival of the request to each stage, in nanoseconds; none for a stage that was not reached. It
/// never decreases from one stage to the next.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stages {
    /// The request was decoded. Before that it may have waited for earlier requests of its connection.
    pub decoded: Option<u64>,
    /// The first command was submitted to the core.
    pub asked: Option<u64>,
    /// The core judged the last command.
    pub judged: Option<u64>,
    /// All state that the last judgement rests on was durable.
    pub durable: Option<u64>,
    /// The response was encoded.
    pub answered: Option<u64>,
    /// The operating system had taken the last byte of the response.
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

/// A frame, or its beginning.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TracedFrame {
    /// The first bytes, the length prefix included; secrets are overwritten with `*`.
    pub bytes: Bytes,
    /// Size of the whole frame, in bytes.
    pub size: usize,
}

impl TracedFrame {
    /// Whether only the beginning of the frame was kept.
    pub fn is_cut(&self) -> bool {
        self.bytes.len() < self.size
    }
}

/// How an exchange ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ending {
    /// The response was written.
    Answered,
    /// The request asked for no response (Produce with acks 0).
    Silent,
    /// The connection was closed instead of a response; the text gives the reason.
    Closed(String),
    /// The connection ended before the response was written.
    Lost,
}

/// Why the broker refused a request or a part of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Verdict {
    /// The part that was refused: `orders-0`, `transactional id "x"`, `group "g"`; empty for the request as a whole.
    pub subject: String,
    /// The error code in the response.
    pub code: ErrorCode,
    /// The rule that decided, such as `T-33`; none if the rules of transactions have none for it.
    pub rule: Option<&'static str>,
    /// The reason in words, with the values it was judged by.
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
    /// An estimate of the memory it takes, in bytes.
    pub(super) fn cost(&self) -> usize {
        /// The shared pointer and two tree entries, in bytes.
        const OVERHEAD: usize = 128;
        let texts = self.transactional_ids.iter().chain(&self.groups).chain(&self.topics);
        let texts: usize = texts.map(|text| size_of::<String>() + text.len()).sum();
        let words = |verdict: &Verdict| size_of::<Verdict>() + verdict.subject.len() + verdict.words.len();
        let verdicts: usize = self.verdicts.iter().map(words).sum();
        let response = self.response.as_ref().map_or(0, |frame| frame.bytes.len());
        let frames = self.request.bytes.len() + response;
        let closed = if let Ending::Closed(why) = &self.ending { why.len() } else { 0 };
        let errors = self.errors.len() * size_of::<ErrorCode>();
        OVERHEAD + size_of::<Exchange>() + self.client_id.len() + texts + verdicts + frames + closed + errors
    }
}

/// The header of a request.
#[derive(Clone, Debug)]
pub(super) struct RequestHead {
    pub(super) api: ApiKey,
    pub(super) version: i16,
    pub(super) correlation_id: i32,
    pub(super) client_id: String,
    /// The position of the body in the frame; none if the header cannot be read.
    pub(super) body: Option<usize>,
}

impl RequestHead {
    /// Reads the header of a frame without its length prefix.
    pub(super) fn read(frame: &Bytes) -> RequestHead {
        match ottla_wire::frame::read_request_header(frame) {
            Ok((header, body)) => RequestHead {
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
                RequestHead {
                    api: ApiKey(short(0)),
                    version: short(2),
                    correlation_id: -1,
                    client_id,
                    body: None,
                }
            }
        }
    }
}

/// Joins the chunks of a frame, up to `most` bytes.
pub(super) fn joined(chunks: &[Bytes], most: usize) -> BytesMut {
    let size: usize = chunks.iter().map(Bytes::len).sum();
    let mut all = BytesMut::with_capacity(size.min(most));
    for chunk in chunks {
        let left = most - all.len();
        all.put_slice(&chunk[..chunk.len().min(left)]);
    }
    all
}
