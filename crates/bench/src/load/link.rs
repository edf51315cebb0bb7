//! A non-blocking connection that produces: it writes as much as the socket accepts and reads the answers that have
//! arrived.

use super::template::{Template, VERSION};
use bytes::{Buf, BytesMut};
use ottla_wire::messages::ProduceResponse;
use ottla_wire::{ApiKey, Message, frame};
use std::collections::VecDeque;
use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::time::Instant;

/// A request from this size on goes out of the template itself; smaller ones are gathered and go out together.
const LARGE: usize = 64 << 10;
/// No more than this is gathered.
const GATHERED: usize = 64 << 10;
/// What one read asks for.
const CHUNK: usize = 64 << 10;

/// A request on its way.
struct InFlight {
    correlation: i32,
    /// When it was to be sent: the clock of its latency starts here.
    due: Instant,
}

pub(crate) struct Link {
    stream: TcpStream,
    template: Template,
    /// The partitions it sends to, each with the sequence number that is next.
    partitions: Vec<(i32, i32)>,
    next: usize,
    records: i32,
    correlation: i32,
    /// Requests gathered, and how much of them, or of the template, is out.
    out: Vec<u8>,
    written: usize,
    /// Whether the template itself is going out.
    large: bool,
    inbox: BytesMut,
    sent: VecDeque<InFlight>,
}

impl Link {
    /// Takes over a connection. The template must know its producer.
    pub(crate) fn new(
        stream: TcpStream,
        template: Template,
        partitions: &[i32],
        records: usize,
    ) -> std::io::Result<Link> {
        stream.set_nodelay(true)?;
        stream.set_nonblocking(true)?;
        Ok(Link {
            stream,
            template,
            partitions: partitions.iter().map(|partition| (*partition, 0)).collect(),
            next: 0,
            records: records as i32,
            correlation: 0,
            out: Vec::new(),
            written: 0,
            large: false,
            inbox: BytesMut::new(),
            sent: VecDeque::new(),
        })
    }

    pub(crate) fn stream(&self) -> &TcpStream {
        &self.stream
    }

    /// Requests without an answer.
    pub(crate) fn in_flight(&self) -> usize {
        self.sent.len()
    }

    /// When the requests without an answer were due.
    pub(crate) fn unanswered(&self) -> impl Iterator<Item = Instant> {
        self.sent.iter().map(|sent| sent.due)
    }

    /// Whether it waits for the socket to take more.
    pub(crate) fn is_writing(&self) -> bool {
        self.large || self.written < self.out.len()
    }

    /// Whether another request can be made ready now.
    pub(crate) fn has_room(&self) -> bool {
        !self.large && self.out.len() < GATHERED
    }

    /// Makes the next request ready. It goes out with [`Link::flush`].
    pub(crate) fn send(&mut self, due: Instant) {
        self.correlation += 1;
        self.template.set_correlation(self.correlation);
        for number in 0..self.template.partitions() {
            let count = self.partitions.len();
            let (partition, sequence) = &mut self.partitions[self.next % count];
            self.template.set(number, *partition, *sequence);
            *sequence = sequence.checked_add(self.records).unwrap_or(0);
            self.next = (self.next + 1) % count;
        }
        self.sent.push_back(InFlight { correlation: self.correlation, due });
        if self.template.bytes().len() >= LARGE {
            self.large = true;
            self.written = 0;
        } else {
            self.out.extend_from_slice(self.template.bytes());
        }
    }

    /// Writes what the socket takes.
    pub(crate) fn flush(&mut self) -> Result<(), String> {
        while self.is_writing() {
            let bytes = if self.large { self.template.bytes() } else { &self.out };
            match self.stream.write(&bytes[self.written..]) {
                Ok(0) => return Err("the broker closed the connection".to_owned()),
                Ok(count) => self.written += count,
                Err(e) if e.kind() == ErrorKind::WouldBlock => return Ok(()),
                Err(e) if e.kind() == ErrorKind::Interrupted => {}
                Err(e) => return Err(format!("writing: {e}")),
            }
            let whole = if self.large { self.template.bytes().len() } else { self.out.len() };
            if self.written == whole {
                self.large = false;
                self.out.clear();
                self.written = 0;
            }
        }
        Ok(())
    }

    /// Reads what has arrived and tells of each answer when its request was due.
    pub(crate) fn receive(&mut self, mut answered: impl FnMut(Instant)) -> Result<(), String> {
        let filled = self.inbox.len();
        self.inbox.resize(filled + CHUNK, 0);
        let read = self.stream.read(&mut self.inbox[filled..]);
        self.inbox.truncate(filled + *read.as_ref().unwrap_or(&0));
        match read {
            Ok(0) => return Err("the broker closed the connection".to_owned()),
            Ok(_) => {}
            Err(e) if matches!(e.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => return Ok(()),
            Err(e) => return Err(format!("reading: {e}")),
        }
        while let Some(size) = self.inbox.first_chunk().map(|size| u32::from_be_bytes(*size) as usize) {
            if self.inbox.len() < 4 + size {
                break;
            }
            self.inbox.advance(4);
            let answer = self.inbox.split_to(size).freeze();
            let sent = self.sent.pop_front().ok_or("an answer without a request")?;
            check(&answer, sent.correlation)?;
            answered(sent.due);
        }
        Ok(())
    }
}

/// An answer must be that to its request and tell of no error.
fn check(answer: &bytes::Bytes, correlation: i32) -> Result<(), String> {
    let told = |e: ottla_wire::DecodeError| format!("Produce's answer: {e}");
    let (found, mut body) = frame::read_response_header(answer, ApiKey::PRODUCE, VERSION).map_err(told)?;
    if found != correlation {
        return Err(format!("an answer to request {found} came where one to {correlation} was due"));
    }
    let answer = ProduceResponse::decode(&mut body, VERSION).map_err(told)?;
    let mut rows = answer.responses.iter().flat_map(|topic| &topic.partition_responses);
    match rows.find(|row| row.error_code != 0) {
        Some(row) => Err(format!("Produce to partition {} answered error {}", row.index, row.error_code)),
        None => Ok(()),
    }
}
