//! What readers see, markers, log starts and what the log may free (sections 10, 14 and 16).

use crate::support::{Answer, input};
use crate::world::{Owner, World, at, kind, owner, plain};
use ottla_core::partitions::Holder;
use ottla_core::partitions::Isolation::{Committed, Uncommitted};
use ottla_core::partitions::{DeleteRecordsError, MarkerError, TxnMarker, WriteTxnMarkers};
use ottla_core::transactions::EndTxn;
use ottla_core::{Effects, Input};
use ottla_types::record::BatchPlace;
use ottla_types::{LogPosition, Millis, Offset, TopicPartition};

const P0: (u8, i32) = (1, 0);

fn p0() -> TopicPartition {
    at(P0.0, P0.1)
}

fn marker(by: Owner, commit: bool, bumped: bool) -> TxnMarker {
    TxnMarker {
        producer_id: by.0,
        producer_epoch: by.1,
        coordinator_epoch: 0,
        commit,
        bumped,
        partitions: vec![p0()],
    }
}

fn mark(world: &mut World, markers: Vec<TxnMarker>) -> Vec<Vec<Result<(), MarkerError>>> {
    match world.ask(input(WriteTxnMarkers { markers })) {
        Answer::WriteTxnMarkers(results) => {
            results.into_iter().map(|results| results.into_iter().map(kind).collect()).collect()
        }
        other => panic!("{other:?}"),
    }
}

fn mark_one(world: &mut World, marker: TxnMarker) -> Result<(), MarkerError> {
    mark(world, vec![marker])[0][0]
}

/// A world with an open transaction of "t" at offset 0.
fn open_at_zero() -> (World, Owner) {
    let mut world = World::new();
    let me = world.init("t", None).unwrap();
    world.write_in("t", me, p0(), 0).unwrap();
    (world, me)
}

fn ends(world: &World) -> (i64, i64, i64) {
    let partition = world.shard.partitions().get(p0()).unwrap();
    (partition.last_stable().0, partition.high_watermark().0, partition.next_offset().0)
}

#[test]
fn nothing_is_readable_before_it_is_durable() {
    let mut world = World::new();
    let produce = ottla_core::partitions::Produce {
        transactional_id: None,
        check: ottla_core::transactions::TransactionCheck::Add,
        batches: vec![ottla_core::partitions::ProduceBatch {
            topic: ottla_core::catalog::TopicRef::Id(p0().topic),
            partition: p0().partition,
            keyless: false,
            earliest: ottla_types::Millis::NONE,
            stamped: false,
            summary: plain(3),
            payload: bytes::Bytes::new(),
        }],
    };
    world.step(input(produce));
    assert_eq!(ends(&world), (0, 0, 3));
    assert!(world.read(p0(), 0, Uncommitted).unwrap().sources.is_empty());
    assert!(world.read(p0(), 3, Uncommitted).is_err());
    let before = world.log.last().unwrap().0.position;
    world.step(Input::Durable(before));
    assert_eq!(ends(&world), (0, 0, 3));
    world.sync();
    assert_eq!(ends(&world), (3, 3, 3));
    assert_eq!(world.advanced, [p0()]);
    assert_eq!(world.read(p0(), 1, Uncommitted).unwrap().sources.len(), 1, "B-70: the whole batch");
}

#[test]
fn t_200_an_end_counts_only_once_it_is_durable() {
    let (mut world, me) = open_at_zero();
    assert_eq!(ends(&world), (0, 1, 1));
    let ask = ottla_core::transactions::EndTxn {
        transactional_id: "t".to_owned(),
        producer_id: me.0,
        producer_epoch: me.1,
        commit: true,
        bump: true,
    };
    world.step(input(ask));
    assert_eq!(ends(&world), (0, 1, 2));
    world.sync();
    assert_eq!(ends(&world), (2, 2, 2));
}

#[test]
fn b_61_t_202_t_210_all_behind_an_open_transaction_is_withheld() {
    let (mut world, me) = open_at_zero();
    let you = world.init("u", None).unwrap();
    world.write(p0(), plain(2)).unwrap();
    world.write_in("u", you, p0(), 0).unwrap();
    world.end("u", you, true, true).unwrap();
    assert_eq!(ends(&world), (0, 5, 5));
    assert!(world.read_committed(p0(), 0).sources.is_empty());
    let late = world.read(p0(), 3, Committed).unwrap();
    assert!(late.sources.is_empty(), "T-201: legal and empty");
    assert_eq!(late.last_stable, Offset(0));
    let all = world.read(p0(), 0, Uncommitted).unwrap();
    assert_eq!((all.sources.len(), all.last_stable, all.aborted.len()), (4, Offset(0), 0));
    world.end("t", me, false, true).unwrap();
    let all = world.read_committed(p0(), 0);
    assert_eq!((all.sources.len(), all.aborted.len()), (5, 1));
    assert_eq!(world.read(p0(), 0, Uncommitted).unwrap().aborted.len(), 0);
}

#[test]
fn t_205_a_transaction_from_before_the_fetch_is_listed() {
    let (mut world, me) = open_at_zero();
    world.write(p0(), plain(1)).unwrap();
    world.end("t", me, false, true).unwrap();
    world.write(p0(), plain(1)).unwrap();
    assert_eq!(world.read_committed(p0(), 1).aborted.len(), 1);
    assert_eq!(world.read_committed(p0(), 2).aborted.len(), 1);
    assert_eq!(world.read_committed(p0(), 3).aborted.len(), 0);
}

#[test]
fn t_207_an_abort_without_data_is_not_listed() {
    let mut world = World::new();
    let me = world.init("t", None).unwrap();
    world.add("t", me, &[p0()]);
    world.end("t", me, false, true).unwrap();
    let read = world.read_committed(p0(), 0);
    assert_eq!((read.sources.len(), read.aborted.len()), (1, 0));
}

#[test]
fn b_62_t_214_markers_take_an_offset() {
    let (mut world, me) = open_at_zero();
    world.end("t", me, true, true).unwrap();
    assert_eq!(ends(&world), (2, 2, 2));
    assert_eq!(world.read_committed(p0(), 0).sources.len(), 2);
    assert!(world.read_committed(p0(), 2).sources.is_empty());
    assert!(world.read(p0(), 3, Committed).is_err());
}

#[test]
fn a_read_stops_at_max_bytes_but_gives_the_first_batch_whole() {
    let mut world = World::new();
    (0..3).for_each(|_| assert!(world.write(p0(), plain(4)).is_ok()));
    let partition = world.shard.partitions().get(p0()).unwrap();
    let read = |max, whole| partition.read(Offset(0), max, whole, Uncommitted).unwrap().sources.len();
    assert_eq!((read(10, true), read(10, false)), (1, 0));
    assert_eq!((read(200, false), read(299, true), read(300, true)), (2, 2, 3));
    assert_eq!(partition.bytes(), 300);
    assert_eq!(partition.readable_bytes(Offset(0), 1000, Uncommitted), 300);
    assert_eq!(partition.readable_bytes(Offset(4), 1000, Uncommitted), 200);
}

#[test]
fn batches_are_found_by_time() {
    let mut world = World::new();
    for time in [50, 90, 70] {
        let mut summary = plain(1);
        summary.max_timestamp = Millis(time);
        world.write(p0(), summary).unwrap();
    }
    let partition = world.shard.partitions().get(p0()).unwrap();
    let at =
        |time| partition.find_time(Millis(time), Offset(0), Uncommitted).map(|found| found.base_offset().0);
    assert_eq!((at(0), at(50), at(51), at(90), at(91)), (Some(0), Some(0), Some(1), Some(1), None));
    assert_eq!(partition.find_latest_time(Uncommitted).unwrap().base_offset().0, 1);
}

#[test]
fn t_125_versions_0_and_1_take_an_equal_epoch() {
    let (mut world, me) = open_at_zero();
    assert_eq!(mark_one(&mut world, marker(me, false, false)), Ok(()));
    assert_eq!(ends(&world), (2, 2, 2));
    assert_eq!(mark_one(&mut world, marker(me, false, false)), Ok(()), "T-236");
    assert_eq!(world.read_committed(p0(), 0).aborted.len(), 1);
    let higher = owner(me.0.0, me.1.0 + 1);
    assert_eq!(mark_one(&mut world, marker(higher, false, false)), Ok(()));
    assert_eq!(mark_one(&mut world, marker(me, false, false)), Err(MarkerError::StaleEpoch));
}

#[test]
fn t_125_version_2_needs_a_higher_epoch_or_repeats() {
    let (mut world, me) = open_at_zero();
    assert_eq!(mark_one(&mut world, marker(me, true, true)), Err(MarkerError::StaleEpoch), "open");
    let higher = owner(me.0.0, me.1.0 + 1);
    assert_eq!(mark_one(&mut world, marker(higher, true, true)), Ok(()));
    let end = ends(&world);
    assert_eq!(mark_one(&mut world, marker(higher, true, true)), Ok(()), "a repetition");
    assert_eq!(ends(&world), end, "nothing was appended");
    assert_eq!(mark_one(&mut world, marker(me, true, true)), Err(MarkerError::StaleEpoch));
}

#[test]
fn t_125_at_the_last_epoch_of_all_an_equal_one_passes() {
    let mut world = World::new();
    assert_eq!(mark_one(&mut world, marker(owner(7, 32767), true, true)), Ok(()));
    assert_eq!(mark_one(&mut world, marker(owner(7, 32767), true, true)), Ok(()));
    assert_eq!(ends(&world), (2, 2, 2));
}

#[test]
fn t_126_an_older_coordinator_is_fenced() {
    let mut world = World::new();
    let mut newer = marker(owner(7, 1), true, false);
    newer.coordinator_epoch = 5;
    assert_eq!(mark_one(&mut world, newer), Ok(()));
    assert_eq!(mark_one(&mut world, marker(owner(7, 1), true, false)), Err(MarkerError::CoordinatorFenced));
}

#[test]
fn t_127_an_unknown_producer_gets_its_marker() {
    let mut world = World::new();
    assert_eq!(mark_one(&mut world, marker(owner(7, 1), false, true)), Ok(()));
    assert_eq!(ends(&world), (1, 1, 1));
    assert!(world.read_committed(p0(), 0).aborted.is_empty());
    let mut nowhere = marker(owner(7, 1), false, true);
    nowhere.partitions = vec![at(9, 0)];
    assert_eq!(mark_one(&mut world, nowhere), Err(MarkerError::UnknownPartition));
}

#[test]
fn t_123_several_markers_in_one_request_take_offsets_in_turn() {
    let (mut world, me) = open_at_zero();
    let higher = owner(me.0.0, me.1.0 + 1);
    let markers =
        vec![marker(higher, false, true), marker(owner(70, 0), true, false), marker(higher, false, true)];
    assert_eq!(mark(&mut world, markers), [[Ok(())], [Ok(())], [Ok(())]]);
    assert_eq!(ends(&world), (3, 3, 3), "the third repeats the first");
    let offsets: Vec<_> = world.read_committed(p0(), 0).batches().map(|b| b.base_offset.0).collect();
    assert_eq!(offsets, [0, 1, 2]);
}

#[test]
fn t_213_log_start_may_pass_an_open_transaction() {
    let (mut world, me) = open_at_zero();
    world.write(p0(), plain(5)).unwrap();
    assert_eq!(world.delete_before(p0(), 7), Err(DeleteRecordsError::OutOfRange));
    assert_eq!(world.delete_before(p0(), -2), Err(DeleteRecordsError::OutOfRange));
    assert_eq!(world.delete_before(at(9, 0), 0), Err(DeleteRecordsError::UnknownPartition));
    assert_eq!(world.delete_before(p0(), 3), Ok(3));
    assert_eq!(world.delete_before(p0(), 1), Ok(3));
    assert_eq!(ends(&world), (3, 6, 6));
    assert!(world.read(p0(), 2, Committed).is_err());
    assert!(world.read_committed(p0(), 3).sources.is_empty());
    assert_eq!(world.read(p0(), 3, Uncommitted).unwrap().sources.len(), 1, "the batch it cuts stays");
    world.end("t", me, false, true).unwrap();
    let read = world.read_committed(p0(), 3);
    assert_eq!((read.sources.len(), read.aborted.len()), (2, 1));
}

#[test]
fn records_of_a_compacted_topic_are_not_deleted() {
    let mut world = World::new();
    world.create_topic(2, 1, &[("cleanup.policy", "compact")]);
    world.write(at(2, 0), plain(1)).unwrap();
    assert_eq!(world.delete_before(at(2, 0), 1), Err(DeleteRecordsError::NotByPolicy));
}

#[test]
fn retention_by_time_and_size_drops_whole_batches() {
    let mut world = World::with(&[]);
    world.create_topic(1, 1, &[("retention.ms", "600000")]);
    world.create_topic(2, 1, &[("retention.bytes", "250")]);
    (0..4).for_each(|_| assert!(world.write(at(2, 0), plain(4)).is_ok()));
    world.write(at(1, 0), plain(1)).unwrap();
    let mut fresh = plain(1);
    fresh.max_timestamp = Millis(1_500_000);
    world.write(at(1, 0), fresh).unwrap();
    world.pass(700_000);
    let start = |topic| world.shard.partitions().get(at(topic, 0)).unwrap().log_start().0;
    assert_eq!((start(1), start(2)), (1, 4), "at least 250 bytes stay");
}

#[test]
fn the_log_is_needed_as_long_as_a_batch_lies_there() {
    let mut world = World::new();
    let huge = |count| {
        let mut summary = plain(count);
        summary.size = 2_000_000;
        summary
    };
    world.create_topic(2, 1, &[("max.message.bytes", "10000000")]);
    world.write(p0(), plain(1)).unwrap();
    world.write(at(2, 0), huge(1)).unwrap();
    world.write(at(2, 0), huge(1)).unwrap();
    assert_eq!(world.shard.partitions().oldest_live(), Some(LogPosition(0)));
    world.delete_before(at(2, 0), 1).unwrap();
    assert_eq!(world.shard.partitions().oldest_live(), Some(LogPosition(0)), "p0 is still there");
    world.delete_before(p0(), -1).unwrap();
    assert_eq!(world.shard.partitions().oldest_live(), Some(LogPosition(30 << 16)));
    world.delete_topic(2);
    assert_eq!(world.shard.partitions().oldest_live(), None);
}

#[test]
fn t_211_the_last_stable_offset_survives_a_restart() {
    let (mut world, me) = open_at_zero();
    world.write(p0(), plain(3)).unwrap();
    world.restart();
    assert_eq!(ends(&world), (0, 4, 4));
    let rows = world.shard.snapshot();
    world.shard = world.replayed_from(&rows, world.log.len());
    assert_eq!(ends(&world), (0, 4, 4));
    world.end("t", me, false, true).unwrap();
    assert_eq!(ends(&world), (5, 5, 5));
}

#[test]
fn a_durable_position_without_news_wakes_nobody() {
    let mut world = World::new();
    world.write(p0(), plain(1)).unwrap();
    world.advanced.clear();
    let mut out = Effects::default();
    world.shard.step(world.now, Input::Durable(LogPosition(u64::MAX)), &mut out);
    assert_eq!(out.drain().count(), 0);
}

#[test]
fn t_120_a_marker_is_kept_as_what_it_says() {
    let (mut world, me) = open_at_zero();
    world.end("t", me, true, true).unwrap();
    let last = *world.read_committed(p0(), 1).batches().last().unwrap();
    let BatchPlace::Marker(marker) = last.place else { panic!("{last:?}") };
    assert!(marker.commit);
    assert_eq!((marker.producer_id, marker.producer_epoch.0, marker.coordinator_epoch), (me.0, 1, 0));
}

#[test]
fn t_200_what_holds_the_last_stable_offset_is_known() {
    let (mut world, me) = open_at_zero();
    let holder = |world: &World| world.shard.partitions().get(p0()).unwrap().holder();
    let open = Holder::Open { first_offset: Offset(0), producer_id: me.0 };
    assert_eq!(holder(&world), Some(open));
    // The end is decided but not durable: its marker holds the offset as long.
    world.write(p0(), plain(1)).unwrap();
    let ask = EndTxn {
        transactional_id: "t".to_owned(),
        producer_id: me.0,
        producer_epoch: me.1,
        commit: true,
        bump: true,
    };
    world.step(input(ask));
    let settling = Holder::Settling { first_offset: Offset(0), marker_offset: Offset(2) };
    assert_eq!(holder(&world), Some(settling));
    world.sync();
    assert_eq!(holder(&world), None);
}
