//! Transactions.

use crate::plain::{acknowledged, count, ends, numbered, send};
use crate::world::{POLL, Res, World, ensure, same, text};
use krafka::admin::{ListOffsetsOptions, OffsetSpec, TopicPartition};
use krafka::consumer::{AutoOffsetReset, Consumer, IsolationLevel};
use krafka::error::KrafkaError;
use krafka::producer::{Record, TopicPartitionOffset, TransactionalProducer};
use std::time::{Duration, Instant};

const COMMITTED: IsolationLevel = IsolationLevel::ReadCommitted;
const UNCOMMITTED: IsolationLevel = IsolationLevel::ReadUncommitted;

/// Sends the records in the open transaction and waits for every acknowledgement.
async fn add(producer: &TransactionalProducer, records: Vec<Record>) -> Res<()> {
    let mut handles = Vec::new();
    for record in records {
        handles.push(producer.enqueue(record).await?);
    }
    acknowledged(handles).await
}

/// Sends the records in one transaction and ends it.
async fn transact(producer: &TransactionalProducer, records: Vec<Record>, commit: bool) -> Res<()> {
    producer.begin()?;
    add(producer, records).await?;
    if commit {
        producer.commit().await?
    } else {
        producer.abort().await?
    }
    Ok(())
}

pub async fn commit_abort(world: &World) -> Res<String> {
    let topic = world.topic("", 2).await?;
    let producer = world.transactional().await?;
    let (mut committed, mut all) = (vec![Vec::new(); 2], vec![Vec::new(); 2]);
    for t in 0..6 {
        let mut records = Vec::new();
        for i in 0..20 {
            let (p, value) = (i % 2, format!("{t}-{i}"));
            records.push(text(&topic, p as i32, &value));
            if t % 2 == 0 {
                committed[p].push(value.clone());
            }
            all[p].push(value);
        }
        transact(&producer, records, t % 2 == 0).await?;
    }
    transact(&producer, ends(&topic, 2), true).await?;
    same(&committed, &world.read_to_end(&topic, 2, COMMITTED).await?, "read_committed")?;
    same(&all, &world.read_to_end(&topic, 2, UNCOMMITTED).await?, "read_uncommitted")?;
    let version = producer.transaction_version();
    producer.close().await?;
    Ok(format!("transaction version {version:?}"))
}

pub async fn zombie(world: &World) -> Res<String> {
    let topic = world.topic("", 1).await?;
    let zombie = world.transactional().await?;
    zombie.begin()?;
    add(&zombie, vec![text(&topic, 0, "zombie-1")]).await?;
    let winner = world.transactional().await?;
    transact(&winner, vec![text(&topic, 0, "winner")], true).await?;
    let (call, fence) = match zombie.send(text(&topic, 0, "zombie-2")).await {
        Err(error) => ("send", Err(error)),
        Ok(_) => ("commit", zombie.commit().await),
    };
    eprintln!("zombie's {call}: {fence:?}");
    // krafka wraps the code of a refused batch in the advice to abort, so the text has to tell.
    let text = fence.as_ref().err().map(ToString::to_string).unwrap_or_default();
    let known = ["InvalidProducerEpoch", "ProducerFenced"].into_iter().find(|code| text.contains(code));
    let code = match (known, &fence) {
        (Some(code), _) => code,
        (None, Err(KrafkaError::Fenced { .. })) => "fenced",
        _ => return Err(format!("the zombie's {call} should be fenced, says: {fence:?}").into()),
    };
    // A fenced producer has nothing left to do; it must only not hang.
    let _ = zombie.close().await;
    transact(&winner, ends(&topic, 1), true).await?;
    winner.close().await?;
    same(
        &vec![vec!["winner".to_owned()]],
        &world.read_to_end(&topic, 1, COMMITTED).await?,
        "read_committed",
    )?;
    Ok(format!("{call}: {code}"))
}

pub async fn read_committed_open(world: &World) -> Res<String> {
    let topic = world.topic("", 1).await?;
    let plain = world.producer().await?;
    let open = world.transactional().await?;
    send(&plain, vec![text(&topic, 0, "before")]).await?;
    open.begin()?;
    add(&open, vec![text(&topic, 0, "open")]).await?;
    send(&plain, vec![text(&topic, 0, "after")]).await?;

    let dirty = world.reader(&topic, 1, UNCOMMITTED).await?;
    let mut seen = Vec::new();
    read(world, &dirty, &mut seen, 3).await?;
    same(&words("before open after"), &seen, "read_uncommitted")?;
    same(&1, &latest(world, &topic, true).await?, "latest of read_committed")?;
    same(&3, &latest(world, &topic, false).await?, "latest of read_uncommitted")?;

    let clean = world.reader(&topic, 1, COMMITTED).await?;
    let mut seen = Vec::new();
    read(world, &clean, &mut seen, 1).await?;
    let quiet = Instant::now() + Duration::from_secs(1);
    while Instant::now() < quiet {
        let more = clean.poll(POLL).await?;
        ensure(more.is_empty(), || format!("read_committed saw {more:?} while the transaction was open"))?;
    }
    same(&words("before"), &seen, "read_committed while the transaction is open")?;
    open.commit().await?;
    read(world, &clean, &mut seen, 3).await?;
    same(&words("before open after"), &seen, "read_committed after the commit")?;
    open.close().await?;
    Ok(String::new())
}

fn words(text: &str) -> Vec<String> {
    text.split(' ').map(str::to_owned).collect()
}

/// Reads on until the given number of values were seen.
async fn read(world: &World, reader: &Consumer, seen: &mut Vec<String>, enough: usize) -> Res<()> {
    world
        .read(reader, |record| {
            seen.push(record.value_str().unwrap_or_default().to_owned());
            Ok(seen.len() >= enough)
        })
        .await
}

async fn latest(world: &World, topic: &str, committed: bool) -> Res<i64> {
    let options = ListOffsetsOptions::default().read_committed(committed);
    let asked = [(TopicPartition::new(topic, 0), OffsetSpec::Latest)];
    let found = world.kafka.admin().list_offsets(asked, options).await?;
    let offset = found.into_values().next().ok_or("no offset was listed")??;
    Ok(offset.offset)
}

pub async fn consume_transform_produce(world: &World) -> Res<String> {
    let (input, output) = (world.topic("-in", 2).await?, world.topic("-out", 2).await?);
    send(&world.producer().await?, numbered(&input, 0, 200)).await?;
    let consumer = world.kafka.consumer(world.group()).auto_offset_reset(AutoOffsetReset::Earliest);
    let consumer = consumer.isolation_level(COMMITTED).enable_auto_commit(false);
    let consumer = consumer.max_poll_records(50).fetch_max_wait(POLL).build().await?;
    consumer.subscribe([&input]).await?;
    let producer = world.transactional().await?;
    let (mut done, mut round) = (0, 0);
    while done < 200 {
        done += transform(world, &consumer, &producer, (&input, &output), round != 1).await?;
        round += 1;
    }
    transact(&producer, ends(&output, 2), true).await?;
    producer.close().await?;
    consumer.close().await?;
    same(&count("out-", 0, 200), &world.read_to_end(&output, 2, COMMITTED).await?, "read_committed")?;
    let dirty = world.read_to_end(&output, 2, UNCOMMITTED).await?.concat().len();
    ensure(dirty > 200, || format!("read_uncommitted saw {dirty} records, there was an abort"))?;
    world
        .until("committed offsets at the end of the input", async || {
            Ok(world.committed(&input, 2).await? == [100, 100])
        })
        .await?;
    Ok(format!("{round} rounds"))
}

/// One round; answers how many records were committed. After an abort the consumer is back at the committed offsets.
async fn transform(
    world: &World,
    consumer: &Consumer,
    producer: &TransactionalProducer,
    (input, output): (&str, &str),
    commit: bool,
) -> Res<usize> {
    let records = loop {
        let records = consumer.poll(POLL).await?;
        if !records.is_empty() {
            break records;
        }
        world.until("a record to transform", async || Ok(true)).await?;
    };
    producer.begin()?;
    let made = |r: &krafka::consumer::ConsumerRecord| {
        text(output, r.partition, &format!("out-{}", r.value_str().unwrap_or_default()))
    };
    add(producer, records.iter().map(made).collect()).await?;
    let next =
        |r: &krafka::consumer::ConsumerRecord| TopicPartitionOffset::new(input, r.partition, r.offset + 1);
    let offsets: Vec<_> =
        (0..2).filter_map(|p| records.iter().rfind(|r| r.partition == p).map(next)).collect();
    let member = consumer.group_metadata().await.ok_or("not a member of the group")?;
    producer.send_offsets(&offsets, &member).await?;
    if commit {
        producer.commit().await?;
        return Ok(records.len());
    }
    producer.abort().await?;
    for (partition, offset) in (0..).zip(world.committed(input, 2).await?) {
        consumer.seek(input, partition, offset.max(0)).await?;
    }
    Ok(0)
}
