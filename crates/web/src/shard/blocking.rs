//! The transaction that holds back the last stable offset of a partition.

use crate::format::span;
use ottla_core::Shard;
use ottla_core::partitions::{Holder, Partition};
use ottla_types::record::TransactionStatus;
use ottla_types::{Millis, ProducerId};
use serde::Serialize;
use std::collections::BTreeMap;

/// The transaction that holds back the last stable offset of a partition.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Blocker {
    /// Offsets between last stable offset and high watermark: read_committed readers wait for these records.
    pub(crate) offsets: i64,
    /// First offset of the transaction in the partition.
    pub(crate) first_offset: i64,
    /// Its producer, if the transaction is open.
    pub(crate) producer_id: Option<i64>,
    /// Its transactional id, if one is known.
    pub(crate) transactional_id: Option<String>,
    /// Whether no transactional id has this transaction, so that it never times out.
    pub(crate) hanging: bool,
    /// The same in words.
    pub(crate) why: String,
}

/// The open transactions by producer id: transactional id, start and timeout.
pub(super) struct OpenTransactions<'a> {
    by_producer: BTreeMap<ProducerId, (&'a str, Millis, Millis)>,
    now: Millis,
}

impl<'a> OpenTransactions<'a> {
    pub(super) fn new(shard: &'a Shard, now: Millis) -> OpenTransactions<'a> {
        let open = shard.transactions().open().map(|transaction| {
            let state = transaction.state();
            debug_assert_eq!(state.status, TransactionStatus::Ongoing);
            (state.producer_id, (state.transactional_id.as_str(), state.started, state.timeout))
        });
        OpenTransactions { by_producer: open.collect(), now }
    }

    /// The transaction that holds back this partition; none if the last stable offset is at the high watermark.
    pub(super) fn blocker(&self, partition: &Partition) -> Option<Blocker> {
        let holder = partition.holder()?;
        let first_offset = holder.first_offset().0;
        let ended = Blocker {
            offsets: partition.high_watermark().0 - partition.last_stable().0,
            first_offset,
            producer_id: None,
            transactional_id: None,
            hanging: false,
            why: String::new(),
        };
        Some(match holder {
            Holder::Settling { marker_offset, .. } => Blocker {
                why: format!(
                    "the transaction from offset {first_offset} has ended; its marker at offset {} is not durable yet",
                    marker_offset.0
                ),
                ..ended
            },
            Holder::Open { producer_id, .. } => {
                let known = self.by_producer.get(&producer_id);
                Blocker {
                    producer_id: Some(producer_id.0),
                    transactional_id: known.map(|(id, ..)| (*id).to_owned()),
                    hanging: known.is_none(),
                    why: self.describe_open(producer_id, first_offset),
                    ..ended
                }
            }
        })
    }

    fn describe_open(&self, producer_id: ProducerId, first_offset: i64) -> String {
        let Some((_, started, timeout)) = self.by_producer.get(&producer_id) else {
            return format!(
                "producer {} has a transaction open from offset {first_offset} that belongs to no transactional id; it never \
                 times out; `ottla txn abort` ends it",
                producer_id.0
            );
        };
        let age = self.now.since(*started);
        format!(
            "the transaction of producer {} from offset {first_offset} has been open for {} and times out in {}",
            producer_id.0,
            span(age.0),
            span(timeout.0.saturating_sub(age.0))
        )
    }
}
