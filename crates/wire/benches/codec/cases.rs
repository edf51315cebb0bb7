//! The messages that are measured.

use crate::race::{Case, Race, work};
use bytes::{Bytes, BytesMut};
use kafka_protocol::messages as peer;
use kafka_protocol::protocol::{Decodable, Encodable};
use ottla_wire::batch::{BatchBuilder, NewRecord};
use ottla_wire::codec::Compression;
use ottla_wire::explain::{self, Options};
use ottla_wire::messages::{
    AddOffsetsToTxnRequest, FetchResponse, MetadataResponse, ProduceRequest, TxnOffsetCommitRequest,
    fetch_response, metadata_response, produce_request, txn_offset_commit_request,
};
use ottla_wire::tables::TableSet;
use ottla_wire::{EncodeError, Message, Reader, Records, Text, Uuid, Writer, frame};
use std::cell::RefCell;
use std::fmt::Debug;
use std::hint::black_box;
use std::rc::Rc;

/// Every case, small messages first.
pub(crate) fn all() -> Vec<Case> {
    vec![
        case::<_, peer::AddOffsetsToTxnRequest>("AddOffsetsToTxn", 4, add_offsets()),
        case::<_, peer::TxnOffsetCommitRequest>("TxnOffsetCommit 1x1", 5, offset_commit(1, 1)),
        case::<_, peer::TxnOffsetCommitRequest>("TxnOffsetCommit 10x50", 5, offset_commit(10, 50)),
        case::<_, peer::ProduceRequest>("Produce 10x20x4 KiB", 12, produce(10, 20)),
        case::<_, peer::FetchResponse>("Fetch 10x20x4 KiB", 17, fetch(10, 20)),
        case::<_, peer::MetadataResponse>("Metadata 100x10", 13, metadata(100, 10)),
        explained(),
    ]
}

/// A Produce request of 1 MiB, explained to every field of every record, and explained without its batches, each
/// compared with a copy of its bytes.
fn explained() -> Case {
    let frame = frame::request(7, Some(&Text::from("producer-1")), &produce(13, 20), 12);
    let frame = frame.map(|frame| frame.to_bytes()).unwrap_or_default();
    let race = |what, options: Options| {
        let (mine, theirs) = (frame.clone(), frame.clone());
        Race {
            what,
            ours: work(|| (), move |()| explain::request(TableSet::built_in(), black_box(&mine), &options)),
            peer: work(|| (), move |()| black_box(&theirs).to_vec()),
        }
    };
    let nodes = explain::request(TableSet::built_in(), &frame, &Options::default()).nodes().len();
    Case {
        name: format!("Produce v12, {} KiB, {nodes} nodes", frame.len() / 1024),
        races: vec![
            race("explain (peer: a copy)", Options::default()),
            race("explain, batches closed (peer: a copy)", Options { records: false, ..Options::default() }),
        ],
    }
}

/// The races of a message. The peer's value is read from our bytes, and what it writes must be those bytes again.
fn case<O, P>(name: &str, version: i16, ours: O) -> Case
where
    O: Message + PartialEq + Debug + 'static,
    P: Decodable + Encodable + 'static,
{
    let bytes = ours.to_bytes(version).unwrap_or_else(|why| panic!("{name}: {why}"));
    let again = O::decode(&mut Reader::new(bytes.clone()), version);
    assert_eq!(again.as_ref(), Ok(&ours), "{name}");
    let peer = P::decode(&mut bytes.clone(), version).unwrap_or_else(|why| panic!("{name}: {why}"));
    let mut out = BytesMut::new();
    assert!(
        peer.encode(&mut out, version).is_ok_and(|()| out == bytes),
        "{name}: the peer writes other bytes"
    );
    let (ours, peer) = (Rc::new(ours), Rc::new(peer));
    Case {
        name: format!("{name} v{version}"),
        races: vec![
            decode::<O, P>(version, &bytes),
            encode_anew(version, Rc::clone(&ours), Rc::clone(&peer)),
            encode_again(version, ours, peer),
        ],
    }
}

/// Bytes to a value, and the value dropped.
fn decode<O: Message + 'static, P: Decodable + 'static>(version: i16, bytes: &Bytes) -> Race {
    let (mine, theirs) = (bytes.clone(), bytes.clone());
    Race {
        what: "decode",
        ours: work(move || Reader::new(mine.clone()), move |r| O::decode(r, version)),
        peer: work(move || theirs.clone(), move |bytes| P::decode(bytes, version)),
    }
}

/// A value to bytes that can be sent, in memory of their own. Ours hands out record batches as chunks.
fn encode_anew<O: Message + 'static, P: Encodable + 'static>(version: i16, ours: Rc<O>, peer: Rc<P>) -> Race {
    let chunks = encoded(&*ours, version).is_ok_and(|w| w.into_chunks().len() > 1);
    Race {
        what: "encode",
        ours: if chunks {
            work(|| (), move |()| encoded(black_box(&*ours), version).map(Writer::into_chunks))
        } else {
            work(|| (), move |()| black_box(&*ours).to_bytes(version))
        },
        peer: work(
            || (),
            move |()| {
                let mut out = BytesMut::with_capacity(256);
                black_box(&*peer).encode(&mut out, version).map(|()| out.freeze())
            },
        ),
    }
}

fn encoded<O: Message>(message: &O, version: i16) -> Result<Writer, EncodeError> {
    let mut w = Writer::with_capacity(256);
    message.encode(&mut w, version).map(|()| w)
}

/// A value to bytes in a buffer that is used again and never grows.
fn encode_again<O: Message + 'static, P: Encodable + 'static>(
    version: i16,
    ours: Rc<O>,
    peer: Rc<P>,
) -> Race {
    let (mine, theirs) = (RefCell::new(Writer::new()), RefCell::new(BytesMut::new()));
    Race {
        what: "encode, buffer used again",
        ours: work(
            || (),
            move |()| {
                let mut w = mine.borrow_mut();
                w.clear();
                black_box(&*ours).encode(&mut w, version)
            },
        ),
        peer: work(
            || (),
            move |()| {
                let mut out = theirs.borrow_mut();
                out.clear();
                black_box(&*peer).encode(&mut *out, version)
            },
        ),
    }
}

fn add_offsets() -> AddOffsetsToTxnRequest {
    AddOffsetsToTxnRequest {
        transactional_id: Text::from("payments-eu-7"),
        producer_id: 4_711_000_042,
        producer_epoch: 12,
        group_id: Text::from("billing-workers"),
        ..Default::default()
    }
}

fn offset_commit(topics: i32, partitions: i32) -> TxnOffsetCommitRequest {
    use txn_offset_commit_request::{TxnOffsetCommitRequestPartition, TxnOffsetCommitRequestTopic};
    let partition = |index| TxnOffsetCommitRequestPartition {
        partition_index: index,
        committed_offset: 1_000_000_007 * i64::from(index + 1),
        committed_leader_epoch: 3,
        committed_metadata: Some(Text::default()),
        ..Default::default()
    };
    let topic = |number| TxnOffsetCommitRequestTopic {
        name: Text::from(format!("orders-by-region-{number}")),
        partitions: (0..partitions).map(partition).collect(),
        ..Default::default()
    };
    TxnOffsetCommitRequest {
        transactional_id: Text::from("payments-eu-7"),
        group_id: Text::from("billing-workers"),
        producer_id: 4_711_000_042,
        producer_epoch: 12,
        generation_id_or_member_epoch: 5,
        member_id: Text::from("consumer-1-2f0e9a7c-5a76-4b5e-8d2b-8ff1a5f6f1a0"),
        group_instance_id: None,
        topics: (0..topics).map(topic).collect(),
        ..Default::default()
    }
}

/// One batch of a little over 4 KiB.
fn batch() -> Records {
    let mut batch = BatchBuilder::new(Compression::None);
    for number in 0..40_u8 {
        let record =
            NewRecord { timestamp: 1_700_000_000_000, value: Some(&[number; 95]), ..NewRecord::default() };
        batch.push(&record);
    }
    Records::from(batch.build().unwrap_or_default())
}

fn produce(topics: usize, partitions: i32) -> ProduceRequest {
    use produce_request::{PartitionProduceData, TopicProduceData};
    let partition = |index| PartitionProduceData { index, records: Some(batch()), ..Default::default() };
    let topic = |number| TopicProduceData {
        name: Text::from(format!("orders-by-region-{number}")),
        partition_data: (0..partitions).map(partition).collect(),
        ..Default::default()
    };
    ProduceRequest {
        transactional_id: None,
        acks: -1,
        timeout_ms: 30_000,
        topic_data: (0..topics).map(topic).collect(),
        ..Default::default()
    }
}

fn fetch(topics: u8, partitions: i32) -> FetchResponse {
    use fetch_response::{FetchableTopicResponse, PartitionData};
    let partition = |index| PartitionData {
        partition_index: index,
        high_watermark: 1_000_000,
        last_stable_offset: 999_999,
        log_start_offset: 0,
        aborted_transactions: None,
        preferred_read_replica: -1,
        records: Some(batch()),
        ..Default::default()
    };
    let topic = |number| FetchableTopicResponse {
        topic_id: Uuid([number + 1; 16]),
        partitions: (0..partitions).map(partition).collect(),
        ..Default::default()
    };
    FetchResponse { session_id: 77, responses: (0..topics).map(topic).collect(), ..Default::default() }
}

fn metadata(topics: u8, partitions: i32) -> MetadataResponse {
    use metadata_response::{MetadataResponseBroker, MetadataResponsePartition, MetadataResponseTopic};
    let broker = |number| MetadataResponseBroker {
        node_id: number,
        host: Text::from(format!("broker-{number}.example.org")),
        port: 9092,
        rack: Some(Text::from("rack-a")),
        ..Default::default()
    };
    let partition = |index: i32| MetadataResponsePartition {
        partition_index: index,
        leader_id: index % 3,
        leader_epoch: 4,
        replica_nodes: [0, 1, 2].into(),
        isr_nodes: [0, 1, 2].into(),
        ..Default::default()
    };
    let topic = |number| MetadataResponseTopic {
        name: Some(Text::from(format!("orders-by-region-{number}"))),
        topic_id: Uuid([number + 1; 16]),
        partitions: (0..partitions).map(partition).collect(),
        ..Default::default()
    };
    MetadataResponse {
        brokers: (0..3).map(broker).collect(),
        cluster_id: Some(Text::from("8f1XcQbTQ2-Wn0fB2l3Zqg")),
        controller_id: 1,
        topics: (0..topics).map(topic).collect(),
        ..Default::default()
    }
}
