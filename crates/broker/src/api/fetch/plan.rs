//! What there is to read, decided on the shard's thread: where batches lie, not what is in them.

use ottla_core::partition::{Isolation, LEADER_EPOCH, OutOfRange, Partition, ReadPlan};
use ottla_core::{Refusal, Shard};
use ottla_types::{Offset, TopicPartition};
use ottla_wire::messages::fetch_request::FetchPartition;
use ottla_wire::{ErrorCode, Text, Uuid};
use std::fmt::{self, Display};

/// A topic as the client calls it: by name up to version 12, by id since.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum TopicKey {
    Name(Text),
    Id(Uuid),
}

/// A partition that is asked for.
#[derive(Clone, Debug)]
pub(super) struct Part {
    pub(super) topic: TopicKey,
    pub(super) asked: FetchPartition,
}

/// The request's bounds.
#[derive(Clone, Copy, Debug)]
pub(super) struct Terms {
    pub(super) max_bytes: u64,
    pub(super) min_bytes: u64,
    pub(super) isolation: Isolation,
}

impl Display for Part {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.topic {
            TopicKey::Name(name) => write!(f, "{name}-{}", self.asked.partition),
            TopicKey::Id(id) => write!(f, "{id}-{}", self.asked.partition),
        }
    }
}

/// A code, and the reason in words.
type Refused = (ErrorCode, &'static str);

/// Why a partition is not read.
#[derive(Debug)]
pub(super) enum Why {
    Said(&'static str),
    Range(OutOfRange),
}

impl Display for Why {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Why::Said(why) => f.write_str(why),
            Why::Range(range) => range.fmt(f),
        }
    }
}

impl Refusal for Why {
    fn rule(&self) -> Option<&'static str> {
        None
    }
}

/// What one partition comes to.
#[derive(Debug)]
pub(super) enum Reading {
    Refused(ErrorCode, Why),
    Plan(TopicPartition, ReadPlan),
}

/// How much is read of one partition.
#[derive(Clone, Copy, Debug)]
pub(super) struct Bounds {
    pub(super) max_bytes: u64,
    pub(super) first_whole: bool,
    pub(super) isolation: Isolation,
}

/// What a request comes to at one moment.
#[derive(Debug)]
pub(super) struct Planned {
    pub(super) readings: Vec<Reading>,
    /// Bytes that could be read if only the partitions' own bounds counted.
    accessible: u64,
}

impl Planned {
    /// True if there is nothing to wait for: enough bytes, or an error.
    pub(super) fn is_enough(&self, terms: Terms) -> bool {
        self.accessible >= terms.min_bytes || self.is_refused()
    }

    /// True if some partition cannot be read.
    pub(super) fn is_refused(&self) -> bool {
        self.readings.iter().any(|reading| matches!(reading, Reading::Refused(..)))
    }

    /// The most bytes of records in the answer.
    pub(super) fn most(&self) -> u64 {
        self.plans().map(|(_, plan)| plan.most).sum()
    }

    /// About how many there are.
    pub(super) fn bytes(&self) -> u64 {
        self.plans().map(|(_, plan)| plan.bytes).sum()
    }

    /// Plans to read nothing of what could be read.
    pub(super) fn empty(&mut self) {
        for reading in &mut self.readings {
            if let Reading::Plan(_, plan) = reading {
                plan.sources.clear();
                plan.aborted.clear();
                (plan.bytes, plan.most) = (0, 0);
            }
        }
    }

    /// What is read of each partition that can be.
    pub(super) fn plans(&self) -> impl Iterator<Item = (TopicPartition, &ReadPlan)> {
        self.readings.iter().filter_map(|reading| match reading {
            Reading::Plan(at, plan) => Some((*at, plan)),
            Reading::Refused(..) => None,
        })
    }

    /// The partitions whose growth would be news.
    pub(super) fn places(&self) -> Vec<TopicPartition> {
        self.plans().map(|(at, _)| at).collect()
    }
}

/// Plans all partitions in order; the first batch of the first that has any comes whole, whatever its size (KIP-74).
pub(super) fn plan(shard: &Shard, parts: &[Part], terms: Terms) -> Planned {
    let mut left = terms.max_bytes;
    let (mut accessible, mut total) = (0, 0);
    let mut readings = Vec::with_capacity(parts.len());
    for part in parts {
        let reading = match find(shard, part) {
            Err((code, why)) => Reading::Refused(code, Why::Said(why)),
            Ok((at, partition)) => {
                let own = u64::try_from(part.asked.partition_max_bytes).unwrap_or(0);
                let from = Offset(part.asked.fetch_offset);
                match partition.read(from, left.min(own), total == 0, terms.isolation) {
                    Err(range) => Reading::Refused(ErrorCode::OFFSET_OUT_OF_RANGE, Why::Range(range)),
                    Ok(plan) => {
                        accessible += partition.readable_bytes(from, own, terms.isolation).min(own);
                        total += plan.bytes;
                        left = left.saturating_sub(plan.most);
                        Reading::Plan(at, plan)
                    }
                }
            }
        };
        readings.push(reading);
    }
    Planned { readings, accessible: accessible.max(total) }
}

/// Plans one partition again, under the bounds that an earlier plan of it had.
pub(super) fn again(shard: &Shard, part: &Part, from: Offset, before: &Bounds) -> Reading {
    let Bounds { max_bytes, first_whole, isolation } = *before;
    match find(shard, part) {
        Err((code, why)) => Reading::Refused(code, Why::Said(why)),
        Ok((at, partition)) => match partition.read(from, max_bytes, first_whole, isolation) {
            Err(range) => Reading::Refused(ErrorCode::OFFSET_OUT_OF_RANGE, Why::Range(range)),
            Ok(plan) => Reading::Plan(at, plan),
        },
    }
}

fn find<'a>(shard: &'a Shard, part: &Part) -> Result<(TopicPartition, &'a Partition), Refused> {
    let (topic, unknown) = match &part.topic {
        TopicKey::Name(name) => (shard.catalog().topic_named(name), ErrorCode::UNKNOWN_TOPIC_OR_PARTITION),
        TopicKey::Id(id) => {
            (shard.catalog().topic(crate::context::to_topic_id(*id)), ErrorCode::UNKNOWN_TOPIC_ID)
        }
    };
    let topic = topic.ok_or((unknown, "there is no such topic"))?;
    let at = TopicPartition { topic: topic.id, partition: part.asked.partition };
    let none = (ErrorCode::UNKNOWN_TOPIC_OR_PARTITION, "the topic has no such partition");
    let partition = shard.partitions().get(at).ok_or(none)?;
    if part.asked.current_leader_epoch > LEADER_EPOCH {
        return Err((ErrorCode::UNKNOWN_LEADER_EPOCH, "the leader epoch is above the broker's, which is 0"));
    }
    if part.asked.last_fetched_epoch > LEADER_EPOCH {
        let why = "the epoch of the last record is above the leader's, which is 0";
        return Err((ErrorCode::OFFSET_OUT_OF_RANGE, why));
    }
    Ok((at, partition))
}
