//! A pending exchange, and the notes that the broker takes of it.

use super::exchange::{Ending, Exchange, RequestHead, Stages, TracedFrame, Verdict, joined};
use super::subjects::Subjects;
use super::{Arrival, FRAME_CAP, PENDING_OVERHEAD, Trace, TraceFilter, lock, secrets};
use bytes::Bytes;
use ottla_core::Refusal;
use ottla_wire::tables::Direction;
use ottla_wire::{ApiKey, ErrorCode, Response};
use std::fmt::Display;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex};
use std::time::{Instant, SystemTime};

/// Verdicts that are kept of one exchange, at most.
const MOST_VERDICTS: usize = 20;
/// Stands for a stage that was not reached.
const NEVER: u64 = u64::MAX;

/// The stages of a request, in order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stage {
    Decoded,
    Asked,
    Judged,
    Durable,
    Answered,
}

/// What the parts of the broker that work on a request note of it.
#[derive(Debug)]
pub(crate) struct Notes {
    received: Instant,
    /// Nanoseconds since `received`, by [`Stage`].
    stages: [AtomicU64; 5],
    api: ApiKey,
    version: i16,
    gathered: Mutex<ExchangeFacts>,
}

#[derive(Debug, Default)]
struct ExchangeFacts {
    /// The body of the request, until its names were found.
    body: Option<Bytes>,
    subjects: Subjects,
    errors: Vec<ErrorCode>,
    verdicts: Vec<Verdict>,
    more_verdicts: usize,
}

impl Notes {
    /// Notes that a stage is reached. The first command to the core counts, and the last judgement.
    pub(crate) fn reach(&self, stage: Stage) {
        let at = u64::try_from(self.received.elapsed().as_nanos()).unwrap_or(NEVER - 1);
        let slot = &self.stages[stage as usize];
        match stage {
            Stage::Asked => drop(slot.compare_exchange(NEVER, at, Relaxed, Relaxed)),
            Stage::Judged => {
                // The state that this judgement rests on may not be durable yet.
                self.stages[Stage::Durable as usize].store(NEVER, Relaxed);
                slot.store(at, Relaxed);
            }
            Stage::Decoded | Stage::Durable | Stage::Answered => slot.store(at, Relaxed),
        }
    }

    /// Notes why the broker refused something with this code.
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

    /// Finds the names in the request. A request in a fetch session names only the partitions that change, so the names
    /// of a Fetch without topics are those of its response.
    pub(crate) fn find_subjects(&self, response: Option<&[Bytes]>) -> Subjects {
        let body = lock(&self.gathered).body.take();
        let mut subjects = match &body {
            Some(body) => Subjects::of(self.api, self.version, body),
            None => Subjects::default(),
        };
        if let Some(chunks) = response
            && self.api == ApiKey::FETCH
            && subjects.has_no_topics()
        {
            subjects.add_response(self.api, self.version, &joined(chunks, FRAME_CAP).freeze());
        }
        subjects
    }

    /// Notes the names that were found. Topics that the request names by id get the names that the trace has in its
    /// cache.
    pub(crate) fn set_subjects(&self, trace: &Trace, mut subjects: Subjects) {
        let ids = std::mem::take(&mut subjects.topic_ids);
        subjects.topics.extend(trace.topic_names(&ids));
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

/// A pending exchange; its connection holds it. Dropping it ends the exchange and keeps it if it passes the filter.
#[derive(Debug)]
pub(crate) struct Recording {
    trace: Trace,
    filter: Arc<TraceFilter>,
    notes: Arc<Notes>,
    arrival: Arrival,
    received_at: i64,
    head: RequestHead,
    request: TracedFrame,
    response: Option<TracedFrame>,
    ending: Ending,
    written: Option<Instant>,
    /// Bytes charged to pending exchanges.
    held: usize,
}

impl Recording {
    /// [`PENDING_OVERHEAD`] bytes are charged already.
    pub(super) fn begin(
        trace: Trace,
        filter: Arc<TraceFilter>,
        arrival: Arrival,
        (head, frame): (RequestHead, &Bytes),
    ) -> Recording {
        let body = head.body.map(|at| frame.slice(at..)).filter(|_| !secrets::may_have_any(head.api));
        let notes = Notes {
            received: arrival.at,
            stages: std::array::from_fn(|_| AtomicU64::new(NEVER)),
            api: head.api,
            version: head.version,
            gathered: Mutex::new(ExchangeFacts { body, ..ExchangeFacts::default() }),
        };
        let age = arrival.at.elapsed();
        let mut recording = Recording {
            trace,
            filter,
            notes: Arc::new(notes),
            arrival,
            received_at: unix_millis(SystemTime::now() - age),
            head,
            request: TracedFrame::default(),
            response: None,
            ending: Ending::Lost,
            written: None,
            held: PENDING_OVERHEAD,
        };
        let size = i32::try_from(frame.len()).unwrap_or(i32::MAX).to_be_bytes();
        let prefix = Bytes::copy_from_slice(&size);
        recording.request = recording.copy(&[prefix, frame.clone()], Direction::Request);
        recording
    }

    /// Where other parts of the broker take notes.
    pub(crate) fn notes(&self) -> &Arc<Notes> {
        &self.notes
    }

    /// Notes the response, which is about to be written.
    pub(crate) fn response(&mut self, chunks: &[Bytes]) {
        self.response = Some(self.copy(chunks, Direction::Response));
    }

    /// Notes that the request gets no response.
    pub(crate) fn no_response(&mut self) {
        self.ending = Ending::Silent;
    }

    /// Notes that the connection is closed instead of a response.
    pub(crate) fn closed(&mut self, why: &str) {
        self.ending = Ending::Closed(why.to_owned());
    }

    /// The operating system has taken the last byte of the response.
    pub(crate) fn written(mut self) {
        if self.response.is_some() {
            self.ending = Ending::Answered;
            self.written = Some(Instant::now());
        }
    }

    /// A copy of the beginning of a frame, with its secrets overwritten; without bytes if there is no memory.
    fn copy(&mut self, chunks: &[Bytes], direction: Direction) -> TracedFrame {
        let size: usize = chunks.iter().map(Bytes::len).sum();
        let taken = size.min(FRAME_CAP);
        if !self.trace.reserve(taken) {
            return TracedFrame { bytes: Bytes::new(), size };
        }
        self.held += taken;
        let bytes = if secrets::may_have_any(self.head.api) {
            let mut whole = joined(chunks, size);
            secrets::mask(&mut whole, self.head.api, self.head.version, direction);
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
            connection: self.arrival.connection,
            peer: self.arrival.peer,
            client_id: std::mem::take(&mut self.head.client_id),
            api: self.head.api,
            version: self.head.version,
            correlation_id: self.head.correlation_id,
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
