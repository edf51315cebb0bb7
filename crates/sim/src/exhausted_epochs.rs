//! The log of an earlier broker, with transactional ids whose epochs are nearly exhausted, so that new producer ids
//! follow soon.

use crate::plan::Plan;
use crate::random::Random;
use ottla_store::testing::FaultMedium;
use ottla_store::{Callbacks, Log, Options};
use ottla_types::record::{
    LogRecord, ProducerIdsReserved, TransactionRecord, TransactionState, TransactionStatus,
    TransactionUpdated,
};
use ottla_types::{Millis, ProducerEpoch, ProducerId};
use std::sync::Arc;

/// The prefixes of transactional ids, and how many of each there are at most.
const NAMES: [(&str, i64); 4] = [("txn", 3), ("writer", 2), ("transform-x", 2), ("transform-m", 3)];

/// Writes a log that ends with a clean stop.
///
/// # Errors
/// The log cannot be opened or written.
pub(crate) fn write_log(
    medium: &FaultMedium,
    plan: &Plan,
    random: &mut Random,
    now: Millis,
) -> Result<(), String> {
    let options = Options { threads: false, ..plan.host().log };
    let callbacks = Callbacks { on_durable: Box::new(|_| {}), on_failure: Box::new(|_| {}) };
    let opened = Log::open(Arc::new(medium.clone()), options, callbacks, &mut |_| {});
    let mut log = opened.map_err(|why| why.to_string())?.log;
    let mut append = |record: &LogRecord| log.append(record).map(drop).map_err(|why| why.to_string());
    let names =
        NAMES.iter().flat_map(|(name, count)| (0..*count).map(move |number| format!("{name}-{number}")));
    for (transactional_id, producer) in names.zip(0..) {
        let state = TransactionState {
            transactional_id,
            producer_id: ProducerId(producer),
            previous_producer_id: ProducerId::NONE,
            epoch: ProducerEpoch(i16::MAX - 1 - random.within(0..8) as i16),
            last_epoch: ProducerEpoch::NONE,
            timeout: Millis(4000),
            status: TransactionStatus::Empty,
            started: Millis::NONE,
            updated: now,
        };
        append(&LogRecord::Transactions(TransactionRecord::TransactionUpdated(TransactionUpdated {
            state,
            partitions: Vec::new(),
            offset_partitions: Vec::new(),
        })))?;
    }
    append(&LogRecord::Transactions(TransactionRecord::ProducerIdsReserved(ProducerIdsReserved {
        next: ProducerId(1000),
    })))?;
    log.close().map_err(|why| why.to_string())
}
