//! What a partition remembers of each producer, and what it lets it append (T-40 to T-58).
//!
//! ```text
//!              batch, any sequence (T-46)          batch, next sequence
//!  (unknown) ─────────────────────────────▶ known ─────────────────────┐
//!      ▲  └── marker (T-127) ──────────────▶ │ ▲ └───────◀─────────────┘
//!      │                                     │ └ marker, or batch of a higher epoch from sequence 0 (T-45, T-47)
//!      └── expiry, if no transaction is open ┘
//! ```

use crate::refusal::{Facts, Rejection};
use ottla_types::record::{BatchAppended, Marker, ProducerBatch, ProducerState};
use ottla_types::{BatchSummary, Millis, Offset, ProducerEpoch, ProducerId, next_sequence};
use std::collections::BTreeMap;

/// Batches a producer is remembered by (T-41).
const WINDOW: usize = 5;

/// What becomes of a batch that is not refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// It is appended.
    Append,
    /// It is there already (T-41).
    Duplicate(ProducerBatch),
}

/// Why a producer's batch was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ProducerRefusal {
    /// Its epoch is below the partition's for this producer (T-44).
    StaleEpoch,
    /// Its first sequence number does not follow the last (T-42, T-45 to T-48).
    OutOfOrder,
    /// It is outside the transaction that its producer has open here (T-55).
    OutsideTransaction,
}

/// All producers a partition knows.
#[derive(Debug, Default)]
pub(super) struct Producers {
    known: BTreeMap<ProducerId, ProducerState>,
}

impl Producers {
    pub(super) fn iter(&self) -> impl Iterator<Item = &ProducerState> {
        self.known.values()
    }

    pub(super) fn count(&self) -> usize {
        self.known.len()
    }

    pub(super) fn get(&self, id: ProducerId) -> Option<&ProducerState> {
        self.known.get(&id)
    }

    /// Judges a batch. With `first_must_be_zero` an unknown producer starts at sequence 0 (T-46).
    pub(super) fn judge(
        &self,
        batch: &BatchSummary,
        first_must_be_zero: bool,
    ) -> Result<Verdict, Rejection<ProducerRefusal>> {
        if !batch.producer_id.is_some() {
            return Ok(Verdict::Append);
        }
        let Some(known) = self.known.get(&batch.producer_id) else {
            let fits = !first_must_be_zero || batch.base_sequence == 0;
            return if fits { Ok(Verdict::Append) } else { Err(out_of_order("T-46", batch, 0)) };
        };
        if let Some(original) = duplicate_of(known, batch) {
            return Ok(Verdict::Duplicate(*original));
        }
        if batch.producer_epoch < known.epoch {
            return Err(stale("T-44", batch, known.epoch));
        }
        let expected = expected_sequence(known, batch.producer_epoch);
        if batch.base_sequence != expected {
            return Err(out_of_order(sequence_rule(known, batch), batch, expected));
        }
        if let Some(start) = known.transaction_start.filter(|_| !batch.transactional) {
            let facts = Facts::OpenSince { producer_id: batch.producer_id, start };
            return Err(Rejection::by("T-55", ProducerRefusal::OutsideTransaction, facts));
        }
        Ok(Verdict::Append)
    }

    /// Takes in a batch; the first offset of the transaction that it opens, if it does (T-73).
    pub(super) fn append(&mut self, appended: &BatchAppended, last_offset: Offset) -> Option<Offset> {
        let batch = &appended.summary;
        if !batch.producer_id.is_some() {
            return None;
        }
        let known = self.known.entry(batch.producer_id).or_insert_with(|| unknown(batch.producer_id));
        set_epoch(known, batch.producer_epoch);
        match known.batches.len() {
            // Many producers append once and never again.
            0 => known.batches.reserve_exact(1),
            WINDOW => drop(known.batches.remove(0)),
            len => known.batches.reserve_exact(WINDOW - len),
        }
        known.batches.push(ProducerBatch {
            first_sequence: batch.base_sequence,
            last_sequence: batch.last_sequence(),
            first_offset: appended.base_offset,
            last_offset,
            timestamp: batch.max_timestamp,
        });
        known.last_append = appended.at;
        known.last_timestamp = batch.max_timestamp;
        let opens = batch.transactional && known.transaction_start.is_none();
        if opens {
            known.transaction_start = Some(appended.base_offset);
        }
        opens.then_some(appended.base_offset)
    }

    /// Takes in a marker; the first offset of the transaction that it ends, if one was open (T-127, T-128).
    pub(super) fn mark(&mut self, marker: &Marker) -> Option<Offset> {
        let known = self.known.entry(marker.producer_id).or_insert_with(|| unknown(marker.producer_id));
        // A producer may have raised its own epoch past its coordinator's (T-45): an end never takes that back.
        let epoch = known.epoch.max(marker.producer_epoch);
        set_epoch(known, epoch);
        known.coordinator_epoch = known.coordinator_epoch.max(marker.coordinator_epoch);
        known.last_append = marker.at;
        known.last_timestamp = marker.at;
        known.transaction_start.take()
    }

    pub(super) fn put(&mut self, state: ProducerState) {
        self.known.insert(state.producer_id, state);
    }

    pub(super) fn forget(&mut self, id: ProducerId) {
        self.known.remove(&id);
    }

    /// Producers without an open transaction that appended nothing for `expiration` (T-52).
    pub(super) fn idle(&self, now: Millis, expiration: Millis) -> Vec<ProducerId> {
        let idle = |known: &&ProducerState| {
            known.transaction_start.is_none() && now.since(known.last_append) >= expiration
        };
        self.iter().filter(idle).map(|known| known.producer_id).collect()
    }
}

/// The remembered batch with exactly these sequence numbers and this epoch.
fn duplicate_of<'a>(known: &'a ProducerState, batch: &BatchSummary) -> Option<&'a ProducerBatch> {
    let sequences = (batch.base_sequence, batch.last_sequence());
    let same = |old: &&ProducerBatch| (old.first_sequence, old.last_sequence) == sequences;
    known.batches.iter().find(same).filter(|_| known.epoch == batch.producer_epoch)
}

/// The sequence number a batch of this epoch must start with (T-45, T-47, T-48).
fn expected_sequence(known: &ProducerState, epoch: ProducerEpoch) -> i32 {
    match known.batches.last() {
        Some(last) if known.epoch == epoch => next_sequence(last.last_sequence),
        _ => 0,
    }
}

/// The rule by which a sequence number does not fit: the first of a higher epoch, one that was seen before, or a gap.
fn sequence_rule(known: &ProducerState, batch: &BatchSummary) -> &'static str {
    if batch.producer_epoch > known.epoch {
        return "T-45";
    }
    // Sequence numbers wrap, so of two the one less than half a round ahead is the later.
    let last = known.batches.last().map(|last| last.last_sequence);
    let seen = last.is_some_and(|last| last.wrapping_sub(batch.base_sequence) & i32::MAX < 1 << 30);
    if seen { "T-42" } else { "T-47" }
}

pub(crate) fn stale(
    rule: &'static str,
    batch: &BatchSummary,
    current: ProducerEpoch,
) -> Rejection<ProducerRefusal> {
    let facts = Facts::Epochs { producer_id: batch.producer_id, given: batch.producer_epoch, current };
    Rejection::by(rule, ProducerRefusal::StaleEpoch, facts)
}

fn out_of_order(rule: &'static str, batch: &BatchSummary, expected: i32) -> Rejection<ProducerRefusal> {
    let facts = Facts::Sequence { producer_id: batch.producer_id, given: batch.base_sequence, expected };
    Rejection::by(rule, ProducerRefusal::OutOfOrder, facts)
}

fn set_epoch(known: &mut ProducerState, epoch: ProducerEpoch) {
    if known.epoch != epoch {
        known.epoch = epoch;
        known.batches.clear();
    }
}

fn unknown(producer_id: ProducerId) -> ProducerState {
    ProducerState {
        producer_id,
        epoch: ProducerEpoch::NONE,
        coordinator_epoch: -1,
        last_append: Millis::NONE,
        last_timestamp: Millis::NONE,
        transaction_start: None,
        batches: Vec::new(),
    }
}
