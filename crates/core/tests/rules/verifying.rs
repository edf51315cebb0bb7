//! Verification and implicit add (section 6), markers at a partition (section 10) and what readers receive (section
//! 14).

use crate::support::{Answer, input};
use crate::world::{World, at, batch, ending, owner, plain, producing};
use ottla_core::partitions::{ProduceError, TxnMarker, WriteTxnMarkers};
use ottla_core::transactions::TransactionCheck::{Add, Verify};
use ottla_types::Offset;
use ottla_types::record::{LogRecord, ProducerState, TransactionRecord};

fn producer(world: &World) -> ProducerState {
    world.shard.partitions().get(at(1, 0)).unwrap().producers().next().unwrap().clone()
}

fn offsets(answers: &[Answer]) -> Vec<Result<i64, ProduceError>> {
    let one = |answer: &Answer| match answer {
        Answer::Produce(results) => results[0].map(|one| one.base_offset.0).map_err(|refused| refused.error),
        other => panic!("{other:?}"),
    };
    answers.iter().map(one).collect()
}

#[test]
fn t_63_a_partition_whose_transaction_is_open_asks_nobody() {
    let mut world = World::new();
    let me = world.init("t", None).unwrap();
    world.write_in("t", me, at(1, 0), 0).unwrap();
    // The id is not even looked at here, as it is where nothing is open.
    assert_eq!(world.write_checked("other", me, at(1, 0), 1, Verify), Ok(1));
    assert_eq!(world.write_checked("other", me, at(1, 1), 1, Verify), Err(ProduceError::UnknownProducer));
    let written = world.log.len();
    assert_eq!(world.write_in("t", me, at(1, 0), 2), Ok(2));
    assert_eq!(world.log.len(), written + 1, "a batch and nothing else");
}

#[test]
fn t_62_a_stale_epoch_is_refused_before_the_id_is_asked() {
    let mut world = World::new();
    let me = world.init("t", None).unwrap();
    world.write_in("t", me, at(1, 0), 0).unwrap();
    world.end("t", me, true, true).unwrap();
    for check in [Verify, Add] {
        assert_eq!(world.write_checked("unknown", me, at(1, 0), 1, check), Err(ProduceError::StaleEpoch));
        let elsewhere = world.write_checked("unknown", me, at(1, 1), 1, check);
        assert_eq!(elsewhere, Err(ProduceError::UnknownProducer), "not known there");
    }
}

#[test]
fn t_66_t_74_the_next_transaction_never_has_to_wait() {
    // Version 2 and version 1: end, and the next batch before the end is durable.
    for bump in [true, false] {
        let mut world = World::new();
        let mut me = world.init("t", None).unwrap();
        let mut sequence = 0;
        for round in 0..50 {
            let batches = [(at(1, 0), batch(me, sequence, 1, true))];
            let answers = world.step(producing(Some("t"), Add, &batches));
            assert_eq!(offsets(&answers), [Ok(2 * round)]);
            world.step(ending("t", me, true, bump));
            if bump {
                me.1 = me.1.bumped();
            } else {
                sequence += 1;
            }
        }
        world.sync();
        assert_eq!(world.read_committed(at(1, 0), 0).sources.len(), 100);
    }
}

#[test]
fn t_68_a_batch_behind_an_abort_is_not_taken_on_an_earlier_verification() {
    let mut world = World::new();
    let me = world.init("t", None).unwrap();
    world.add("t", me, &[at(1, 0)]);
    let verified = world.claim("t", me, &[at(1, 0)], Verify);
    assert_eq!(verified, [Ok(())]);
    world.end("t", me, false, false).unwrap();
    assert_eq!(world.write_checked("t", me, at(1, 0), 0, Verify), Err(ProduceError::NotInTransaction));
    assert_eq!(producer(&world).transaction_start, None);
    assert_eq!(world.shard.partitions().get(at(1, 0)).unwrap().last_stable(), Offset(1));
}

#[test]
fn t_70_batches_in_flight_keep_their_order() {
    let mut world = World::new();
    let me = world.init("t", None).unwrap();
    let send = |world: &mut World, first: i32, check| {
        offsets(&world.step(producing(Some("t"), check, &[(at(1, 0), batch(me, first, 1, true))])))
    };
    // Version 2: a batch that is too early is refused until the first is there.
    assert_eq!(send(&mut world, 1, Add), [Err(ProduceError::OutOfOrder)]);
    for first in 0..3 {
        assert_eq!(send(&mut world, first, Add), [Ok(i64::from(first))]);
    }
    // Version 1: both are judged at once, so neither is ever verified while the other passes.
    world.end("t", me, true, false).unwrap();
    assert_eq!(send(&mut world, 3, Verify), [Err(ProduceError::NotInTransaction)]);
    assert_eq!(send(&mut world, 4, Verify), [Err(ProduceError::NotInTransaction)]);
    world.add("t", me, &[at(1, 0)]);
    assert_eq!(
        send(&mut world, 4, Verify),
        [Err(ProduceError::OutOfOrder)],
        "the first retry is not passed by"
    );
    assert_eq!(send(&mut world, 3, Verify), [Ok(4)]);
    assert_eq!(send(&mut world, 4, Verify), [Ok(5)]);
}

#[test]
fn t_73_t_128_the_first_batch_opens_and_a_marker_closes() {
    let mut world = World::new();
    world.write(at(1, 0), plain(3)).unwrap();
    let me = world.init("t", None).unwrap();
    let start = |world: &World| producer(world).transaction_start;
    for sequence in 0..2 {
        world.write_in("t", me, at(1, 0), sequence).unwrap();
        assert_eq!(start(&world), Some(Offset(3)), "only the first batch sets it");
    }
    // No time, no other producer and no deletion of records ends it.
    world.write(at(1, 0), plain(1)).unwrap();
    world.delete_before(at(1, 0), 4).unwrap();
    world.pass(50_000);
    assert_eq!(start(&world), Some(Offset(3)));
    let next = world.end("t", me, false, true).unwrap();
    let closed = producer(&world);
    assert_eq!((closed.transaction_start, closed.epoch, closed.coordinator_epoch), (None, next.1, 0));
    assert!(closed.batches.is_empty(), "a higher epoch clears what is known of the batches");
    assert_eq!(world.read_committed(at(1, 0), 4).aborted.len(), 1);
    // A marker of the same epoch leaves it, and a commit lists nothing.
    world.write_in("t", next, at(1, 0), 0).unwrap();
    world.end("t", next, true, false).unwrap();
    assert_eq!(producer(&world).batches.len(), 1);
    assert_eq!(world.read_committed(at(1, 0), 4).aborted.len(), 1);
}

#[test]
fn t_121_a_marker_carries_the_one_coordinators_epoch() {
    let mut world = World::new();
    let me = world.init("t", None).unwrap();
    world.write_in("t", me, at(1, 0), 0).unwrap();
    world.end("t", me, true, true).unwrap();
    world.restart();
    assert_eq!(producer(&world).coordinator_epoch, 0);
    let epochs = world.log.iter().filter_map(|(_, record)| match record {
        LogRecord::Transactions(TransactionRecord::TransactionEnded(ended)) => {
            Some(ended.marker.coordinator_epoch)
        }
        _ => None,
    });
    assert_eq!(epochs.collect::<Vec<_>>(), [0]);
}

#[test]
fn b_21_t_253_a_repeated_marker_ends_nothing_else() {
    let mut world = World::with(&[("producer.id.expiration.ms", "1000")]);
    world.create_topic(1, 1, &[]);
    let me = world.init("t", None).unwrap();
    world.write_in("t", me, at(1, 0), 0).unwrap();
    let next = world.end("t", me, true, true).unwrap();
    let again = |world: &mut World| {
        let marker = TxnMarker {
            producer_id: next.0,
            producer_epoch: next.1,
            coordinator_epoch: 0,
            commit: true,
            bumped: true,
            partitions: vec![at(1, 0)],
        };
        let ask = WriteTxnMarkers { markers: vec![marker] };
        match world.ask(input(ask)) {
            Answer::WriteTxnMarkers(results) => results[0][0].map_err(|refused| refused.error),
            other => panic!("{other:?}"),
        }
    };
    assert_eq!(again(&mut world), Ok(()));
    // The next transaction has the marker's epoch: a repetition cannot end it.
    world.write_in("t", next, at(1, 0), 0).unwrap();
    assert!(again(&mut world).is_err());
    assert_eq!(producer(&world).transaction_start, Some(Offset(2)));
    let last = world.end("t", next, false, true).unwrap();
    // Once the producer is forgotten the marker is taken, and changes nothing that is seen.
    world.pass(1_200_000);
    assert_eq!(world.shard.partitions().get(at(1, 0)).unwrap().producer_count(), 0);
    let before = world.read_committed(at(1, 0), 0);
    assert_eq!(again(&mut world), Ok(()));
    let after = world.read_committed(at(1, 0), 0);
    assert_eq!(after.sources[..before.sources.len()], before.sources);
    assert_eq!((after.aborted, after.last_stable), (before.aborted, after.high_watermark));
    assert_eq!(world.write_in("t", last, at(1, 0), 0), Ok(5));
}

#[test]
fn t_206_aborted_transactions_are_listed_by_marker_with_their_first_offset_here() {
    let mut world = World::new();
    let (one, two) = (world.init("one", None).unwrap(), world.init("two", None).unwrap());
    world.write_in("one", one, at(1, 1), 0).unwrap();
    world.write_in("one", one, at(1, 0), 0).unwrap();
    world.write_in("two", two, at(1, 0), 0).unwrap();
    // The second to begin is the first to end.
    let two = world.end("two", two, false, true).unwrap();
    world.end("one", one, false, true).unwrap();
    world.write_in("two", two, at(1, 0), 0).unwrap();
    world.end("two", two, false, true).unwrap();
    let read = world.read_committed(at(1, 0), 0);
    let listed = |n: usize| {
        let aborted = &read.aborted[n];
        (aborted.producer_id, aborted.first_offset.0, aborted.marker_offset.0)
    };
    assert_eq!(read.aborted.len(), 3);
    assert_eq!((listed(0), listed(1), listed(2)), ((two.0, 1, 2), (one.0, 0, 3), (two.0, 4, 5)));
}

#[test]
fn t_284_out_of_order_is_said_of_a_gap_and_of_nothing_else() {
    let mut world = World::new();
    let me = owner(7, 0);
    for first in [0, 3, 6] {
        world.write(at(1, 0), batch(me, first, 3, false)).unwrap();
    }
    for first in 0..30 {
        for count in 1..5 {
            let mut copy = World::new();
            copy.shard = world.replayed();
            copy.sync();
            let known = count == 3 && first <= 6 && first % 3 == 0;
            let expected = if known || first == 9 { Ok(()) } else { Err(ProduceError::OutOfOrder) };
            let result = copy.write(at(1, 0), batch(me, first, count, false)).map(drop);
            assert_eq!(result, expected, "{first} {count}");
        }
    }
}
