//! From topic names and partition numbers to partitions.

use crate::context::Context;
use crate::host::HostGone;
use ottla_types::TopicPartition;
use ottla_wire::Text;

/// The partitions that exist, in the order asked. That one does not exist is said only when it is durable; a partition that
/// does is put to the shard again, in a question whose answer waits.
pub(super) async fn find(
    ctx: &Context,
    asked: Vec<(Text, i32)>,
) -> Result<Vec<Option<TopicPartition>>, HostGone> {
    let look = ctx.host.peek(move |shard, _, _| {
        let place = |(name, partition): &(Text, i32)| shard.catalog().partition_named(name, *partition);
        asked.iter().map(place).collect::<Vec<_>>()
    });
    let found = look.await?;
    if found.iter().any(Option::is_none) {
        ctx.host.settled().await?;
    }
    Ok(found)
}

/// Topics that Kafka keeps for itself; here they exist in name only.
pub(super) fn is_internal(topic: &str) -> bool {
    topic == OFFSETS_TOPIC || topic == "__transaction_state"
}

/// The name under which transactions list partitions of committed offsets.
pub(super) const OFFSETS_TOPIC: &str = "__consumer_offsets";
