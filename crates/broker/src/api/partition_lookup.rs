//! From topic names and partition numbers to partitions.

use crate::context::Context;
use crate::host::HostGone;
use ottla_types::TopicPartition;
use ottla_wire::Text;

/// Looks up partitions, in their order. Waits until the log is durable if one does not exist, because its deletion may
/// not be durable yet. For a partition that exists, the command that follows waits.
pub(super) async fn find(
    ctx: &Context,
    asked: Vec<(Text, i32)>,
) -> Result<Vec<Option<TopicPartition>>, HostGone> {
    let look = ctx.shards.partitions().peek(move |shard, _, _| {
        let place = |(name, partition): &(Text, i32)| shard.catalog().partition_named(name, *partition);
        asked.iter().map(place).collect::<Vec<_>>()
    });
    let found = look.await?;
    if found.iter().any(Option::is_none) {
        ctx.shards.partitions().settled().await?;
    }
    Ok(found)
}

/// The name under which transactions list the partitions of committed offsets.
pub(super) const OFFSETS_TOPIC: &str = "__consumer_offsets";
