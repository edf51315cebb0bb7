//! Reading partitions from given offsets. Group membership is built on top, in `group`.

use crate::aborted::AbortedFilter;
use crate::client::{Client, millis};
use crate::cluster::{Node, Topic};
use crate::commit::GroupOffset;
use crate::error::{ClientError, check};
use crate::record::{ConsumedRecord, decode_batches};
use ottla_wire::messages::fetch_request::{FetchPartition, FetchTopic};
use ottla_wire::messages::fetch_response::PartitionData;
use ottla_wire::messages::{FetchRequest, FetchResponse};
use ottla_wire::{ErrorCode, Versions};
use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

/// `max_bytes` of a Fetch request; a broker sends at least one batch even if that is larger.
const ANSWER_BYTES: i32 = 16 << 20;
/// `partition_max_bytes` of a Fetch request.
const PARTITION_BYTES: i32 = 1 << 20;

/// The isolation level of a reader.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Isolation {
    /// read_uncommitted: all records.
    ReadUncommitted = 0,
    /// read_committed: no records of open or aborted transactions.
    #[default]
    ReadCommitted = 1,
}

/// Reads the partitions that the caller assigns.
pub struct Consumer {
    client: Client,
    isolation: Isolation,
    places: VecDeque<Place>,
}

/// The position in one partition.
#[derive(Clone, Debug)]
struct Place {
    topic: Arc<str>,
    partition: i32,
    /// The next offset to read.
    next: i64,
    /// The end of the readable records at the last Fetch, for this isolation level.
    end: Option<i64>,
}

impl Consumer {
    /// A reader without partitions. It opens connections of its own, because its requests wait at the broker.
    pub fn new(client: &Client, isolation: Isolation) -> Consumer {
        Consumer { client: client.apart(), isolation, places: VecDeque::new() }
    }

    /// Adds a partition, to be read from `offset` on.
    pub fn assign(&mut self, topic: &str, partition: i32, offset: i64) {
        self.places.retain(|place| &*place.topic != topic || place.partition != partition);
        self.places.push_back(Place { topic: topic.into(), partition, next: offset, end: None });
    }

    /// Removes all partitions.
    pub fn unassign(&mut self) {
        self.places.clear();
    }

    /// The next offset of each partition, sorted; a group commits these.
    pub fn positions(&self) -> Vec<GroupOffset> {
        let mut positions: Vec<GroupOffset> = self.places.iter().map(position).collect();
        positions.sort_by(|a, b| (&a.topic, a.partition).cmp(&(&b.topic, b.partition)));
        positions
    }

    /// True once every partition has been read to its end as of the last Fetch.
    pub fn at_end(&self) -> bool {
        self.places.iter().all(|place| place.end.is_some_and(|end| place.next >= end))
    }

    /// Waits at most `wait` for records and returns them, in offset order within each partition. There may be none,
    /// also because all of them were aborted.
    pub async fn poll(&mut self, wait: Duration) -> Result<Vec<ConsumedRecord>, ClientError> {
        if self.places.is_empty() {
            tokio::time::sleep(wait).await;
            return Ok(Vec::new());
        }
        let answers = self.client.retrying("records to be fetched", || self.fetch(wait)).await?;
        let mut records = Vec::new();
        for (topic, partition) in answers {
            let place = self
                .places
                .iter_mut()
                .find(|place| *place.topic == *topic && place.partition == partition.partition_index);
            if let Some(place) = place {
                place.take(&partition, self.isolation, &mut records)?;
            }
        }
        // The first partition gets most of the response, so the order changes with each Fetch.
        self.places.rotate_left(1);
        Ok(records)
    }

    /// One Fetch to every leader of the partitions. Returns the responses by topic name; an error in one is returned
    /// instead.
    async fn fetch(&self, wait: Duration) -> Result<Vec<(String, PartitionData)>, ClientError> {
        let mut topics: Vec<Topic> = Vec::new();
        let mut by_leader: Vec<(Node, FetchRequest)> = Vec::new();
        for place in &self.places {
            let topic = match topics.iter().position(|topic| topic.name == *place.topic) {
                Some(known) => &topics[known],
                None => {
                    topics.push(self.client.topic(&place.topic, false).await?);
                    &topics[topics.len() - 1]
                }
            };
            let leader = topic.leader(place.partition)?;
            match by_leader.iter_mut().find(|(node, _)| *node == leader) {
                Some((_, request)) => add(request, topic, place),
                None => {
                    let mut request = self.request(wait);
                    add(&mut request, topic, place);
                    by_leader.push((leader, request));
                }
            }
        }
        let answers = self.client.call_each(by_leader, Versions::new(0, i16::MAX), wait).await?;
        let mut partitions = Vec::new();
        for answer in answers {
            self.collect(answer, &topics, &mut partitions)?;
        }
        Ok(partitions)
    }

    fn request(&self, wait: Duration) -> FetchRequest {
        FetchRequest {
            max_wait_ms: millis(wait),
            min_bytes: 1,
            max_bytes: ANSWER_BYTES,
            isolation_level: self.isolation as i8,
            ..Default::default()
        }
    }

    fn collect(
        &self,
        answer: FetchResponse,
        topics: &[Topic],
        partitions: &mut Vec<(String, PartitionData)>,
    ) -> Result<(), ClientError> {
        check(answer.error_code, "Fetch", || "the whole request".to_owned())?;
        for response in answer.responses {
            let Some(topic) = topics.iter().find(|topic| topic.is(&response.topic, response.topic_id)) else {
                continue;
            };
            for partition in response.partitions {
                let about = || {
                    let place = self.places.iter().find(|place| {
                        *place.topic == *topic.name && place.partition == partition.partition_index
                    });
                    let offset = place.map_or(-1, |place| place.next);
                    format!(
                        "offset {offset} in partition {} of topic {:?}",
                        partition.partition_index, topic.name
                    )
                };
                check(partition.error_code, "Fetch", about)?;
                partitions.push((topic.name.clone(), partition));
            }
        }
        Ok(())
    }
}

fn position(place: &Place) -> GroupOffset {
    GroupOffset { topic: place.topic.to_string(), partition: place.partition, offset: place.next }
}

fn add(request: &mut FetchRequest, topic: &Topic, place: &Place) {
    let partition = FetchPartition {
        partition: place.partition,
        fetch_offset: place.next,
        partition_max_bytes: PARTITION_BYTES,
        ..Default::default()
    };
    if let Some(known) = request.topics.iter_mut().find(|known| known.topic == *topic.name) {
        return known.partitions.push(partition);
    }
    request.topics.push(FetchTopic {
        topic: topic.name.as_str().into(),
        topic_id: topic.id,
        partitions: vec![partition],
        ..Default::default()
    });
}

impl Place {
    /// Takes the records of one response and advances the position.
    fn take(
        &mut self,
        answer: &PartitionData,
        isolation: Isolation,
        records: &mut Vec<ConsumedRecord>,
    ) -> Result<(), ClientError> {
        let aborted = answer.aborted_transactions.iter().flatten();
        let mut filter = match isolation {
            Isolation::ReadCommitted => AbortedFilter::new(aborted.map(|a| (a.first_offset, a.producer_id))),
            Isolation::ReadUncommitted => AbortedFilter::default(),
        };
        let bytes = answer.records.as_ref().map(ottla_wire::Records::to_bytes).unwrap_or_default();
        let read = decode_batches(&bytes, &self.topic, self.partition, &mut filter);
        let decoded = read.map_err(|error| ClientError::Malformed {
            what: format!("batch in partition {} of topic {:?}", self.partition, self.topic),
            reason: error.to_string(),
        })?;
        records.extend(decoded.records.into_iter().filter(|record| record.offset >= self.next));
        if let Some(last_offset) = decoded.last_offset {
            self.next = self.next.max(last_offset + 1);
        }
        self.end = Some(match isolation {
            Isolation::ReadCommitted => answer.last_stable_offset,
            Isolation::ReadUncommitted => answer.high_watermark,
        });
        Ok(())
    }
}

/// Whether a read failed because the offset does not exist (any more).
pub fn is_out_of_range(error: &ClientError) -> bool {
    error.is(ErrorCode::OFFSET_OUT_OF_RANGE)
}
