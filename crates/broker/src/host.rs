//! The host of a shard: runs the core and the log, one thread at a time, and sends no reply before it is durable.
//!
//! Every answer is stamped with the end of the log when it was computed, and leaves when all before that is durable. So
//! neither a write nor a read shows what a crash could take back, and no API has to wait itself.

mod admission;
mod clock;
mod driven;
mod housekeeping;
mod live_access;
mod live_settings;
mod lock;
mod machine;
mod mailbox;
mod refused_batches;
mod rewrite;
mod snapshots;
mod space;
mod submission;
mod tail;
mod waiting;
mod watch;

pub(crate) use live_access::LiveAccess;
pub(crate) use live_settings::{BatchRule, LiveSettings};

/// The synchronisation primitives of the lock of the state machine.
mod sync {
    pub(super) use std::sync::atomic::{AtomicBool, AtomicI64, AtomicUsize, Ordering, fence};
    pub(super) use std::sync::{Arc, Mutex, MutexGuard, OnceLock};
    pub(super) use std::thread::{Thread, current as current_thread, park_timeout};
}

pub use driven::{DrivenHost, drive};
pub use machine::{HostOptions, RunningHost, StartError, start};
pub use snapshots::Snapshots;
pub use watch::{Watch, Watchers};

use crate::Metrics;
use crate::trace::{Notes, Stage};
use ottla_core::partitions::{Produce, ProduceReply};
use ottla_core::{Command, Shard};
use ottla_types::{LogPosition, Millis};
use std::sync::Arc;
use submission::{ProduceSubmission, Submission, Submitted};
use tokio::sync::oneshot;

/// The host gives no answer: it has stopped, its log failed, or the log refused a record of this question because the
/// disk is full to the last byte or the record is larger than a log can hold. In the last case the host continues, and
/// another try may succeed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the shard gives no answer: it stops, its log has failed, or has no room for what was asked")]
pub struct HostGone;

/// The disk has no room for more data; what frees room, and what ends transactions, is still accepted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the disk has no room for more data")]
pub struct NoRoom;

/// The outcome of a Produce that was put to the core.
#[derive(Debug)]
pub struct ProduceOutcome {
    /// A result for each batch, in order.
    pub results: ProduceReply,
    /// How long the connection should send no more data.
    pub mute: Millis,
}

type Deliver = Box<dyn FnOnce() + Send>;
type ReadShard = Box<dyn FnOnce(&Shard, Millis) -> Deliver + Send>;
type PeekShard = Box<dyn FnOnce(&Shard, Millis, &mut Watchers) + Send>;

/// Where the stages of a request are noted that is traced.
type TraceNotes = Option<Arc<Notes>>;

/// Everything that reaches the state machine.
enum Message {
    Submit(Box<dyn Submission>, TraceNotes),
    Produce(Box<ProduceSubmission>),
    Read(ReadShard, TraceNotes),
    Peek(PeekShard),
    Durable(LogPosition),
    LogFailed(String),
    Snapshot(oneshot::Sender<()>),
    /// The snapshot writer wants the next piece of the snapshot.
    SnapshotPiece,
    /// The snapshot is on disk, so many bytes, or failed.
    SnapshotWritten(Result<u64, String>),
    RunsWritten(Result<rewrite::JobResult, rewrite::JobError>),
    /// There is more to do than fitted into a turn.
    Continue,
    Stop,
}

/// A handle to the host of a shard. Commands take effect in the order of their first poll.
#[derive(Clone, Debug)]
pub struct Host {
    mailbox: mailbox::Mailbox,
    metrics: Arc<Metrics>,
    settings: Arc<LiveSettings>,
    traced: TraceNotes,
}

impl Host {
    /// The same host, asked on behalf of a request that is traced.
    pub(crate) fn traced(&self, notes: Arc<Notes>) -> Host {
        Host { traced: Some(notes), ..self.clone() }
    }

    /// Submits a command to the core. Its reply arrives when everything that the reply rests on is durable.
    ///
    /// # Errors
    /// The host is gone.
    pub async fn submit<C: Command>(&self, command: C) -> Result<C::Reply, HostGone> {
        let (caller, reply) = oneshot::channel();
        self.send(Message::Submit(Box::new(Submitted { command, caller }), self.asked()))?;
        reply.await.map_err(|_| HostGone)
    }

    /// Submits a Produce to the core. Unlike [`Host::submit`], it waits for room in the tail of the log, and fails with
    /// [`NoRoom`] when the disk is full.
    ///
    /// # Errors
    /// The host is gone.
    pub async fn produce(&self, produce: Produce) -> Result<Result<ProduceOutcome, NoRoom>, HostGone> {
        let (caller, outcome) = oneshot::channel();
        self.send(Message::Produce(Box::new(ProduceSubmission { produce, caller, traced: self.asked() })))?;
        outcome.await.map_err(|_| HostGone)
    }

    /// Looks at the core; what was seen arrives when everything it rests on is durable.
    ///
    /// # Errors
    /// The host is gone.
    pub async fn read<R: Send + 'static>(
        &self,
        look: impl FnOnce(&Shard, Millis) -> R + Send + 'static,
    ) -> Result<R, HostGone> {
        let (seen, arrived) = oneshot::channel();
        let look: ReadShard = Box::new(move |shard, now| {
            let result = look(shard, now);
            Box::new(move || drop(seen.send(result)))
        });
        self.send(Message::Read(look, self.asked()))?;
        arrived.await.map_err(|_| HostGone)
    }

    /// Looks at the core without waiting for the disk: only for what lies below high watermarks, which is durable
    /// already. The closure may register a [`Watch`] on partitions it found too little in.
    ///
    /// # Errors
    /// The host is gone.
    pub async fn peek<R: Send + 'static>(
        &self,
        look: impl FnOnce(&Shard, Millis, &mut Watchers) -> R + Send + 'static,
    ) -> Result<R, HostGone> {
        let (seen, arrived) = oneshot::channel();
        let traced = self.asked();
        self.send(Message::Peek(Box::new(move |shard, now, watchers| {
            let result = look(shard, now, watchers);
            reach(&traced, Stage::Judged);
            drop(seen.send(result));
        })))?;
        arrived.await.map_err(|_| HostGone)
    }

    /// Waits until everything the log holds now is durable: after it, what was peeked at before may be sent to clients.
    ///
    /// # Errors
    /// The host is gone.
    pub async fn settled(&self) -> Result<(), HostGone> {
        self.read(|_, _| ()).await
    }

    /// Writes a snapshot of the state once it is durable, so that the next start replays less. Returns when it is on
    /// disk.
    ///
    /// # Errors
    /// The host is gone.
    pub async fn snapshot(&self) -> Result<(), HostGone> {
        let (done, written) = oneshot::channel();
        self.send(Message::Snapshot(done))?;
        written.await.map_err(|_| HostGone)
    }

    /// Settings that need no command to be read.
    pub(crate) fn settings(&self) -> &LiveSettings {
        &self.settings
    }

    /// Figures since the start.
    pub fn metrics(&self) -> &Metrics {
        &self.metrics
    }

    /// Asks the host to stop: what was appended becomes durable, answers that wait for it leave, then the thread ends.
    pub fn stop(&self) {
        // A host that is gone has stopped.
        let _ = self.send(Message::Stop);
    }

    /// A question is about to be put: notes it if the request is traced.
    fn asked(&self) -> TraceNotes {
        reach(&self.traced, Stage::Asked);
        self.traced.clone()
    }

    fn send(&self, message: Message) -> Result<(), HostGone> {
        self.mailbox.send(message)
    }
}

fn reach(traced: &TraceNotes, stage: Stage) {
    if let Some(notes) = traced {
        notes.reach(stage);
    }
}
