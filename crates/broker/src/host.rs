//! The thread that owns a shard, for a shard whose log is memory: what is appended counts as durable at once.

use ottla_core::config::Settings;
use ottla_core::{Answer, Applied, Effect, Effects, Input, Shard, Ticket};
use ottla_types::{LogPosition, Millis};
use std::collections::BTreeMap;
use std::io;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use thiserror::Error;
use tokio::sync::oneshot;

/// The shard is gone: its log failed, or the broker stops.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("the shard is gone")]
pub struct HostGone;

type Question = Box<dyn FnOnce(Ticket) -> Input + Send>;
type Look = Box<dyn FnOnce(&Shard, Millis) + Send>;

enum Command {
    Ask(Question, oneshot::Sender<Answer>),
    Look(Look),
}

/// A handle to the thread; the thread ends with the last of them.
#[derive(Clone, Debug)]
pub struct Host {
    commands: Sender<Command>,
}

impl Host {
    /// Starts a shard without a past.
    ///
    /// # Errors
    /// The thread cannot be started.
    pub fn in_memory(settings: Settings) -> io::Result<Host> {
        let (commands, inbox) = mpsc::channel();
        let desk = Desk { shard: Shard::new(settings), waiting: BTreeMap::new(), tickets: 0, end: 0 };
        std::thread::Builder::new().name("shard".to_owned()).spawn(move || desk.run(&inbox))?;
        Ok(Host { commands })
    }

    /// Puts an input to the shard. The command is sent when this is first polled; the answer comes when it is durable.
    ///
    /// # Errors
    /// The shard is gone.
    pub async fn ask(&self, make: impl FnOnce(Ticket) -> Input + Send + 'static) -> Result<Answer, HostGone> {
        let (reply, answer) = oneshot::channel();
        self.commands.send(Command::Ask(Box::new(make), reply)).map_err(|_| HostGone)?;
        answer.await.map_err(|_| HostGone)
    }

    /// Reads the shard's state. The command is sent when this is first polled; what was read comes when all before it is durable.
    ///
    /// # Errors
    /// The shard is gone.
    pub async fn read<R: Send + 'static>(
        &self,
        look: impl FnOnce(&Shard, Millis) -> R + Send + 'static,
    ) -> Result<R, HostGone> {
        let (reply, seen) = oneshot::channel();
        let look: Look = Box::new(move |shard, now| {
            let _ = reply.send(look(shard, now));
        });
        self.commands.send(Command::Look(look)).map_err(|_| HostGone)?;
        seen.await.map_err(|_| HostGone)
    }
}

/// What the thread has on its desk.
struct Desk {
    shard: Shard,
    waiting: BTreeMap<Ticket, oneshot::Sender<Answer>>,
    tickets: u64,
    end: u64,
}

impl Desk {
    fn run(mut self, inbox: &Receiver<Command>) {
        loop {
            let wait = self.shard.deadline().map_or(Duration::from_secs(60), |at| {
                Duration::from_millis(u64::try_from(at.since(now()).0).unwrap_or(0))
            });
            match inbox.recv_timeout(wait) {
                Ok(Command::Ask(make, reply)) => {
                    self.tickets += 1;
                    let ticket = Ticket(self.tickets);
                    self.waiting.insert(ticket, reply);
                    self.step(make(ticket));
                }
                Ok(Command::Look(look)) => look(&self.shard, now()),
                Err(RecvTimeoutError::Timeout) => self.step(Input::Tick),
                Err(RecvTimeoutError::Disconnected) => return,
            }
        }
    }

    fn step(&mut self, input: Input) {
        let mut effects = Effects::default();
        self.shard.step(now(), input, &mut effects);
        self.carry_out(&mut effects);
        self.shard.step(now(), Input::Durable(LogPosition(self.end)), &mut effects);
        self.carry_out(&mut effects);
    }

    fn carry_out(&mut self, effects: &mut Effects) {
        for effect in effects.drain() {
            match effect {
                Effect::Append(record) => {
                    let position = LogPosition(self.end);
                    self.end += 1;
                    self.shard.apply(Applied { position, payload: position }, &record);
                }
                Effect::Reply { ticket, answer } => {
                    if let Some(reply) = self.waiting.remove(&ticket) {
                        let _ = reply.send(answer);
                    }
                }
                Effect::Advanced(_) => {}
            }
        }
    }
}

fn now() -> Millis {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Millis(i64::try_from(since.as_millis()).unwrap_or(i64::MAX))
}
