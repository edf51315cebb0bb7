//! Idempotent produce: epochs and sequences (section 4 of the rules).

use crate::support::Answer;
use crate::world::{World, at, batch, kind, owner, plain, producing};
use ottla_core::Input;
use ottla_core::partitions::{PartitionCommand, ProduceError};
use ottla_core::transactions::TransactionCheck;
use ottla_types::{Millis, ProducerId};

#[test]
fn plain_batches_follow_one_another() {
    let mut world = World::new();
    assert_eq!(world.write(at(1, 0), plain(3)), Ok(0));
    assert_eq!(world.write(at(1, 0), plain(2)), Ok(3));
    assert_eq!(world.write(at(1, 1), plain(1)), Ok(0));
    assert_eq!(world.write(at(9, 0), plain(1)), Err(ProduceError::UnknownTopic));
    assert_eq!(world.write(at(1, 3), plain(1)), Err(ProduceError::UnknownPartition));
}

#[test]
fn one_request_with_a_partition_twice_appends_once() {
    let mut world = World::new();
    let results = world.produce(None, TransactionCheck::Add, &[(at(1, 0), plain(1)), (at(1, 0), plain(1))]);
    assert_eq!(results[0].unwrap().base_offset.0, 0);
    assert_eq!(results[1], Err(ProduceError::RepeatedPartition));
}

#[test]
fn t_41_any_of_the_last_five_is_a_duplicate() {
    let mut world = World::new();
    let me = owner(7, 0);
    for sequence in 0..6 {
        assert_eq!(world.write(at(1, 0), batch(me, sequence, 1, false)), Ok(i64::from(sequence)));
    }
    for sequence in 1..6 {
        assert_eq!(world.write(at(1, 0), batch(me, sequence, 1, false)), Ok(i64::from(sequence)));
    }
    assert_eq!(world.shard.partitions().get(at(1, 0)).unwrap().next_offset().0, 6);
}

#[test]
fn t_41_a_duplicate_answers_with_the_original_timestamp() {
    let mut world = World::new();
    let mut summary = batch(owner(7, 0), 0, 1, false);
    summary.max_timestamp = Millis(1_000_123);
    world.write(at(1, 0), summary).unwrap();
    let again = world.produce(None, TransactionCheck::Add, &[(at(1, 0), summary)]).remove(0).unwrap();
    assert_eq!(again.log_append_time.0, 1_000_123);
}

#[test]
fn t_42_older_or_overlapping_is_out_of_order() {
    let mut world = World::new();
    let me = owner(7, 0);
    for sequence in 0..6 {
        world.write(at(1, 0), batch(me, 2 * sequence, 2, false)).unwrap();
    }
    assert_eq!(world.write(at(1, 0), batch(me, 0, 2, false)), Err(ProduceError::OutOfOrder));
    assert_eq!(world.write(at(1, 0), batch(me, 10, 1, false)), Err(ProduceError::OutOfOrder));
    assert_eq!(world.write(at(1, 0), batch(me, 11, 2, false)), Err(ProduceError::OutOfOrder));
    assert_eq!(world.write(at(1, 0), batch(me, 13, 1, false)), Err(ProduceError::OutOfOrder));
    assert_eq!(world.write(at(1, 0), batch(me, 12, 1, false)), Ok(12));
}

#[test]
fn t_44_t_45_epochs_only_rise_and_start_at_zero() {
    let mut world = World::new();
    world.write(at(1, 0), batch(owner(7, 3), 5, 1, false)).unwrap();
    assert_eq!(world.write(at(1, 0), batch(owner(7, 2), 6, 1, false)), Err(ProduceError::StaleEpoch));
    assert_eq!(world.write(at(1, 0), batch(owner(7, 4), 6, 1, false)), Err(ProduceError::OutOfOrder));
    assert_eq!(world.write(at(1, 0), batch(owner(7, 4), 0, 1, false)), Ok(1));
    assert_eq!(world.write(at(1, 0), batch(owner(7, 3), 6, 1, false)), Err(ProduceError::StaleEpoch));
}

#[test]
fn t_46_an_unknown_producer_starts_anywhere_unless_version_2() {
    let mut world = World::new();
    assert_eq!(world.write(at(1, 0), batch(owner(7, 3), 5, 1, false)), Ok(0));
    let me = world.init("t", None).unwrap();
    assert_eq!(world.write_in("t", me, at(1, 0), 1), Err(ProduceError::OutOfOrder));
    assert_eq!(world.write_in("t", me, at(1, 0), 0), Ok(1));
}

#[test]
fn t_46_version_1_starts_anywhere() {
    let mut world = World::new();
    let me = world.init("t", None).unwrap();
    world.add("t", me, &[at(1, 0)]);
    assert_eq!(world.write_checked("t", me, at(1, 0), 9, TransactionCheck::Verify), Ok(0));
}

#[test]
fn b_30_t_48_a_batch_may_wrap_inside() {
    let mut world = World::new();
    let me = owner(7, 0);
    assert_eq!(world.write(at(1, 0), batch(me, 2_147_483_640, 20, false)), Ok(0));
    assert_eq!(world.write(at(1, 0), batch(me, 2_147_483_640, 20, false)), Ok(0));
    assert_eq!(world.write(at(1, 0), batch(me, 12, 1, false)), Ok(20));
}

#[test]
fn b_32_t_48_zero_follows_only_the_largest() {
    let mut world = World::new();
    let me = owner(7, 0);
    world.write(at(1, 0), batch(me, 2_147_483_646, 1, false)).unwrap();
    assert_eq!(world.write(at(1, 0), batch(me, 0, 1, false)), Err(ProduceError::OutOfOrder));
    assert_eq!(world.write(at(1, 0), batch(me, 2_147_483_647, 1, false)), Ok(1));
    assert_eq!(world.write(at(1, 0), batch(me, 0, 1, false)), Ok(2));
}

#[test]
fn t_49_t_57_what_a_client_may_not_send_leaves_no_trace() {
    let mut world = World::new();
    let mut control = batch(owner(7, 0), 0, 1, false);
    control.control = true;
    let mut counted = batch(owner(7, 0), 0, 2, false);
    counted.record_count = 3;
    let mut nobody = plain(1);
    nobody.transactional = true;
    for bad in [control, counted, batch(owner(7, 0), -1, 1, false), nobody] {
        let result = world.produce(Some("t"), TransactionCheck::Add, &[(at(1, 0), bad)]).remove(0);
        assert!(matches!(result, Err(ProduceError::Invalid(_))), "{result:?}");
    }
    assert_eq!(world.shard.partitions().get(at(1, 0)).unwrap().producers().count(), 0);
}

#[test]
fn b_34_t_52_expiry_goes_by_arrival_and_forgets_the_sequence() {
    let mut world = World::new();
    let mut old = batch(owner(7, 0), 0, 7, false);
    (old.base_timestamp, old.max_timestamp) = (Millis(0), Millis(0));
    world.write(at(1, 0), old).unwrap();
    world.pass(86_000_000);
    assert_eq!(world.write(at(1, 0), batch(owner(7, 0), 9, 1, false)), Err(ProduceError::OutOfOrder));
    world.pass(1_400_000);
    assert_eq!(world.shard.partitions().get(at(1, 0)).unwrap().producers().count(), 0);
    assert_eq!(world.write(at(1, 0), batch(owner(7, 0), 9, 1, false)), Ok(7));
}

#[test]
fn t_52_an_open_transaction_keeps_its_producer() {
    let mut world = World::with(&[("producer.id.expiration.ms", "1000")]);
    world.create_topic(1, 1, &[]);
    let me = world.init_with("t", None, 900_000).unwrap();
    world.write_in("t", me, at(1, 0), 0).unwrap();
    world.pass(850_000);
    assert_eq!(world.write_in("t", me, at(1, 0), 1), Ok(1));
}

#[test]
fn of_too_many_producers_those_used_least_lately_are_forgotten() {
    let mut world = World::with(&[("ottla.producers.max", "3")]);
    world.create_topic(1, 2, &[]);
    for id in 0..3 {
        world.write(at(1, 0), batch(owner(id, 0), 0, 1, false)).unwrap();
        world.pass(1);
    }
    // The first one becomes the last.
    world.write(at(1, 0), batch(owner(0, 0), 1, 1, false)).unwrap();
    world.pass(1);
    world.write(at(1, 1), batch(owner(3, 0), 0, 1, false)).unwrap();
    world.pass(1);
    let known = |world: &World, partition| -> Vec<i64> {
        let partition = world.shard.partitions().get(at(1, partition)).unwrap();
        partition.producers().map(|state| state.producer_id.0).collect()
    };
    assert_eq!((known(&world, 0), known(&world, 1)), (vec![0, 2], vec![3]));
    assert_eq!(world.write(at(1, 0), batch(owner(0, 0), 1, 1, false)), Ok(3), "it is still recognised");
    world.restart();
    world.write(at(1, 1), batch(owner(4, 0), 0, 1, false)).unwrap();
    world.pass(1);
    assert_eq!((known(&world, 0), known(&world, 1)), (vec![0], vec![3, 4]), "a restart knows the order");
    world.restart_from_snapshot();
    world.write(at(1, 1), batch(owner(5, 0), 0, 1, false)).unwrap();
    world.pass(1);
    assert_eq!((known(&world, 0), known(&world, 1)), (vec![], vec![3, 4, 5]), "so does a snapshot");
}

#[test]
fn producers_with_transactions_are_never_among_the_too_many() {
    let mut world = World::with(&[("ottla.producers.max", "1")]);
    world.create_topic(1, 1, &[]);
    let open = world.init("open", None).unwrap();
    world.write_in("open", open, at(1, 0), 0).unwrap();
    let ended = world.init("ended", None).unwrap();
    world.write_in("ended", ended, at(1, 0), 0).unwrap();
    world.end("ended", ended, true, true).unwrap();
    for id in 5000..5010 {
        world.write(at(1, 0), batch(owner(id, 0), 0, 1, false)).unwrap();
        world.pass(1);
    }
    let partition = world.shard.partitions().get(at(1, 0)).unwrap();
    let known: Vec<_> = partition.producers().map(|state| state.producer_id).collect();
    assert_eq!(known, [open.0, ended.0, ProducerId(5009)]);
}

#[test]
fn a_million_producers_cost_no_more_than_a_few() {
    let mut world = World::with(&[("ottla.producers.max", "1000")]);
    world.create_topic(1, 100, &[]);
    for round in 0..10_000 {
        let one =
            |partition| (at(1, partition), batch(owner(round * 100 + i64::from(partition), 0), 0, 1, false));
        let batches: Vec<_> = (0..100).map(one).collect();
        world.produce(None, TransactionCheck::Add, &batches);
        world.pass(1);
        world.log.clear();
        let known: usize = world.shard.partitions().iter().map(|(_, state)| state.producer_count()).sum();
        assert!(known <= 1000, "{known} are remembered");
    }
}

#[test]
fn t_53_deleting_records_keeps_producers() {
    let mut world = World::new();
    let me = owner(7, 0);
    world.write(at(1, 0), batch(me, 0, 3, false)).unwrap();
    world.delete_before(at(1, 0), -1).unwrap();
    assert_eq!(world.write(at(1, 0), batch(me, 0, 3, false)), Ok(0));
    assert_eq!(world.write(at(1, 0), batch(me, 4, 1, false)), Err(ProduceError::OutOfOrder));
    assert_eq!(world.write(at(1, 0), batch(me, 3, 1, false)), Ok(3));
}

#[test]
fn b_35_t_54_all_five_survive_a_restart() {
    let mut world = World::new();
    let me = owner(7, 0);
    for sequence in 0..5 {
        world.write(at(1, 0), batch(me, sequence, 1, false)).unwrap();
    }
    world.restart();
    for sequence in 0..5 {
        assert_eq!(world.write(at(1, 0), batch(me, sequence, 1, false)), Ok(i64::from(sequence)));
    }
    assert_eq!(world.write(at(1, 0), batch(me, 5, 1, false)), Ok(5));
    let rows = world.shard.snapshot();
    world.shard = world.replayed_from(&rows, world.log.len());
    for sequence in 1..6 {
        assert_eq!(world.write(at(1, 0), batch(me, sequence, 1, false)), Ok(i64::from(sequence)));
    }
}

#[test]
fn t_22_ids_are_fresh_after_a_restart() {
    let mut world = World::new();
    let before: Vec<ProducerId> = (0..3).map(|n| world.init(&format!("t{n}"), None).unwrap().0).collect();
    world.restart();
    let after = world.init("u", None).unwrap().0;
    assert!(!before.contains(&after));
}

#[test]
fn topic_bounds_are_kept() {
    let mut world = World::with(&[]);
    world.create_topic(1, 1, &[("max.message.bytes", "100"), ("message.timestamp.after.max.ms", "10")]);
    world.create_topic(2, 1, &[("message.timestamp.type", "LogAppendTime")]);
    assert_eq!(world.write(at(1, 0), plain(5)), Err(ProduceError::TooLarge { most: 100 }));
    let mut late = plain(1);
    late.max_timestamp = Millis(1_000_011);
    assert!(matches!(world.write(at(1, 0), late), Err(ProduceError::BadTimestamp { .. })));
    world.now = Millis(2_000_000);
    let stamped = world.produce(None, TransactionCheck::Add, &[(at(2, 0), late)]).remove(0).unwrap();
    assert_eq!(stamped.log_append_time.0, 2_000_000);
}

#[test]
fn timestamps_lie_near_the_brokers_clock() {
    let mut world = World::with(&[]);
    let near = [("message.timestamp.before.max.ms", "20"), ("message.timestamp.after.max.ms", "10")];
    world.create_topic(1, 1, &near);
    world.create_topic(2, 1, &[near[0], near[1], ("message.timestamp.type", "LogAppendTime")]);
    let ask = |world: &mut World, topic: u8, (earliest, latest): (i64, i64), stamped: bool| {
        let mut summary = plain(2);
        summary.max_timestamp = Millis(latest);
        let mut input = producing(None, TransactionCheck::Add, &[(at(topic, 0), summary)]);
        if let Input::Partitions(PartitionCommand::Produce(produce, _)) = &mut input {
            (produce.batches[0].earliest, produce.batches[0].stamped) = (Millis(earliest), stamped);
        }
        match world.ask(input) {
            Answer::Produce(mut results) => kind(results.remove(0)).map(|_| ()),
            other => panic!("{other:?}"),
        }
    };
    let bad = Err(ProduceError::BadTimestamp { least: Millis(999_980), most: Millis(1_000_010) });
    for (times, expected) in [
        ((999_980, 1_000_010), Ok(())),
        ((999_979, 1_000_000), bad),
        ((1_000_000, 1_000_011), bad),
        ((-1, -1), Ok(())),
        ((-2, -1), bad),
        ((i64::MIN, 1_000_000), bad),
        ((1_000_000, i64::MAX), bad),
    ] {
        assert_eq!(ask(&mut world, 1, times, false), expected, "{times:?}");
        assert_eq!(ask(&mut world, 2, times, false), Ok(()), "{times:?}: the broker's own time");
    }
    assert_eq!(ask(&mut world, 1, (1_000_000, 1_000_000), true), Ok(()));
    assert_eq!(ask(&mut world, 1, (-1, -1), true), Err(ProduceError::NotItsTime));
    assert_eq!(ask(&mut world, 2, (1_000_000, 1_000_000), true), Err(ProduceError::NotItsTime));
}
