//! Encoding, decoding and checksums.

use bytes::Bytes;
use ottla_wire::batch::{Batch, BatchBuilder, NewRecord};
use ottla_wire::codec::Compression;
use ottla_wire::explain::{self, Options};
use ottla_wire::messages::fetch_response::{FetchableTopicResponse, PartitionData};
use ottla_wire::messages::metadata_response::{MetadataResponsePartition, MetadataResponseTopic};
use ottla_wire::messages::produce_request::{PartitionProduceData, TopicProduceData};
use ottla_wire::messages::{FetchResponse, MetadataResponse, ProduceRequest};
use ottla_wire::tables::TableSet;
use ottla_wire::{Message, Reader, Text, frame};
use std::hint::black_box;

const PRODUCE: i16 = 12;
const FETCH: i16 = 17;
const METADATA: i16 = 13;

/// Runs a case.
pub(crate) fn run(name: &str, times: usize) -> Result<(), String> {
    let told = |e: &dyn std::fmt::Display| e.to_string();
    let batch = batch(20, 100)?;
    let produce = produce(&batch);
    let body = produce.to_bytes(PRODUCE).map_err(|e| told(&e))?;
    let fetch = fetch(&batch);
    let metadata = metadata();
    let whole = frame::request(7, None, &produce, PRODUCE).map_err(|e| told(&e))?.to_bytes();
    let large = Batch::only(&self::batch(1000, 1000)?).map_err(|e| told(&e))?;
    for _ in 0..times {
        match name {
            "wire-decode-produce" => {
                let read = ProduceRequest::decode(&mut Reader::new(black_box(body.clone())), PRODUCE);
                black_box(read.map_err(|e| told(&e))?);
            }
            "wire-encode-fetch" => {
                black_box(frame::response(1, black_box(&fetch), FETCH).map_err(|e| told(&e))?);
            }
            "wire-metadata" => {
                let bytes = black_box(&metadata).to_bytes(METADATA).map_err(|e| told(&e))?;
                let read = MetadataResponse::decode(&mut Reader::new(bytes), METADATA);
                black_box(read.map_err(|e| told(&e))?);
            }
            "wire-explain" => {
                black_box(explain::request(TableSet::built_in(), black_box(&whole), &Options::default()));
            }
            "crc-1m" => black_box(&large).check_crc().map_err(|e| told(&e))?,
            other => return Err(format!("no case {other}")),
        }
    }
    Ok(())
}

/// A batch without a producer.
pub(crate) fn batch(records: usize, size: usize) -> Result<Bytes, String> {
    let value = vec![b'x'; size];
    let mut builder = BatchBuilder::new(Compression::None);
    for _ in 0..records {
        builder.push(&NewRecord { timestamp: 0, key: None, value: Some(&value), headers: &[] });
    }
    builder.build().map_err(|e| e.to_string())
}

/// 10 topics with 10 partitions each.
fn produce(batch: &Bytes) -> ProduceRequest {
    let partition =
        |index| PartitionProduceData { index, records: Some(batch.clone().into()), ..Default::default() };
    let topic = |number| TopicProduceData {
        name: Text::from(format!("topic-{number}")),
        partition_data: (0..10).map(partition).collect(),
        ..Default::default()
    };
    ProduceRequest { acks: -1, topic_data: (0..10).map(topic).collect(), ..Default::default() }
}

fn fetch(batch: &Bytes) -> FetchResponse {
    let row = |partition_index| PartitionData {
        partition_index,
        records: Some(batch.clone().into()),
        ..Default::default()
    };
    let topic = |_| FetchableTopicResponse { partitions: (0..10).map(row).collect(), ..Default::default() };
    FetchResponse { responses: (0..10).map(topic).collect(), ..Default::default() }
}

fn metadata() -> MetadataResponse {
    let row = |partition_index| MetadataResponsePartition {
        partition_index,
        replica_nodes: vec![1].into(),
        isr_nodes: vec![1].into(),
        ..Default::default()
    };
    let topic = |number| MetadataResponseTopic {
        name: Some(Text::from(format!("topic-{number}"))),
        partitions: (0..10).map(row).collect(),
        ..Default::default()
    };
    MetadataResponse { topics: (0..50).map(topic).collect(), ..Default::default() }
}
