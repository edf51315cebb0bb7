//! The figures of topics, groups and transactions at one moment.

use ottla_broker::Context;
use ottla_broker::host::HostGone;
use ottla_core::Shard;
use ottla_core::groups::GroupState;
use ottla_core::offsets::OffsetLookup;
use ottla_types::TopicId;
use std::collections::HashMap;

/// The most partitions, groups, and offsets of groups that get series of their own; the others are only counted.
pub(crate) const MAX_SERIES: usize = 5000;

/// The states of a group, by Kafka's names.
pub(crate) const GROUP_STATES: [GroupState; 4] =
    [GroupState::Empty, GroupState::PreparingRebalance, GroupState::CompletingRebalance, GroupState::Stable];

/// What the shard holds at one moment.
#[derive(Debug, Default)]
pub(crate) struct ShardFigures {
    /// Id, name and number of partitions.
    pub(crate) topics: Vec<(TopicId, String, i32)>,
    pub(crate) partitions: Vec<PartitionFigures>,
    pub(crate) groups: Vec<GroupFigures>,
    pub(crate) offsets: Vec<OffsetFigures>,
    pub(crate) transactional_ids: usize,
    pub(crate) open_transactions: usize,
    pub(crate) producers: usize,
    /// Topics, partitions, groups and offsets beyond [`MAX_SERIES`].
    pub(crate) left_out: usize,
}

#[derive(Debug)]
pub(crate) struct PartitionFigures {
    /// Index of the topic in [`ShardFigures::topics`].
    pub(crate) topic: usize,
    pub(crate) partition: i32,
    pub(crate) start: i64,
    pub(crate) last_stable: i64,
    pub(crate) high_watermark: i64,
    pub(crate) bytes: u64,
}

#[derive(Debug)]
pub(crate) struct GroupFigures {
    pub(crate) id: String,
    pub(crate) state: GroupState,
    pub(crate) members: usize,
}

#[derive(Debug)]
pub(crate) struct OffsetFigures {
    /// Index of the group in [`ShardFigures::groups`].
    pub(crate) group: usize,
    pub(crate) topic: String,
    pub(crate) partition: i32,
    pub(crate) offset: i64,
    pub(crate) lag: i64,
}

/// Reads the figures of this moment.
pub(crate) async fn figures(broker: &Context) -> Result<ShardFigures, HostGone> {
    broker.shards().catalog().read(|shard, _| ShardFigures::of(shard)).await
}

impl ShardFigures {
    fn of(shard: &Shard) -> ShardFigures {
        let mut figures = ShardFigures {
            transactional_ids: shard.transactions().count(),
            open_transactions: shard.transactions().open_count(),
            ..ShardFigures::default()
        };
        figures.add_topics(shard);
        figures.add_groups(shard);
        figures
    }

    fn add_topics(&mut self, shard: &Shard) {
        let topics = shard.catalog().topics_by_name();
        self.topics = topics.map(|topic| (topic.id, topic.name.clone(), topic.partitions)).collect();
        let indexes: HashMap<TopicId, usize> =
            self.topics.iter().enumerate().map(|(index, (id, ..))| (*id, index)).collect();
        for (at, partition) in shard.partitions().iter() {
            self.producers += partition.producer_count();
            let Some(topic) = indexes.get(&at.topic) else { continue };
            if self.partitions.len() >= MAX_SERIES {
                self.left_out += 1;
                continue;
            }
            self.partitions.push(PartitionFigures {
                topic: *topic,
                partition: at.partition,
                start: partition.log_start().0,
                last_stable: partition.last_stable().0,
                high_watermark: partition.high_watermark().0,
                bytes: partition.bytes(),
            });
        }
        self.left_out += self.topics.len().saturating_sub(MAX_SERIES);
        self.topics.truncate(MAX_SERIES);
        self.partitions.retain(|partition| partition.topic < MAX_SERIES);
    }

    fn add_groups(&mut self, shard: &Shard) {
        for listing in shard.groups().list() {
            if self.groups.len() >= MAX_SERIES {
                self.left_out += 1;
                continue;
            }
            let (id, state, members) = (listing.group_id.to_owned(), listing.state, listing.members);
            self.add_offsets(shard, &id);
            self.groups.push(GroupFigures { id, state, members });
        }
    }

    /// Adds the committed offsets of the group that is added next.
    fn add_offsets(&mut self, shard: &Shard, group_id: &str) {
        let group = self.groups.len();
        for (at, fetched) in shard.offsets().fetch_all(group_id, false) {
            let OffsetLookup::Offset(committed) = fetched else { continue };
            let found = shard.partitions().get(at).zip(shard.catalog().topic(at.topic));
            let Some((partition, topic)) = found else { continue };
            if self.offsets.len() >= MAX_SERIES {
                self.left_out += 1;
                continue;
            }
            let offset = committed.offset.0;
            let lag = (partition.high_watermark().0 - offset).max(0);
            let (topic, partition) = (topic.name.clone(), at.partition);
            self.offsets.push(OffsetFigures { group, topic, partition, offset, lag });
        }
    }
}
