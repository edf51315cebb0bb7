//! One connection: requests begin in order, answers leave in order.
//!
//! Like Kafka, a connection answers one request after the other; but requests that may overlap (Produce) begin while earlier ones
//! of their kind wait for the disk. Reading goes on meanwhile, so that a peer that hung up is noticed and its requests dropped.

use super::intake::{Arrival, Ended, Inbound, Intake};
use super::outbox::{Outbox, Undelivered};
use super::{Answerer, Answering, Budget, Refused, Reply};
use crate::Limits;
use crate::trace::{Arrived, Recording};
use std::collections::VecDeque;
use std::future::poll_fn;
use std::io::ErrorKind;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;
use thiserror::Error;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::watch;
use tokio::time::{Instant, sleep_until, timeout};

/// How long requests that are under way may go on once their peer has closed its side.
const HANG_UP_GRACE: Duration = Duration::from_millis(500);
/// How long each of them counts after its connection is over.
const LEAVE_GRACE: Duration = Duration::from_secs(30);
/// Memory for the lists of a request, beside its bytes, that it has without paying for it.
const ROOM: usize = 1 << 10;
/// Requests are read ahead only while those that wait for their turn are smaller than this together.
const READ_AHEAD: usize = 64 << 10;

/// Why a connection ended.
#[derive(Debug, Error)]
pub(crate) enum Closed {
    /// Nothing was wrong.
    #[error("{0}")]
    Quietly(&'static str),
    #[error("{0}")]
    Reading(#[from] Ended),
    #[error("{0}")]
    Writing(#[from] Undelivered),
    #[error("{0}")]
    Refused(String),
}

impl Closed {
    /// True if nobody did anything wrong: peers come and go.
    pub(crate) fn is_ordinary(&self) -> bool {
        match self {
            Closed::Quietly(_) => true,
            Closed::Reading(Ended::Io(error)) | Closed::Writing(Undelivered::Io(error)) => matches!(
                error.kind(),
                ErrorKind::BrokenPipe | ErrorKind::ConnectionReset | ErrorKind::ConnectionAborted
            ),
            _ => false,
        }
    }
}

type Reading<R> = Pin<Box<dyn Future<Output = (Intake<R>, Result<Arrival, Ended>)> + Send>>;

/// What the reading half is doing.
enum Side<R> {
    /// Nothing: there is enough to do already.
    Parked(Intake<R>),
    /// Nothing: a large request with these first bytes waits for its turn to be read.
    Large(Intake<R>, bytes::Bytes),
    /// Reading.
    Busy(Reading<R>),
    /// The peer has nothing more to say.
    Over,
}

/// A request under way, with its recording if it has one.
struct Pending {
    progress: Progress,
    recording: Option<Box<Recording>>,
}

/// How far a request is: its reply may come when it is not yet its turn.
enum Progress {
    Waiting(Answering),
    Done(Reply),
}

/// A reply whose turn it is.
type Ready = (Reply, Option<Box<Recording>>);

/// Who is at the other end.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Guest {
    /// The number of the connection.
    pub(crate) number: u64,
    /// The other end's address.
    pub(crate) peer: SocketAddr,
}

/// A connection at work.
pub(crate) struct Connection<A, R, W> {
    answerer: Arc<A>,
    limits: Arc<Limits>,
    guest: Guest,
    budget: Arc<Budget>,
    side: Side<R>,
    queue: VecDeque<Inbound>,
    pending: VecDeque<Pending>,
    /// The last request that began may be overtaken by the beginning of the next of its kind.
    overlapping: bool,
    outbox: Outbox<W>,
    /// When to stop waiting for what is under way.
    until: Option<Instant>,
    /// Before that no request begins: the peer was told to be quiet.
    muted: Option<Instant>,
    stopping: bool,
}

impl<A, R, W> Connection<A, R, W>
where
    A: Answerer,
    R: AsyncRead + Unpin + Send + 'static,
    W: AsyncWrite + Unpin,
{
    pub(crate) fn new(
        answerer: Arc<A>,
        limits: Arc<Limits>,
        guest: Guest,
        intake: Intake<R>,
        outbox: Outbox<W>,
    ) -> Self {
        Connection {
            answerer,
            limits,
            guest,
            budget: Arc::clone(intake.budget()),
            side: Side::Parked(intake),
            queue: VecDeque::new(),
            pending: VecDeque::new(),
            overlapping: false,
            outbox,
            until: None,
            muted: None,
            stopping: false,
        }
    }

    /// Serves until the peer is gone, misbehaves, or `stop` turns true; says why it ended.
    pub(crate) async fn serve(mut self, mut stop: watch::Receiver<bool>) -> Closed {
        let closed = loop {
            match self.turn(&mut stop).await {
                Ok(()) => {}
                Err(closed) => break closed,
            }
        };
        self.leave().await;
        closed
    }

    /// What overlaps is on its way to the disk whether its peer is there or not, and counts until it is there.
    async fn leave(self) {
        let Connection { pending, overlapping, stopping, .. } = self;
        for pending in pending.into_iter().filter(|_| overlapping && !stopping) {
            if let Progress::Waiting(answering) = pending.progress {
                drop(timeout(LEAVE_GRACE, answering).await);
            }
        }
    }

    /// Waits for one thing to happen and deals with it.
    async fn turn(&mut self, stop: &mut watch::Receiver<bool>) -> Result<(), Closed> {
        self.begin_what_may().await;
        self.read_on();
        if self.pending.is_empty() && (self.stopping || matches!(self.side, Side::Over)) {
            return Err(Closed::Quietly(if self.stopping { "the broker stops" } else { "the peer hung up" }));
        }
        let (until, muted) = (self.until, self.muted);
        tokio::select! {
            biased;
            replies = ready_replies(&mut self.pending), if !self.pending.is_empty() => self.send(replies).await,
            (intake, arrival) = read(&mut self.side) => self.arrived(intake, arrival),
            () = stopped(stop), if !self.stopping => {
                self.stopping = true;
                self.until = Some(Instant::now() + self.limits.stop_grace);
                Ok(())
            }
            () = sleep_until(until.unwrap_or_else(Instant::now)), if until.is_some() => {
                Err(Closed::Quietly("nobody waits for the answers that are left"))
            }
            () = sleep_until(muted.unwrap_or_else(Instant::now)), if muted.is_some() => {
                self.muted = None;
                Ok(())
            }
        }
    }

    /// Begins the requests whose turn it is.
    async fn begin_what_may(&mut self) {
        while !self.stopping && self.queue.front().is_some_and(|next| self.may_begin(&next.bytes)) {
            let Some(Inbound { bytes, mut charge, arrived }) = self.queue.pop_front() else { break };
            self.overlapping = self.answerer.may_overlap(&bytes);
            let recording = arrived.and_then(|at| self.record(at, &bytes));
            let mut room = ROOM;
            let answering = loop {
                match self.answerer.begin(self.guest.peer, bytes.clone(), room, recording.as_deref()) {
                    Ok(answering) => break answering,
                    Err(Refused::Bad(why)) => break Box::pin(std::future::ready(Reply::Close(why))),
                    Err(Refused::Room) => {
                        self.budget.pay(&mut charge, room * 3).await;
                        room *= 4;
                    }
                }
            };
            drop(bytes);
            let mut answering: Answering = Box::pin(async move {
                let reply = answering.await;
                drop(charge);
                reply
            });
            let first = poll_fn(|cx| Poll::Ready(answering.as_mut().poll(cx))).await;
            let progress = match first {
                Poll::Ready(reply) => Progress::Done(reply),
                Poll::Pending => Progress::Waiting(answering),
            };
            self.pending.push_back(Pending { progress, recording });
        }
    }

    fn record(&self, at: std::time::Instant, frame: &bytes::Bytes) -> Option<Box<Recording>> {
        let Guest { number: connection, peer } = self.guest;
        self.answerer.record(Arrived { connection, peer, at }, frame)
    }

    fn may_begin(&self, head: &[u8]) -> bool {
        // What a peer that hung up has left behind cannot wait.
        if self.muted.is_some() && !matches!(self.side, Side::Over) {
            return false;
        }
        self.pending.is_empty()
            || (self.overlapping
                && self.pending.len() < self.limits.max_pipelined
                && self.answerer.may_overlap(head))
    }

    /// Starts to read what comes next, unless enough is waiting.
    fn read_on(&mut self) {
        let side = std::mem::replace(&mut self.side, Side::Over);
        self.side = match side {
            Side::Parked(intake) if self.wants_more() => Side::Busy(Box::pin(intake.next())),
            Side::Large(intake, head)
                if self.queue.is_empty()
                    && self.muted.is_none()
                    && self.may_begin(&head)
                    && !self.stopping =>
            {
                Side::Busy(Box::pin(intake.rest()))
            }
            other => other,
        };
    }

    fn wants_more(&self) -> bool {
        let waiting: usize = self.queue.iter().map(|inbound| inbound.bytes.len()).sum();
        !self.stopping
            && waiting < READ_AHEAD
            && self.queue.len() + self.pending.len() < self.limits.max_pipelined.max(2)
    }

    fn arrived(&mut self, intake: Intake<R>, arrival: Result<Arrival, Ended>) -> Result<(), Closed> {
        match arrival {
            Ok(Arrival::Whole(mut inbound)) => {
                inbound.arrived = self.answerer.is_recording().then(std::time::Instant::now);
                self.queue.push_back(inbound);
                self.side = Side::Parked(intake);
            }
            Ok(Arrival::Large(head)) => self.side = Side::Large(intake, head),
            Err(Ended::HungUp) => {
                self.side = Side::Over;
                self.until.get_or_insert(Instant::now() + HANG_UP_GRACE);
            }
            Err(Ended::Idle(_)) if !self.pending.is_empty() => self.side = Side::Parked(intake),
            Err(Ended::Idle(_)) => return Err(Closed::Quietly("idle for connections.max.idle.ms")),
            Err(other) => return Err(other.into()),
        }
        Ok(())
    }

    /// The reply itself, once it is noted for how long it mutes the connection.
    fn muted_by(&mut self, reply: Reply) -> Reply {
        let Reply::Muted(reply, span) = reply else { return reply };
        self.muted = self.muted.max(Some(Instant::now() + span));
        *reply
    }

    async fn send(&mut self, replies: Vec<Ready>) -> Result<(), Closed> {
        let mut refused = None;
        let mut recordings = Vec::new();
        for (reply, recording) in replies {
            let reply = self.muted_by(reply);
            if let Some(mut recording) = recording {
                recording.replied(&reply);
                recordings.push(recording);
            }
            match reply {
                Reply::Send(chunks, hold) => self.outbox.push(chunks, hold),
                Reply::Nothing | Reply::Muted(..) => {}
                Reply::Close(why) => {
                    refused = Some(why);
                    break;
                }
            }
        }
        self.outbox.flush(self.limits.write_stall).await?;
        recordings.into_iter().for_each(|recording| recording.written());
        match refused {
            Some(why) => Err(Closed::Refused(why)),
            None => Ok(()),
        }
    }
}

/// Waits for the first pending request, then takes all replies that are there, in order.
async fn ready_replies(pending: &mut VecDeque<Pending>) -> Vec<Ready> {
    poll_fn(|cx| {
        let mut replies = Vec::new();
        while let Some(reply) = next_reply(pending, cx) {
            replies.push(reply);
        }
        if replies.is_empty() { Poll::Pending } else { Poll::Ready(replies) }
    })
    .await
}

fn next_reply(pending: &mut VecDeque<Pending>, cx: &mut Context<'_>) -> Option<Ready> {
    let front = pending.front_mut()?;
    if let Progress::Waiting(answering) = &mut front.progress {
        let Poll::Ready(reply) = answering.as_mut().poll(cx) else { return None };
        front.progress = Progress::Done(reply);
    }
    match pending.pop_front()? {
        Pending { progress: Progress::Done(reply), recording } => Some((reply, recording)),
        Pending { progress: Progress::Waiting(_), .. } => None,
    }
}

/// Waits for what is being read; for ever if nothing is.
async fn read<R>(side: &mut Side<R>) -> (Intake<R>, Result<Arrival, Ended>) {
    match side {
        Side::Busy(reading) => reading.await,
        _ => std::future::pending().await,
    }
}

/// Waits until the broker stops; also when whoever could say so is gone.
async fn stopped(stop: &mut watch::Receiver<bool>) {
    let _ = stop.wait_for(|stopping| *stopping).await;
}
