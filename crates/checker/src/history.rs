//! What clients did and saw, in the order in which each of them did it.

use crate::names::Names;

/// A partition of a topic.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Key(pub(crate) u32);

/// What a record carries; written once in a history.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Value(pub(crate) u32);

/// One client from its start to its end, which does one operation after another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Process(pub(crate) u32);

/// A consumer group.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Group(pub(crate) u32);

/// The place of an operation in its history.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct OpId(pub(crate) u32);

/// What an operation is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// Writes, or commits offsets, outside of transactions.
    Send,
    /// Reads what is committed.
    Poll,
    /// Reads what is there, committed or not.
    Peek,
    /// A transaction; its reads are of what is committed.
    Txn,
    /// Reads what is committed from the first offset to the last, after everything else.
    Drain,
}

/// How an operation came out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// It surely happened. Of a transaction that was to be aborted: it surely is.
    Ok,
    /// It surely did not happen, nor ever will.
    Fail,
    /// Unknown: the answer or the client was lost.
    Info,
}

/// How a transaction was asked to end. Recorded before the request is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Ending {
    /// With its effects.
    Commit,
    /// Without.
    Abort,
}

/// A record that was sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Write {
    /// Where to.
    pub key: Key,
    /// What.
    pub value: Value,
    /// Where it landed, if the broker said so.
    pub offset: Option<i64>,
    /// The input it was made from.
    pub from: Option<(Key, i64)>,
}

/// A thing done or seen inside an operation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// A record was sent.
    Write(Write),
    /// A record was returned to the client.
    Read {
        /// Where from.
        key: Key,
        /// Its offset.
        offset: i64,
        /// What it carried.
        value: Value,
    },
    /// An offset was committed: the next one to read.
    Offset {
        /// For whom.
        group: Group,
        /// Of what.
        key: Key,
        /// The next offset to read.
        offset: i64,
    },
    /// A group's committed offset was read.
    Committed {
        /// Whose.
        group: Group,
        /// Of what.
        key: Key,
        /// What the broker said; `None` if it knows none.
        offset: Option<i64>,
    },
    /// The ends of a key were seen.
    Ends {
        /// Of what.
        key: Key,
        /// The high watermark.
        high: i64,
        /// The last stable offset.
        stable: i64,
    },
    /// The consumer's place in a key was set anew, by a rebalance or a seek: what it reads next need not follow what it
    /// read before.
    Assigned {
        /// In what.
        key: Key,
    },
    /// A drain came to the end of this key; its reads are all there is.
    Drained {
        /// Which.
        key: Key,
    },
    /// An answer that a client which did nothing wrong must never get.
    Impossible {
        /// What it was.
        text: String,
    },
}

/// An operation of a process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Op {
    /// Who did it.
    pub process: Process,
    /// What it is.
    pub kind: Kind,
    /// When it began, in any unit that all processes share.
    pub begin: u64,
    /// When it ended; `None` if its client never came to that.
    pub end: Option<u64>,
    /// How it came out; `Info` until it ends.
    pub outcome: Outcome,
    /// Of a transaction: how it was asked to end, if it was.
    pub ending: Option<Ending>,
    /// What was done and seen, in order.
    pub actions: Vec<Action>,
}

/// What clients did and saw. Operations of one process are in the order in which it did them.
#[derive(Clone, Debug, Default)]
pub struct History {
    ops: Vec<Op>,
    keys: Names,
    values: Names,
    processes: Names,
    groups: Names,
}

impl History {
    /// An empty history.
    pub fn new() -> History {
        History::default()
    }

    /// The key of that name, such as `topic/0`.
    pub fn key(&mut self, name: &str) -> Key {
        Key(self.keys.number(name))
    }

    /// The value of that name.
    pub fn value(&mut self, name: &str) -> Value {
        Value(self.values.number(name))
    }

    /// The process of that name.
    pub fn process(&mut self, name: &str) -> Process {
        Process(self.processes.number(name))
    }

    /// The group of that name.
    pub fn group(&mut self, name: &str) -> Group {
        Group(self.groups.number(name))
    }

    /// A process begins an operation.
    pub fn begin(&mut self, process: Process, kind: Kind, at: u64) -> OpId {
        let id = OpId(self.ops.len() as u32);
        let actions = Vec::new();
        self.ops.push(Op {
            process,
            kind,
            begin: at,
            end: None,
            outcome: Outcome::Info,
            ending: None,
            actions,
        });
        id
    }

    /// Something is done or seen in an operation.
    pub fn push(&mut self, op: OpId, action: Action) {
        if let Some(op) = self.ops.get_mut(op.0 as usize) {
            op.actions.push(action);
        }
    }

    /// A record is about to be sent.
    pub fn write(&mut self, op: OpId, key: Key, value: Value) {
        self.push(op, Action::Write(Write { key, value, offset: None, from: None }));
    }

    /// A record made from an input is about to be sent.
    pub fn write_from(&mut self, op: OpId, key: Key, value: Value, from: (Key, i64)) {
        self.push(op, Action::Write(Write { key, value, offset: None, from: Some(from) }));
    }

    /// The broker said where a record of this operation landed.
    pub fn ack(&mut self, op: OpId, value: Value, landed: i64) {
        let Some(op) = self.ops.get_mut(op.0 as usize) else { return };
        for action in op.actions.iter_mut().rev() {
            if let Action::Write(write) = action
                && write.value == value
            {
                write.offset = Some(landed);
                return;
            }
        }
    }

    /// A record was returned.
    pub fn read(&mut self, op: OpId, key: Key, offset: i64, value: Value) {
        self.push(op, Action::Read { key, offset, value });
    }

    /// A transaction is about to be asked to end.
    pub fn ending(&mut self, op: OpId, ending: Ending) {
        if let Some(op) = self.ops.get_mut(op.0 as usize) {
            op.ending = Some(ending);
        }
    }

    /// An operation ends.
    pub fn end(&mut self, op: OpId, outcome: Outcome, at: u64) {
        if let Some(op) = self.ops.get_mut(op.0 as usize) {
            op.outcome = outcome;
            op.end = Some(at);
        }
    }

    /// All operations, in the order in which they were begun here.
    pub fn ops(&self) -> impl Iterator<Item = (OpId, &Op)> {
        self.ops.iter().enumerate().map(|(index, op)| (OpId(index as u32), op))
    }

    /// One operation.
    pub fn op(&self, id: OpId) -> Option<&Op> {
        self.ops.get(id.0 as usize)
    }

    /// How many operations there are.
    pub fn len(&self) -> usize {
        self.ops.len()
    }

    /// Whether nothing was done.
    pub fn is_empty(&self) -> bool {
        self.ops.is_empty()
    }

    /// What a key is called.
    pub fn key_name(&self, key: Key) -> &str {
        self.keys.name(key.0)
    }

    /// What a value is called.
    pub fn value_name(&self, value: Value) -> &str {
        self.values.name(value.0)
    }

    /// What a process is called.
    pub fn process_name(&self, process: Process) -> &str {
        self.processes.name(process.0)
    }

    /// What a group is called.
    pub fn group_name(&self, group: Group) -> &str {
        self.groups.name(group.0)
    }

    pub(crate) fn keys(&self) -> usize {
        self.keys.len()
    }

    pub(crate) fn values(&self) -> usize {
        self.values.len()
    }
}
