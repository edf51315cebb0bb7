//! Leaves out the records of aborted transactions, as a consumer with read_committed must.
//!
//! The broker sends all batches together with a list of aborted transactions: producer and first offset. A transaction
//! on the list is skipped from its first offset to its abort marker (T-206).

use std::collections::{BTreeSet, VecDeque};

/// The fields of a batch that decide whether its records are delivered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct BatchFacts {
    /// Offset of its last record.
    pub(crate) last_offset: i64,
    /// Its producer.
    pub(crate) producer_id: i64,
    /// Part of a transaction.
    pub(crate) transactional: bool,
    /// Whether it is a marker, and then whether it commits.
    pub(crate) marker: Option<bool>,
}

/// Decides for each batch of a partition in a Fetch response, in offset order, whether its records are delivered.
#[derive(Debug, Default)]
pub(crate) struct AbortedFilter {
    upcoming: VecDeque<(i64, i64)>,
    aborting: BTreeSet<i64>,
}

impl AbortedFilter {
    /// From the response's list of first offset and producer id, in any order.
    pub(crate) fn new(aborted: impl IntoIterator<Item = (i64, i64)>) -> AbortedFilter {
        let mut upcoming: Vec<(i64, i64)> = aborted.into_iter().collect();
        upcoming.sort_unstable();
        AbortedFilter { upcoming: upcoming.into(), aborting: BTreeSet::new() }
    }

    /// Whether the records of this batch are to be delivered. Markers never are.
    pub(crate) fn keeps(&mut self, batch: &BatchFacts) -> bool {
        while let Some((_, producer)) = self.upcoming.pop_front_if(|next| next.0 <= batch.last_offset) {
            self.aborting.insert(producer);
        }
        if let Some(commit) = batch.marker {
            if !commit {
                self.aborting.remove(&batch.producer_id);
            }
            return false;
        }
        !(batch.transactional && self.aborting.contains(&batch.producer_id))
    }
}

#[cfg(test)]
mod tests {
    use super::{AbortedFilter, BatchFacts};
    use proptest::prelude::*;

    /// One step of a random partition: a producer writes without a transaction, in its transaction, or ends it.
    #[derive(Clone, Copy, Debug)]
    enum Step {
        Plain,
        Write(i64),
        End(i64, bool),
    }

    fn step() -> impl Strategy<Value = Step> {
        prop_oneof![
            Just(Step::Plain),
            (0..4_i64).prop_map(Step::Write),
            (0..4_i64, any::<bool>()).prop_map(|(producer, commit)| Step::End(producer, commit)),
        ]
    }

    /// The batches of a history, which of them must be delivered, and the aborted transactions.
    fn play(steps: &[Step]) -> (Vec<BatchFacts>, Vec<bool>, Vec<(i64, i64)>) {
        let (mut batches, mut seen, mut aborted) = (Vec::new(), Vec::new(), Vec::new());
        let mut open: [Vec<usize>; 4] = Default::default();
        for (offset, step) in steps.iter().enumerate() {
            let last_offset = offset as i64;
            let (producer_id, transactional, marker) = match *step {
                Step::Plain => (9, false, None),
                Step::Write(producer) => (producer, true, None),
                Step::End(producer, commit) => (producer, true, Some(commit)),
            };
            batches.push(BatchFacts { last_offset, producer_id, transactional, marker });
            seen.push(marker.is_none());
            match *step {
                Step::Plain => {}
                Step::Write(producer) => open[producer as usize].push(offset),
                Step::End(producer, commit) => {
                    let written = std::mem::take(&mut open[producer as usize]);
                    if let (false, Some(first)) = (commit, written.first()) {
                        aborted.push((*first as i64, producer));
                        written.iter().for_each(|place| seen[*place] = false);
                    }
                }
            }
        }
        (batches, seen, aborted)
    }

    proptest! {
        #[test]
        fn keeps_exactly_what_was_not_aborted(steps in prop::collection::vec(step(), 0..60)) {
            let (batches, expected, aborted) = play(&steps);
            let mut filter = AbortedFilter::new(aborted);
            let kept: Vec<bool> = batches.iter().map(|batch| filter.keeps(batch)).collect();
            prop_assert_eq!(kept, expected);
        }

        #[test]
        fn a_fetch_from_the_middle_of_a_transaction_keeps_the_same(
            steps in prop::collection::vec(step(), 1..60), from in 0..60_usize,
        ) {
            let (batches, expected, aborted) = play(&steps);
            let from = from.min(batches.len());
            // A broker lists what overlaps the fetched range: transactions whose marker is at or after its start.
            let ends = |first: i64, producer: i64| batches.iter().position(|batch| {
                batch.producer_id == producer && batch.marker.is_some() && batch.last_offset > first
            });
            let listed = aborted.into_iter().filter(|(first, p)| ends(*first, *p).is_some_and(|end| end >= from));
            let mut filter = AbortedFilter::new(listed);
            let kept: Vec<bool> = batches[from..].iter().map(|batch| filter.keeps(batch)).collect();
            prop_assert_eq!(kept, &expected[from..]);
        }
    }
}
