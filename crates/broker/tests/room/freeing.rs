//! Segments that no reader needs are freed, without further writes.

use crate::world::{World, until};
use ottla_store::testing::FaultMedium;
use std::collections::BTreeSet;

/// A host with 3 MiB in topic 1 and then a record in topic 2. Snapshots of earlier states pin the beginning of the log.
async fn filled(configs: &[(&str, &str)]) -> World {
    let world = World::start(FaultMedium::new(5));
    world.create(1, configs).await;
    world.create(2, &[("retention.ms", "-1")]).await;
    for number in 0..110 {
        world.produce(1, None, 0).await.unwrap();
        if number == 10 || number == 20 {
            world.host.snapshot().await.unwrap();
        }
    }
    world.produce(2, None, 0).await.unwrap();
    world
}

/// Segments of the last MiB, up to which the state knows the live batches, and the segments prepared ahead.
const FEW: usize = 2 * 16 + 2;

async fn freed(world: &World) {
    until("freed segments", async || world.count("segment-") <= FEW).await;
    // A few segments are kept for reuse.
    until("removed files", async || world.count("spare-") <= 2).await;
}

#[tokio::test]
async fn a_deleted_topic_frees_its_segments_on_an_idle_broker_and_then_there_is_peace() {
    let world = filled(&[("retention.ms", "-1")]).await;
    assert!(world.count("segment-") > 50);
    world.delete(1).await;
    freed(&world).await;
    let snapshots: BTreeSet<_> = world.names("snapshot-").into_iter().collect();
    assert_eq!(snapshots.len(), 2);
    // Reading and committing free nothing, so no further snapshot is written, whatever the number of dead segments.
    for round in 0..50 {
        world.commit(2, round).await.unwrap();
    }
    assert_eq!(world.names("snapshot-").into_iter().collect::<BTreeSet<_>>(), snapshots);
    let world = world.crash();
    assert_eq!(world.read_all(2).await, 1);
    assert_eq!(world.committed(2).await, Some(49));
}

#[tokio::test]
async fn retention_by_size_frees_segments_and_keeps_the_newest_records() {
    let world = filled(&[("retention.ms", "-1"), ("retention.bytes", "100000")]).await;
    freed(&world).await;
    assert_eq!(world.read_all(1).await, 110);
    let world = world.crash();
    assert_eq!(world.read_all(1).await, 110);
    assert_eq!(world.read_all(2).await, 1);
}

#[tokio::test]
async fn retention_by_time_frees_segments() {
    // The records are from 1970.
    let world = filled(&[("retention.ms", "1000")]).await;
    freed(&world).await;
    let world = world.restart();
    assert_eq!(world.read_all(1).await, 110);
    assert_eq!(world.read_all(2).await, 1);
}

#[tokio::test]
async fn what_was_dead_at_the_end_of_one_run_is_freed_by_the_next() {
    let world = filled(&[("retention.ms", "-1")]).await;
    world.delete(1).await;
    let world = world.crash();
    freed(&world).await;
    assert_eq!(world.read_all(2).await, 1);
}
