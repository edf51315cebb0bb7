//! Histories as JSON lines, so that a worker in any language can write one while it works.
//!
//! A line is one event of one process; `op` is any number that is new in its process. Times (`at`) are of one clock
//! that all processes share, such as microseconds since 1970 on one machine. A worker writes a line and flushes it
//! before it does what the line says: if it is killed then, the history still has it.
//!
//! ```text
//! {"event":"begin","process":"w1","op":7,"kind":"txn","at":1000}            kind: send, poll, peek, txn, drain
//! {"event":"read","process":"w1","op":7,"key":"in/0","offset":4,"value":"v4"}
//! {"event":"write","process":"w1","op":7,"key":"out/0","value":"w1-7","from":{"key":"in/0","offset":4}}
//! {"event":"ack","process":"w1","op":7,"value":"w1-7","offset":12}
//! {"event":"offset","process":"w1","op":7,"group":"g","key":"in/0","offset":5}
//! {"event":"ending","process":"w1","op":7,"ending":"commit"}     ending: commit, abort; before the request
//! {"event":"end","process":"w1","op":7,"outcome":"ok","at":1400}            outcome: ok, fail, info
//! ```
//!
//! `from` of a write is optional. Inside an operation there are also: `{"event":"committed",.. "group","key","offset"}`
//! (a committed offset was read; `null` if there is none), `{"event":"ends",.. "key","high","stable"}` (watermarks were
//! seen), `{"event":"assigned",.. "key"}` (a rebalance or a seek), `{"event":"drained",.. "key"}` (a drain came to the
//! end), `{"event":"impossible",.. "text"}` (an answer that must not be).
//!
//! Processes may be in files of their own or mixed in one; only the order within a process counts. An operation without
//! an end stays unknown. A last line that was cut off by a kill is left out.

use crate::history::{Action, Ending, History, Key, Kind, Op, OpId, Outcome, Write};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Why lines are not a history.
#[derive(Debug, thiserror::Error)]
pub enum LineError {
    /// A line is no event.
    #[error("line {line}: {error}")]
    Shape {
        /// Counted from 1.
        line: usize,
        /// What the parser says.
        error: serde_json::Error,
    },
    /// An event of an operation that never began.
    #[error("line {line}: process {process} has not begun operation {op}")]
    NotBegun {
        /// Counted from 1.
        line: usize,
        /// The process of the line.
        process: String,
        /// The operation's number.
        op: u64,
    },
    /// An operation that began twice.
    #[error(
        "line {line}: process {process} began operation {op} before; a client that starts again takes a new name"
    )]
    BegunTwice {
        /// Counted from 1.
        line: usize,
        /// Whose line it is.
        process: String,
        /// The operation's number.
        op: u64,
    },
}

/// One line.
#[derive(Debug, Serialize, Deserialize)]
struct Line {
    process: String,
    op: u64,
    #[serde(flatten)]
    event: Event,
}

#[derive(Debug, Serialize, Deserialize)]
struct Source {
    key: String,
    offset: i64,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(tag = "event", rename_all = "snake_case")]
enum Event {
    Begin {
        kind: Kind,
        at: u64,
    },
    Write {
        key: String,
        value: String,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        from: Option<Source>,
    },
    Ack {
        value: String,
        offset: i64,
    },
    Read {
        key: String,
        offset: i64,
        value: String,
    },
    Offset {
        group: String,
        key: String,
        offset: i64,
    },
    Committed {
        group: String,
        key: String,
        offset: Option<i64>,
    },
    Ends {
        key: String,
        high: i64,
        stable: i64,
    },
    Assigned {
        key: String,
    },
    Drained {
        key: String,
    },
    Impossible {
        text: String,
    },
    Ending {
        ending: Ending,
    },
    End {
        outcome: Outcome,
        at: u64,
    },
}

/// Reads histories out of one or more texts; [`Reader::finish`] gives the whole.
#[derive(Debug, Default)]
pub struct Reader {
    history: History,
    begun: BTreeMap<(u32, u64), OpId>,
}

impl Reader {
    /// A reader that has read nothing.
    pub fn new() -> Reader {
        Reader::default()
    }

    /// Adds the events of a text.
    ///
    /// # Errors
    /// A line that is no event, or an event that does not fit what its process did before. A last line without its line
    /// end is left out if it is no event.
    pub fn add(&mut self, text: &str) -> Result<(), LineError> {
        for (index, line) in text.split_inclusive('\n').enumerate() {
            if line.trim().is_empty() {
                continue;
            }
            match serde_json::from_str::<Line>(line) {
                Ok(parsed) => self.event(index + 1, parsed)?,
                Err(_) if !line.ends_with('\n') => return Ok(()),
                Err(error) => return Err(LineError::Shape { line: index + 1, error }),
            }
        }
        Ok(())
    }

    /// The history.
    pub fn finish(self) -> History {
        self.history
    }

    fn event(&mut self, number: usize, line: Line) -> Result<(), LineError> {
        let process = self.history.process(&line.process);
        let begun = self.begun.get(&(process.0, line.op)).copied();
        if let Event::Begin { kind, at } = line.event {
            if begun.is_some() {
                return Err(LineError::BegunTwice { line: number, process: line.process, op: line.op });
            }
            let id = self.history.begin(process, kind, at);
            self.begun.insert((process.0, line.op), id);
            return Ok(());
        }
        let Some(id) = begun else {
            return Err(LineError::NotBegun { line: number, process: line.process, op: line.op });
        };
        self.inside(id, line.event);
        Ok(())
    }

    fn inside(&mut self, op: OpId, event: Event) {
        let history = &mut self.history;
        let action = match event {
            Event::Begin { .. } => return,
            Event::Ack { value, offset } => {
                let value = history.value(&value);
                return history.ack(op, value, offset);
            }
            Event::Ending { ending } => return history.ending(op, ending),
            Event::End { outcome, at } => return history.end(op, outcome, at),
            Event::Write { key, value, from } => {
                let from = from.map(|source| (history.key(&source.key), source.offset));
                Action::Write(Write {
                    key: history.key(&key),
                    value: history.value(&value),
                    offset: None,
                    from,
                })
            }
            Event::Read { key, offset, value } => {
                Action::Read { key: history.key(&key), offset, value: history.value(&value) }
            }
            Event::Offset { group, key, offset } => {
                Action::Offset { group: history.group(&group), key: history.key(&key), offset }
            }
            Event::Committed { group, key, offset } => {
                Action::Committed { group: history.group(&group), key: history.key(&key), offset }
            }
            Event::Ends { key, high, stable } => Action::Ends { key: history.key(&key), high, stable },
            Event::Assigned { key } => Action::Assigned { key: history.key(&key) },
            Event::Drained { key } => Action::Drained { key: history.key(&key) },
            Event::Impossible { text } => Action::Impossible { text },
        };
        history.push(op, action);
    }
}

/// Writes a history as lines, one operation after another. Reading them gives the same history.
pub fn write(history: &History) -> String {
    let mut text = String::new();
    for (id, op) in history.ops() {
        let mut line = |event| {
            let process = history.process_name(op.process).to_owned();
            let line = Line { process, op: u64::from(id.0), event };
            // A line has names for its keys and no value that JSON lacks.
            text.push_str(&serde_json::to_string(&line).unwrap_or_default());
            text.push('\n');
        };
        line(Event::Begin { kind: op.kind, at: op.begin });
        for action in &op.actions {
            let (event, ack) = event_of(history, action);
            line(event);
            if let Some(ack) = ack {
                line(ack);
            }
        }
        for event in last_events(op) {
            line(event);
        }
    }
    text
}

fn last_events(op: &Op) -> impl Iterator<Item = Event> {
    let ending = op.ending.map(|ending| Event::Ending { ending });
    let end = op.end.map(|at| Event::End { outcome: op.outcome, at });
    ending.into_iter().chain(end)
}

fn event_of(history: &History, action: &Action) -> (Event, Option<Event>) {
    let name = |key: &Key| history.key_name(*key).to_owned();
    let event = match action {
        Action::Write(write) => {
            let value = history.value_name(write.value).to_owned();
            let from = write.from.map(|(key, offset)| Source { key: name(&key), offset });
            let ack = write.offset.map(|offset| Event::Ack { value: value.clone(), offset });
            return (Event::Write { key: name(&write.key), value, from }, ack);
        }
        Action::Read { key, offset, value } => {
            Event::Read { key: name(key), offset: *offset, value: history.value_name(*value).to_owned() }
        }
        Action::Offset { group, key, offset } => {
            Event::Offset { group: history.group_name(*group).to_owned(), key: name(key), offset: *offset }
        }
        Action::Committed { group, key, offset } => {
            Event::Committed { group: history.group_name(*group).to_owned(), key: name(key), offset: *offset }
        }
        Action::Ends { key, high, stable } => Event::Ends { key: name(key), high: *high, stable: *stable },
        Action::Assigned { key } => Event::Assigned { key: name(key) },
        Action::Drained { key } => Event::Drained { key: name(key) },
        Action::Impossible { text } => Event::Impossible { text: text.clone() },
    };
    (event, None)
}
