//! A history as the broker's log: the log of each key, the writer and the readers of each value, and the outcome of
//! each operation.

use crate::history::{Action, Ending, History, Key, Kind, Op, OpId, Outcome, Process, Value, Write};
use std::collections::BTreeMap;

/// The outcome of an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Fate {
    /// It certainly has no effect.
    Aborted,
    /// Unknown.
    Unknown,
    /// It certainly has its effect: it was acknowledged, or one of its writes was read.
    Committed,
}

/// A value at its offset, and an operation that observed it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Place {
    pub(crate) key: Key,
    pub(crate) offset: i64,
    pub(crate) value: Value,
    pub(crate) op: OpId,
}

/// Two reads of one consumer in one key that follow each other, with no new assignment between them.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Step {
    pub(crate) key: Key,
    pub(crate) from: (OpId, i64),
    pub(crate) to: (OpId, i64),
}

/// The history, indexed.
pub(crate) struct View<'a> {
    pub(crate) history: &'a History,
    /// Every observed (key, offset, value), once, sorted.
    pub(crate) places: Vec<Place>,
    /// Every read of what is committed, in the order of the history.
    pub(crate) reads: Vec<Place>,
    /// Every read.
    pub(crate) all_reads: Vec<Place>,
    /// Consumers' steps.
    pub(crate) steps: Vec<Step>,
    /// Values that were written twice, with the later operation.
    pub(crate) written_twice: Vec<(Value, OpId)>,
    writers: Vec<Option<(OpId, Write)>>,
    readers: Vec<Option<OpId>>,
    fates: Vec<Fate>,
    drains: Vec<Vec<OpId>>,
    drained: Vec<(Value, OpId)>,
    readable: Vec<Vec<i64>>,
}

impl<'a> View<'a> {
    pub(crate) fn new(history: &'a History) -> View<'a> {
        let mut view = View {
            history,
            places: Vec::new(),
            reads: Vec::new(),
            all_reads: Vec::new(),
            steps: steps(history),
            written_twice: Vec::new(),
            writers: vec![None; history.values()],
            readers: vec![None; history.values()],
            fates: Vec::new(),
            drains: vec![Vec::new(); history.keys()],
            drained: Vec::new(),
            readable: vec![Vec::new(); history.keys()],
        };
        view.collect();
        view.judge_fates();
        view.find_readable();
        view
    }

    /// The writer of a value, and its outcome.
    pub(crate) fn writer(&self, value: Value) -> Option<(OpId, Write)> {
        self.writers[value.0 as usize]
    }

    /// The first operation that read a value as committed.
    pub(crate) fn reader(&self, value: Value) -> Option<OpId> {
        self.readers[value.0 as usize]
    }

    pub(crate) fn fate(&self, op: OpId) -> Fate {
        self.fates[op.0 as usize]
    }

    /// The drains that read all of a key.
    pub(crate) fn drains(&self, key: Key) -> &[OpId] {
        &self.drains[key.0 as usize]
    }

    /// A drain of the key, begun after `since` ended, which lacks the value.
    pub(crate) fn missing_in(&self, key: Key, value: Value, since: OpId) -> Option<OpId> {
        let lacks = |drain: &OpId| self.drained.binary_search(&(value, *drain)).is_err();
        self.drains(key).iter().copied().find(|drain| self.after(*drain, since) && lacks(drain))
    }

    /// Whether an operation began when another was over, or when that one had lost its client.
    pub(crate) fn after(&self, later: OpId, earlier: OpId) -> bool {
        match (self.history.op(later), self.history.op(earlier)) {
            (Some(later), Some(earlier)) => earlier.end.is_none_or(|end| end <= later.begin),
            _ => false,
        }
    }

    /// Whether a value must be permanently in the log.
    pub(crate) fn must_exist(&self, value: Value) -> bool {
        match self.writer(value) {
            Some((op, _)) => match self.fate(op) {
                Fate::Committed => true,
                Fate::Unknown => self.reader(value).is_some(),
                Fate::Aborted => false,
            },
            None => false,
        }
    }

    /// The writes of an operation.
    pub(crate) fn writes(op: &Op) -> impl Iterator<Item = &Write> {
        op.actions.iter().filter_map(|action| match action {
            Action::Write(write) => Some(write),
            _ => None,
        })
    }

    /// The first offset strictly between two of a key at which there is a committed value.
    pub(crate) fn readable_between(&self, key: Key, low: i64, high: i64) -> Option<i64> {
        let offsets = &self.readable[key.0 as usize];
        let next = offsets.partition_point(|offset| *offset <= low);
        offsets.get(next).copied().filter(|offset| *offset < high)
    }

    /// All offsets of a key at which there is a committed value, sorted.
    pub(crate) fn readable(&self, key: Key) -> &[i64] {
        &self.readable[key.0 as usize]
    }

    pub(crate) fn all_keys(&self) -> impl Iterator<Item = Key> + use<> {
        (0..self.history.keys() as u32).map(Key)
    }

    pub(crate) fn all_values(&self) -> impl Iterator<Item = Value> + use<> {
        (0..self.history.values() as u32).map(Value)
    }

    fn collect(&mut self) {
        let history = self.history;
        for (id, op) in history.ops() {
            for action in &op.actions {
                match action {
                    Action::Write(write) => self.add_write(id, *write),
                    Action::Read { key, offset, value } => {
                        self.add_read(Place { key: *key, offset: *offset, value: *value, op: id }, op.kind);
                    }
                    Action::Drained { key } => self.drains[key.0 as usize].push(id),
                    _ => {}
                }
            }
        }
        self.places.extend_from_slice(&self.all_reads);
        self.places.sort_unstable();
        self.places.dedup_by_key(|place| (place.key, place.offset, place.value));
        self.drained.sort_unstable();
    }

    fn add_write(&mut self, op: OpId, write: Write) {
        let writer = &mut self.writers[write.value.0 as usize];
        if writer.is_some() {
            self.written_twice.push((write.value, op));
            return;
        }
        *writer = Some((op, write));
        if let Some(offset) = write.offset {
            self.places.push(Place { key: write.key, offset, value: write.value, op });
        }
    }

    fn add_read(&mut self, place: Place, kind: Kind) {
        self.all_reads.push(place);
        if kind == Kind::Peek {
            return;
        }
        self.reads.push(place);
        self.readers[place.value.0 as usize].get_or_insert(place.op);
        if kind == Kind::Drain {
            self.drained.push((place.value, place.op));
        }
    }

    fn judge_fates(&mut self) {
        let mut fates = Vec::with_capacity(self.history.len());
        for (_, op) in self.history.ops() {
            let was_read =
                op.kind == Kind::Txn && Self::writes(op).any(|write| self.reader(write.value).is_some());
            fates.push(match declared(op) {
                Fate::Unknown if was_read => Fate::Committed,
                fate => fate,
            });
        }
        self.fates = fates;
    }

    fn find_readable(&mut self) {
        for place in &self.reads {
            let aborted = self.writer(place.value).is_some_and(|(op, _)| self.fate(op) == Fate::Aborted);
            if !aborted {
                self.readable[place.key.0 as usize].push(place.offset);
            }
        }
        for (op, write) in self.writers.iter().flatten() {
            if self.fates[op.0 as usize] == Fate::Committed
                && let Some(offset) = write.offset
            {
                self.readable[write.key.0 as usize].push(offset);
            }
        }
        for offsets in &mut self.readable {
            offsets.sort_unstable();
            offsets.dedup();
        }
    }
}

/// The outcome of an operation as its own client reports it.
fn declared(op: &Op) -> Fate {
    match (op.outcome, op.kind, op.ending) {
        (Outcome::Fail, ..) | (Outcome::Ok, Kind::Txn, Some(Ending::Abort)) => Fate::Aborted,
        (Outcome::Ok, ..) => Fate::Committed,
        // No client asked for this transaction to be committed.
        (Outcome::Info, Kind::Txn, None | Some(Ending::Abort)) => Fate::Aborted,
        (Outcome::Info, ..) => Fate::Unknown,
    }
}

fn steps(history: &History) -> Vec<Step> {
    let mut steps = Vec::new();
    let mut last: BTreeMap<(Process, Key), (OpId, i64)> = BTreeMap::new();
    for (id, op) in history.ops() {
        for action in &op.actions {
            match action {
                Action::Assigned { key } => {
                    last.remove(&(op.process, *key));
                }
                Action::Read { key, offset, .. } => {
                    let before = last.insert((op.process, *key), (id, *offset));
                    // A drain begins anew.
                    if let Some(from) = before.filter(|from| op.kind != Kind::Drain || from.0 == id) {
                        steps.push(Step { key: *key, from, to: (id, *offset) });
                    }
                }
                _ => {}
            }
        }
    }
    steps
}
