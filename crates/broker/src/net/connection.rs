//! One connection: requests begin in their order, and responses leave in that order.
//!
//! Like Apache Kafka, a connection answers one request after the other. Only requests that may overlap (Produce) begin
//! while earlier requests of the same kind wait for the disk. The connection reads ahead meanwhile, so it notices when
//! the client closes the connection and can drop the client's requests.
//!
//! ```text
//!   RequestReader ──▶ queue ──begin──▶ pending ──in order──▶ ResponseWriter
//!   (reads ahead up to READ_AHEAD)     (more than one request only if they may overlap)
//! ```

use super::request_reader::{InboundRequest, NextRequest, ReadError, RequestReader};
use super::response_writer::{ResponseWriter, WriteError};
use super::{BeginError, Reply, ReplyFuture, RequestBudget, RequestHandler};
use crate::Limits;
use crate::trace::{Arrival, Recording};
use bytes::Bytes;
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

/// Time that pending requests get after the client has closed its side of the connection.
const HANG_UP_GRACE: Duration = Duration::from_millis(500);
/// Time that each pending overlapping request gets after its connection has ended.
const LEAVE_GRACE: Duration = Duration::from_secs(30);
/// Bytes that the arrays of a request may take without a charge to the budget.
const FREE_MEMORY: usize = 1 << 10;
/// The connection reads ahead while the requests in its queue are smaller than this together, in bytes.
const READ_AHEAD: usize = 64 << 10;

/// Why a connection ended.
#[derive(Debug, Error)]
pub(crate) enum CloseReason {
    /// No error: the client left, was idle, or the broker stops.
    #[error("{0}")]
    Normal(&'static str),
    #[error("{0}")]
    Reading(#[from] ReadError),
    #[error("{0}")]
    Writing(#[from] WriteError),
    /// The handler decided to close the connection.
    #[error("{0}")]
    Refused(String),
}

impl CloseReason {
    /// Whether neither side made an error. Clients that disconnect without a shutdown are common.
    pub(crate) fn is_ordinary(&self) -> bool {
        match self {
            CloseReason::Normal(_) => true,
            CloseReason::Reading(ReadError::Io(error)) | CloseReason::Writing(WriteError::Io(error)) => {
                matches!(
                    error.kind(),
                    ErrorKind::BrokenPipe | ErrorKind::ConnectionReset | ErrorKind::ConnectionAborted
                )
            }
            CloseReason::Reading(_) | CloseReason::Writing(WriteError::Stalled { .. }) => false,
            CloseReason::Refused(_) => false,
        }
    }
}

type ReadFuture<R> = Pin<Box<dyn Future<Output = (RequestReader<R>, Result<NextRequest, ReadError>)> + Send>>;

/// What the reading half does.
enum ReadState<R> {
    /// It does not read, because enough requests wait.
    Idle(RequestReader<R>),
    /// It has the first bytes of a large request and does not read on before that request may begin.
    Large(RequestReader<R>, Bytes),
    /// It reads.
    Reading(ReadFuture<R>),
    /// The client has closed its side.
    Ended,
}

/// A request that has begun, with its trace record if it has one.
struct PendingRequest {
    progress: Progress,
    recording: Option<Box<Recording>>,
}

/// How far a pending request is. A reply can be ready before the replies of earlier requests are.
enum Progress {
    Running(ReplyFuture),
    Done(Reply),
}

/// A reply that may be sent now, with the trace record of its request.
type CompletedRequest = (Reply, Option<Box<Recording>>);

/// What the network knows of a connection.
#[derive(Clone, Debug)]
pub(crate) struct ConnectionInfo {
    /// Its number; connections are counted from 1.
    pub(crate) number: u64,
    /// The address of the client.
    pub(crate) peer: SocketAddr,
    /// The name of the client by its certificate, if it presented one.
    pub(crate) certificate_name: Option<String>,
}

/// A connection that is served.
pub(crate) struct Connection<H: RequestHandler, R, W> {
    handler: Arc<H>,
    session: H::Session,
    limits: Arc<Limits>,
    info: ConnectionInfo,
    budget: Arc<RequestBudget>,
    read_state: ReadState<R>,
    queue: VecDeque<InboundRequest>,
    pending: VecDeque<PendingRequest>,
    /// Whether the request that began last may overlap with the next one.
    overlapping: bool,
    writer: ResponseWriter<W>,
    /// The deadline of the pending requests, once the client has left or the broker stops.
    deadline: Option<Instant>,
    /// No request begins before this time.
    muted_until: Option<Instant>,
    stopping: bool,
}

impl<H, R, W> Connection<H, R, W>
where
    H: RequestHandler,
    R: AsyncRead + Unpin + Send + 'static,
    W: AsyncWrite + Unpin,
{
    pub(crate) fn new(
        handler: Arc<H>,
        limits: Arc<Limits>,
        info: ConnectionInfo,
        reader: RequestReader<R>,
        writer: ResponseWriter<W>,
    ) -> Self {
        Connection {
            session: handler.open(&info, reader.bounds()),
            handler,
            limits,
            info,
            budget: Arc::clone(reader.budget()),
            read_state: ReadState::Idle(reader),
            queue: VecDeque::new(),
            pending: VecDeque::new(),
            overlapping: false,
            writer,
            deadline: None,
            muted_until: None,
            stopping: false,
        }
    }

    /// Serves until the client leaves or violates the protocol, or `stop` becomes true. Returns the reason.
    pub(crate) async fn serve(mut self, mut stop: watch::Receiver<bool>) -> CloseReason {
        let reason = loop {
            match self.step(&mut stop).await {
                Ok(()) => {}
                Err(reason) => break reason,
            }
        };
        self.finish_overlapping().await;
        reason
    }

    /// Waits for pending requests that may overlap. Their data goes to the disk although the client has left, and must
    /// stay charged to the budget until it is there.
    async fn finish_overlapping(self) {
        let Connection { pending, overlapping, stopping, .. } = self;
        for pending in pending.into_iter().filter(|_| overlapping && !stopping) {
            if let Progress::Running(reply) = pending.progress {
                drop(timeout(LEAVE_GRACE, reply).await);
            }
        }
    }

    /// Waits for one event and handles it.
    async fn step(&mut self, stop: &mut watch::Receiver<bool>) -> Result<(), CloseReason> {
        self.begin_requests().await;
        self.continue_reading();
        if self.pending.is_empty() && (self.stopping || matches!(self.read_state, ReadState::Ended)) {
            let why = if self.stopping { "the broker stops" } else { "the client closed the connection" };
            return Err(CloseReason::Normal(why));
        }
        let (deadline, muted) = (self.deadline, self.muted_until);
        tokio::select! {
            biased;
            completed = next_replies(&mut self.pending), if !self.pending.is_empty() => self.send(completed).await,
            (reader, next) = read(&mut self.read_state) => self.received(reader, next),
            () = stopped(stop), if !self.stopping => {
                self.stopping = true;
                self.deadline = Some(Instant::now() + self.limits.stop_grace);
                Ok(())
            }
            () = sleep_until(deadline.unwrap_or_else(Instant::now)), if deadline.is_some() => {
                Err(CloseReason::Normal("requests were still pending when the time for them ended"))
            }
            () = sleep_until(muted.unwrap_or_else(Instant::now)), if muted.is_some() => {
                self.muted_until = None;
                Ok(())
            }
        }
    }

    /// Begins the requests at the head of the queue that may begin.
    async fn begin_requests(&mut self) {
        while !self.stopping && self.queue.front().is_some_and(|next| self.may_begin(&next.bytes)) {
            let Some(InboundRequest { bytes, mut charge, received }) = self.queue.pop_front() else { break };
            self.overlapping = self.handler.may_overlap(&bytes);
            let recording = received.and_then(|at| self.record(at, &bytes));
            let mut memory = FREE_MEMORY;
            let reply = loop {
                match self.handler.begin(&mut self.session, bytes.clone(), memory, recording.as_deref()) {
                    Ok(reply) => break reply,
                    Err(BeginError::Malformed(why)) => {
                        break Box::pin(std::future::ready(Reply::Close(why)));
                    }
                    Err(BeginError::NeedsMemory) => {
                        self.budget.pay(&mut charge, memory * 3).await;
                        memory *= 4;
                    }
                }
            };
            drop(bytes);
            let mut reply: ReplyFuture = Box::pin(async move {
                let reply = reply.await;
                drop(charge);
                reply
            });
            let first = poll_fn(|cx| Poll::Ready(reply.as_mut().poll(cx))).await;
            let progress = match first {
                Poll::Ready(reply) => Progress::Done(reply),
                Poll::Pending => Progress::Running(reply),
            };
            self.pending.push_back(PendingRequest { progress, recording });
        }
    }

    fn record(&self, at: std::time::Instant, frame: &Bytes) -> Option<Box<Recording>> {
        let ConnectionInfo { number: connection, peer, .. } = self.info;
        self.handler.record(&self.session, Arrival { connection, peer, at }, frame)
    }

    fn may_begin(&self, head: &[u8]) -> bool {
        // A client that has left cannot be slowed down by muting.
        if self.muted_until.is_some() && !matches!(self.read_state, ReadState::Ended) {
            return false;
        }
        self.pending.is_empty()
            || (self.overlapping
                && self.pending.len() < self.limits.max_pipelined
                && self.handler.may_overlap(head))
    }

    /// Starts to read the next request, unless enough requests wait.
    fn continue_reading(&mut self) {
        let state = std::mem::replace(&mut self.read_state, ReadState::Ended);
        self.read_state = match state {
            ReadState::Idle(reader) if self.wants_more() => ReadState::Reading(Box::pin(reader.next())),
            ReadState::Large(reader, head)
                if self.queue.is_empty()
                    && self.muted_until.is_none()
                    && self.may_begin(&head)
                    && !self.stopping =>
            {
                ReadState::Reading(Box::pin(reader.rest()))
            }
            other => other,
        };
    }

    fn wants_more(&self) -> bool {
        let queued: usize = self.queue.iter().map(|request| request.bytes.len()).sum();
        !self.stopping
            && queued < READ_AHEAD
            && self.queue.len() + self.pending.len() < self.limits.max_pipelined.max(2)
    }

    fn received(
        &mut self,
        reader: RequestReader<R>,
        next: Result<NextRequest, ReadError>,
    ) -> Result<(), CloseReason> {
        match next {
            Ok(NextRequest::Whole(mut request)) => {
                request.received = self.handler.is_recording().then(std::time::Instant::now);
                self.queue.push_back(request);
                self.read_state = ReadState::Idle(reader);
            }
            Ok(NextRequest::Large(head)) => self.read_state = ReadState::Large(reader, head),
            Err(ReadError::HungUp) => {
                self.read_state = ReadState::Ended;
                self.deadline.get_or_insert(Instant::now() + HANG_UP_GRACE);
            }
            Err(ReadError::Idle(_)) if !self.pending.is_empty() => self.read_state = ReadState::Idle(reader),
            Err(ReadError::Idle(_)) => return Err(CloseReason::Normal("idle for connections.max.idle.ms")),
            Err(other) => return Err(other.into()),
        }
        Ok(())
    }

    /// Notes for how long a reply mutes the connection, and returns the reply inside.
    fn unwrap_muted(&mut self, reply: Reply) -> Reply {
        let Reply::Muted(reply, span) = reply else { return reply };
        self.muted_until = self.muted_until.max(Some(Instant::now() + span));
        *reply
    }

    async fn send(&mut self, completed: Vec<CompletedRequest>) -> Result<(), CloseReason> {
        let mut refused = None;
        let mut recordings = Vec::new();
        for (reply, recording) in completed {
            let reply = self.unwrap_muted(reply);
            if let Some(mut recording) = recording {
                note_reply(&mut recording, &reply);
                recordings.push(recording);
            }
            match reply {
                Reply::Send(chunks, charge) => self.writer.push(chunks, charge),
                Reply::Nothing | Reply::Muted(..) => {}
                Reply::SendAndClose(chunks, why) => {
                    self.writer.push(chunks, None);
                    refused = Some(why);
                    break;
                }
                Reply::Close(why) => {
                    refused = Some(why);
                    break;
                }
            }
        }
        self.writer.flush(self.limits.write_stall).await?;
        recordings.into_iter().for_each(|recording| recording.written());
        match refused {
            Some(why) => Err(CloseReason::Refused(why)),
            None => Ok(()),
        }
    }
}

fn note_reply(recording: &mut Recording, reply: &Reply) {
    match reply {
        Reply::Send(chunks, _) | Reply::SendAndClose(chunks, _) => recording.response(chunks),
        Reply::Nothing => recording.no_response(),
        Reply::Close(why) => recording.closed(why),
        Reply::Muted(reply, _) => note_reply(recording, reply),
    }
}

/// Waits for the first pending request, then takes all replies that are ready, in order.
async fn next_replies(pending: &mut VecDeque<PendingRequest>) -> Vec<CompletedRequest> {
    poll_fn(|cx| {
        let mut completed = Vec::new();
        while let Some(one) = next_reply(pending, cx) {
            completed.push(one);
        }
        if completed.is_empty() { Poll::Pending } else { Poll::Ready(completed) }
    })
    .await
}

fn next_reply(pending: &mut VecDeque<PendingRequest>, cx: &mut Context<'_>) -> Option<CompletedRequest> {
    let front = pending.front_mut()?;
    if let Progress::Running(future) = &mut front.progress {
        let Poll::Ready(reply) = future.as_mut().poll(cx) else { return None };
        front.progress = Progress::Done(reply);
    }
    match pending.pop_front()? {
        PendingRequest { progress: Progress::Done(reply), recording } => Some((reply, recording)),
        PendingRequest { progress: Progress::Running(_), .. } => None,
    }
}

/// Waits for the request that is being read. Never completes if none is.
async fn read<R>(state: &mut ReadState<R>) -> (RequestReader<R>, Result<NextRequest, ReadError>) {
    match state {
        ReadState::Reading(reading) => reading.await,
        ReadState::Idle(_) | ReadState::Large(..) | ReadState::Ended => std::future::pending().await,
    }
}

/// Waits until the broker stops, or the sender is dropped.
async fn stopped(stop: &mut watch::Receiver<bool>) {
    let _ = stop.wait_for(|stopping| *stopping).await;
}
