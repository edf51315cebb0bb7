//! Producing and consuming without transactions.

use crate::world::{Res, World, ensure, same, text};
use krafka::Compression;
use krafka::consumer::{ConsumerRecord, IsolationLevel};
use krafka::producer::{DeliveryHandle, Producer, Record};
use std::time::{SystemTime, UNIX_EPOCH};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::net::TcpStream;

/// The reason why a scenario cannot be run without the runner's proxy.
pub const NO_PROXY: &str = "the broker is not behind the proxy";

/// Record i: everything about it is a function of i and the start time, so a reader can check it.
fn record(topic: &str, i: i64, start: i64) -> Record {
    let mut record = text(topic, (i % 3) as i32, &format!("value-{i}-{}", "x".repeat(100)))
        .key(format!("key-{i}"))
        .timestamp(start + i)
        .header("n", i.to_string())
        .header("bin", vec![0x00, 0xff, 0x80]);
    match i % 10 {
        0 => record = record.without_key(),
        1 => record = record.without_value(),
        2 => record = record.value(""),
        _ => {}
    }
    record
}

pub async fn codec(world: &World, compression: Compression) -> Res<String> {
    let topic = world.topic("", 3).await?;
    let start = SystemTime::now().duration_since(UNIX_EPOCH)?.as_millis() as i64;
    let producer = world.kafka.producer().compression(compression).build().await?;
    let mut handles = Vec::new();
    for i in 0..300 {
        handles.push(producer.enqueue(record(&topic, i, start)).await?);
    }
    for (i, handle) in (0..).zip(handles) {
        let place = handle.await?;
        same(&(i % 3, i / 3), &(i64::from(place.partition), place.offset), "acknowledged place")?;
    }
    producer.close().await?;
    let reader = world.reader(&topic, 3, IsolationLevel::ReadUncommitted).await?;
    let mut read = 0;
    world
        .read(&reader, |got| {
            let i = got.offset * 3 + i64::from(got.partition);
            ensure(i < 300, || format!("partition {} has an offset {}", got.partition, got.offset))?;
            compare(&record(&topic, i, start), &got, i)?;
            read += 1;
            Ok(read == 300)
        })
        .await?;
    reader.close().await?;
    Ok(String::new())
}

fn compare(sent: &Record, got: &ConsumerRecord, i: i64) -> Res<()> {
    let what = |part: &str| format!("{part} of record {i}");
    same(&sent.key, &got.key, &what("key"))?;
    same(&sent.value, &got.value, &what("value"))?;
    same(&sent.headers, &got.headers, &what("headers"))?;
    same(&sent.timestamp, &Some(got.timestamp), &what("time"))
}

pub async fn reconnect(world: &World) -> Res<String> {
    std::env::var("E2E_PROXY_CONTROL").map_err(|_| NO_PROXY)?;
    let topic = world.topic("", 2).await?;
    let producer = world.producer().await?;
    send(&producer, numbered(&topic, 0, 100)).await?;
    let before = proxy("hits").await?;
    ensure(proxy("lose").await? >= 1, || "the proxy armed no connection".into())?;
    send(&producer, numbered(&topic, 100, 200)).await?;
    let mut late = Vec::new();
    for record in numbered(&topic, 200, 250) {
        late.push(producer.enqueue(record).await?);
    }
    proxy("drop").await?;
    send(&producer, numbered(&topic, 250, 300)).await?;
    acknowledged(late).await?;
    let lost = proxy("hits").await? - before;
    ensure(lost > 0, || "the proxy lost no answer".into())?;
    send(&producer, ends(&topic, 2)).await?;
    producer.close().await?;
    let got = world.read_to_end(&topic, 2, IsolationLevel::ReadUncommitted).await?;
    same(&count("", 0, 300), &got, "the log")?;
    Ok(format!("{lost} answers lost"))
}

/// Sends all and waits for every acknowledgement.
pub async fn send(producer: &Producer, records: Vec<Record>) -> Res<()> {
    let mut handles = Vec::new();
    for record in records {
        handles.push(producer.enqueue(record).await?);
    }
    acknowledged(handles).await
}

/// Waits until every record is stored for sure.
pub async fn acknowledged(handles: Vec<DeliveryHandle>) -> Res<()> {
    for handle in handles {
        let place = handle.await?;
        ensure(place.is_persisted(), || format!("not acknowledged as stored: {place:?}"))?;
    }
    Ok(())
}

/// Records with the values [from, to), spread over two partitions.
pub fn numbered(topic: &str, from: i32, to: i32) -> Vec<Record> {
    (from..to).map(|i| text(topic, i % 2, &i.to_string())).collect()
}

pub fn ends(topic: &str, partitions: i32) -> Vec<Record> {
    (0..partitions).map(|p| text(topic, p, "end")).collect()
}

/// The values [from, to) with a prefix, as two partitions should hold them.
pub fn count(prefix: &str, from: usize, to: usize) -> Vec<Vec<String>> {
    let mut values = vec![Vec::new(); 2];
    for i in from..to {
        values[i % 2].push(format!("{prefix}{i}"));
    }
    values
}

/// One line to the proxy in front of the broker; answers the number in its answer.
async fn proxy(command: &str) -> Res<i64> {
    let mut stream = TcpStream::connect(std::env::var("E2E_PROXY_CONTROL")?).await?;
    stream.write_all(format!("{command}\n").as_bytes()).await?;
    let mut line = String::new();
    BufReader::new(stream).read_line(&mut line).await?;
    eprintln!("proxy: {}", line.trim());
    let number = line.trim().rsplit(' ').next().unwrap_or_default();
    Ok(number.parse()?)
}
