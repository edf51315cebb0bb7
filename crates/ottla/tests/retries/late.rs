//! A network that delivers old requests again, at any later time, while a client of version 2 goes on with its next transactions.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use ottla::Broker;
use ottla_client::{Client, Consumer, GroupOffset, Isolation, Membership, Producer, ProducerOptions, Record};
use ottla_wire::ApiKey;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

/// What is delivered again.
const REPEATED: [ApiKey; 5] = [
    ApiKey::PRODUCE,
    ApiKey::END_TXN,
    ApiKey::TXN_OFFSET_COMMIT,
    ApiKey::ADD_PARTITIONS_TO_TXN,
    ApiKey::ADD_OFFSETS_TO_TXN,
];

const ROUNDS: usize = 40;

/// Every request that may come again, and how many did.
#[derive(Default)]
struct Old {
    frames: Vec<Vec<u8>>,
    delivered: usize,
}

/// Reads a frame, its size included; none at the end of the stream.
async fn frame(socket: &mut TcpStream) -> Option<Vec<u8>> {
    let size = socket.read_i32().await.ok()?;
    let mut bytes = size.to_be_bytes().to_vec();
    bytes.resize(4 + size as usize, 0);
    socket.read_exact(&mut bytes[4..]).await.ok()?;
    Some(bytes)
}

async fn exchange(broker: &mut TcpStream, request: &[u8]) -> Option<Vec<u8>> {
    broker.write_all(request).await.ok()?;
    frame(broker).await
}

/// Carries one connection, and delivers an old request before each new one. Which one goes through all ages in turn.
async fn carry(mut client: TcpStream, mut broker: TcpStream, mut late: TcpStream, old: Arc<Mutex<Old>>) {
    while let Some(request) = frame(&mut client).await {
        let again = {
            let mut old = old.lock().unwrap();
            let age = old.delivered * 7 % old.frames.len().max(1);
            let again = old.frames.iter().rev().nth(age).cloned();
            old.delivered += usize::from(again.is_some());
            if REPEATED.contains(&ApiKey(i16::from_be_bytes([request[4], request[5]]))) {
                old.frames.push(request.clone());
            }
            again
        };
        if let Some(again) = again {
            exchange(&mut late, &again).await.unwrap();
        }
        let Some(answer) = exchange(&mut broker, &request).await else { return };
        if client.write_all(&answer).await.is_err() {
            return;
        }
    }
}

fn records(round: usize) -> Vec<Record> {
    let record = |n| Record {
        key: Some(format!("key {n}").into()),
        value: Some(format!("{round:02}-{n}").into()),
        ..Default::default()
    };
    (0..9).map(record).collect()
}

/// All values that a reader sees, sorted.
async fn values(client: &Client, isolation: Isolation) -> Vec<String> {
    let mut consumer = Consumer::new(client, isolation);
    (0..3).for_each(|partition| consumer.assign("t", partition, 0));
    let mut values = Vec::new();
    while !consumer.at_end() {
        let records = consumer.poll(Duration::from_millis(50)).await.unwrap();
        let text = |record: &ottla_client::Consumed| String::from_utf8(record.value.clone().unwrap().into());
        values.extend(records.iter().map(|record| text(record).unwrap()));
    }
    values.sort();
    values
}

fn expected(rounds: impl Iterator<Item = usize>) -> Vec<String> {
    rounds.flat_map(|round| (0..9).map(move |n| format!("{round:02}-{n}"))).collect()
}

#[tokio::test]
async fn t_102_t_104_old_requests_that_come_again_change_nothing_at_version_2() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let broker = Broker::in_memory().advertise(&address).set("num.partitions", "3").start().unwrap();
    let (behind, old) = (broker.address(), Arc::<Mutex<Old>>::default());
    let kept = old.clone();
    tokio::spawn(async move {
        while let Ok((client, _)) = listener.accept().await {
            let broker = TcpStream::connect(behind).await.unwrap();
            let late = TcpStream::connect(behind).await.unwrap();
            tokio::spawn(carry(client, broker, late, kept.clone()));
        }
    });
    let client = Client::connect(&address).await.unwrap();
    let options = ProducerOptions { transactional_id: Some("x".to_owned()), ..Default::default() };
    let mut producer = Producer::start(client.clone(), options).await.unwrap();
    let group = Membership::outside("g");
    for round in 0..ROUNDS {
        producer.begin().await.unwrap();
        producer.send("t", None, records(round)).await.unwrap();
        let next = GroupOffset { topic: "t".to_owned(), partition: 0, offset: round as i64 };
        producer.send_offsets(&group, &[next]).await.unwrap();
        if round % 3 == 2 {
            producer.abort().await.unwrap();
        } else {
            producer.commit().await.unwrap();
        }
    }
    let delivered = old.lock().unwrap().delivered;
    assert!(delivered >= 3 * ROUNDS, "{delivered}");
    let committed = expected((0..ROUNDS).filter(|round| round % 3 != 2));
    assert_eq!(values(&client, Isolation::ReadCommitted).await, committed);
    assert_eq!(values(&client, Isolation::ReadUncommitted).await, expected(0..ROUNDS));
    let offsets = client.committed_offsets("g", Some(("t", &[0]))).await.unwrap();
    assert_eq!(offsets[0].offset.offset, ROUNDS as i64 - 1);
}
