//! The requests. Each has its own fixture: a transactional id, a topic and a group that no other request uses.

use crate::peer::Connection;
use bytes::Bytes;
use ottla_wire::batch::{BatchBuilder, NewRecord};
use ottla_wire::codec::Compression;
use ottla_wire::messages::add_partitions_to_txn_request::{
    AddPartitionsToTxnTopic, AddPartitionsToTxnTransaction,
};
use ottla_wire::messages::create_topics_request::{CreatableTopic, CreatableTopicConfig};
use ottla_wire::messages::produce_request::{PartitionProduceData, TopicProduceData};
use ottla_wire::messages::txn_offset_commit_request::{
    TxnOffsetCommitRequestPartition, TxnOffsetCommitRequestTopic,
};
use ottla_wire::messages::write_txn_markers_request::{WritableTxnMarker, WritableTxnMarkerTopic};
use ottla_wire::messages::{
    AddOffsetsToTxnRequest, AddPartitionsToTxnRequest, CreateTopicsRequest, EndTxnRequest,
    InitProducerIdRequest, ProduceRequest, TxnOffsetCommitRequest, WriteTxnMarkersRequest,
};
use ottla_wire::{Records, Text, Uuid};

/// Producer id and epoch.
pub(crate) type Owner = (i64, i16);

/// The timestamp of every record.
pub(crate) const TIME: i64 = 1_700_000_000_000;

/// The kind of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RequestKind {
    InitNone,
    InitPair,
    AddPartitions,
    AddOffsets,
    Stage,
    Produce,
    ProducePlain,
    Commit,
    Abort,
    AbortNothing,
    Marker,
}

/// The partition, transactional id and group of a request.
#[derive(Clone, Debug)]
pub(crate) struct Fixture {
    pub(crate) id: Text,
    pub(crate) group: Text,
    pub(crate) topic: Text,
    pub(crate) topic_id: Uuid,
    pub(crate) partition: i32,
    /// The sequence number of a batch.
    pub(crate) sequence: i32,
    /// The transaction timeout.
    pub(crate) timeout: i32,
}

/// A request, the same each time it is sent.
#[derive(Clone, Debug)]
pub(crate) struct RequestCase {
    pub(crate) what: RequestKind,
    pub(crate) version: i16,
    pub(crate) place: Fixture,
    pub(crate) owner: Owner,
}

impl Fixture {
    /// A new topic of two partitions; id and group have its name.
    pub(crate) async fn create(peer: &mut Connection, name: &str) -> Fixture {
        let name = Text::from(name);
        let topic = CreatableTopic {
            name: name.clone(),
            num_partitions: 2,
            replication_factor: 1,
            // The records are old.
            configs: vec![CreatableTopicConfig {
                name: "retention.ms".into(),
                value: Some("-1".into()),
                ..Default::default()
            }],
            ..Default::default()
        };
        let request = CreateTopicsRequest { topics: vec![topic], timeout_ms: 1000, ..Default::default() };
        let response = peer.call(&request, 7).await;
        assert_eq!(response.topics[0].error_code, 0);
        Fixture {
            id: name.clone(),
            group: name.clone(),
            topic: name,
            topic_id: response.topics[0].topic_id,
            partition: 0,
            sequence: 0,
            timeout: 60_000,
        }
    }

    /// Prepares for the request: begins the transaction that it belongs to, if any, as clients of its version do.
    pub(crate) async fn prepare(&self, peer: &mut Connection, what: RequestKind, version: i16) -> Owner {
        let owner = self.init(peer, None).await;
        match what {
            RequestKind::InitNone
            | RequestKind::InitPair
            | RequestKind::AddPartitions
            | RequestKind::AddOffsets => {}
            RequestKind::ProducePlain | RequestKind::AbortNothing => {}
            RequestKind::Stage if version >= 5 => {}
            RequestKind::Stage => self.add_offsets(peer, owner).await,
            RequestKind::Produce if version >= 12 => {}
            RequestKind::Produce => self.add(peer, owner).await,
            RequestKind::Commit | RequestKind::Abort | RequestKind::Marker => {
                self.begin(peer, owner, version).await
            }
        }
        owner
    }

    pub(crate) async fn init(&self, peer: &mut Connection, given: Option<Owner>) -> Owner {
        let response = peer.call(&self.init_request(given), 5).await;
        assert_eq!(response.error_code, 0);
        (response.producer_id, response.producer_epoch)
    }

    async fn add(&self, peer: &mut Connection, owner: Owner) {
        let response = peer.call(&self.add_request(owner, 3), 3).await;
        assert_eq!(response.results_by_topic_v3_and_below[0].results_by_partition[0].partition_error_code, 0);
    }

    async fn add_offsets(&self, peer: &mut Connection, owner: Owner) {
        assert_eq!(peer.call(&self.add_offsets_request(owner), 3).await.error_code, 0);
    }

    pub(crate) async fn produce(&self, peer: &mut Connection, owner: Owner, version: i16) {
        let response = peer.call(&self.produce_request(owner, true, version), version).await;
        assert_eq!(response.responses[0].partition_responses[0].error_code, 0);
    }

    /// Ends the transaction by the rules of version 2; returns the next owner.
    pub(crate) async fn end(&self, peer: &mut Connection, owner: Owner, committed: bool) -> Owner {
        let response = peer.call(&self.end_request(owner, committed), 5).await;
        assert_eq!(response.error_code, 0, "{} {owner:?}", self.topic);
        (response.producer_id, response.producer_epoch)
    }

    /// Begins a transaction with partition and group, as clients of this version of EndTxn do.
    pub(crate) async fn begin(&self, peer: &mut Connection, owner: Owner, version: i16) {
        if version < 5 {
            self.add(peer, owner).await;
            self.add_offsets(peer, owner).await;
        }
        self.produce(peer, owner, if version < 5 { 11 } else { 12 }).await;
        let stage = if version < 5 { 3 } else { 5 };
        let response = peer.call(&self.stage(owner, stage), stage).await;
        assert_eq!(response.topics[0].partitions[0].error_code, 0);
    }

    /// Runs a whole transaction of version 2; returns the next owner.
    pub(crate) async fn transaction(&self, peer: &mut Connection, owner: Owner, committed: bool) -> Owner {
        self.begin(peer, owner, 5).await;
        self.end(peer, owner, committed).await
    }

    pub(crate) fn init_request(&self, given: Option<Owner>) -> InitProducerIdRequest {
        let (producer_id, producer_epoch) = given.unwrap_or((-1, -1));
        InitProducerIdRequest {
            transactional_id: Some(self.id.clone()),
            transaction_timeout_ms: self.timeout,
            producer_id,
            producer_epoch,
            ..Default::default()
        }
    }

    pub(crate) fn add_request(&self, owner: Owner, version: i16) -> AddPartitionsToTxnRequest {
        let topics = vec![AddPartitionsToTxnTopic {
            name: self.topic.clone(),
            partitions: [self.partition].into_iter().collect(),
            ..Default::default()
        }];
        if version <= 3 {
            return AddPartitionsToTxnRequest {
                v3_and_below_transactional_id: self.id.clone(),
                v3_and_below_producer_id: owner.0,
                v3_and_below_producer_epoch: owner.1,
                v3_and_below_topics: topics,
                ..Default::default()
            };
        }
        let transaction = AddPartitionsToTxnTransaction {
            transactional_id: self.id.clone(),
            producer_id: owner.0,
            producer_epoch: owner.1,
            topics,
            ..Default::default()
        };
        AddPartitionsToTxnRequest { transactions: vec![transaction], ..Default::default() }
    }

    pub(crate) fn add_offsets_request(&self, owner: Owner) -> AddOffsetsToTxnRequest {
        AddOffsetsToTxnRequest {
            transactional_id: self.id.clone(),
            producer_id: owner.0,
            producer_epoch: owner.1,
            group_id: self.group.clone(),
            ..Default::default()
        }
    }

    pub(crate) fn stage(&self, owner: Owner, version: i16) -> TxnOffsetCommitRequest {
        let partition = TxnOffsetCommitRequestPartition {
            partition_index: self.partition,
            committed_offset: 17,
            committed_metadata: Some("".into()),
            ..Default::default()
        };
        let topic = TxnOffsetCommitRequestTopic {
            name: if version >= 6 { "".into() } else { self.topic.clone() },
            topic_id: if version >= 6 { self.topic_id } else { Uuid::ZERO },
            partitions: vec![partition],
            ..Default::default()
        };
        TxnOffsetCommitRequest {
            transactional_id: self.id.clone(),
            group_id: self.group.clone(),
            producer_id: owner.0,
            producer_epoch: owner.1,
            topics: vec![topic],
            ..Default::default()
        }
    }

    pub(crate) fn produce_request(&self, owner: Owner, transactional: bool, version: i16) -> ProduceRequest {
        let partition = PartitionProduceData {
            index: self.partition,
            records: Some(Records::from(batch(owner, self.sequence, transactional))),
            ..Default::default()
        };
        let topic = TopicProduceData {
            name: if version >= 13 { "".into() } else { self.topic.clone() },
            topic_id: if version >= 13 { self.topic_id } else { Uuid::ZERO },
            partition_data: vec![partition],
            ..Default::default()
        };
        ProduceRequest {
            transactional_id: transactional.then(|| self.id.clone()),
            acks: -1,
            timeout_ms: 1000,
            topic_data: vec![topic],
            ..Default::default()
        }
    }

    pub(crate) fn end_request(&self, owner: Owner, committed: bool) -> EndTxnRequest {
        EndTxnRequest {
            transactional_id: self.id.clone(),
            producer_id: owner.0,
            producer_epoch: owner.1,
            committed,
            ..Default::default()
        }
    }

    /// Version 2 of a marker raises the epoch; before it, the epoch is that of the data.
    fn marker_request(&self, owner: Owner, version: i16) -> WriteTxnMarkersRequest {
        let topic = WritableTxnMarkerTopic {
            name: self.topic.clone(),
            partition_indexes: [self.partition].into_iter().collect(),
            ..Default::default()
        };
        let bumped = version >= 2;
        let marker = WritableTxnMarker {
            producer_id: owner.0,
            producer_epoch: owner.1 + i16::from(bumped),
            transaction_result: false,
            topics: vec![topic],
            transaction_version: if bumped { 2 } else { 0 },
            ..Default::default()
        };
        WriteTxnMarkersRequest { markers: vec![marker], ..Default::default() }
    }
}

fn batch(owner: Owner, sequence: i32, transactional: bool) -> Bytes {
    let mut builder = BatchBuilder::new(Compression::None)
        .producer(owner.0, owner.1, sequence)
        .transactional(transactional);
    builder.push(&NewRecord { timestamp: TIME, key: None, value: Some(b"v"), headers: &[] });
    builder.build().unwrap()
}

impl RequestCase {
    /// Sends the request; returns the whole response, which must be a success.
    pub(crate) async fn send(&self, peer: &mut Connection) -> String {
        let RequestCase { what, version, place, owner } = self;
        let (version, owner) = (*version, *owner);
        let answer = match what {
            RequestKind::InitNone => said(peer.call(&place.init_request(None), version).await),
            RequestKind::InitPair => said(peer.call(&place.init_request(Some(owner)), version).await),
            RequestKind::AddPartitions => said(peer.call(&place.add_request(owner, version), version).await),
            RequestKind::AddOffsets => said(peer.call(&place.add_offsets_request(owner), version).await),
            RequestKind::Stage => said(peer.call(&place.stage(owner, version), version).await),
            RequestKind::Produce => {
                said(peer.call(&place.produce_request(owner, true, version), version).await)
            }
            RequestKind::ProducePlain => {
                said(peer.call(&place.produce_request(owner, false, version), version).await)
            }
            RequestKind::Commit => said(peer.call(&place.end_request(owner, true), version).await),
            RequestKind::Abort | RequestKind::AbortNothing => {
                said(peer.call(&place.end_request(owner, false), version).await)
            }
            RequestKind::Marker => said(peer.call(&place.marker_request(owner, version), version).await),
        };
        assert!(answer.contains("error_code: 0"), "{self:?}: {answer}");
        answer
    }

    /// Continues as a client does: commits the open transaction, then runs another, with the owner named last.
    pub(crate) async fn finish(&self, peer: &mut Connection, answer: &str) {
        let owner = match self.what {
            RequestKind::Marker => return,
            RequestKind::AddPartitions
            | RequestKind::AddOffsets
            | RequestKind::Stage
            | RequestKind::Produce => self.place.end(peer, self.owner, true).await,
            RequestKind::InitNone | RequestKind::InitPair => named(answer),
            RequestKind::Commit | RequestKind::Abort | RequestKind::AbortNothing if self.version >= 5 => {
                named(answer)
            }
            RequestKind::Commit | RequestKind::Abort | RequestKind::AbortNothing => self.owner,
            RequestKind::ProducePlain => return,
        };
        let state = self.place.state(peer).await;
        let committed = matches!(self.what, RequestKind::Stage | RequestKind::Commit);
        assert_eq!(state.offset, committed.then_some(17), "{self:?}");
        // At versions 0 and 1 the sequence numbers continue.
        if owner.1 > self.owner.1 || owner.0 != self.owner.0 {
            self.place.produce(peer, owner, 12).await;
            self.place.end(peer, owner, true).await;
        }
    }
}

fn said(response: impl std::fmt::Debug) -> String {
    format!("{response:?}")
}

/// The owner in a response.
fn named(answer: &str) -> Owner {
    let number = |field: &str| {
        let rest = answer.split(&format!("{field}: ")).nth(1).unwrap();
        rest.split(',').next().unwrap().parse::<i64>().unwrap()
    };
    (number("producer_id"), i16::try_from(number("producer_epoch")).unwrap())
}
