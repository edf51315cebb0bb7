//! The client when answers get lost: a proxy before the broker carries requests out, and then cuts the connection.
#![expect(
    clippy::unwrap_used,
    reason = "helpers of tests; clippy.toml lets tests unwrap, but not their helpers"
)]

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use ottla::Broker;
use ottla_client::{Client, Consumer, GroupOffset, Isolation, Membership, Producer, ProducerOptions, Record};
use ottla_wire::ApiKey;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

/// The APIs whose answers get lost, every second time.
const LOST: [ApiKey; 4] =
    [ApiKey::PRODUCE, ApiKey::END_TXN, ApiKey::INIT_PRODUCER_ID, ApiKey::TXN_OFFSET_COMMIT];

/// Reads a frame, its size included; none at the end of the stream.
async fn frame(socket: &mut TcpStream) -> Option<Vec<u8>> {
    let size = socket.read_i32().await.ok()?;
    let mut bytes = size.to_be_bytes().to_vec();
    bytes.resize(4 + size as usize, 0);
    socket.read_exact(&mut bytes[4..]).await.ok()?;
    Some(bytes)
}

/// Carries one connection's requests to the broker and back, one at a time, until an answer is due to get lost.
async fn carry(mut client: TcpStream, mut broker: TcpStream, asked: Arc<AtomicUsize>) {
    while let Some(request) = frame(&mut client).await {
        let key = ApiKey(i16::from_be_bytes([request[4], request[5]]));
        broker.write_all(&request).await.unwrap();
        let Some(answer) = frame(&mut broker).await else { return };
        if LOST.contains(&key) && asked.fetch_add(1, Ordering::Relaxed).is_multiple_of(2) {
            return;
        }
        if client.write_all(&answer).await.is_err() {
            return;
        }
    }
}

/// A broker behind such a proxy, and the count of requests whose answers may get lost.
async fn broker_that_loses_answers() -> (Broker, String, Arc<AtomicUsize>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let broker = Broker::in_memory().advertise(&address).set("num.partitions", "3").start().unwrap();
    let (behind, asked) = (broker.address(), Arc::<AtomicUsize>::default());
    let count = asked.clone();
    tokio::spawn(async move {
        while let Ok((client, _)) = listener.accept().await {
            let broker = TcpStream::connect(behind).await.unwrap();
            tokio::spawn(carry(client, broker, count.clone()));
        }
    });
    (broker, address, asked)
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
        values.extend(
            records.iter().map(|record| String::from_utf8(record.value.clone().unwrap().into()).unwrap()),
        );
    }
    values.sort();
    values
}

fn expected(rounds: impl Iterator<Item = usize>) -> Vec<String> {
    rounds.flat_map(|round| (0..9).map(move |n| format!("{round:02}-{n}"))).collect()
}

#[tokio::test]
async fn t_41_a_batch_whose_answer_got_lost_is_sent_again_and_not_doubled() {
    let (_broker, address, asked) = broker_that_loses_answers().await;
    let client = Client::connect(&address).await.unwrap();
    let mut producer = Producer::start(client.clone(), ProducerOptions::default()).await.unwrap();
    let mut last = Vec::new();
    for round in 0..20 {
        let placed = producer.send("t", None, records(round)).await.unwrap();
        let moved = |place: usize| last.get(place).is_none_or(|last| placed[place].offset > *last);
        assert!((0..9).all(moved), "{placed:?}");
        last = placed.iter().map(|placed| placed.offset).collect();
    }
    assert!(asked.load(Ordering::Relaxed) >= 40);
    assert_eq!(values(&client, Isolation::ReadUncommitted).await, expected(0..20));
}

#[tokio::test]
async fn t_102_a_transaction_whose_answers_got_lost_counts_once() {
    let (_broker, address, asked) = broker_that_loses_answers().await;
    let client = Client::connect(&address).await.unwrap();
    let options = ProducerOptions { transactional_id: Some("x".to_owned()), ..Default::default() };
    let mut producer = Producer::start(client.clone(), options).await.unwrap();
    let group = Membership::outside("g");
    for round in 0..12 {
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
    assert!(asked.load(Ordering::Relaxed) >= 60);
    assert_eq!(
        values(&client, Isolation::ReadCommitted).await,
        expected((0..12).filter(|round| round % 3 != 2))
    );
    assert_eq!(values(&client, Isolation::ReadUncommitted).await, expected(0..12));
    let committed = client.committed_offsets("g", Some(("t", &[0]))).await.unwrap();
    assert_eq!(committed[0].offset.offset, 10);
}
