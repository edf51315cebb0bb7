//! What stays of each batch (T-212).
//!
//! - A record stays if it is the last of its key. One without a key goes: nothing could ever replace it.
//! - Aborted records go, whatever their key.
//! - A tombstone that is the last of its key stays until the delete horizon of its batch has passed. The pass that
//!   first keeps it sets the horizon, `delete.retention.ms` from then.
//! - A marker is no record: keys are not compared. It stays while any batch of its transaction does, and from then on
//!   until its horizon has passed. A transaction may begin and end anywhere: its batches and its marker meet by
//!   producer, in offset order.
//! - The last data batch of a producer that is still known stays, if only empty: it holds the last sequence number. If
//!   the last entry is a marker of a later epoch, the marker stays, if only empty: it holds the epoch.
//! - The last batch of the partition stays, if only empty.

use super::Keys;
use ottla_types::record::{AbortedTransaction, ProducerState};
use ottla_types::{Millis, Offset, ProducerEpoch, ProducerId};
use std::collections::{BTreeMap, BTreeSet};

/// What a control batch holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Control {
    /// The end of a transaction, or nothing any more.
    End,
    /// Something else, which stays.
    Other,
}

/// A batch, as far as its fate depends on it.
#[derive(Clone, Copy, Debug)]
pub struct BatchFacts {
    /// Its first offset.
    pub base_offset: Offset,
    /// Its last offset.
    pub last_offset: Offset,
    /// Its producer, or none.
    pub producer_id: ProducerId,
    /// The producer's epoch, or none.
    pub producer_epoch: ProducerEpoch,
    /// Part of a transaction.
    pub transactional: bool,
    /// Set if it holds no data.
    pub control: Option<Control>,
    /// Its delete horizon, if a pass has set one.
    pub horizon: Option<Millis>,
}

/// A record of a data batch.
#[derive(Clone, Copy, Debug)]
pub struct RecordFacts {
    /// Its offset.
    pub offset: Offset,
    /// The digest of its key, if it has one; see [`Keys`].
    pub key: Option<u128>,
    /// It has no value.
    pub tombstone: bool,
}

/// The remaining part of a batch after every record was judged.
#[derive(Clone, Copy, Debug)]
pub struct RemainingBatch {
    /// Records that stay.
    pub records: usize,
    /// Those of them without a value.
    pub tombstones: usize,
    /// None went.
    pub whole: bool,
}

/// What becomes of a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It goes.
    Dropped,
    /// It stays without records.
    Emptied,
    /// It stays.
    Kept {
        /// Its records or its header change; else it stays as it is.
        anew: bool,
        /// The delete horizon it gets; none if it keeps what it has.
        horizon: Option<Millis>,
        /// When a later pass can take something more out of it, though nothing is written; -1 for never.
        until: Millis,
    },
}

/// A pass over one partition. Batches are shown to it in order of offset: first the dirty ones, whose keys it notes,
/// then all.
#[derive(Debug)]
pub struct Pass<'a> {
    now: Millis,
    delete_retention: Millis,
    /// The last offset of the partition.
    last: Offset,
    /// By producer and marker: where the aborted transaction begins.
    aborted: BTreeMap<(ProducerId, Offset), Offset>,
    /// The last data batch of each producer, or none, and its epoch.
    producers: BTreeMap<ProducerId, (Option<Offset>, ProducerEpoch)>,
    keys: &'a mut Keys,
    /// Producers of whose transaction a batch stayed, and whose marker has not come yet.
    alive: BTreeSet<ProducerId>,
    /// What the batch at hand is.
    hand: Hand,
}

/// How the records of a batch are judged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Hand {
    Data,
    Aborted,
    /// A marker; `spent` if nothing of its transaction stayed, `gone` if its horizon has passed too.
    Marker {
        spent: bool,
        gone: bool,
    },
}

impl<'a> Pass<'a> {
    /// A pass at a time, over a partition that ends with `last` and has these aborted transactions and producers.
    /// `keys` is taken as it is.
    pub fn new(now: Millis, delete_retention: Millis, last: Offset, keys: &'a mut Keys) -> Pass<'a> {
        Pass {
            now,
            delete_retention,
            last,
            aborted: BTreeMap::new(),
            producers: BTreeMap::new(),
            keys,
            alive: BTreeSet::new(),
            hand: Hand::Data,
        }
    }

    /// Adds what is known of transactions that were aborted.
    #[must_use]
    pub fn with_aborted(mut self, aborted: impl IntoIterator<Item = AbortedTransaction>) -> Pass<'a> {
        let row = |one: AbortedTransaction| ((one.producer_id, one.marker_offset), one.first_offset);
        self.aborted.extend(aborted.into_iter().map(row));
        self
    }

    /// Adds producers that are still known.
    #[must_use]
    pub fn with_producers<'b>(mut self, producers: impl IntoIterator<Item = &'b ProducerState>) -> Pass<'a> {
        let row = |one: &ProducerState| {
            (one.producer_id, (one.batches.last().map(|batch| batch.last_offset), one.epoch))
        };
        self.producers.extend(producers.into_iter().map(row));
        self
    }

    /// Whether the keys of a batch are to be noted.
    pub fn counts(&self, batch: &BatchFacts) -> bool {
        batch.control.is_none() && !self.is_aborted(batch)
    }

    /// Notes the key of a record whose batch counts. False if there is no room: the pass must end before this batch.
    pub fn note(&mut self, record: &RecordFacts) -> bool {
        record.key.is_none_or(|key| self.keys.note(key, record.offset))
    }

    /// Takes the next batch at hand.
    pub fn begin(&mut self, batch: &BatchFacts) {
        self.hand = match batch.control {
            Some(Control::Other) => Hand::Marker { spent: false, gone: false },
            Some(Control::End) => {
                let spent = !self.alive.remove(&batch.producer_id);
                let past = batch.horizon.is_some_and(|horizon| horizon <= self.now);
                Hand::Marker { spent, gone: spent && past }
            }
            None if self.is_aborted(batch) => Hand::Aborted,
            None => Hand::Data,
        };
    }

    /// Whether a record of the batch at hand stays.
    pub fn stays(&self, batch: &BatchFacts, record: &RecordFacts) -> bool {
        match self.hand {
            Hand::Aborted => false,
            Hand::Marker { gone, .. } => !gone,
            Hand::Data => {
                let Some(key) = record.key else { return false };
                let is_last = self.keys.last(key).is_none_or(|last| last <= record.offset);
                let is_past = batch.horizon.is_some_and(|horizon| horizon <= self.now);
                is_last && !(record.tombstone && is_past)
            }
        }
    }

    /// Puts the batch at hand away, of which this is left.
    pub fn end(&mut self, batch: &BatchFacts, left: RemainingBatch) -> Outcome {
        if left.records == 0 && !self.must_stay(batch) {
            return Outcome::Dropped;
        }
        if batch.control.is_none() && batch.transactional {
            self.alive.insert(batch.producer_id);
        }
        if left.records == 0 {
            return Outcome::Emptied;
        }
        let ends = match self.hand {
            Hand::Marker { spent, .. } => spent,
            Hand::Data | Hand::Aborted => left.tombstones > 0,
        };
        let fresh = || self.now.after(self.delete_retention);
        let horizon = (ends && batch.horizon.is_none()).then(fresh);
        let until = batch.horizon.or(horizon).filter(|_| ends);
        Outcome::Kept {
            anew: !left.whole || horizon.is_some(),
            horizon,
            until: until.unwrap_or(Millis::NONE),
        }
    }

    /// Whether the batch stays though no record of it does.
    fn must_stay(&self, batch: &BatchFacts) -> bool {
        let of_producer = match self.producers.get(&batch.producer_id) {
            Some((Some(last), _)) => *last == batch.last_offset,
            Some((None, epoch)) => batch.control.is_some() && batch.producer_epoch == *epoch,
            None => false,
        };
        of_producer || batch.last_offset == self.last
    }

    fn is_aborted(&self, batch: &BatchFacts) -> bool {
        let ended = (batch.producer_id, batch.last_offset)..=(batch.producer_id, Offset(i64::MAX));
        let aborted = self.aborted.range(ended).next();
        batch.transactional && aborted.is_some_and(|(_, first)| *first <= batch.base_offset)
    }
}
