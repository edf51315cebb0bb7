//! Requests through the whole broker: connection, dispatch, API, core, log, and the response.

use super::wire::batch;
use bytes::Bytes;
use ottla_broker::host::{self, DrivenHost, HostOptions, Snapshots};
use ottla_broker::{AdvertisedAddress, Context, ContextOptions, Randomness, StreamServer};
use ottla_core::config::Settings;
use ottla_store::{MemoryMedium, Options};
use ottla_types::Millis;
use ottla_wire::batch::{BatchBuilder, NewRecord};
use ottla_wire::codec::Compression;
use ottla_wire::messages::create_topics_request::CreatableTopic;
use ottla_wire::messages::fetch_request::{FetchPartition, FetchTopic};
use ottla_wire::messages::produce_request::{PartitionProduceData, TopicProduceData};
use ottla_wire::messages::txn_offset_commit_request::{
    TxnOffsetCommitRequestPartition, TxnOffsetCommitRequestTopic,
};
use ottla_wire::messages::{
    CreateTopicsRequest, EndTxnRequest, FetchRequest, FetchResponse, InitProducerIdRequest, ProduceRequest,
    ProduceResponse, TxnOffsetCommitRequest,
};
use ottla_wire::{ApiKey, Message, Request, Text, frame};
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream};

/// The time, which does not advance.
const NOW: Millis = Millis(1_700_000_000_000);
/// Bytes that the pipe between client and broker holds.
const PIPE: usize = 8 << 20;
const TOPIC: &str = "counted";
const PARTITIONS: i32 = 100;
const PRODUCE: i16 = 12;
const FETCH: i16 = 12;

/// Runs a case `times` times. Requests are prepared for `most` times.
pub(crate) fn run(name: &str, times: usize, most: usize) -> Result<(), String> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build();
    runtime.map_err(|e| e.to_string())?.block_on(async {
        let options = HostOptions {
            settings: Settings::default(),
            log: Options { log_id: Some(1), ..Options::memory() },
            cluster_id: "counted-cluster-000000".to_owned(),
            snapshots: Snapshots::every(1 << 40),
        };
        let driven = host::drive(Arc::new(MemoryMedium::new()), options, NOW).map_err(|e| e.to_string())?;
        let (host, reader) = (driven.host().clone(), driven.reader());
        let client = async move {
            let advertised = AdvertisedAddress { host: "broker".to_owned(), port: 9092 };
            let options = ContextOptions {
                randomness: Randomness::seeded(1),
                ..ContextOptions::new(advertised, "memory")
            };
            let context = Context::new(host, reader, options).await;
            let mut server = StreamServer::new(context.map_err(|e| e.to_string())?);
            let (near, far) = tokio::io::duplex(PIPE);
            let (source, sink) = tokio::io::split(far);
            let serving = server.serve(SocketAddr::from((Ipv4Addr::LOCALHOST, 1)), source, sink);
            let mut client = Client { stream: near, correlation: 0 };
            tokio::select! {
                outcome = client.case(name, times, most) => outcome,
                why = serving => Err(format!("the connection ended: {why}")),
            }
        };
        tokio::select! {
            outcome = client => outcome,
            () = turn(driven) => Err("the broker ended".to_owned()),
        }
    })
}

/// Runs the broker whenever it has something to do.
async fn turn(mut driven: DrivenHost) {
    let wake = Arc::clone(driven.wake());
    while driven.turn(NOW) {
        if driven.has_work() {
            driven.write();
        } else {
            wake.notified().await;
        }
    }
}

struct Client {
    stream: DuplexStream,
    correlation: i32,
}

impl Client {
    async fn case(&mut self, name: &str, times: usize, most: usize) -> Result<(), String> {
        self.create_topic().await?;
        let frames = match name {
            "produce-1k" => produce_frames(most, 1, 1, self.producer(None).await?)?,
            "produce-16k" => produce_frames(most, 1, 15, self.producer(None).await?)?,
            "produce-1m" => produce_frames(most, 1, 1000, self.producer(None).await?)?,
            "produce-50-partitions" => produce_frames(most, 50, 1, self.producer(None).await?)?,
            "fetch-1m" => {
                self.fill(1, 1000).await?;
                vec![fetch_frame(1, 0, 1 << 20)?; most]
            }
            "fetch-100-partitions" => {
                self.fill(PARTITIONS, 1).await?;
                vec![fetch_frame(PARTITIONS, 0, 1 << 20)?; most]
            }
            "fetch-nothing" => {
                self.fill(1, 1).await?;
                vec![fetch_frame(1, 1, 1 << 20)?; most]
            }
            "transaction" => {
                let (id, _) = self.producer(Some(Text::from_static("counter"))).await?;
                return self.transactions(transactions(most, id)?, times).await;
            }
            other => return Err(format!("no case {other}")),
        };
        let fetching = name.starts_with("fetch");
        for frame in &frames[..times] {
            let answer = self.exchange(frame).await?;
            if fetching { fetched(&answer, name == "fetch-nothing")? } else { produced(&answer)? }
        }
        Ok(())
    }

    /// Sends frames and receives one response, without its length prefix.
    async fn exchange(&mut self, frame: &[u8]) -> Result<Bytes, String> {
        self.stream.write_all(frame).await.map_err(|e| e.to_string())?;
        let size = self.stream.read_u32().await.map_err(|e| e.to_string())?;
        let mut answer = vec![0; size as usize];
        self.stream.read_exact(&mut answer).await.map_err(|e| e.to_string())?;
        Ok(answer.into())
    }

    async fn call<R: Request>(&mut self, ask: &R, version: i16) -> Result<R::Response, String> {
        self.correlation += 1;
        let frame = whole(ask, version)?;
        let answer = self.exchange(&frame).await?;
        decoded(&answer, R::KEY, version)
    }

    async fn create_topic(&mut self) -> Result<(), String> {
        let topic = CreatableTopic {
            name: Text::from_static(TOPIC),
            num_partitions: PARTITIONS,
            replication_factor: 1,
            ..Default::default()
        };
        let ask = CreateTopicsRequest { topics: vec![topic], timeout_ms: 1000, ..Default::default() };
        let answer = self.call(&ask, 5).await?;
        no_error("CreateTopics", answer.topics.iter().map(|topic| topic.error_code))
    }

    /// A producer id and its epoch.
    async fn producer(&mut self, name: Option<Text>) -> Result<(i64, i16), String> {
        let ask = InitProducerIdRequest {
            transactional_id: name,
            transaction_timeout_ms: 60_000,
            producer_id: -1,
            producer_epoch: -1,
            ..Default::default()
        };
        let answer = self.call(&ask, 4).await?;
        no_error("InitProducerId", [answer.error_code])?;
        Ok((answer.producer_id, answer.producer_epoch))
    }

    /// Puts a batch into each of the first partitions.
    async fn fill(&mut self, partitions: i32, records: usize) -> Result<(), String> {
        let batch = batch(records, 1024)?;
        let answer = self.call(&produce(None, 0..partitions, &batch), PRODUCE).await?;
        no_error("Produce", codes(&answer))
    }

    async fn transactions(&mut self, frames: Vec<[Bytes; 3]>, times: usize) -> Result<(), String> {
        for [produce, offsets, end] in &frames[..times] {
            produced(&self.exchange(produce).await?)?;
            let answer: <TxnOffsetCommitRequest as Request>::Response =
                decoded(&self.exchange(offsets).await?, TxnOffsetCommitRequest::KEY, 5)?;
            let rows = answer.topics.iter().flat_map(|topic| &topic.partitions);
            no_error("TxnOffsetCommit", rows.map(|row| row.error_code))?;
            let answer: <EndTxnRequest as Request>::Response =
                decoded(&self.exchange(end).await?, EndTxnRequest::KEY, 5)?;
            no_error("EndTxn", [answer.error_code])?;
        }
        Ok(())
    }
}

fn whole<R: Request>(ask: &R, version: i16) -> Result<Bytes, String> {
    let client = Text::from_static("count");
    Ok(frame::request(1, Some(&client), ask, version).map_err(|e| e.to_string())?.to_bytes())
}

fn decoded<M: Message>(answer: &Bytes, key: ApiKey, version: i16) -> Result<M, String> {
    let (_, mut body) = frame::read_response_header(answer, key, version).map_err(|e| e.to_string())?;
    M::decode(&mut body, version).map_err(|e| e.to_string())
}

fn no_error(what: &str, codes: impl IntoIterator<Item = i16>) -> Result<(), String> {
    match codes.into_iter().find(|code| *code != 0) {
        Some(code) => Err(format!("{what} answered error {code}")),
        None => Ok(()),
    }
}

fn codes(answer: &ProduceResponse) -> impl Iterator<Item = i16> {
    answer.responses.iter().flat_map(|topic| &topic.partition_responses).map(|row| row.error_code)
}

fn produced(answer: &Bytes) -> Result<(), String> {
    no_error("Produce", codes(&decoded(answer, ApiKey::PRODUCE, PRODUCE)?))
}

fn fetched(answer: &Bytes, nothing: bool) -> Result<(), String> {
    let answer: FetchResponse = decoded(answer, ApiKey::FETCH, FETCH)?;
    let rows = || answer.responses.iter().flat_map(|topic| &topic.partitions);
    no_error("Fetch", rows().map(|row| row.error_code))?;
    let empty = |row: &ottla_wire::messages::fetch_response::PartitionData| {
        row.records.as_ref().is_none_or(|records| records.is_empty())
    };
    if rows().any(|row| empty(row) != nothing) {
        Err("Fetch answered with other records".to_owned())
    } else {
        Ok(())
    }
}

fn produce(name: Option<Text>, partitions: std::ops::Range<i32>, batch: &Bytes) -> ProduceRequest {
    let partition =
        |index| PartitionProduceData { index, records: Some(batch.clone().into()), ..Default::default() };
    let topic = TopicProduceData {
        name: Text::from_static(TOPIC),
        partition_data: partitions.map(partition).collect(),
        ..Default::default()
    };
    ProduceRequest {
        transactional_id: name,
        acks: -1,
        timeout_ms: 1000,
        topic_data: vec![topic],
        ..Default::default()
    }
}

/// Requests with a batch of 1 KiB records for each of some partitions, one after the other by sequence.
fn produce_frames(
    most: usize,
    partitions: i32,
    records: usize,
    producer: (i64, i16),
) -> Result<Vec<Bytes>, String> {
    (0..most)
        .map(|number| {
            let batch = owned_batch(producer, (number * records) as i32, records, false)?;
            whole(&produce(None, 0..partitions, &batch), PRODUCE)
        })
        .collect()
}

fn owned_batch(
    (id, epoch): (i64, i16),
    sequence: i32,
    records: usize,
    transactional: bool,
) -> Result<Bytes, String> {
    let value = [b'x'; 1024];
    let builder = BatchBuilder::new(Compression::None);
    let mut builder = builder.producer(id, epoch, sequence).transactional(transactional);
    for _ in 0..records {
        builder.push(&NewRecord { timestamp: NOW.0, key: None, value: Some(&value), headers: &[] });
    }
    builder.build().map_err(|e| e.to_string())
}

fn fetch_frame(partitions: i32, fetch_offset: i64, most: i32) -> Result<Bytes, String> {
    let partition = |partition| FetchPartition {
        partition,
        fetch_offset,
        current_leader_epoch: -1,
        last_fetched_epoch: -1,
        log_start_offset: -1,
        partition_max_bytes: most,
        ..Default::default()
    };
    let topic = FetchTopic {
        topic: Text::from_static(TOPIC),
        partitions: (0..partitions).map(partition).collect(),
        ..Default::default()
    };
    let ask = FetchRequest {
        replica_id: -1,
        max_bytes: most,
        session_epoch: -1,
        topics: vec![topic],
        ..Default::default()
    };
    whole(&ask, FETCH)
}

/// The requests of each transaction: one record, one offset, commit. Each commit raises the epoch by one.
fn transactions(most: usize, id: i64) -> Result<Vec<[Bytes; 3]>, String> {
    let name = Text::from_static("counter");
    (0..most as i16)
        .map(|epoch| {
            let batch = owned_batch((id, epoch), 0, 1, true)?;
            let partition =
                TxnOffsetCommitRequestPartition { committed_offset: i64::from(epoch), ..Default::default() };
            let topic = TxnOffsetCommitRequestTopic {
                name: Text::from_static(TOPIC),
                partitions: vec![partition],
                ..Default::default()
            };
            let offsets = TxnOffsetCommitRequest {
                transactional_id: name.clone(),
                group_id: Text::from_static("counters"),
                producer_id: id,
                producer_epoch: epoch,
                topics: vec![topic],
                ..Default::default()
            };
            let end = EndTxnRequest {
                transactional_id: name.clone(),
                producer_id: id,
                producer_epoch: epoch,
                committed: true,
                ..Default::default()
            };
            let records = produce(Some(name.clone()), 0..1, &batch);
            Ok([whole(&records, PRODUCE)?, whole(&offsets, 5)?, whole(&end, 5)?])
        })
        .collect()
}
