//! What a step gives to the host: records to append, replies to send, readers to wake.

use ottla_types::record::LogRecord;
use ottla_types::{LogPosition, TopicPartition};
use std::any::Any;
use std::fmt;
use std::marker::PhantomData;

/// Number of a command that awaits its reply, unique while the process runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct TicketId(pub u64);

/// The right to reply to one command, with a value of type `R`.
pub struct Ticket<R> {
    id: TicketId,
    reply: PhantomData<fn() -> R>,
}

impl<R: Send + 'static> Ticket<R> {
    /// The ticket with this number. The host gives each number to one command only.
    pub fn new(id: TicketId) -> Ticket<R> {
        Ticket { id, reply: PhantomData }
    }

    /// The number, which [`Reply::ticket`] repeats.
    pub fn id(self) -> TicketId {
        self.id
    }

    /// The value of the reply to this ticket's command.
    ///
    /// # Errors
    /// The reply belongs to another ticket, and is given back.
    pub fn open(self, reply: Reply) -> Result<R, Reply> {
        let Reply { ticket, value } = reply;
        if ticket != self.id {
            return Err(Reply { ticket, value });
        }
        // `Effects::reply` is the only maker of replies and takes the type from the ticket, so this cannot fail either.
        value.downcast().map(|value| *value).map_err(|value| Reply { ticket, value })
    }
}

impl<R> Clone for Ticket<R> {
    fn clone(&self) -> Ticket<R> {
        *self
    }
}

impl<R> Copy for Ticket<R> {}

impl<R> PartialEq for Ticket<R> {
    fn eq(&self, other: &Ticket<R>) -> bool {
        self.id == other.id
    }
}

impl<R> Eq for Ticket<R> {}

impl<R> fmt::Debug for Ticket<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Ticket({})", self.id.0)
    }
}

/// The reply to a command. [`Ticket::open`] gives its value.
pub struct Reply {
    ticket: TicketId,
    value: Box<dyn Any + Send>,
}

impl Reply {
    /// The ticket of the command.
    pub fn ticket(&self) -> TicketId {
        self.ticket
    }
}

impl fmt::Debug for Reply {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Reply").field("ticket", &self.ticket).finish_non_exhaustive()
    }
}

/// The position that the log gave to a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RecordPosition {
    /// Position of the record.
    pub position: LogPosition,
    /// Position of the batch bytes in a record that appends a batch; the same as `position` in any other.
    pub payload: LogPosition,
}

/// One thing for the host to do, in order.
#[derive(Debug)]
pub enum Effect {
    /// Append this record to the log, then apply it.
    Append(LogRecord),
    /// Send this reply once everything appended so far is durable.
    Reply(Reply),
    /// More of this partition can be read: its high watermark or last stable offset moved.
    Advanced(TopicPartition),
}

/// The effects of one or more steps, in order.
#[derive(Debug, Default)]
pub struct Effects {
    queue: Vec<Effect>,
}

impl Effects {
    /// Appends a record to the log.
    pub fn append(&mut self, record: impl Into<LogRecord>) {
        self.queue.push(Effect::Append(record.into()));
    }

    /// Replies to a command.
    pub fn reply<R: Send + 'static>(&mut self, ticket: Ticket<R>, reply: R) {
        self.queue.push(Effect::Reply(Reply { ticket: ticket.id, value: Box::new(reply) }));
    }

    /// Wakes the readers of a partition.
    pub fn advanced(&mut self, partition: TopicPartition) {
        self.queue.push(Effect::Advanced(partition));
    }

    /// Takes the effects out, oldest first.
    pub fn drain(&mut self) -> std::vec::Drain<'_, Effect> {
        self.queue.drain(..)
    }
}
