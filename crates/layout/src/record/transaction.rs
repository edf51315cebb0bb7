//! Transactional ids: updates, added partitions, the end, and expiry.

use super::field::{DecodeError, Field, Reader, fields};
use crate::span::FieldValue;
use ottla_types::record::{
    TransactionEnded, TransactionExtended, TransactionForgotten, TransactionState, TransactionStatus,
    TransactionUpdated,
};

impl Field for TransactionStatus {
    const WORD: &'static str = "status";

    fn put(&self, out: &mut Vec<u8>) {
        let number: u8 = match self {
            TransactionStatus::Empty => 0,
            TransactionStatus::Ongoing => 1,
            TransactionStatus::CompleteCommit => 2,
            TransactionStatus::CompleteAbort => 3,
        };
        number.put(out);
    }

    fn take(input: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let (number, status, name) = input.choice("transaction status", |value| match value {
            0 => Some((0, TransactionStatus::Empty, "empty")),
            1 => Some((1, TransactionStatus::Ongoing, "ongoing")),
            2 => Some((2, TransactionStatus::CompleteCommit, "committed")),
            3 => Some((3, TransactionStatus::CompleteAbort, "aborted")),
            _ => None,
        })?;
        input.set_value(|| FieldValue::Named(number, name));
        Ok(status)
    }
}

fields! {
    TransactionState {
        transactional_id, producer_id, previous_producer_id, epoch, last_epoch, timeout, status,
        started, updated,
    }
    TransactionUpdated { state, partitions, offset_partitions }
    TransactionExtended { transactional_id, partitions, offset_partitions, at }
    TransactionEnded { state, marker, partitions }
    TransactionForgotten { transactional_id }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::record::generators::{
        any_epoch, any_millis, any_offset, any_partition, any_producer, few, round_trip,
    };
    use crate::record::partition::tests::any_marker;
    use ottla_types::record::{LogRecord, TransactionRecord};
    use proptest::prelude::*;

    fn any_state() -> impl Strategy<Value = TransactionState> {
        let status = prop_oneof![
            Just(TransactionStatus::Empty),
            Just(TransactionStatus::Ongoing),
            Just(TransactionStatus::CompleteCommit),
            Just(TransactionStatus::CompleteAbort),
        ];
        let ids = (any_producer(), any_producer(), any_epoch(), any_epoch());
        (".{0,12}", ids, status, any_millis(), any_millis(), any_millis()).prop_map(
            |(transactional_id, ids, status, timeout, started, updated)| TransactionState {
                transactional_id,
                producer_id: ids.0,
                previous_producer_id: ids.1,
                epoch: ids.2,
                last_epoch: ids.3,
                timeout,
                status,
                started,
                updated,
            },
        )
    }

    pub(crate) fn any_record() -> impl Strategy<Value = LogRecord> {
        prop_oneof![
            (any_state(), few(any_partition()), few(any::<i32>())).prop_map(
                |(state, partitions, offset_partitions)| {
                    LogRecord::Transactions(TransactionRecord::TransactionUpdated(TransactionUpdated {
                        state,
                        partitions,
                        offset_partitions,
                    }))
                }
            ),
            (".{0,12}", few(any_partition()), few(any::<i32>()), any_millis()).prop_map(
                |(transactional_id, partitions, offset_partitions, at)| {
                    LogRecord::Transactions(TransactionRecord::TransactionExtended(TransactionExtended {
                        transactional_id,
                        partitions,
                        offset_partitions,
                        at,
                    }))
                }
            ),
            (any_state(), any_marker(), few((any_partition(), any_offset()))).prop_map(
                |(state, marker, partitions)| {
                    LogRecord::Transactions(TransactionRecord::TransactionEnded(TransactionEnded {
                        state,
                        marker,
                        partitions,
                    }))
                }
            ),
            ".{0,12}".prop_map(|transactional_id| {
                LogRecord::Transactions(TransactionRecord::TransactionForgotten(TransactionForgotten {
                    transactional_id,
                }))
            }),
        ]
    }

    proptest! {
        #[test]
        fn comes_back_as_written(record in any_record()) {
            round_trip(&record)?;
        }
    }
}
