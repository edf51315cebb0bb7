//! Commands on their way to the state machine, and the callers that await their replies.

use super::{NoRoom, ProduceOutcome, TraceNotes, reach};
use crate::trace::Stage;
use ottla_core::partitions::{Produce, ProduceReply};
use ottla_core::{Command, Input, Reply, Ticket, TicketId};
use ottla_types::Millis;
use tokio::sync::oneshot;

/// A command of any type with the caller that awaits its reply.
pub(super) trait Submission: Send {
    /// The input for the state machine, and the caller apart from it.
    fn begin(self: Box<Self>, id: TicketId) -> (Input, Box<dyn Caller>);
}

/// A caller that awaits the reply to its command.
pub(super) trait Caller: Send {
    /// Sends the reply; a caller that is gone gets none.
    fn send(self: Box<Self>, reply: Reply);
}

/// A command of one type with its caller.
pub(super) struct Submitted<C: Command> {
    pub(super) command: C,
    pub(super) caller: oneshot::Sender<C::Reply>,
}

impl<C: Command> Submission for Submitted<C> {
    fn begin(self: Box<Self>, id: TicketId) -> (Input, Box<dyn Caller>) {
        let ticket = Ticket::new(id);
        let Submitted { command, caller } = *self;
        (command.into_input(ticket), Box::new(CommandCaller { ticket, caller }))
    }
}

struct CommandCaller<R> {
    ticket: Ticket<R>,
    caller: oneshot::Sender<R>,
}

impl<R: Send + 'static> Caller for CommandCaller<R> {
    fn send(self: Box<Self>, reply: Reply) {
        if let Ok(reply) = self.ticket.open(reply) {
            // A caller that is gone needs no reply.
            let _ = self.caller.send(reply);
        }
    }
}

/// Where the outcome of a Produce goes.
pub(super) type ProduceCaller = oneshot::Sender<Result<ProduceOutcome, NoRoom>>;

/// A Produce with the caller that awaits its outcome.
pub(super) struct ProduceSubmission {
    pub(super) produce: Produce,
    pub(super) caller: ProduceCaller,
    pub(super) traced: TraceNotes,
}

/// The caller of a command that was put to the core.
pub(super) enum Pending {
    /// Of a command without data.
    Command(Box<dyn Caller>),
    /// Of a Produce, and how long its connection is muted.
    Produce(Ticket<ProduceReply>, ProduceCaller, Millis),
}

impl Pending {
    /// Sends the reply, which has become durable.
    pub(super) fn send(self, reply: Reply, traced: &TraceNotes) {
        reach(traced, Stage::Durable);
        match self {
            Pending::Command(caller) => caller.send(reply),
            Pending::Produce(ticket, caller, mute) => {
                if let Ok(results) = ticket.open(reply) {
                    // A caller that is gone needs no reply.
                    let _ = caller.send(Ok(ProduceOutcome { results, mute }));
                }
            }
        }
    }
}
