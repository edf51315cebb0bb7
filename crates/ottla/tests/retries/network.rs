//! Code that the proxies before a broker share, and the client that works through them.

use ottla_client::{Client, Consumer, GroupOffset, Isolation, Membership, Producer, ProducerOptions, Record};
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

/// Reads a frame, its size included; none at the end of the stream.
pub(crate) async fn frame(socket: &mut TcpStream) -> Option<Vec<u8>> {
    let size = socket.read_i32().await.ok()?;
    let mut bytes = size.to_be_bytes().to_vec();
    bytes.resize(4 + size as usize, 0);
    socket.read_exact(&mut bytes[4..]).await.ok()?;
    Some(bytes)
}

pub(crate) async fn exchange(broker: &mut TcpStream, request: &[u8]) -> Option<Vec<u8>> {
    broker.write_all(request).await.ok()?;
    frame(broker).await
}

/// Runs transactions: data in three partitions and an offset; every third is aborted.
pub(crate) async fn transact(client: &Client, rounds: usize) {
    let options = ProducerOptions { transactional_id: Some("x".to_owned()), ..Default::default() };
    let mut producer = Producer::start(client.clone(), options).await.unwrap();
    let group = Membership::outside("g");
    for round in 0..rounds {
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
}

pub(crate) fn records(round: usize) -> Vec<Record> {
    let record = |n| Record {
        key: Some(format!("key {n}").into()),
        value: Some(format!("{round:02}-{n}").into()),
        ..Default::default()
    };
    (0..9).map(record).collect()
}

/// All values that a consumer reads, sorted.
pub(crate) async fn values(client: &Client, isolation: Isolation) -> Vec<String> {
    let mut consumer = Consumer::new(client, isolation);
    (0..3).for_each(|partition| consumer.assign("t", partition, 0));
    let mut values = Vec::new();
    while !consumer.at_end() {
        let records = consumer.poll(Duration::from_millis(50)).await.unwrap();
        let text =
            |record: &ottla_client::ConsumedRecord| String::from_utf8(record.value.clone().unwrap().into());
        values.extend(records.iter().map(|record| text(record).unwrap()));
    }
    values.sort();
    values
}

pub(crate) fn expected(rounds: impl Iterator<Item = usize>) -> Vec<String> {
    rounds.flat_map(|round| (0..9).map(move |n| format!("{round:02}-{n}"))).collect()
}
