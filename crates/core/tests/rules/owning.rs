//! InitProducerId, joining a transaction, timeouts and expiry (sections 3, 5 to 7, 11 and 12).

use crate::support::{Answer, input};
use crate::world::{Owner, World, at, batch, claim, owner};
use ottla_core::offsets_partition;
use ottla_core::partitions::ProduceError;
use ottla_core::transactions::AddOffsetsToTxn;
use ottla_core::transactions::{InitError, TransactionCheck, TransactionError, TransactionFilter};
use ottla_types::record::{BatchPlace, LogRecord, PartitionRecord, TransactionRecord, TransactionStatus};
use ottla_types::{Millis, Offset, ProducerId};

fn status_of(world: &World, id: &str) -> TransactionStatus {
    world.shard.transactions().get(id).unwrap().state().status
}

/// Ends transactions until the epoch of "t" is this one.
fn run_up(world: &mut World, mut me: Owner, epoch: i16) -> Owner {
    while me.1.0 < epoch {
        me = world.end("t", me, false, true).unwrap();
    }
    me
}

#[test]
fn t_023_t_025_what_is_refused_first() {
    let mut world = World::new();
    assert_eq!(world.init("", None), Err(InitError::NoId));
    for timeout in [0, -1, 900_001] {
        assert_eq!(world.init_with("t", None, timeout), Err(InitError::BadTimeout));
    }
    assert!(world.init_with("t", None, 900_000).is_ok());
    assert_eq!(world.init_with("t", None, 900_001), Err(InitError::BadTimeout));
}

#[test]
fn t_026_t_030_a_known_id_goes_up_by_one() {
    let mut world = World::new();
    assert_eq!(world.init("t", Some(owner(99, 5))), Ok(owner(0, 0)), "the id had expired");
    assert_eq!(world.init("t", None), Ok(owner(0, 1)));
    assert_eq!(world.init("t", Some(owner(0, 0))), Err(InitError::Fenced), "its last epoch was erased");
    assert_eq!(world.init("u", None), Ok(owner(1, 0)));
}

#[test]
fn t_028_t_031_a_given_pair_must_be_current_or_a_retry() {
    let mut world = World::new();
    let first = world.init("t", None).unwrap();
    assert_eq!(world.init("t", Some(first)), Ok(owner(0, 1)));
    assert_eq!(world.init("t", Some(first)), Ok(owner(0, 1)), "a retry");
    assert_eq!(world.init("t", Some(owner(0, 2))), Err(InitError::Fenced));
    assert_eq!(world.init("t", Some(owner(5, 1))), Err(InitError::Fenced));
    assert_eq!(world.init("t", Some(owner(0, 1))), Ok(owner(0, 2)));
    assert_eq!(world.init("t", Some(first)), Err(InitError::Fenced));
}

#[test]
fn b_03_t_031_t_251_the_retry_works_after_a_restart() {
    for top in [3, 32766] {
        let mut world = World::new();
        let first = world.init("t", None).unwrap();
        let me = run_up(&mut world, first, top);
        let answer = world.init("t", Some(me)).unwrap();
        world.restart();
        assert_eq!(world.init("t", Some(me)), Ok(answer));
        let rows = world.shard.snapshot();
        world.shard = world.replayed_from(&rows, world.log.len());
        assert_eq!(world.init("t", Some(me)), Ok(answer));
    }
}

#[test]
fn t_032_an_exhausted_epoch_gets_a_new_producer_id() {
    let mut world = World::new();
    let first = world.init("t", None).unwrap();
    let me = run_up(&mut world, first, 32766);
    assert_eq!(me, owner(0, 32766));
    assert_eq!(world.init("t", Some(owner(0, 32764))), Err(InitError::Fenced));
    assert_eq!(world.init("t", Some(me)), Ok(owner(1, 0)));
    assert_eq!(world.init("t", Some(me)), Ok(owner(1, 0)), "a retry");
    assert_eq!(world.init("t", None), Ok(owner(1, 1)));
    assert_eq!(world.init("t", Some(me)), Err(InitError::Fenced));
}

#[test]
fn b_06_t_033_t_034_a_fence_bumps_once() {
    let mut world = World::new();
    let first = world.init("t", None).unwrap();
    let me = run_up(&mut world, first, 5);
    world.write_in("t", me, at(1, 0), 0).unwrap();
    assert_eq!(world.init("t", None), Err(InitError::Concurrent));
    let known = world.shard.partitions().get(at(1, 0)).unwrap().producers().next().unwrap().clone();
    assert_eq!(known.epoch.0, 6, "the marker's");
    assert_eq!(world.init("t", None), Ok(owner(0, 7)));
}

#[test]
fn b_06_t_034_a_fence_at_the_last_epoch_rotates() {
    let mut world = World::new();
    let first = world.init("t", None).unwrap();
    let me = run_up(&mut world, first, 32766);
    world.write_in("t", me, at(1, 0), 0).unwrap();
    assert_eq!(world.init("t", None), Err(InitError::Concurrent));
    assert_eq!(world.init("t", None), Ok(owner(1, 1)));
    assert_eq!(world.write_in("t", me, at(1, 0), 1), Err(ProduceError::StaleEpoch));
}

#[test]
fn t_033_a_stale_epoch_does_not_abort_the_open_transaction() {
    let mut world = World::new();
    let first = world.init("t", None).unwrap();
    let me = run_up(&mut world, first, 5);
    world.write_in("t", me, at(1, 0), 0).unwrap();
    assert_eq!(world.init("t", Some(owner(0, 3))), Err(InitError::Fenced));
    assert_eq!(status_of(&world, "t"), TransactionStatus::Ongoing);
}

#[test]
fn b_18_b_39_what_was_open_is_aborted_not_merged() {
    for given in [false, true] {
        let mut world = World::new();
        let me = world.init("t", None).unwrap();
        world.write_in("t", me, at(1, 0), 0).unwrap();
        let given = given.then_some(me);
        assert_eq!(world.init("t", given), Err(InitError::Concurrent));
        let next = world.init("t", given).unwrap();
        assert!(next.1 > me.1);
        assert_eq!(world.write_in("t", next, at(1, 0), 0), Ok(2));
        world.end("t", next, true, true).unwrap();
        let read = world.read_committed(at(1, 0), 0);
        let markers: Vec<_> = read
            .batches()
            .filter_map(|batch| match batch.place {
                BatchPlace::Marker(marker) => Some((batch.base_offset.0, marker.commit)),
                BatchPlace::Log { .. } => None,
            })
            .collect();
        assert_eq!(markers, [(1, false), (3, true)]);
        assert_eq!(read.aborted.len(), 1);
        assert_eq!((read.aborted[0].first_offset.0, read.aborted[0].marker_offset.0), (0, 1));
    }
}

#[test]
fn t_039_after_a_timeout_the_owner_gets_its_next_epoch() {
    let mut world = World::new();
    let me = world.init_with("t", None, 1000).unwrap();
    world.write_in("t", me, at(1, 0), 0).unwrap();
    world.pass(2000);
    assert_eq!(world.init("t", Some(me)), Ok(owner(0, 1)));
}

#[test]
fn t_036_the_timeout_of_the_request_replaces_the_stored_one() {
    let mut world = World::new();
    world.init_with("t", None, 1000).unwrap();
    world.init_with("t", None, 2000).unwrap();
    assert_eq!(world.shard.transactions().get("t").unwrap().state().timeout, Millis(2000));
}

#[test]
fn t_064_what_verification_answers() {
    let mut world = World::new();
    let first = world.init("t", None).unwrap();
    let me = run_up(&mut world, first, 1);
    let verify = TransactionCheck::Verify;
    let mut write = |id: &str, by, partition| world.write_checked(id, by, at(1, partition), 0, verify);
    assert_eq!(write("unknown", me, 0), Err(ProduceError::UnknownProducer));
    assert_eq!(write("t", owner(9, 1), 0), Err(ProduceError::UnknownProducer));
    assert_eq!(write("t", first, 0), Err(ProduceError::StaleEpoch));
    assert_eq!(write("t", me, 0), Err(ProduceError::NotInTransaction));
    world.add("t", me, &[at(1, 0)]);
    assert_eq!(world.write_checked("t", me, at(1, 0), 0, verify), Ok(0));
}

#[test]
fn t_072_partitions_that_fail_verification_fail_alone() {
    let mut world = World::new();
    let me = world.init("t", None).unwrap();
    world.add("t", me, &[at(1, 1)]);
    let batches = [(at(1, 0), batch(me, 0, 1, true)), (at(1, 1), batch(me, 0, 1, true))];
    let results = world.produce(Some("t"), TransactionCheck::Verify, &batches);
    assert_eq!(results[0], Err(ProduceError::NotInTransaction));
    assert!(results[1].is_ok());
}

#[test]
fn t_065_the_add_is_in_the_log_before_the_data() {
    let mut world = World::new();
    let me = world.init("t", None).unwrap();
    let before = world.log.len();
    let batches = [(at(1, 0), batch(me, 0, 1, true)), (at(1, 1), batch(me, 0, 1, true))];
    world.produce(Some("t"), TransactionCheck::Add, &batches);
    let kinds: Vec<_> = world.log[before..].iter().map(|(_, record)| record).collect();
    assert!(
        matches!(
            kinds.as_slice(),
            [
                LogRecord::Transactions(TransactionRecord::TransactionUpdated(_)),
                LogRecord::Partitions(PartitionRecord::BatchAppended(_)),
                LogRecord::Partitions(PartitionRecord::BatchAppended(_))
            ]
        ),
        "{kinds:?}"
    );
    world.write_in("t", me, at(1, 0), 1).unwrap();
    assert_eq!(world.log.len(), before + 4, "an open transaction costs no more records");
    world.write_in("t", me, at(1, 2), 0).unwrap();
    assert!(matches!(
        world.log[before + 4].1,
        LogRecord::Transactions(TransactionRecord::TransactionExtended(_))
    ));
}

#[test]
fn t_056_t_060_one_owner_and_an_id_or_nothing() {
    let mut world = World::new();
    let me = world.init("t", None).unwrap();
    let you = world.init("u", None).unwrap();
    let batches = [(at(1, 0), batch(me, 0, 1, true)), (at(1, 1), batch(you, 0, 1, true))];
    let results = world.produce(Some("t"), TransactionCheck::Add, &batches);
    assert_eq!(results, [Err(ProduceError::SeveralProducers); 2]);
    let results = world.produce(None, TransactionCheck::Add, &batches[..1]);
    assert_eq!(results, [Err(ProduceError::NoTransactionalId)]);
    assert_eq!(status_of(&world, "t"), TransactionStatus::Empty);
    assert_eq!(
        world.produce(Some("x"), TransactionCheck::Add, &[(at(1, 0), crate::world::plain(1))]).len(),
        1
    );
}

#[test]
fn t_062_t_069_t_071_a_late_batch_of_an_ended_transaction_is_stale() {
    for bump in [true, false] {
        let mut world = World::new();
        let me = world.init("t", None).unwrap();
        world.write_in("t", me, at(1, 0), 0).unwrap();
        world.end("t", me, true, bump).unwrap();
        let late = world.write_checked("t", me, at(1, 0), 0, TransactionCheck::Verify);
        let expected = if bump { ProduceError::StaleEpoch } else { ProduceError::NotInTransaction };
        assert_eq!(late, Err(expected), "not a duplicate's success");
    }
}

#[test]
fn t_047_sequences_run_on_at_version_1_and_restart_at_version_2() {
    let mut world = World::new();
    let me = world.init("t", None).unwrap();
    world.write_in("t", me, at(1, 0), 0).unwrap();
    world.end("t", me, true, false).unwrap();
    assert_eq!(world.write_in("t", me, at(1, 0), 0), Ok(0), "a duplicate: the epoch is the same");
    assert_eq!(world.write_in("t", me, at(1, 0), 1), Ok(2));
    let me = world.end("t", me, true, true).unwrap();
    assert_eq!(world.write_in("t", me, at(1, 0), 2), Err(ProduceError::OutOfOrder));
    assert_eq!(world.write_in("t", me, at(1, 0), 0), Ok(4));
}

#[test]
fn t_055_plain_batches_stay_out_of_an_open_transaction() {
    let mut world = World::new();
    let me = world.init("t", None).unwrap();
    assert_eq!(world.write(at(1, 0), batch(me, 0, 1, false)), Ok(0));
    world.write_in("t", me, at(1, 0), 1).unwrap();
    assert_eq!(world.write(at(1, 0), batch(me, 2, 1, false)), Err(ProduceError::OutsideTransaction));
    assert_eq!(world.write(at(1, 1), batch(me, 0, 1, false)), Ok(0));
}

#[test]
fn b_28_a_transaction_goes_on_after_a_restart() {
    let mut world = World::new();
    let me = world.init("t", None).unwrap();
    let ten = world.produce(Some("t"), TransactionCheck::Add, &[(at(1, 0), batch(me, 0, 10, true))]);
    assert!(ten[0].is_ok());
    world.restart();
    assert_eq!(world.write_in("t", me, at(1, 0), 10), Ok(10));
    world.end("t", me, true, true).unwrap();
    let read = world.read_committed(at(1, 0), 0);
    assert_eq!(read.sources.len(), 3);
    assert!(read.aborted.is_empty());
}

#[test]
fn t_083_what_adding_answers() {
    let mut world = World::new();
    let first = world.init("t", None).unwrap();
    let me = run_up(&mut world, first, 1);
    let both = [at(1, 0), at(1, 1)];
    assert_eq!(world.add("", me, &both), [Err(TransactionError::NoId); 2]);
    assert_eq!(world.add("u", me, &both), [Err(TransactionError::UnknownProducer); 2]);
    assert_eq!(world.add("t", owner(9, 1), &both), [Err(TransactionError::UnknownProducer); 2]);
    assert_eq!(world.add("t", owner(0, 0), &both), [Err(TransactionError::Fenced); 2]);
    assert_eq!(world.add("t", owner(0, 2), &both), [Err(TransactionError::Fenced); 2]);
    assert_eq!(world.add("t", me, &both), [Ok(()); 2]);
    let written = world.log.len();
    assert_eq!(world.add("t", me, &both[..1]), [Ok(())], "a subset needs no record");
    assert_eq!(world.log.len(), written);
    let verified = world.claim("t", me, &[at(1, 1), at(1, 2)], TransactionCheck::Verify);
    assert_eq!(verified, [Ok(()), Err(TransactionError::NotInTransaction)]);
}

#[test]
fn t_086_t_142_the_timeout_counts_from_the_first_add() {
    let mut world = World::new();
    let me = world.init_with("t", None, 1000).unwrap();
    world.pass(5000);
    world.add("t", me, &[at(1, 0)]);
    world.pass(900);
    world.add("t", me, &[at(1, 1)]);
    world.pass(100);
    assert_eq!(status_of(&world, "t"), TransactionStatus::Ongoing, "at the timeout itself");
    world.pass(1);
    assert_eq!(status_of(&world, "t"), TransactionStatus::CompleteAbort);
    assert_eq!(world.write_in("t", me, at(1, 0), 0), Err(ProduceError::StaleEpoch));
}

#[test]
fn t_140_many_overdue_transactions_end_one_after_the_other() {
    let mut world = World::new();
    for n in 0..5 {
        let id = format!("t{n}");
        let me = world.init_with(&id, None, 1000).unwrap();
        world.write_in(&id, me, at(1, 0), 0).unwrap();
    }
    world.pass(60_000);
    let partition = world.shard.partitions().get(at(1, 0)).unwrap();
    assert_eq!((partition.next_offset().0, partition.last_stable().0), (10, 10));
    assert_eq!(world.read_committed(at(1, 0), 0).aborted.len(), 5);
}

#[test]
fn t_087_adding_nothing_starts_the_transaction() {
    let mut world = World::new();
    let me = world.init("t", None).unwrap();
    world.add("t", me, &[]);
    assert_eq!(status_of(&world, "t"), TransactionStatus::Ongoing);
}

#[test]
fn t_143_t_144_idle_ids_are_forgotten() {
    let mut world = World::new();
    let idle = world.init("idle", None).unwrap();
    let open = world.init_with("open", None, 900_000).unwrap();
    world.pass(604_800_000 - 100);
    world.add("open", open, &[at(1, 0)]);
    world.pass(100);
    assert!(world.shard.transactions().get("idle").is_none());
    assert!(world.shard.transactions().get("open").is_some());
    assert_eq!(world.add("idle", idle, &[at(1, 0)]), [Err(TransactionError::UnknownProducer)]);
    let again = world.init("idle", Some(idle)).unwrap();
    assert!(again.0 > idle.0 && again.1.0 == 0);
}

#[test]
fn t_151_a_group_stands_for_its_offsets_partition() {
    let mut world = World::new();
    let me = world.init("t", None).unwrap();
    let ask = AddOffsetsToTxn { claim: claim("t", me, TransactionCheck::Add), group_id: "hello".to_owned() };
    assert_eq!(world.ask(input(ask)), Answer::AddOffsetsToTxn(Ok(())));
    let known = world.shard.transactions().get("t").unwrap();
    let offsets: Vec<_> = known.offset_partitions().iter().copied().collect();
    assert_eq!(offsets, [offsets_partition("hello", 50)]);
    world.end("t", me, true, true).unwrap();
    assert!(world.shard.transactions().get("t").unwrap().offset_partitions().is_empty());
}

#[test]
fn t_233_filters_are_anded() {
    let mut world = World::new();
    world.init("empty", None).unwrap();
    let me = world.init("open", None).unwrap();
    world.add("open", me, &[at(1, 0)]);
    world.now = world.now.after(Millis(500));
    let list = |filter: TransactionFilter| -> Vec<String> {
        let listed = world.shard.transactions().list(&filter, world.now);
        listed.map(|known| known.state().transactional_id.clone()).collect()
    };
    assert_eq!(list(TransactionFilter::default()), ["empty", "open"]);
    let statuses = Some(vec![TransactionStatus::Ongoing]);
    assert_eq!(
        list(TransactionFilter { statuses: statuses.clone(), ..TransactionFilter::default() }),
        ["open"]
    );
    let producer_ids = Some(vec![ProducerId(0)]);
    assert!(list(TransactionFilter { statuses, producer_ids, longer_than: None }).is_empty());
    let statuses = Some(vec![]);
    assert!(list(TransactionFilter { statuses, ..TransactionFilter::default() }).is_empty());
    let longer = |span| TransactionFilter { longer_than: Some(Millis(span)), ..TransactionFilter::default() };
    assert_eq!(list(longer(499)), ["empty", "open"]);
    assert_eq!(list(longer(500)), ["empty"], "an id that never started passes every duration");
}

#[test]
fn t_262_a_clock_that_goes_back_wedges_nothing() {
    let mut world = World::new();
    let me = world.init("t", None).unwrap();
    world.write_in("t", me, at(1, 0), 0).unwrap();
    world.now = Millis(10);
    let me = world.end("t", me, true, true).unwrap();
    world.write_in("t", me, at(1, 0), 0).unwrap();
    world.now = Millis(5);
    world.end("t", me, true, true).unwrap();
    assert_eq!(world.shard.partitions().get(at(1, 0)).unwrap().last_stable(), Offset(4));
}
