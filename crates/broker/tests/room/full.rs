//! A broker with a full disk refuses data but nothing else, loses nothing, and accepts data again once there is space.

use crate::world::{BATCH, SEGMENT, World, until};
use ottla_broker::host::{HostGone, NoRoom};
use ottla_store::testing::FaultMedium;
use ottla_types::{ProducerEpoch, ProducerId};
use std::collections::BTreeSet;

/// A topic without retention.
const FOREVER: &[(&str, &str)] = &[("retention.ms", "-1")];

/// A host whose disk was filled with batches of topic 1, and the offset behind the last batch that was accepted.
async fn full(capacity: u64) -> (World, i64) {
    let medium = FaultMedium::new(3);
    medium.set_capacity(capacity);
    let world = World::start(medium);
    world.create(1, FOREVER).await;
    world.create(2, FOREVER).await;
    let acknowledged = fill(&world).await;
    assert!(acknowledged > 0);
    (world, acknowledged)
}

/// Produces to topic 1 until the disk is full. Returns the offset behind the last acknowledged batch.
async fn fill(world: &World) -> i64 {
    let mut next = world.read_all(1).await;
    while let Ok(offset) = world.produce(1, None, 0).await {
        next = offset + 1;
    }
    next
}

#[tokio::test]
async fn a_full_disk_still_serves_reads_commits_and_the_end_of_transactions() {
    let medium = FaultMedium::new(3);
    medium.set_capacity(8 * SEGMENT);
    let world = World::start(medium);
    world.create(1, FOREVER).await;
    world.create(2, FOREVER).await;
    let owner = world.init("id").await.unwrap();
    world.produce(2, Some(owner), 0).await.unwrap();
    let acknowledged = fill(&world).await;
    assert_eq!(world.produce(2, Some(owner), 1).await, Err(NoRoom));
    assert_eq!(world.read_all(1).await, acknowledged);
    assert_eq!(world.read_all(2).await, 0, "the transaction is open");
    world.commit(1, acknowledged).await.unwrap();
    world.commit_transaction(owner).await;
    // The batch and its marker.
    assert_eq!(world.read_all(2).await, 2);
    let world = world.crash();
    assert_eq!(world.read_all(1).await, acknowledged);
    assert_eq!(world.read_all(2).await, 2);
    assert_eq!(world.committed(1).await, Some(acknowledged));
    assert_eq!(world.produce(1, None, 0).await, Err(NoRoom), "still full");
    world.medium.set_capacity(u64::MAX);
    until("room", async || world.produce(1, None, 0).await.is_ok()).await;
    let world = world.restart();
    assert_eq!(world.read_all(1).await, acknowledged + 1);
}

#[tokio::test]
async fn one_request_cannot_take_what_is_kept_for_commits() {
    // Two segments are ready and there is no third: a request with many batches is refused as a whole.
    let (world, acknowledged) = full(4 * SEGMENT).await;
    let world = world.restart();
    let topics: Vec<u8> = (3..20).collect();
    world.medium.set_capacity(u64::MAX);
    for topic in &topics {
        world.create(*topic, FOREVER).await;
    }
    until("room", async || world.produce(1, None, 0).await.is_ok()).await;
    world.medium.set_capacity(0);
    assert!((topics.len() * BATCH) as u64 > 4 * SEGMENT);
    let mut offers = Vec::new();
    for _ in 0..8 {
        offers.push(world.produce_all(&topics, None, 0).await);
    }
    assert_eq!(offers.last(), Some(&Err(NoRoom)));
    for round in 0..20 {
        world.commit(1, round).await.unwrap();
    }
    assert!(world.read_all(1).await > acknowledged);
}

#[tokio::test]
async fn t_170_t_261_a_disk_full_to_the_last_byte_answers_nothing_wrong_and_recovers() {
    let (world, acknowledged) = full(4 * SEGMENT).await;
    let mut committed = 0;
    let refused = loop {
        match world.commit(1, committed + 1).await {
            Ok(()) => committed += 1,
            Err(refused) => break refused,
        }
    };
    assert_eq!(refused, HostGone);
    // Half a segment of small records was accepted before.
    assert!(committed > 5, "only {committed} commits fitted");
    // The host continues: it reads, and has nothing of the refused commit.
    assert_eq!(*world.failure.borrow(), None);
    assert_eq!(world.read_all(1).await, acknowledged);
    assert_eq!(world.committed(1).await, Some(committed));
    assert_eq!(world.commit(1, 1_000_000).await, Err(HostGone));
    world.medium.set_capacity(u64::MAX);
    until("room", async || world.commit(1, committed + 1).await.is_ok()).await;
    until("room", async || world.produce(1, None, 0).await.is_ok()).await;
    let world = world.crash();
    assert_eq!(world.committed(1).await, Some(committed + 1));
    assert_eq!(world.read_all(1).await, acknowledged + 1);
}

#[tokio::test]
async fn a_record_larger_than_the_log_takes_concerns_nobody_but_who_asked() {
    let world = World::start(FaultMedium::new(3));
    world.create(1, FOREVER).await;
    let id = "x".repeat(SEGMENT as usize);
    assert_eq!(world.init(&id).await, Err(HostGone));
    assert_eq!(*world.failure.borrow(), None);
    assert_eq!(world.produce(1, None, 0).await, Ok(0));
    assert!(world.init("id").await.is_ok());
    let world = world.crash();
    assert_eq!(world.read_all(1).await, 1);
}

#[tokio::test]
async fn t_22_a_producer_id_whose_reservation_was_refused_is_not_handed_out() {
    let (world, _) = full(4 * SEGMENT).await;
    while world.commit(1, 1).await.is_ok() {}
    assert_eq!(world.init("a").await, Err(HostGone));
    world.medium.set_capacity(u64::MAX);
    until("room", async || world.commit(1, 1).await.is_ok()).await;
    let mut given = BTreeSet::from([world.init("a").await.unwrap().0]);
    let world = world.crash();
    for id in ["b", "c", "d"] {
        assert!(given.insert(world.init(id).await.unwrap().0), "an id was handed out twice: {given:?}");
    }
}

#[tokio::test]
async fn deleting_a_topic_makes_room() {
    let (world, acknowledged) = full(80 * SEGMENT).await;
    assert!(acknowledged as u64 > 60);
    assert_eq!(world.produce(2, None, 0).await, Err(NoRoom));
    world.delete(1).await;
    until("room", async || world.produce(2, None, 0).await.is_ok()).await;
    // Most of the disk is free again, not a segment or two.
    for _ in 0..60 {
        world.produce(2, None, 0).await.unwrap();
    }
    let world = world.crash();
    assert_eq!(world.read_all(2).await, 61);
}

#[tokio::test]
async fn t_46_a_batch_that_was_refused_for_lack_of_room_comes_before_the_next_of_its_producer() {
    let (world, _) = full(80 * SEGMENT).await;
    let producer = (ProducerId(7), ProducerEpoch(0));
    assert_eq!(world.produce_idempotent(2, producer, 0).await, Err(NoRoom));
    world.delete(1).await;
    until("room", async || world.produce(2, None, 0).await.is_ok()).await;
    // The second batch was sent before the answer to the first arrived.
    assert_eq!(world.produce_idempotent(2, producer, 1).await, Err(NoRoom));
    let other = (ProducerId(8), ProducerEpoch(0));
    world.produce_idempotent(2, other, 1).await.unwrap();
    let first = world.produce_idempotent(2, producer, 0).await.unwrap();
    assert_eq!(world.produce_idempotent(2, producer, 1).await, Ok(first + 1));
    assert_eq!(world.produce_idempotent(2, producer, 0).await, Ok(first), "the first batch again");
}

#[tokio::test]
async fn t_46_a_producer_with_a_new_epoch_does_not_wait_for_a_refused_batch_of_the_old() {
    let (world, _) = full(80 * SEGMENT).await;
    assert_eq!(world.produce_idempotent(2, (ProducerId(7), ProducerEpoch(0)), 0).await, Err(NoRoom));
    world.delete(1).await;
    until("room", async || world.produce(2, None, 0).await.is_ok()).await;
    world.produce_idempotent(2, (ProducerId(7), ProducerEpoch(1)), 3).await.unwrap();
}
