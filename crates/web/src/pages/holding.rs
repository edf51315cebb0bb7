//! What holds the last stable offset of a partition back, in words.

use super::text::span;
use ottla_core::Shard;
use ottla_core::partition::{Holder, Partition};
use ottla_types::record::TransactionStatus;
use ottla_types::{Millis, ProducerId};
use serde::Serialize;
use std::collections::BTreeMap;

/// What holds a last stable offset back.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Held {
    /// Records that read_committed readers wait for.
    pub(crate) offsets: i64,
    /// First offset of the transaction.
    pub(crate) first_offset: i64,
    /// Its producer, if the transaction is open.
    pub(crate) producer_id: Option<i64>,
    /// Its transactional id, if one is known.
    pub(crate) transactional_id: Option<String>,
    /// True if no transactional id knows of it, so that it has no timeout.
    pub(crate) hanging: bool,
    /// All that in words.
    pub(crate) why: String,
}

/// Who has a transaction open, by producer id.
pub(crate) struct Open<'a> {
    by_producer: BTreeMap<ProducerId, (&'a str, Millis, Millis)>,
    now: Millis,
}

impl<'a> Open<'a> {
    pub(crate) fn new(shard: &'a Shard, now: Millis) -> Open<'a> {
        let open = shard.transactions().open().map(|transaction| {
            let state = transaction.state();
            debug_assert_eq!(state.status, TransactionStatus::Ongoing);
            (state.producer_id, (state.transactional_id.as_str(), state.started, state.timeout))
        });
        Open { by_producer: open.collect(), now }
    }

    /// What holds this partition's last stable offset back; none if it is at the high watermark.
    pub(crate) fn holding(&self, partition: &Partition) -> Option<Held> {
        let holder = partition.holder()?;
        let offsets = partition.high_watermark().0 - partition.last_stable().0;
        let first_offset = holder.first_offset().0;
        let nobody = Held {
            offsets,
            first_offset,
            producer_id: None,
            transactional_id: None,
            hanging: false,
            why: String::new(),
        };
        Some(match holder {
            Holder::Settling { marker_offset, .. } => Held {
                why: format!(
                    "the transaction from offset {first_offset} has ended; its marker at offset {} is on its way to the disk",
                    marker_offset.0
                ),
                ..nobody
            },
            Holder::Open { producer_id, .. } => {
                let known = self.by_producer.get(&producer_id);
                Held {
                    producer_id: Some(producer_id.0),
                    transactional_id: known.map(|(id, ..)| (*id).to_owned()),
                    hanging: known.is_none(),
                    why: self.why(producer_id, first_offset),
                    ..nobody
                }
            }
        })
    }

    fn why(&self, producer_id: ProducerId, first_offset: i64) -> String {
        let Some((_, started, timeout)) = self.by_producer.get(&producer_id) else {
            return format!(
                "producer {} has a transaction open from offset {first_offset} that no transactional id knows, so that it never \
                 times out; `ottla txn abort` ends it",
                producer_id.0
            );
        };
        let age = self.now.since(*started);
        format!(
            "the transaction of producer {} from offset {first_offset} is open for {}, and times out in {}",
            producer_id.0,
            span(age.0),
            span(timeout.0.saturating_sub(age.0))
        )
    }
}
