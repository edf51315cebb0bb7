//! Reads a connection as a conversation: splits each direction into frames and assigns each response to its request.
//!
//! [`Conversation`] takes the bytes and gaps of both directions and emits [`Event`]s: frames with their API, version
//! and latency, and [`Notice`]s about bytes that could not be read. It keeps the current frame of each direction and
//! the headers of requests without a response.
//!
//! - A frame whose API or version no schema has is [`Kind::Unknown`]. The frames after it are read normally.
//! - After lost bytes, the next frame is found by the size of the damaged one, or else by a search for bytes that can
//!   be a frame: a request needs a valid header and body, a response the correlation id of a pending request and a
//!   valid body.
//! - After SaslHandshake version 0 the SASL tokens have no header: [`Kind::Token`], until a request with a valid header
//!   and body follows.

mod boundary;
mod client_side;
mod event;

pub(crate) use client_side::ClientSide;

pub use event::{Connection, Event, Frame, Head, Kind, Notice, Time, Topics};

use boundary::{Search, Target};
use bytes::{Buf, Bytes, BytesMut};
use event::SIZE;
use ottla_wire::frame::read_request_header;
use ottla_wire::tables::Direction;
use ottla_wire::{ApiKey, At, ErrorCode};
use std::collections::VecDeque;

/// The default of the largest frame, in bytes; larger ones are skipped. It is the default of the largest request that
/// brokers accept.
pub const LARGEST_FRAME: usize = 100 << 20;
/// The bytes before the body of a request without a client id, and of a response without tags.
const REQUEST_HEAD: usize = 12;
const RESPONSE_HEAD: usize = 8;
/// The most bytes that are kept while searching a frame.
const MAX_SEARCHED: usize = 1 << 20;
/// The most requests without a response whose headers are kept.
const MAX_PENDING: usize = 4_096;
/// The most responses that are kept because their request may have been captured after them.
const MAX_EARLY: usize = 64;
const MAX_EARLY_BYTES: usize = 1 << 20;

/// The receiver of events.
pub type Sink<'a> = &'a mut dyn FnMut(&Connection, Time, Event);

/// A request without a response; a SASL token has no header.
#[derive(Debug)]
struct PendingRequest {
    head: Option<Head>,
    at: Time,
}

#[derive(Debug)]
enum State {
    /// A frame begins at the buffer's start.
    Frames,
    /// This many more bytes belong to a frame that is skipped.
    Pass(u64),
    /// The start of the next frame is unknown.
    Search(Search),
    /// The connection is not read any more.
    Ignored,
}

#[derive(Debug)]
struct DirectionState {
    buffer: BytesMut,
    state: State,
    frames: u64,
}

/// See the module.
#[derive(Debug)]
pub struct Conversation {
    connection: Connection,
    limit: usize,
    request: DirectionState,
    response: DirectionState,
    pending: VecDeque<PendingRequest>,
    early: VecDeque<(Bytes, Time)>,
    early_bytes: usize,
    /// Whether SASL tokens without header are under way.
    tokens: bool,
}

impl DirectionState {
    fn new(from_the_start: bool) -> DirectionState {
        let state = if from_the_start { State::Frames } else { State::Search(Search::default()) };
        DirectionState { buffer: BytesMut::new(), state, frames: 0 }
    }

    /// Skips a frame, of which `size` bytes remain from the start of the buffer.
    fn pass(&mut self, size: u64) {
        let there = self.buffer.len().min(usize::try_from(size).unwrap_or(usize::MAX));
        self.buffer.advance(there);
        let left = size - there as u64;
        self.state = if left == 0 { State::Frames } else { State::Pass(left) };
    }
}

impl Conversation {
    /// A conversation before the first byte. With `from_the_start`, the first bytes are the first of the connection;
    /// else the start of a frame is searched. Frames above `limit` bytes are skipped.
    pub fn new(connection: Connection, from_the_start: bool, limit: usize) -> Conversation {
        Conversation {
            connection,
            limit,
            request: DirectionState::new(from_the_start),
            response: DirectionState::new(from_the_start),
            pending: VecDeque::new(),
            early: VecDeque::new(),
            early_bytes: 0,
            tokens: false,
        }
    }

    /// The endpoints of the connection.
    pub fn connection(&self) -> &Connection {
        &self.connection
    }

    /// Reads the next bytes of a direction.
    pub fn data(&mut self, direction: Direction, time: Time, mut data: &[u8], out: Sink<'_>) {
        let side = self.side(direction);
        if matches!(side.state, State::Ignored) {
            return;
        }
        if side.frames == 0 && side.buffer.is_empty() && boundary::is_tls(data) {
            return self.ignore(direction, Notice::Tls, time, out);
        }
        let side = self.side(direction);
        if let State::Pass(left) = side.state {
            let passed = data.len().min(usize::try_from(left).unwrap_or(usize::MAX));
            data = &data[passed..];
            let left = left - passed as u64;
            side.state = if left == 0 { State::Frames } else { State::Pass(left) };
        }
        if !data.is_empty() {
            side.buffer.extend_from_slice(data);
            self.read(direction, time, out);
        }
    }

    /// Records that `missing` bytes of a direction were lost at this point.
    pub fn gap(&mut self, direction: Direction, time: Time, missing: u64, out: Sink<'_>) {
        let side = self.side(direction);
        let there = side.buffer.len() as u64;
        let mut hit = None;
        match &mut side.state {
            State::Ignored => return,
            State::Pass(left) if missing <= *left => {
                *left -= missing;
                if *left == 0 {
                    side.state = State::Frames;
                }
            }
            State::Pass(_) => side.state = State::Search(Search::default()),
            State::Search(search) => {
                search.skipped += there;
                search.restart();
                side.buffer.clear();
            }
            State::Frames => match boundary::size(&side.buffer).flatten() {
                Some(size) if there + missing <= size as u64 => {
                    hit = Some((size, side.buffer.split().freeze()));
                    side.pass(size as u64 - there - missing);
                }
                _ => {
                    side.state = State::Search(Search::after(there));
                    side.buffer.clear();
                }
            },
        }
        self.emit(time, Event::Notice(direction, Notice::Lost { bytes: missing }), out);
        if let Some((size, bytes)) = hit {
            let head = self.header_of_lost(direction, &bytes, time);
            let notice = Notice::Broken { size: size as u64, head };
            self.emit(time, Event::Notice(direction, notice), out);
            self.match_early(time, out);
        }
    }

    /// Ends the conversation, because the connection or the capture has ended.
    pub fn finish(&mut self, time: Time, out: Sink<'_>) {
        for direction in [Direction::Request, Direction::Response] {
            let side = self.side(direction);
            let bytes = side.buffer.len() as u64;
            let notice = match &side.state {
                State::Search(search) if search.skipped + bytes > 0 => {
                    Notice::Skipped { bytes: search.skipped + bytes, found: false }
                }
                State::Frames if bytes > 0 => {
                    let size = boundary::size(&side.buffer).flatten().map(|size| size as u64);
                    Notice::Cut { bytes, size }
                }
                State::Pass(left) => Notice::Cut { bytes: 0, size: Some(*left) },
                _ => continue,
            };
            self.emit(time, Event::Notice(direction, notice), out);
        }
        self.drop_early(0, time, out);
        if !self.pending.is_empty() {
            let notice = Notice::Unanswered { requests: self.pending.len() };
            self.emit(time, Event::Notice(Direction::Request, notice), out);
        }
        self.emit(time, Event::Closed, out);
    }

    fn side(&mut self, direction: Direction) -> &mut DirectionState {
        match direction {
            Direction::Request => &mut self.request,
            Direction::Response => &mut self.response,
        }
    }

    fn emit(&self, time: Time, event: Event, out: Sink<'_>) {
        out(&self.connection, time, event);
    }

    fn ignore(&mut self, direction: Direction, notice: Notice, time: Time, out: Sink<'_>) {
        for side in [&mut self.request, &mut self.response] {
            side.state = State::Ignored;
            side.buffer = BytesMut::new();
        }
        self.pending.clear();
        self.emit(time, Event::Notice(direction, notice), out);
    }

    /// Reads all complete frames of the buffer.
    fn read(&mut self, direction: Direction, time: Time, out: Sink<'_>) {
        loop {
            let made_progress = match self.side(direction).state {
                State::Frames => self.frame(direction, time, out),
                State::Search(_) => self.search(direction, time, out),
                State::Pass(_) | State::Ignored => false,
            };
            if !made_progress {
                return;
            }
        }
    }

    /// Reads a frame at the start of the buffer; returns whether there was one.
    fn frame(&mut self, direction: Direction, time: Time, out: Sink<'_>) -> bool {
        let (limit, tokens) = (self.limit, self.tokens);
        let side = self.side(direction);
        let Some(size) = boundary::size(&side.buffer) else { return false };
        let Some(size) = size else {
            side.state = State::Search(Search::default());
            return true;
        };
        if size > limit {
            let head = if direction == Direction::Request { REQUEST_HEAD + 2 } else { RESPONSE_HEAD };
            return side.buffer.len() >= head && self.too_large(direction, size, time, out);
        }
        if side.buffer.len() < size {
            return false;
        }
        side.frames += 1;
        let whole = side.buffer.split_to(size).freeze();
        match direction {
            Direction::Request if tokens && !boundary::is_request(&whole) => self.token(whole, time, out),
            Direction::Request => self.request(whole, time, out),
            Direction::Response => {
                if let Some(early) = self.response(whole, time, out) {
                    self.early_bytes += early.len();
                    self.early.push_back((early, time));
                    self.drop_early(MAX_EARLY, time, out);
                }
            }
        }
        true
    }

    /// Skips a frame that is too large, or starts a search if the bytes are not a frame.
    fn too_large(&mut self, direction: Direction, size: usize, time: Time, out: Sink<'_>) -> bool {
        let beginning = self.side(direction).buffer.clone().freeze();
        let is_frame = match direction {
            Direction::Request => boundary::begins_request(&beginning),
            Direction::Response => {
                let id = correlation_id(&beginning);
                self.pending.iter().any(|pending| pending.head.as_ref().map(|head| head.correlation_id) == id)
            }
        };
        if !is_frame {
            self.side(direction).state = State::Search(Search::default());
            return true;
        }
        self.side(direction).frames += 1;
        let head = self.header_of_lost(direction, &beginning, time);
        self.side(direction).pass(size as u64);
        let notice = Notice::TooLarge { size: size as u64, head };
        self.emit(time, Event::Notice(direction, notice), out);
        self.match_early(time, out);
        true
    }

    /// The header of a frame that is skipped. A request is pending from then on, and a response completes its request.
    fn header_of_lost(&mut self, direction: Direction, beginning: &Bytes, time: Time) -> Option<Head> {
        match direction {
            Direction::Request => {
                let head = Head::of_request(beginning)?;
                if is_answered(&head, beginning) {
                    self.ask(Some(head.clone()), time);
                }
                Some(head)
            }
            Direction::Response => self.answer(beginning)?.head,
        }
    }

    fn search(&mut self, direction: Direction, time: Time, out: Sink<'_>) -> bool {
        let (limit, pending) = (self.limit, std::mem::take(&mut self.pending));
        let find = |id: i32| {
            pending
                .iter()
                .filter_map(|pending| pending.head.as_ref())
                .find(|head| head.correlation_id == id)
                .cloned()
        };
        let target = match direction {
            Direction::Request => Target::Request,
            Direction::Response => Target::Response(&find),
        };
        let side = self.side(direction);
        let State::Search(search) = &mut side.state else { return false };
        let mut found = search.look(&side.buffer, &target, limit);
        let is_full = side.buffer.len() > MAX_SEARCHED;
        if is_full && found.is_none() {
            found = search.earliest_candidate();
        }
        if let Some(at) = found {
            side.buffer.advance(at);
            let bytes = search.skipped + at as u64;
            side.state = State::Frames;
            self.pending = pending;
            if bytes > 0 {
                let notice = Notice::Skipped { bytes, found: true };
                self.emit(time, Event::Notice(direction, notice), out);
            }
            return true;
        }
        if is_full || (direction == Direction::Response && pending.is_empty()) {
            search.drop_scanned(&mut side.buffer);
        }
        let has_no_request = side.frames == 0 && direction == Direction::Request;
        let is_foreign = has_no_request && search.skipped > MAX_SEARCHED as u64;
        self.pending = pending;
        if is_foreign {
            self.ignore(direction, Notice::NotKafka, time, out);
        }
        false
    }

    fn request(&mut self, whole: Bytes, time: Time, out: Sink<'_>) {
        self.tokens = false;
        let Some(head) = Head::of_request(&whole) else {
            return self.emit(time, Event::Frame(orphan(Direction::Request, whole)), out);
        };
        self.tokens = head.key == ApiKey::SASL_HANDSHAKE && head.version == 0;
        let is_answered = is_answered(&head, &whole);
        let frame = Frame {
            direction: Direction::Request,
            kind: if head.is_known() { Kind::Message } else { Kind::Unknown },
            bytes: whole,
            head: Some(head.clone()),
            latency: None,
            is_answered,
        };
        self.emit(time, Event::Frame(frame), out);
        if is_answered {
            self.ask(Some(head), time);
            self.match_early(time, out);
        }
    }

    fn token(&mut self, whole: Bytes, time: Time, out: Sink<'_>) {
        let frame = Frame { is_answered: true, ..token(Direction::Request, whole) };
        self.emit(time, Event::Frame(frame), out);
        self.ask(None, time);
        self.match_early(time, out);
    }

    fn ask(&mut self, head: Option<Head>, at: Time) {
        if self.pending.len() >= MAX_PENDING {
            self.pending.pop_front();
        }
        self.pending.push_back(PendingRequest { head, at });
    }

    /// Assigns early responses to new requests.
    fn match_early(&mut self, time: Time, out: Sink<'_>) {
        for _ in 0..self.early.len() {
            let Some((whole, at)) = self.early.pop_front() else { break };
            self.early_bytes -= whole.len();
            if let Some(still_early) = self.response(whole, at, out) {
                self.early_bytes += still_early.len();
                self.early.push_back((still_early, at));
            }
        }
        if let State::Search(search) = &mut self.response.state
            && !self.response.buffer.is_empty()
        {
            search.restart();
            self.read(Direction::Response, time, out);
        }
    }

    /// Emits early responses as orphans until at most `max` remain.
    fn drop_early(&mut self, max: usize, time: Time, out: Sink<'_>) {
        while self.early.len() > max || (self.early_bytes > MAX_EARLY_BYTES && !self.early.is_empty()) {
            let Some((whole, _)) = self.early.pop_front() else { break };
            self.early_bytes -= whole.len();
            self.emit(time, Event::Frame(orphan(Direction::Response, whole)), out);
        }
    }

    /// Emits a response, or returns it if its request was not captured.
    fn response(&mut self, whole: Bytes, time: Time, out: Sink<'_>) -> Option<Bytes> {
        let Some(pending) = self.answer(&whole) else { return Some(whole) };
        let latency = Some(time.since(pending.at));
        let frame = match pending.head {
            None => Frame { latency, ..token(Direction::Response, whole) },
            Some(mut head) => {
                if head.key == ApiKey::API_VERSIONS && is_refusal(&head, &whole) {
                    head.version = 0;
                }
                let kind = if head.is_known() { Kind::Message } else { Kind::Unknown };
                let head = Some(head);
                Frame {
                    direction: Direction::Response,
                    kind,
                    bytes: whole,
                    head,
                    latency,
                    is_answered: false,
                }
            }
        };
        self.emit(time, Event::Frame(frame), out);
        None
    }

    /// Removes and returns the request of a response. The next response belongs to a pending SASL token.
    fn answer(&mut self, beginning: &Bytes) -> Option<PendingRequest> {
        if self.pending.front()?.head.is_none() {
            return self.pending.pop_front();
        }
        let id = correlation_id(beginning)?;
        let at = self
            .pending
            .iter()
            .position(|pending| pending.head.as_ref().is_some_and(|head| head.correlation_id == id))?;
        self.pending.remove(at)
    }
}

fn orphan(direction: Direction, bytes: Bytes) -> Frame {
    Frame { direction, kind: Kind::Orphan, bytes, head: None, latency: None, is_answered: false }
}

fn token(direction: Direction, bytes: Bytes) -> Frame {
    Frame { direction, kind: Kind::Token, bytes, head: None, latency: None, is_answered: false }
}

/// The correlation id of a response.
fn correlation_id(response: &[u8]) -> Option<i32> {
    response.get(SIZE..)?.first_chunk().map(|id| i32::from_be_bytes(*id))
}

/// Whether an ApiVersions response refuses the version of the request. Such a response has version 0.
fn is_refusal(head: &Head, response: &[u8]) -> bool {
    let error = response.get(RESPONSE_HEAD..).and_then(<[u8]>::first_chunk);
    !head.is_known()
        || error.map(|error| i16::from_be_bytes(*error)) == Some(ErrorCode::UNSUPPORTED_VERSION.0)
}

/// Whether the broker responds: not to Produce with acks 0.
fn is_answered(head: &Head, whole: &Bytes) -> bool {
    const AT: At = At("ProduceRequest", "Acks");
    let Some(info) = head.key.info().filter(|_| head.key == ApiKey::PRODUCE) else { return true };
    let Ok((_, mut body)) = read_request_header(&whole.slice(whole.len().min(SIZE)..)) else { return true };
    if head.version >= 3 && body.text_or_null(info.request_flexible.contains(head.version), &AT).is_err() {
        return true;
    }
    body.i16(&AT) != Ok(0)
}
