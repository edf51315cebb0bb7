//! A compacted topic, compared with a ledger of all writes to it: a reader from the first offset to the end must find
//! the last committed value of every key, or a later write.

use crate::client::Client;
use crate::fetch::Cursor;
use crate::ledger::{Fate, Key, Row, Write};
use crate::place::{ConsumedRecord, Place, TABLE};
use crate::plan::{Plan, ms};
use crate::random::Random;
use crate::records::Fresh;
use crate::transactor::{Habit, falter};
use crate::txn::{Batches, Producer, Trouble};
use crate::world::{World, count, hold, rest};
use ottla_wire::messages::create_topics_request::CreatableTopicConfig;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use tokio::time::{Instant, sleep};

/// Keys of one writer: few, so that they are written again and again.
const KEYS: u64 = 4;
/// Fetches after which a reader gives up.
const FETCHES: usize = 400;

/// The configuration of the topic.
pub(crate) fn configs(plan: &Plan) -> Vec<CreatableTopicConfig> {
    let retention = plan.cleaner.retention.to_string();
    let all = [
        ("cleanup.policy", "compact"),
        ("segment.ms", "1"),
        ("min.cleanable.dirty.ratio", plan.cleaner.ratio),
        ("delete.retention.ms", &retention),
    ];
    let config = |(name, value): (&str, &str)| CreatableTopicConfig {
        name: name.into(),
        value: Some(value.into()),
        ..Default::default()
    };
    all.into_iter().map(config).collect()
}

/// Writes to keys of its own, in one transaction after the other.
pub(crate) async fn keep(world: Arc<World>, number: u64, mut random: Random) {
    let habit = Habit::new(format!("writer-{number}"), &mut random);
    let mut left = 3 * world.plan.crew.ops;
    let mut life = 0;
    while left > 0 {
        life += 1;
        let mut producer = habit.producer(Client::new(&world, format!("k{number}.{life}"), random.fork()));
        if producer.start(false).await.is_err() {
            left -= 1;
            rest(&mut random, 500).await;
            continue;
        }
        while left > 0 {
            left -= 1;
            rest(&mut random, 200).await;
            if operate(&mut producer, number).await.is_err() {
                break;
            }
        }
    }
}

/// One transaction. An error means that this producer is over.
async fn operate(producer: &mut Producer, number: u64) -> Result<(), Trouble> {
    let world = Arc::clone(&producer.client.world);
    let mut values = Vec::new();
    let mut written = Ok(());
    for _ in 0..producer.client.random.within(1..4) {
        if written.is_ok() {
            written = write(producer, number, &mut values).await;
        }
    }
    if written.is_ok() {
        written = falter(producer).await;
    }
    let judge = |fate| hold(&world.table).judge(&values, fate);
    match written {
        Ok(()) if producer.client.random.per_mille(700) => {}
        // No client asks for a commit, now or later.
        Ok(()) | Err(Trouble::Doubt | Trouble::Abort | Trouble::Rejoin) => {
            judge(Fate::Aborted);
            return producer.abort().await;
        }
        Err(over @ Trouble::Over { .. }) => {
            judge(Fate::Aborted);
            return Err(over);
        }
    }
    let ended = producer.end(true).await;
    match ended {
        Ok(()) => judge(Fate::Committed),
        Err(Trouble::Over { doubt: false }) => judge(Fate::Aborted),
        Err(Trouble::Abort) => {
            producer.abort().await?;
            judge(Fate::Aborted);
            return Ok(());
        }
        Err(_) => {}
    }
    ended
}

/// A few records to one partition.
async fn write(producer: &mut Producer, number: u64, values: &mut Vec<String>) -> Result<(), Trouble> {
    let world = Arc::clone(&producer.client.world);
    let random = &mut producer.client.random;
    let partition = random.within(0..world.plan.partitions as u64) as i32;
    let place = Place { topic: TABLE, partition };
    let fresh = |mut fresh: Fresh| {
        let key = format!("k{number}-{}", random.within(0..KEYS));
        let row = Row { key, tombstone: random.per_mille(250) };
        let write = Write { place, row: row.clone(), fate: Fate::Doubt, offset: None };
        hold(&world.table).writes.insert(fresh.name.clone(), write);
        values.push(fresh.name.clone());
        fresh.row = Some(row);
        fresh
    };
    let count = world.fresh_values(2);
    let all: Vec<Fresh> = count.into_iter().map(fresh).collect();
    let batches = Batches::from([(place, all)]);
    let landed = producer.deliver(&batches).await?;
    let mut table = hold(&world.table);
    for (fresh, base) in batches.values().zip(landed).flat_map(|(values, base)| values.iter().zip(base..)) {
        if let Some(write) = table.writes.get_mut(&fresh.name) {
            write.offset = Some(base);
        }
    }
    Ok(())
}

/// Reads the table repeatedly while other clients write.
pub(crate) async fn audit(world: Arc<World>, mut random: Random) {
    for round in 0..world.plan.crew.ops {
        rest(&mut random, 2000).await;
        let mut client = Client::new(&world, format!("audit.{round}"), random.fork());
        read(&world, &mut client).await;
    }
}

/// At the end: reads until compaction has done everything that is due, and checks that no key occurs twice.
pub(crate) async fn settle(world: &Arc<World>, random: &mut Random) {
    if world.plan.crew.table_writers == 0 {
        return;
    }
    let mut client = Client::new(world, "auditor".to_owned(), random.fork());
    let cleaner = world.plan.cleaner;
    // Transactions that no client ends time out.
    sleep(ms(31_000)).await;
    // One pass removes old values, one sets the delete horizons, one drops the tombstones after them.
    for _ in 0..3 {
        sleep(ms(10_000 + 2 * cleaner.backoff + cleaner.retention)).await;
        let Some(records) = read(world, &mut client).await else {
            world.find("the table cannot be read to its end".to_owned());
            return;
        };
        world.say(format_args!("the table has {} records", records.len()));
    }
    let Some(records) = read(world, &mut client).await else { return };
    let mut times: BTreeMap<Key, usize> = BTreeMap::new();
    for given in &records {
        *times.entry((given.place, given.name.clone())).or_default() += 1;
    }
    let written = hold(&world.table).writes.values().filter(|write| write.offset.is_some()).count();
    world.figures.compacted.fetch_add(written.saturating_sub(records.len()) as u64, Relaxed);
    if cleaner.ratio != "0" {
        return;
    }
    let twice = times.iter().filter(|(_, times)| **times > 1);
    twice.for_each(|(key, times)| {
        world.find(format!("the table is not compacted: {key:?} is there {times} times"))
    });
    for given in records.iter().filter(|given| given.value.is_none()) {
        world.find(format!("a tombstone is left after its time: {given:?}"));
    }
}

/// Reads the table from the first offset to the end and compares it with the ledger. None if the end was not reached.
async fn read(world: &Arc<World>, client: &mut Client) -> Option<Vec<ConsumedRecord>> {
    let mut expected = hold(&world.table).committed();
    let began = Instant::now();
    let mut all = Vec::new();
    for partition in 0..world.plan.partitions {
        let place = Place { topic: TABLE, partition };
        let in_sessions = client.random.per_mille(300);
        let mut cursor = Cursor::new(true, in_sessions).at_start([place]);
        let mut fetches = 0;
        loop {
            fetches += 1;
            if fetches > FETCHES {
                return None;
            }
            let Some(fetched) = cursor.fetch(client, 0).await else {
                rest(&mut client.random, 300).await;
                continue;
            };
            all.extend(fetched.given);
            let at = cursor.next.get(&place).copied().unwrap_or(0);
            if let Some((_, _, stable)) = fetched.ends.last().filter(|(_, _, stable)| at >= *stable) {
                // What lies behind an open transaction cannot be seen yet.
                expected.retain(|(of, _), (offset, _)| *of != place || *offset < *stable);
                break;
            }
            sleep(ms(1)).await;
        }
    }
    count(&world.figures.audits);
    // A reader that takes longer may miss a tombstone, and then sees a record that it deleted.
    let slow = began.elapsed() >= ms(world.plan.cleaner.retention) || (world.jumped() && !world.is_calm());
    compare(world, &expected, &all, slow);
    Some(all)
}

fn compare(world: &World, expected: &BTreeMap<Key, (i64, bool)>, all: &[ConsumedRecord], slow: bool) {
    let table = hold(&world.table);
    let mut found = Vec::new();
    let mut last: BTreeMap<Key, &ConsumedRecord> = BTreeMap::new();
    for given in all {
        if let Some(fault) = table.fault(given) {
            found.push(format!("the table has {given:?}, which {fault}"));
        }
        last.insert((given.place, given.name.clone()), given);
    }
    for (key, (offset, tombstone)) in expected {
        let missed = |given: &ConsumedRecord| slow && (*tombstone || table.may_be_deleted(key, given.offset));
        match last.get(key) {
            Some(given) if given.offset < *offset && !missed(given) => {
                found.push(format!("{key:?} was written at {offset}, and {given:?} is its last record"));
            }
            None if !tombstone && !table.may_be_deleted(key, *offset) => {
                found.push(format!("{key:?} was written at {offset}, and is gone"));
            }
            _ => {}
        }
    }
    drop(table);
    found.into_iter().for_each(|what| world.find(what));
}
