//! The totals of the start page.

use ottla_broker::Context;
use ottla_broker::host::HostGone;
use ottla_core::Shard;
use serde::Serialize;

/// Totals over everything that the shard holds.
#[derive(Serialize)]
pub(crate) struct Summary {
    pub(crate) topics: usize,
    pub(crate) partitions: usize,
    /// Offsets between start and high watermark of all partitions.
    pub(crate) records: i64,
    pub(crate) bytes: u64,
    pub(crate) groups: usize,
    pub(crate) members: usize,
    pub(crate) transactional_ids: usize,
    pub(crate) open_transactions: usize,
    /// Partitions whose last stable offset is held back by a transaction.
    pub(crate) held_partitions: usize,
}

pub(crate) async fn summary(broker: &Context) -> Result<Summary, HostGone> {
    broker.shards().catalog().read(|shard, _| Summary::of(shard)).await
}

impl Summary {
    fn of(shard: &Shard) -> Summary {
        let partitions = || shard.partitions().iter().map(|(_, partition)| partition);
        Summary {
            topics: shard.catalog().topics().count(),
            partitions: partitions().count(),
            records: partitions().map(|one| one.high_watermark().0 - one.log_start().0).sum(),
            bytes: partitions().map(|one| one.bytes()).sum(),
            groups: shard.groups().list().count(),
            members: shard.groups().list().map(|group| group.members).sum(),
            transactional_ids: shard.transactions().count(),
            open_transactions: shard.transactions().open_count(),
            held_partitions: partitions().filter(|one| one.holder().is_some()).count(),
        }
    }
}
