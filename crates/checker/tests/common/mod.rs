//! A little world of partitions, a group that transforms and readers, which writes its own history: right, or with one
//! planted fault.

use ottla_checker::{Action, Ending, Group, History, Key, Kind, OpId, Outcome, Process, Value};

/// What may go wrong, once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    /// A record is appended twice.
    AppendedTwice,
    /// An acknowledged record is not there.
    AckedLost,
    /// An aborted record is shown.
    AbortedShown,
    /// Of a commit, one record is left out.
    DataTorn,
    /// A commit applies the data only.
    OffsetsLeftOut,
    /// A commit whose answer is lost applies the offsets only.
    DataLeftOut,
    /// A reader is shown another value at an offset.
    OtherValue,
    /// A record that was read disappears.
    GoneAfterRead,
    /// A reader jumps over a record.
    ReaderSkips,
    /// A reader is given a record again.
    ReaderBack,
    /// A last stable offset goes back.
    StableBack,
    /// A transaction that failed for its client is committed.
    ZombieCommits,
    /// A transaction sees its own open writes.
    OwnRead,
}

/// Every fault.
pub(crate) const FAULTS: [Fault; 13] = [
    Fault::AppendedTwice,
    Fault::AckedLost,
    Fault::AbortedShown,
    Fault::DataTorn,
    Fault::OffsetsLeftOut,
    Fault::DataLeftOut,
    Fault::OtherValue,
    Fault::GoneAfterRead,
    Fault::ReaderSkips,
    Fault::ReaderBack,
    Fault::StableBack,
    Fault::ZombieCommits,
    Fault::OwnRead,
];

const INPUTS: usize = 2;
const KEYS: usize = 4;

#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    Open,
    Committed,
    /// Aborted, or a marker.
    Hidden,
}

struct Open {
    op: OpId,
    input: usize,
    next: i64,
    records: Vec<(usize, usize)>,
}

struct Worker {
    process: Process,
    open: Option<Open>,
    again: bool,
}

/// The world.
pub(crate) struct World {
    /// What happened.
    pub(crate) history: History,
    /// Whether the fault has been done.
    pub(crate) planted: bool,
    fault: Option<Fault>,
    keys: Vec<Key>,
    logs: Vec<Vec<(Value, State)>>,
    committed: Vec<i64>,
    group: Group,
    workers: Vec<Worker>,
    readers: Vec<(Process, Vec<usize>)>,
    feeder: Process,
    random: u64,
    time: u64,
    values: u64,
}

impl World {
    /// Lives for some steps and is drained.
    pub(crate) fn live(seed: u64, steps: u64, fault: Option<Fault>) -> World {
        let mut history = History::new();
        let keys = ["in/0", "in/1", "out/0", "out/1"].map(|name| history.key(name)).to_vec();
        let worker =
            |history: &mut History, name| Worker { process: history.process(name), open: None, again: true };
        let workers = vec![worker(&mut history, "w0"), worker(&mut history, "w1")];
        let readers = ["r0", "r1"].map(|name| (history.process(name), vec![0; KEYS])).to_vec();
        let (group, feeder) = (history.group("g"), history.process("feeder"));
        let logs = vec![Vec::new(); KEYS];
        let committed = vec![0; INPUTS];
        let random = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
        let mut world = World {
            history,
            planted: false,
            fault,
            keys,
            logs,
            committed,
            group,
            workers,
            readers,
            feeder,
            random,
            time: 0,
            values: 0,
        };
        for _ in 0..steps {
            world.step();
        }
        world.drain();
        world
    }

    fn step(&mut self) {
        match self.below(8) {
            0 | 1 => self.feed(),
            2..=4 => {
                let worker = self.below(2);
                if self.workers[worker].open.is_some() { self.finish(worker) } else { self.transform(worker) }
            }
            _ => {
                let reader = self.below(2);
                self.read(reader);
            }
        }
    }

    /// The feeder sends one or two records; the answer may be lost, and the records with it.
    fn feed(&mut self) {
        let key = self.below(INPUTS);
        let op = self.begin(self.feeder, Kind::Send);
        let (lost, happens) = (self.below(8) == 0, self.below(2) == 0);
        for _ in 0..=self.below(2) {
            let value = self.value();
            self.history.write(op, self.keys[key], value);
            if lost && !happens {
                continue;
            }
            let state = if !lost && self.now(Fault::AckedLost) { State::Hidden } else { State::Committed };
            let offset = self.append(key, value, state);
            if self.now(Fault::AppendedTwice) {
                self.append(key, value, state);
            }
            if !lost {
                self.history.ack(op, value, offset);
            }
        }
        if !lost {
            self.end(op, Outcome::Ok);
        }
    }

    /// A worker begins a transaction: it reads its input from the committed offset and writes what it makes of it.
    fn transform(&mut self, worker: usize) {
        let (process, input) = (self.workers[worker].process, worker);
        let op = self.begin(process, Kind::Txn);
        if self.workers[worker].again {
            self.history.push(op, Action::Assigned { key: self.keys[input] });
        }
        let mut open = Open { op, input, next: self.committed[input], records: Vec::new() };
        for offset in self.visible(input, open.next as usize, 3) {
            self.history.read(op, self.keys[input], offset as i64, self.logs[input][offset].0);
            open.next = offset as i64 + 1;
            let (output, value) = (INPUTS + self.below(KEYS - INPUTS), self.value());
            self.history.write_from(op, self.keys[output], value, (self.keys[input], offset as i64));
            let landed = self.append(output, value, State::Open);
            self.history.ack(op, value, landed);
            open.records.push((output, landed as usize));
            if self.now(Fault::OwnRead) {
                self.history.read(op, self.keys[output], landed, value);
            }
        }
        self.workers[worker].open = Some(open);
    }

    /// A worker ends its transaction, or tries to.
    fn finish(&mut self, worker: usize) {
        let Some(open) = self.workers[worker].open.take() else { return };
        let some = !open.records.is_empty();
        let (kind, applied) = (self.below(8), self.below(2) == 0);
        let commits = kind > 1;
        if commits && some {
            let (group, key) = (self.group, self.keys[open.input]);
            self.history.push(open.op, Action::Offset { group, key, offset: open.next });
        }
        self.history.ending(open.op, if commits { Ending::Commit } else { Ending::Abort });
        self.workers[worker].again = kind < 3;
        match kind {
            0 | 1 => {
                let zombie = kind == 0 && some && self.now(Fault::ZombieCommits);
                self.settle(&open, zombie);
                self.end(open.op, Outcome::Ok);
            }
            // The answer is lost.
            2 => {
                let half = some && !applied && self.now(Fault::DataLeftOut);
                self.settle(&open, applied);
                if half {
                    self.committed[open.input] = open.next;
                }
            }
            _ => {
                self.settle(&open, true);
                self.end(open.op, Outcome::Ok);
            }
        }
    }

    /// The broker ends a transaction.
    fn settle(&mut self, open: &Open, commit: bool) {
        for (key, offset) in &open.records {
            self.logs[*key][*offset].1 = if commit { State::Committed } else { State::Hidden };
        }
        let Some((key, offset)) = open.records.first().copied() else { return };
        if commit && open.records.len() > 1 && self.now(Fault::DataTorn) {
            self.logs[key][offset].1 = State::Hidden;
        }
        if !commit && self.now(Fault::AbortedShown) {
            self.logs[key][offset].1 = State::Committed;
        }
        if commit && !self.now(Fault::OffsetsLeftOut) {
            self.committed[open.input] = open.next;
        }
        let mut keys: Vec<usize> = open.records.iter().map(|(key, _)| *key).collect();
        keys.dedup();
        for key in keys {
            let marker = self.history.value("marker");
            self.append(key, marker, State::Hidden);
        }
    }

    fn read(&mut self, reader: usize) {
        let key = self.below(KEYS);
        let (process, at) = (self.readers[reader].0, self.readers[reader].1[key]);
        let op = self.begin(process, Kind::Poll);
        let offsets = self.visible(key, at, 4);
        let skips = offsets.len() > 2 && self.now(Fault::ReaderSkips);
        for (index, offset) in offsets.iter().copied().enumerate() {
            if skips && index == 1 {
                continue;
            }
            let value = if self.now(Fault::OtherValue) { self.value() } else { self.logs[key][offset].0 };
            self.history.read(op, self.keys[key], offset as i64, value);
            if self.now(Fault::ReaderBack) {
                self.history.read(op, self.keys[key], offset as i64, value);
            }
            self.readers[reader].1[key] = offset + 1;
            if self.now(Fault::GoneAfterRead) {
                self.logs[key][offset].1 = State::Hidden;
            }
        }
        let (high, stable) = (self.logs[key].len() as i64, self.stable(key) as i64);
        let stable = if at > 0 && self.now(Fault::StableBack) { at as i64 - 1 } else { stable };
        self.history.push(op, Action::Ends { key: self.keys[key], high, stable });
        self.end(op, Outcome::Ok);
    }

    /// Ends what is open and reads everything.
    fn drain(&mut self) {
        for worker in 0..self.workers.len() {
            self.finish(worker);
        }
        for name in ["d0", "d1"] {
            let process = self.history.process(name);
            let op = self.begin(process, Kind::Drain);
            for key in 0..KEYS {
                for offset in self.visible(key, 0, usize::MAX) {
                    self.history.read(op, self.keys[key], offset as i64, self.logs[key][offset].0);
                }
                let (high, stable) = (self.logs[key].len() as i64, self.stable(key) as i64);
                self.history.push(op, Action::Ends { key: self.keys[key], high, stable });
                self.history.push(op, Action::Drained { key: self.keys[key] });
            }
            for input in 0..INPUTS {
                let (group, key) = (self.group, self.keys[input]);
                let offset = Some(self.committed[input]).filter(|offset| *offset > 0);
                self.history.push(op, Action::Committed { group, key, offset });
            }
            self.end(op, Outcome::Ok);
        }
    }

    fn visible(&self, key: usize, from: usize, most: usize) -> Vec<usize> {
        let committed = |offset: &usize| self.logs[key][*offset].1 == State::Committed;
        (from..self.stable(key)).filter(committed).take(most).collect()
    }

    fn stable(&self, key: usize) -> usize {
        let tail = self.logs[key].len().saturating_sub(500);
        let open = self.logs[key][tail..].iter().position(|(_, state)| *state == State::Open);
        open.map_or(self.logs[key].len(), |open| tail + open)
    }

    fn append(&mut self, key: usize, value: Value, state: State) -> i64 {
        self.logs[key].push((value, state));
        self.logs[key].len() as i64 - 1
    }

    fn begin(&mut self, process: Process, kind: Kind) -> OpId {
        self.time += 1;
        self.history.begin(process, kind, self.time)
    }

    fn end(&mut self, op: OpId, outcome: Outcome) {
        self.time += 1;
        self.history.end(op, outcome, self.time);
    }

    fn value(&mut self) -> Value {
        self.values += 1;
        self.history.value(&format!("v{}", self.values))
    }

    /// Whether to do the fault here: once, and by chance.
    fn now(&mut self, fault: Fault) -> bool {
        let now = self.fault == Some(fault) && !self.planted && self.below(4) == 0;
        self.planted |= now;
        now
    }

    fn below(&mut self, bound: usize) -> usize {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        (self.random % bound as u64) as usize
    }
}
