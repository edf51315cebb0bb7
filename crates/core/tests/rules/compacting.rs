//! Compaction against a plain model: a fold of the committed records gives the same table before and after any pass,
//! and what must stay, stays (T-212).

use ottla_core::compaction::{BatchFacts, Control, Keys, Outcome, Pass, RecordFacts, RemainingBatch};
use ottla_types::record::{AbortedTransaction, ProducerBatch, ProducerState};
use ottla_types::{Millis, Offset, ProducerEpoch, ProducerId};
use proptest::prelude::*;
use std::collections::{BTreeMap, BTreeSet};

const RETENTION: i64 = 100;
const KEYS: u8 = 6;

#[derive(Clone, Debug, PartialEq)]
struct Rec {
    offset: i64,
    key: Option<u8>,
    value: Option<i64>,
}

#[derive(Clone, Debug, PartialEq)]
struct Bat {
    facts: BatchFactsEq,
    records: Vec<Rec>,
}

/// [`BatchFacts`] that can be compared.
#[derive(Clone, Copy, Debug, PartialEq)]
struct BatchFactsEq {
    base: i64,
    last: i64,
    producer: i64,
    epoch: i16,
    transactional: bool,
    control: Option<Control>,
    horizon: Option<i64>,
}

impl BatchFactsEq {
    fn facts(self) -> BatchFacts {
        BatchFacts {
            base_offset: Offset(self.base),
            last_offset: Offset(self.last),
            producer_id: ProducerId(self.producer),
            producer_epoch: ProducerEpoch(self.epoch),
            transactional: self.transactional,
            control: self.control,
            horizon: self.horizon.map(Millis),
        }
    }
}

/// A partition, its producers and transactions, and what its passes have seen.
#[derive(Clone, Debug, Default)]
struct Log {
    now: i64,
    next: i64,
    batches: Vec<Bat>,
    aborted: Vec<AbortedTransaction>,
    /// All that were ever aborted.
    all_aborted: Vec<AbortedTransaction>,
    /// By producer: first offset of its open transaction.
    open: BTreeMap<i64, i64>,
    /// By producer: its epoch, and the last offset of its last data batch.
    producers: BTreeMap<i64, (i16, Option<i64>)>,
    clean_to: i64,
    /// By offset: when a pass first saw this tombstone, or this marker without its transaction.
    seen: BTreeMap<i64, i64>,
    /// By marker: where its transaction begins.
    began: BTreeMap<i64, i64>,
}

/// One thing that happens to a partition.
#[derive(Clone, Debug)]
enum Deed {
    /// A producer, below zero for none; whether in a transaction; key and whether there is a value.
    Append(i64, bool, Vec<(Option<u8>, bool)>),
    End(i64, bool),
    Forget(i64),
    Wait(i64),
    /// How many of the batches that may be compacted, in percent.
    Compact(usize),
}

fn deed() -> impl Strategy<Value = Deed> {
    let record = (prop::option::weighted(0.95, 0..KEYS), prop::bool::weighted(0.7));
    let records = prop::collection::vec(record, 1..4);
    prop_oneof![
        6 => (-1..3i64, any::<bool>(), records).prop_map(|(who, part, records)| Deed::Append(who, part, records)),
        3 => (0..3i64, any::<bool>()).prop_map(|(who, commit)| Deed::End(who, commit)),
        1 => (0..3i64).prop_map(Deed::Forget),
        1 => (1..RETENTION).prop_map(Deed::Wait),
        2 => (0..=100usize).prop_map(Deed::Compact),
    ]
}

impl Log {
    fn push(&mut self, producer: i64, transactional: bool, control: Option<Control>, records: Vec<Rec>) {
        let (base, last) = (self.next, self.next + records.len() as i64 - 1);
        let epoch = self.producers.get(&producer).map_or(-1, |known| known.0);
        let facts = BatchFactsEq { base, last, producer, epoch, transactional, control, horizon: None };
        self.batches.push(Bat { facts, records });
        self.next = last + 1;
    }

    fn append(&mut self, producer: i64, transactional: bool, records: &[(Option<u8>, bool)]) {
        let transactional = producer >= 0 && (transactional || self.open.contains_key(&producer));
        if transactional {
            self.open.entry(producer).or_insert(self.next);
        }
        let record = |(offset, (key, full)): (i64, &(Option<u8>, bool))| {
            let value = full.then_some(offset);
            Rec { offset, key: *key, value }
        };
        let records: Vec<Rec> = (self.next..).zip(records).map(record).collect();
        if producer >= 0 {
            let known = self.producers.entry(producer).or_insert((0, None));
            known.1 = Some(self.next + records.len() as i64 - 1);
        }
        self.push(producer, transactional, None, records);
    }

    /// Every end raises the epoch, as `transaction.version` 2 does.
    fn end(&mut self, producer: i64, commit: bool) {
        let Some(first) = self.open.remove(&producer) else { return };
        let known = self.producers.entry(producer).or_insert((0, None));
        *known = (known.0 + 1, None);
        let marker = Rec { offset: self.next, key: None, value: None };
        self.began.insert(self.next, first);
        if !commit {
            let (producer_id, first_offset) = (ProducerId(producer), Offset(first));
            let marker_offset = Offset(self.next);
            self.aborted.push(AbortedTransaction { producer_id, first_offset, marker_offset });
            self.all_aborted.push(AbortedTransaction { producer_id, first_offset, marker_offset });
        }
        self.push(producer, true, Some(Control::End), vec![marker]);
    }

    fn stable(&self) -> i64 {
        self.open.values().min().copied().unwrap_or(self.next)
    }

    fn is_aborted(aborted: &[AbortedTransaction], batch: &BatchFactsEq) -> bool {
        let within = |one: &AbortedTransaction| {
            one.producer_id.0 == batch.producer
                && one.first_offset.0 <= batch.base
                && batch.last < one.marker_offset.0
        };
        batch.transactional && aborted.iter().any(within)
    }

    /// What a reader of committed data sees below the last stable offset, from an offset on.
    fn committed(&self, from: i64) -> Vec<Rec> {
        let decided = self.batches.iter().filter(|batch| batch.facts.last < self.stable());
        let seen = decided
            .filter(|batch| batch.facts.control.is_none() && !Log::is_aborted(&self.aborted, &batch.facts));
        seen.flat_map(|batch| batch.records.clone()).filter(|record| record.offset >= from).collect()
    }

    fn known(&self) -> Vec<ProducerState> {
        let batch = |last: i64| ProducerBatch {
            first_sequence: 0,
            last_sequence: 0,
            first_offset: Offset(last),
            last_offset: Offset(last),
            timestamp: Millis(0),
        };
        let state = |(id, (epoch, last)): (&i64, &(i16, Option<i64>))| ProducerState {
            producer_id: ProducerId(*id),
            epoch: ProducerEpoch(*epoch),
            coordinator_epoch: 0,
            last_append: Millis(0),
            last_timestamp: Millis(0),
            transaction_start: None,
            batches: last.map(batch).into_iter().collect(),
        };
        self.producers.iter().map(state).collect()
    }

    /// One pass over the batches up to and with the one that ends at `to`.
    fn compact(&mut self, to: i64) {
        let mut keys = Keys::within(0);
        let mut pass = Pass::new(Millis(self.now), Millis(RETENTION), Offset(self.next - 1), &mut keys)
            .with_aborted(self.aborted.clone())
            .with_producers(&self.known());
        let facts = |offset, record: &Rec| RecordFacts {
            offset: Offset(offset),
            key: record.key.map(u128::from),
            tombstone: record.value.is_none(),
        };
        let dirty = |batch: &&Bat| batch.facts.base >= self.clean_to && batch.facts.last <= to;
        for batch in self.batches.iter().filter(dirty) {
            if pass.counts(&batch.facts.facts()) {
                for record in &batch.records {
                    assert!(pass.note(&facts(record.offset, record)));
                }
            }
        }
        let mut left = Vec::new();
        for batch in &self.batches {
            if batch.facts.last > to {
                left.push(batch.clone());
                continue;
            }
            let of = batch.facts.facts();
            pass.begin(&of);
            let stays = |record: &&Rec| pass.stays(&of, &facts(record.offset, record));
            let records: Vec<Rec> = batch.records.iter().filter(stays).cloned().collect();
            let tombstones = records.iter().filter(|record| record.value.is_none()).count();
            let whole = records.len() == batch.records.len();
            let mut after = Bat { facts: batch.facts, records };
            match pass.end(&of, RemainingBatch { records: after.records.len(), tombstones, whole }) {
                Outcome::Dropped => continue,
                Outcome::Emptied => after = Bat { records: Vec::new(), ..after },
                Outcome::Kept { anew, horizon, until } => {
                    after.facts.horizon = horizon.map(|horizon| horizon.0).or(after.facts.horizon);
                    assert_eq!(anew, after != *batch);
                    assert!(until == Millis::NONE || Some(until.0) == after.facts.horizon);
                    assert!(until == Millis::NONE || until.0 > self.now);
                }
            }
            left.push(after);
        }
        self.batches = left;
        self.aborted.retain(|one| one.marker_offset.0 > to);
        self.clean_to = self.clean_to.max(to + 1);
    }
}

fn table(records: &[Rec]) -> BTreeMap<Option<u8>, i64> {
    let mut table = BTreeMap::new();
    for record in records.iter().filter(|record| record.key.is_some()) {
        match record.value {
            Some(value) => table.insert(record.key, value),
            None => table.remove(&record.key),
        };
    }
    table
}

/// The last committed record of each key.
fn last(records: &[Rec]) -> BTreeMap<u8, Rec> {
    records.iter().filter_map(|record| Some((record.key?, record.clone()))).collect()
}

fn check(before: &Log, after: &mut Log, to: i64) {
    let (was, is) = (before.committed(0), after.committed(0));
    assert_eq!(table(&was), table(&is), "the table changed");
    assert!(is.iter().all(|record| was.contains(record)), "a record came from nowhere");
    assert_eq!(before.committed(to + 1), after.committed(to + 1), "the pass went too far");
    // Of what the pass has seen, one record of each key, and nothing that was aborted.
    let seen: Vec<&Bat> = after.batches.iter().filter(|batch| batch.facts.last <= to).collect();
    let data = seen.iter().filter(|batch| batch.facts.control.is_none());
    let keys: Vec<Option<u8>> = data.flat_map(|batch| &batch.records).map(|record| record.key).collect();
    let distinct: BTreeSet<_> = keys.iter().collect();
    assert!(distinct.len() == keys.len() && !keys.contains(&None), "{keys:?}");
    assert!(
        !after.batches.iter().any(|batch| batch.facts.last <= to
            && !batch.records.is_empty()
            && Log::is_aborted(&after.all_aborted, &batch.facts)),
        "aborted data stayed"
    );
    assert_eq!(after.batches.last().map(|batch| batch.facts.last), Some(after.next - 1), "the end is gone");
    tombstones(&was, after, to);
    markers(before, after, to);
    producers(before, after);
}

/// The last tombstone of a key stays until its time, and no longer.
fn tombstones(was: &[Rec], after: &mut Log, to: i64) {
    let is = after.committed(0);
    for record in last(was).into_values().filter(|record| record.value.is_none() && record.offset <= to) {
        let due = *after.seen.entry(record.offset).or_insert(after.now) + RETENTION;
        assert_eq!(is.contains(&record), after.now < due, "tombstone {} at {}", record.offset, after.now);
    }
}

/// A marker stays while a batch of its transaction does, and then until its time.
fn markers(before: &Log, after: &mut Log, to: i64) {
    let last_of = |batch: &Bat| {
        let known = after.producers.get(&batch.facts.producer);
        known.is_some_and(|known| known.1.is_none() && known.0 == batch.facts.epoch)
    };
    for marker in before.batches.iter().filter(|batch| batch.facts.control.is_some()) {
        let at = marker.facts.last;
        if at > to || marker.records.is_empty() {
            continue;
        }
        let stays = after.batches.iter().find(|batch| batch.facts.last == at);
        let is_of = |batch: &&Bat| {
            let facts = &batch.facts;
            facts.control.is_none()
                && facts.transactional
                && facts.producer == marker.facts.producer
                && (after.began[&at]..at).contains(&facts.base)
        };
        if after.batches.iter().any(|batch| is_of(&batch)) {
            assert!(stays.is_some_and(|batch| !batch.records.is_empty()), "marker {at} went before its data");
            continue;
        }
        let due = *after.seen.entry(at).or_insert(after.now) + RETENTION;
        let full = stays.is_some_and(|batch| !batch.records.is_empty());
        assert_eq!(full, after.now < due, "marker {at} at {}", after.now);
        assert!(stays.is_some() || !(last_of(marker) || at == after.next - 1), "the epoch is gone");
    }
}

/// The last data batch of every producer is there.
fn producers(before: &Log, after: &Log) {
    for last in after.producers.values().filter_map(|known| known.1) {
        let has = |log: &Log| {
            log.batches.iter().any(|batch| batch.facts.last == last && batch.facts.control.is_none())
        };
        assert!(has(after) || !has(before), "the last sequence number at {last} is gone");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(400) })]

    #[test]
    fn t_212_compaction_keeps_the_table_and_what_must_stay(deeds in prop::collection::vec(deed(), 1..60)) {
        let mut log = Log::default();
        for deed in deeds {
            match deed {
                Deed::Append(producer, transactional, records) => log.append(producer, transactional, &records),
                Deed::End(producer, commit) => log.end(producer, commit),
                Deed::Forget(producer) if log.open.contains_key(&producer) => {}
                Deed::Forget(producer) => { log.producers.remove(&producer); }
                Deed::Wait(span) => log.now += span,
                Deed::Compact(share) => {
                    let decided = log.batches.iter().filter(|batch| batch.facts.last < log.stable()).count();
                    let seen = log.batches.iter().filter(|batch| batch.facts.last < log.clean_to).count();
                    let Some(count) = (decided * share / 100).max(seen).checked_sub(1) else { continue };
                    let to = log.batches[count].facts.last;
                    let before = log.clone();
                    log.compact(to);
                    check(&before, &mut log, to);
                }
            }
        }
    }
}

#[test]
fn t_212_the_last_batch_of_a_partition_stays_if_only_empty() {
    let mut log = Log::default();
    log.append(-1, false, &[(Some(1), true)]);
    log.append(-1, false, &[(Some(1), false)]);
    log.compact(1);
    assert_eq!(log.batches.len(), 1);
    log.now += RETENTION;
    log.compact(1);
    assert_eq!(log.batches.iter().map(|batch| batch.records.len()).collect::<Vec<_>>(), [0]);
    log.append(-1, false, &[(Some(2), true)]);
    log.compact(2);
    assert_eq!(log.batches.iter().map(|batch| batch.facts.last).collect::<Vec<_>>(), [2]);
}
