//! An exchange that is under way.

use super::exchange::{Asked, Ending, Exchange, Stages, TracedFrame, Verdict, joined};
use super::subjects::Subjects;
use super::{Arrived, FRAME_CAP, Trace, TraceFilter, UNDER_WAY, lock, secrets};
use crate::host::Host;
use crate::net::Reply;
use bytes::Bytes;
use ottla_core::Refusal;
use ottla_wire::tables::Direction;
use ottla_wire::{ApiKey, ErrorCode, Response};
use std::fmt::Display;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex};
use std::time::{Instant, SystemTime};

/// Verdicts that are kept of one exchange.
const MOST_VERDICTS: usize = 20;
/// A stage that was not reached.
const NEVER: u64 = u64::MAX;

/// A stage on the way of a request, in order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stage {
    Decoded,
    Asked,
    Judged,
    Durable,
    Answered,
}

/// What is noted of a request by whoever works on it.
#[derive(Debug)]
pub(crate) struct Notes {
    received: Instant,
    /// Nanoseconds since `received`, by [`Stage`].
    stages: [AtomicU64; 5],
    api: ApiKey,
    version: i16,
    gathered: Mutex<Gathered>,
}

#[derive(Debug, Default)]
struct Gathered {
    /// The body of the request until it was looked at.
    body: Option<Bytes>,
    subjects: Subjects,
    errors: Vec<ErrorCode>,
    verdicts: Vec<Verdict>,
    more_verdicts: usize,
}

impl Notes {
    /// A stage is reached. Of questions to the core the first counts, of judgements the last.
    pub(crate) fn reach(&self, stage: Stage) {
        let at = u64::try_from(self.received.elapsed().as_nanos()).unwrap_or(NEVER - 1);
        let place = &self.stages[stage as usize];
        match stage {
            Stage::Asked => drop(place.compare_exchange(NEVER, at, Relaxed, Relaxed)),
            Stage::Judged => {
                // What the answer rests on now is not known to be durable yet.
                self.stages[Stage::Durable as usize].store(NEVER, Relaxed);
                place.store(at, Relaxed);
            }
            Stage::Decoded | Stage::Durable | Stage::Answered => place.store(at, Relaxed),
        }
    }

    /// The broker refuses something with this code.
    pub(crate) fn verdict(&self, subject: &dyn Display, code: ErrorCode, refusal: &dyn Refusal) {
        let mut gathered = lock(&self.gathered);
        if gathered.verdicts.len() >= MOST_VERDICTS {
            gathered.more_verdicts += 1;
            return;
        }
        let (rule, words) = (refusal.rule(), refusal.to_string());
        gathered.verdicts.push(Verdict { subject: subject.to_string(), code, rule, words });
    }

    /// Notes the error codes of a response.
    pub(crate) fn errors<T: Response>(&self, response: &T) {
        let mut gathered = lock(&self.gathered);
        response.error_codes(&mut |code| {
            if code != ErrorCode::NONE && !gathered.errors.contains(&code) {
                gathered.errors.push(code);
            }
        });
    }

    /// Finds out what the exchange is about; topics that are known by id only are looked up.
    pub(crate) async fn look(&self, trace: &Trace, host: &Host, reply: &Reply) {
        let body = lock(&self.gathered).body.take();
        let mut subjects = match &body {
            Some(body) => Subjects::of(self.api, self.version, body),
            None => Subjects::default(),
        };
        if let Reply::Send(chunks, _) = reply
            && self.api == ApiKey::FETCH
            && subjects.has_no_topics()
        {
            // A request in a fetch session names only what changes.
            subjects.add_response(self.api, self.version, &joined(chunks, FRAME_CAP).freeze());
        }
        let ids = std::mem::take(&mut subjects.topic_ids);
        if !ids.is_empty() {
            let named = trace.names(ids, host).await;
            subjects.topics.extend(named);
        }
        lock(&self.gathered).subjects = subjects;
    }

    fn stages(&self, written: Option<Instant>) -> Stages {
        let at = |stage: Stage| {
            let at = self.stages[stage as usize].load(Relaxed);
            (at != NEVER).then_some(at)
        };
        let written = written.map(|at| at.saturating_duration_since(self.received).as_nanos());
        Stages {
            decoded: at(Stage::Decoded),
            asked: at(Stage::Asked),
            judged: at(Stage::Judged),
            durable: at(Stage::Durable),
            answered: at(Stage::Answered),
            written: written.map(|nanos| u64::try_from(nanos).unwrap_or(NEVER)),
        }
    }
}

/// An exchange under way, as its connection holds it. Dropped, it is over, and kept if the filter still wants it.
#[derive(Debug)]
pub(crate) struct Recording {
    trace: Trace,
    filter: Arc<TraceFilter>,
    notes: Arc<Notes>,
    arrived: Arrived,
    received_at: i64,
    asked: Asked,
    request: TracedFrame,
    response: Option<TracedFrame>,
    ending: Ending,
    written: Option<Instant>,
    /// Bytes it counts for among what is under way.
    held: usize,
}

impl Recording {
    /// Room for [`UNDER_WAY`] bytes is reserved already.
    pub(super) fn begin(
        trace: Trace,
        filter: Arc<TraceFilter>,
        arrived: Arrived,
        (asked, frame): (Asked, &Bytes),
    ) -> Recording {
        let body = asked.body.map(|at| frame.slice(at..)).filter(|_| !secrets::has_any(asked.api));
        let notes = Notes {
            received: arrived.at,
            stages: std::array::from_fn(|_| AtomicU64::new(NEVER)),
            api: asked.api,
            version: asked.version,
            gathered: Mutex::new(Gathered { body, ..Gathered::default() }),
        };
        let age = arrived.at.elapsed();
        let mut recording = Recording {
            trace,
            filter,
            notes: Arc::new(notes),
            arrived,
            received_at: unix_millis(SystemTime::now() - age),
            asked,
            request: TracedFrame::default(),
            response: None,
            ending: Ending::Lost,
            written: None,
            held: UNDER_WAY,
        };
        let size = i32::try_from(frame.len()).unwrap_or(i32::MAX).to_be_bytes();
        let prefix = Bytes::copy_from_slice(&size);
        recording.request = recording.copy(&[prefix, frame.clone()], Direction::Request);
        recording
    }

    /// Where others may note something.
    pub(crate) fn notes(&self) -> &Arc<Notes> {
        &self.notes
    }

    /// The reply is there and about to be written.
    pub(crate) fn replied(&mut self, reply: &Reply) {
        match reply {
            Reply::Send(chunks, _) => self.response = Some(self.copy(chunks, Direction::Response)),
            Reply::Nothing => self.ending = Ending::Silent,
            Reply::Close(why) => self.ending = Ending::Closed(why.clone()),
            Reply::Muted(reply, _) => self.replied(reply),
        }
    }

    /// The system has taken the response.
    pub(crate) fn written(mut self) {
        if self.response.is_some() {
            self.ending = Ending::Answered;
            self.written = Some(Instant::now());
        }
    }

    /// The beginning of a frame with its secrets overwritten; nothing of it if there is no room.
    fn copy(&mut self, chunks: &[Bytes], direction: Direction) -> TracedFrame {
        let size: usize = chunks.iter().map(Bytes::len).sum();
        let taken = size.min(FRAME_CAP);
        if !self.trace.reserve(taken) {
            return TracedFrame { bytes: Bytes::new(), size };
        }
        self.held += taken;
        let bytes = if secrets::has_any(self.asked.api) {
            let mut whole = joined(chunks, size);
            secrets::mask(&mut whole, self.asked.api, self.asked.version, direction);
            Bytes::copy_from_slice(&whole[..taken])
        } else {
            joined(chunks, taken).freeze()
        };
        TracedFrame { bytes, size }
    }
}

impl Drop for Recording {
    fn drop(&mut self) {
        let gathered = std::mem::take(&mut *lock(&self.notes.gathered));
        let Subjects { topics, transactional_ids, groups, .. } = gathered.subjects;
        let exchange = Exchange {
            seq: 0,
            connection: self.arrived.connection,
            peer: self.arrived.peer,
            client_id: std::mem::take(&mut self.asked.client_id),
            api: self.asked.api,
            version: self.asked.version,
            correlation_id: self.asked.correlation_id,
            transactional_ids,
            groups,
            topics,
            received_at: self.received_at,
            stages: self.notes.stages(self.written),
            request: std::mem::take(&mut self.request),
            response: self.response.take(),
            ending: std::mem::replace(&mut self.ending, Ending::Lost),
            errors: gathered.errors,
            verdicts: gathered.verdicts,
            more_verdicts: gathered.more_verdicts,
        };
        if self.filter.passes(&exchange) {
            self.trace.keep(exchange);
        }
        self.trace.release(self.held);
    }
}

fn unix_millis(at: SystemTime) -> i64 {
    let since = at.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_millis()).unwrap_or(i64::MAX)
}
