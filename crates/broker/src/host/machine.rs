//! The state machine with its log: handles commands one after the other. The core judges a command, the log stores its
//! records, and its reply is sent when they are durable.

use super::clock::Clock;
use super::housekeeping::Housekeeping;
use super::live_settings::LiveSettings;
use super::lock::{self, MachineLock, Run};
use super::mailbox::{Inbox, Wakeup, mailbox};
use super::refused_batches::RefusedBatches;
use super::rewrite::Rewriter;
use super::snapshots::Snapshots;
use super::space::Space;
use super::submission::Pending;
use super::tail::Throttle;
use super::waiting::WaitingProduces;
use super::{Deliver, Host, Message, TraceNotes, Watchers, reach};
use crate::Metrics;
use crate::trace::Stage;
use ottla_core::config::Settings;
use ottla_core::{Effect, Effects, Input, RecordPosition, Reply, Shard, TicketId};
use ottla_store::{
    AppendError, Callbacks, EntryRange, Log, LogReader, Medium, OpenError, OpenLog, Options, RecoveryReport,
    ReplayItem,
};
use ottla_types::record::{CatalogRecord, ClusterCreated, LogRecord};
use ottla_types::{LogPosition, Millis};
use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;
use tokio::sync::watch;

/// Runs that a thread does in a row after it has queued a message.
const RUNS_IN_A_ROW: usize = 8;
/// Commands handled before the appended records are given to the log's writer.
const BATCH: usize = 256;
/// The longest the thread sleeps without a look at its timers.
const LONGEST_SLEEP: Millis = Millis(60_000);
/// How long timers pause after the log refused a record. Timers that are due stay due.
const AFTER_REFUSAL: Millis = Millis(200);

/// How a host runs.
#[derive(Clone, Debug)]
pub struct HostOptions {
    /// The settings, as given at start.
    pub settings: Settings,
    /// How the log is kept.
    pub log: Options,
    /// The cluster id that a new log gets.
    pub cluster_id: String,
    /// When snapshots are written.
    pub snapshots: Snapshots,
}

/// Why a host could not start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The log cannot be opened: it is in use, damaged, or cannot be read or written.
    #[error(transparent)]
    Log(#[from] OpenError),
    /// The system gives no thread.
    #[error("cannot start a thread: {0}")]
    Thread(#[from] io::Error),
}

/// A host that runs, with what belongs to it.
#[derive(Debug)]
pub struct RunningHost {
    /// The handle.
    pub host: Host,
    /// Reads batches from the log.
    pub reader: LogReader,
    /// Holds a message once the log has failed. The process should end then: what memory says may not be on disk.
    pub failure: watch::Receiver<Option<String>>,
    /// What was found in the log.
    pub recovered: RecoveryReport,
    /// The log and its medium, in a few words.
    pub description: String,
    /// The thread, which ends after [`Host::stop`].
    pub thread: JoinHandle<()>,
}

/// Replays the log, then starts the host's thread.
///
/// # Errors
/// The log cannot be opened, or the system gives no thread.
pub fn start(medium: Arc<dyn Medium>, options: HostOptions) -> Result<RunningHost, StartError> {
    let clock = Clock::start();
    let now = clock.now();
    let lock = Arc::new(MachineLock::new(RUNS_IN_A_ROW));
    let wakeup = Wakeup::Lock(Arc::clone(&lock));
    let Ready { machine, host, failure, recovered } = prepare(medium, options, now, wakeup)?;
    let (reader, description) = (machine.log.reader(), machine.log.describe());
    lock.install(Box::new(ClockedMachine { machine, clock }));
    let thread =
        std::thread::Builder::new().name("ottla-shard".to_owned()).spawn(move || lock.run_timers())?;
    Ok(RunningHost { host, reader, failure, recovered, description, thread })
}

/// The state machine with the clock that it runs by.
struct ClockedMachine {
    machine: Machine,
    clock: Clock,
}

impl lock::Machine for ClockedMachine {
    fn run(&mut self) -> Run {
        let now = self.clock.now();
        self.machine.set_wall_offset(now, self.clock.wall_offset(now));
        if !self.machine.run_at(now) {
            return Run::Ended;
        }
        let next_timer = self.machine.next_timer().filter(|due| now < *due);
        Run::Continues(next_timer.map(|due| due.0))
    }

    fn sleep(&mut self) -> (Duration, i64) {
        let now = self.clock.now();
        let span = self.machine.idle_time(now);
        (span, now.after(Millis(i64::try_from(span.as_millis()).unwrap_or(i64::MAX))).0)
    }

    fn finish(&mut self) {
        self.machine.finish();
    }
}

/// A host that has replayed its log and does nothing yet.
pub(super) struct Ready {
    pub(super) machine: Machine,
    pub(super) host: Host,
    pub(super) failure: watch::Receiver<Option<String>>,
    pub(super) recovered: RecoveryReport,
}

/// Replays the log. `wakeup` runs the machine when there are messages.
pub(super) fn prepare(
    medium: Arc<dyn Medium>,
    options: HostOptions,
    now: Millis,
    wakeup: Wakeup,
) -> Result<Ready, OpenError> {
    let (mailbox, inbox) = mailbox(wakeup);
    let mut shard = Shard::new(options.settings);
    let (durable, failed) = (mailbox.clone(), mailbox.clone());
    let hooks = Callbacks {
        on_durable: Box::new(move |position| durable.report(Message::Durable(position))),
        on_failure: Box::new(move |why| failed.report(Message::LogFailed(why.to_string()))),
    };
    let OpenLog { log, recovery: recovered } =
        Log::open(medium, options.log, hooks, &mut |one| replay(&mut shard, &one))?;
    let (failure, failure_seen) = watch::channel(None);
    let metrics = Arc::new(Metrics::new());
    let threads = options.log.threads;
    let settings = Arc::new(LiveSettings::new(&shard));
    let rewriter = Rewriter::new(&shard, &log, Arc::clone(&metrics), mailbox.clone(), threads)?;
    let mut machine = Machine {
        metrics: Arc::clone(&metrics),
        settings: Arc::clone(&settings),
        rewriter,
        throttle: Throttle::default(),
        waiting: WaitingProduces::new(most_waiting(&shard)),
        refused_batches: RefusedBatches::default(),
        space: Space::new(log.reader()),
        durable: log.durable(),
        housekeeping: Housekeeping::new(&log, &recovered, options.snapshots, mailbox.clone()),
        shard,
        log,
        inbox,
        failure,
        effects: Effects::default(),
        tickets: BTreeMap::new(),
        next_ticket: 0,
        held: VecDeque::new(),
        watchers: Watchers::default(),
        refused: false,
        failed: false,
    };
    machine.begin(now, options.cluster_id);
    let host = Host { mailbox, metrics, settings, traced: None };
    Ok(Ready { machine, host, failure: failure_seen, recovered })
}

fn replay(shard: &mut Shard, one: &ReplayItem) {
    match one {
        ReplayItem::Snapshot(row) => shard.restore(row),
        ReplayItem::Entry(at, record) => shard.apply(applied(*at), record),
    }
}

fn applied(at: EntryRange) -> RecordPosition {
    RecordPosition { position: at.position, payload: at.payload.unwrap_or(at.position) }
}

/// Bytes of requests that may wait for room: a quarter of the budget of all requests, so that other requests find
/// memory.
fn most_waiting(shard: &Shard) -> u64 {
    let all = shard.catalog().settings().value("queued.max.request.bytes");
    all.and_then(|text| text.trim().parse::<u64>().ok()).unwrap_or(0) / 4
}

/// Something to send when the log is durable to a position.
enum DelayedSend {
    /// The reply to a command.
    Reply(Pending, Reply, TraceNotes),
    /// The result of a read of the shard.
    Read(Deliver),
}

impl DelayedSend {
    fn send(self) {
        match self {
            DelayedSend::Reply(pending, reply, traced) => pending.send(reply, &traced),
            DelayedSend::Read(deliver) => deliver(),
        }
    }
}

/// The shard, its log, and the callers that wait. One thread at a time runs it.
pub(super) struct Machine {
    pub(super) shard: Shard,
    pub(super) log: Log,
    inbox: Inbox,
    failure: watch::Sender<Option<String>>,
    effects: Effects,
    tickets: BTreeMap<TicketId, (Pending, TraceNotes)>,
    next_ticket: u64,
    /// Answers that wait for the log to be durable up to a position, oldest first.
    held: VecDeque<(LogPosition, DelayedSend)>,
    pub(super) durable: LogPosition,
    watchers: Watchers,
    pub(super) housekeeping: Housekeeping,
    pub(super) rewriter: Rewriter,
    pub(super) throttle: Throttle,
    pub(super) waiting: WaitingProduces,
    pub(super) refused_batches: RefusedBatches,
    pub(super) space: Space,
    pub(super) metrics: Arc<Metrics>,
    settings: Arc<LiveSettings>,
    /// The log refused a record since the last look at the timers.
    refused: bool,
    pub(super) failed: bool,
}

impl Machine {
    /// A new log gets its cluster id as its first record. What replay rebuilt is durable, so readers may see it at
    /// once.
    fn begin(&mut self, now: Millis, cluster_id: String) {
        self.step(now, Input::Durable(self.durable));
        if self.shard.cluster_id().is_none() {
            self.effects
                .append(LogRecord::Catalog(CatalogRecord::ClusterCreated(ClusterCreated { cluster_id })));
            self.carry_out();
        }
        self.log.kick();
    }

    /// Makes durable what was appended; the answers that waited for it leave.
    pub(super) fn finish(&mut self) {
        self.rewriter.stop();
        if let Err(failure) = self.log.flush() {
            self.fail(failure.to_string());
        }
        self.durable = self.log.durable();
        self.release();
    }

    /// Sets how far the wall clock is ahead of the time that turns are given.
    pub(super) fn set_wall_offset(&mut self, now: Millis, offset: Millis) {
        self.shard.set_wall_offset(now, offset);
    }

    /// Handles the commands that are there, does what is due, then lets the log write. False when it is time to end.
    pub(super) fn run_at(&mut self, now: Millis) -> bool {
        self.settings.ran_at(self.shard.wall(now));
        for _ in 0..BATCH {
            let Some(command) = self.inbox.next() else { break };
            if !self.handle(now, command) {
                return false;
            }
        }
        if self.shard.deadline().is_some_and(|deadline| deadline <= now) {
            if self.shard.forgets_producers() {
                self.settings.warn_of_forgotten_producers();
            }
            self.step(now, Input::Tick);
        }
        self.rewrite(now);
        self.log.kick();
        self.housekeeping.consider(now, &self.shard, &self.log);
        !self.failed
    }

    /// When the next timer is due.
    pub(super) fn next_timer(&self) -> Option<Millis> {
        [self.shard.deadline(), self.rewriter.deadline()].into_iter().flatten().min()
    }

    /// How long nothing needs to be done without a command.
    pub(super) fn idle_time(&mut self, now: Millis) -> Duration {
        let until = self.next_timer().map_or(LONGEST_SLEEP, |deadline| deadline.since(now));
        let least = if std::mem::take(&mut self.refused) { AFTER_REFUSAL } else { Millis(0) };
        let until = until.max(least);
        Duration::from_millis(u64::try_from(until.min(LONGEST_SLEEP).0).unwrap_or(0))
    }

    /// Handles one command. False when it is time to end.
    fn handle(&mut self, now: Millis, command: Message) -> bool {
        match command {
            Message::Submit(submission, traced) => {
                let id = self.ticket();
                let (input, caller) = submission.begin(id);
                self.submit(now, input, (id, Pending::Command(caller), traced));
            }
            Message::Produce(submission) => self.produce(now, submission),
            Message::Read(look, traced) => {
                let deliver = look(&self.shard, now);
                reach(&traced, Stage::Judged);
                self.hold(DelayedSend::Read(match traced {
                    None => deliver,
                    Some(notes) => Box::new(move || {
                        notes.reach(Stage::Durable);
                        deliver();
                    }),
                }));
            }
            Message::Peek(look) => look(&self.shard, now, &mut self.watchers),
            Message::Durable(position) => self.became_durable(now, position),
            Message::Snapshot(done) => self.housekeeping.begin_snapshot(&self.shard, &self.log, Some(done)),
            Message::SnapshotPiece => self.housekeeping.next_piece(&self.shard, &self.log),
            Message::SnapshotWritten(result) => {
                self.housekeeping.snapshot_written(result, &self.shard, &self.log)
            }
            Message::RunsWritten(result) => self.rewriter.written(now, result),
            Message::Continue => {}
            Message::LogFailed(why) => self.fail(why),
            Message::Stop => return false,
        }
        !self.failed
    }

    pub(super) fn ticket(&mut self) -> TicketId {
        let id = TicketId(self.next_ticket);
        self.next_ticket += 1;
        id
    }

    /// Puts the input of a command to the core.
    pub(super) fn submit(
        &mut self,
        now: Millis,
        input: Input,
        (id, pending, traced): (TicketId, Pending, TraceNotes),
    ) {
        self.tickets.insert(id, (pending, traced));
        self.step(now, input);
    }

    pub(super) fn step(&mut self, now: Millis, input: Input) {
        self.shard.step(now, input, &mut self.effects);
        self.carry_out();
    }

    /// Carries out the effects of a step in order: append and apply records, hold replies, wake readers.
    ///
    /// If the log refuses a record, for lack of room or for its size, the rest of its step is dropped: nothing
    /// after it is appended, and callers of the step get no reply. The state is then the one after a
    /// prefix of the step's records, as after a crash between them, and every such state is whole; the host continues.
    /// Inputs with data are not put to the core without room, so this strikes only when the half segment kept for small
    /// records is used up too.
    fn carry_out(&mut self) {
        let mut effects = std::mem::take(&mut self.effects);
        let mut refused = false;
        for effect in effects.drain() {
            match effect {
                _ if self.failed => break,
                Effect::Append(record) if !refused => refused = !self.append(&record),
                Effect::Append(_) => {}
                Effect::Reply(reply) if refused => drop(self.tickets.remove(&reply.ticket())),
                Effect::Reply(reply) => self.reply(reply),
                Effect::Advanced(partition) => self.watchers.advanced(partition),
            }
        }
        self.effects = effects;
        if refused && !self.failed {
            self.refused = true;
            for ticket in self.shard.refused() {
                self.tickets.remove(&ticket);
            }
        }
    }

    /// Appends and applies; false if the log refuses the record.
    fn append(&mut self, record: &LogRecord) -> bool {
        match self.log.append(record) {
            Ok(at) => {
                self.shard.apply(applied(at), record);
                self.housekeeping.applied(record);
                self.rewriter.applied(record);
                self.metrics.appended(record);
                self.settings.applied(&self.shard, record);
                self.watchers.applied(record);
                return true;
            }
            Err(AppendError::Ended(failure)) => self.fail(failure.to_string()),
            Err(error) => {
                tracing::warn!(%error, "a request was not carried out; its connection gets no answer");
            }
        }
        false
    }

    fn reply(&mut self, reply: Reply) {
        let Some((pending, traced)) = self.tickets.remove(&reply.ticket()) else { return };
        reach(&traced, Stage::Judged);
        self.hold(DelayedSend::Reply(pending, reply, traced));
    }

    /// Sends now if the log is durable to its end, else when it is durable to where it ends now.
    fn hold(&mut self, held: DelayedSend) {
        let stamp = self.log.end();
        if stamp <= self.durable {
            held.send();
        } else {
            self.held.push_back((stamp, held));
        }
    }

    fn release(&mut self) {
        while self.held.front().is_some_and(|(stamp, _)| *stamp <= self.durable) {
            if let Some((_, held)) = self.held.pop_front() {
                held.send();
            }
        }
    }

    fn became_durable(&mut self, now: Millis, position: LogPosition) {
        if position <= self.durable {
            return;
        }
        self.durable = position;
        self.step(now, Input::Durable(position));
        self.release();
    }

    /// The log failed: memory may hold records that the disk does not, so no more replies may be sent.
    fn fail(&mut self, why: String) {
        if std::mem::replace(&mut self.failed, true) {
            return;
        }
        self.held.clear();
        self.waiting.clear();
        self.tickets.clear();
        self.failure.send_replace(Some(why));
    }
}
