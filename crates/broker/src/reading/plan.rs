//! Plans reads on the state machine: where the batches of each partition lie, and how much of them is read.

use ottla_core::catalog::LEADER_EPOCH;
use ottla_core::partitions::{Isolation, OutOfRange, Partition, ReadPlan};
use ottla_core::{Refusal, Shard};
use ottla_types::{Offset, TopicId, TopicPartition};
use ottla_wire::{Text, Uuid};
use std::fmt::{self, Display};

/// A topic as the client names it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum TopicKey {
    Name(Text),
    Id(Uuid),
}

/// A read of one partition.
#[derive(Clone, Debug)]
pub(crate) struct PartitionRead {
    pub(crate) topic: TopicKey,
    pub(crate) partition: i32,
    /// The first offset to read.
    pub(crate) from: Offset,
    /// The most bytes of records to read.
    pub(crate) max_bytes: u64,
    /// The epoch that the client takes for the leader's; -1 if it names none.
    pub(crate) leader_epoch: i32,
    /// The epoch of the last record that the client has; -1 if it names none.
    pub(crate) last_fetched_epoch: i32,
}

impl Display for PartitionRead {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.topic {
            TopicKey::Name(name) => write!(f, "{name}-{}", self.partition),
            TopicKey::Id(id) => write!(f, "{id}-{}", self.partition),
        }
    }
}

/// The bounds of a read over all its partitions.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ReadBounds {
    /// The most bytes of records, except for a first batch that is larger.
    pub(crate) max_bytes: u64,
    /// The read waits until this many bytes can be read.
    pub(crate) min_bytes: u64,
    pub(crate) isolation: Isolation,
}

/// Why a partition was not read.
#[derive(Debug)]
pub(crate) enum ReadError {
    UnknownTopicName,
    UnknownTopicId,
    UnknownPartition,
    LeaderEpochAhead,
    FetchedEpochAhead,
    OutOfRange(OutOfRange),
    /// The batches cannot be read from the disk.
    Storage,
}

impl Display for ReadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            ReadError::UnknownTopicName | ReadError::UnknownTopicId => "there is no such topic",
            ReadError::UnknownPartition => "the topic has no such partition",
            ReadError::LeaderEpochAhead => "the leader epoch is above the broker's, which is 0",
            ReadError::FetchedEpochAhead => "the epoch of the last record is above the leader's, which is 0",
            ReadError::OutOfRange(range) => return range.fmt(f),
            ReadError::Storage => "the batches cannot be read from the log",
        })
    }
}

impl Refusal for ReadError {
    fn rule(&self) -> Option<&'static str> {
        None
    }
}

/// The plan for one partition.
pub(super) type PartitionPlan = Result<(TopicPartition, ReadPlan), ReadError>;

/// The plans for all partitions of a read, made at one moment.
#[derive(Debug)]
pub(super) struct Plans {
    pub(super) partitions: Vec<PartitionPlan>,
    /// Bytes that could be read if each partition had only its own bound.
    readable: u64,
}

impl Plans {
    /// Whether the read need not wait: there are enough bytes, or there is an error to report.
    pub(super) fn is_enough(&self, min_bytes: u64) -> bool {
        self.readable >= min_bytes || self.has_error()
    }

    pub(super) fn has_error(&self) -> bool {
        self.partitions.iter().any(Result::is_err)
    }

    /// The most bytes of records that these plans can read.
    pub(super) fn most(&self) -> u64 {
        self.plans().map(|plan| plan.most).sum()
    }

    /// An estimate of the bytes of records that these plans read.
    pub(super) fn bytes(&self) -> u64 {
        self.plans().map(|plan| plan.bytes).sum()
    }

    /// Changes the plans so that they read no records.
    pub(super) fn clear(&mut self) {
        for (_, plan) in self.partitions.iter_mut().flatten() {
            plan.sources.clear();
            plan.aborted.clear();
            (plan.bytes, plan.most) = (0, 0);
        }
    }

    /// The partitions that can be read.
    pub(super) fn readable_partitions(&self) -> Vec<TopicPartition> {
        self.partitions.iter().flatten().map(|(at, _)| *at).collect()
    }

    fn plans(&self) -> impl Iterator<Item = &ReadPlan> {
        self.partitions.iter().flatten().map(|(_, plan)| plan)
    }
}

/// Plans all partitions in order. The first batch of the first partition that has one is read whole, whatever its size
/// (KIP-74).
pub(super) fn plan_all(shard: &Shard, reads: &[PartitionRead], bounds: ReadBounds) -> Plans {
    let mut left = bounds.max_bytes;
    let (mut readable, mut total) = (0, 0);
    let mut partitions = Vec::with_capacity(reads.len());
    for read in reads {
        partitions.push(find(shard, read).and_then(|(at, partition)| {
            let max_bytes = left.min(read.max_bytes);
            let plan = partition.read(read.from, max_bytes, total == 0, bounds.isolation);
            let plan = plan.map_err(ReadError::OutOfRange)?;
            let own = partition.readable_bytes(read.from, read.max_bytes, bounds.isolation);
            readable += own.min(read.max_bytes);
            total += plan.bytes;
            left = left.saturating_sub(plan.most);
            Ok((at, plan))
        }));
    }
    Plans { partitions, readable: readable.max(total) }
}

/// The bounds of one partition in a plan.
#[derive(Clone, Copy, Debug)]
pub(super) struct PartitionBounds {
    pub(super) max_bytes: u64,
    pub(super) first_whole: bool,
    pub(super) isolation: Isolation,
}

/// Plans one partition again from an offset on, under the bounds of its earlier plan.
pub(super) fn plan_again(
    shard: &Shard,
    read: &PartitionRead,
    from: Offset,
    bounds: PartitionBounds,
) -> PartitionPlan {
    let PartitionBounds { max_bytes, first_whole, isolation } = bounds;
    let (at, partition) = find(shard, read)?;
    let plan = partition.read(from, max_bytes, first_whole, isolation).map_err(ReadError::OutOfRange)?;
    Ok((at, plan))
}

fn find<'a>(shard: &'a Shard, read: &PartitionRead) -> Result<(TopicPartition, &'a Partition), ReadError> {
    let topic = match &read.topic {
        TopicKey::Name(name) => shard.catalog().topic_named(name).ok_or(ReadError::UnknownTopicName),
        TopicKey::Id(id) => shard.catalog().topic(TopicId(id.0)).ok_or(ReadError::UnknownTopicId),
    }?;
    let at = TopicPartition { topic: topic.id, partition: read.partition };
    let partition = shard.partitions().get(at).ok_or(ReadError::UnknownPartition)?;
    if read.leader_epoch > LEADER_EPOCH {
        return Err(ReadError::LeaderEpochAhead);
    }
    if read.last_fetched_epoch > LEADER_EPOCH {
        return Err(ReadError::FetchedEpochAhead);
    }
    Ok((at, partition))
}
