//! EndTxn: the tables of section 9, each cell, at epochs 0, 32765 and 32766.

use crate::support::{Answer, input};
use crate::world::{Owner, World, at, owner};
use ottla_core::transactions::EndError::{self, Fenced, InvalidState, UnknownProducer};
use ottla_core::transactions::{AbortTransaction, NotOpen};
use ottla_types::record::{
    LogRecord, TransactionRecord, TransactionState, TransactionStatus, TransactionUpdated,
};
use ottla_types::{LogPosition, Millis, ProducerEpoch, ProducerId};

pub(crate) const STATUSES: [TransactionStatus; 4] = [
    TransactionStatus::Empty,
    TransactionStatus::Ongoing,
    TransactionStatus::CompleteCommit,
    TransactionStatus::CompleteAbort,
];

/// A world in which id "t" belongs to producer 7 at this epoch and status, `last` being the epoch before.
pub(crate) fn world_at(status: TransactionStatus, epoch: i16, last: i16) -> World {
    let mut world = World::new();
    let state = TransactionState {
        transactional_id: "t".to_owned(),
        producer_id: ProducerId(7),
        previous_producer_id: ProducerId(6),
        epoch: ProducerEpoch(epoch),
        last_epoch: ProducerEpoch(last),
        timeout: Millis(60_000),
        status,
        started: Millis(1_000_000),
        updated: Millis(1_000_000),
    };
    let ongoing = status == TransactionStatus::Ongoing;
    let partitions = if ongoing { vec![at(1, 0)] } else { vec![] };
    let updated = TransactionUpdated { state, partitions, offset_partitions: vec![] };
    let nowhere = ottla_core::RecordPosition { position: LogPosition(0), payload: LogPosition(0) };
    let reserved = ottla_types::record::ProducerIdsReserved { next: ProducerId(1000) };
    world.shard.apply(nowhere, &LogRecord::Transactions(TransactionRecord::ProducerIdsReserved(reserved)));
    world.shard.apply(nowhere, &LogRecord::Transactions(TransactionRecord::TransactionUpdated(updated)));
    world
}

pub(crate) fn status_of(world: &World) -> TransactionStatus {
    world.shard.transactions().get("t").unwrap().state().status
}

pub(crate) fn ended_records(world: &World) -> Vec<&ottla_types::record::TransactionEnded> {
    let ended = |(_, record): &'_ (ottla_core::RecordPosition, LogRecord)| {
        matches!(record, LogRecord::Transactions(TransactionRecord::TransactionEnded(_)))
    };
    let all = world.log.iter().filter(|entry| ended(entry));
    all.map(|(_, record)| match record {
        LogRecord::Transactions(TransactionRecord::TransactionEnded(ended)) => ended,
        other => panic!("{other:?}"),
    })
    .collect()
}

/// What `end` gives in a state, and the records that it wrote.
fn end_in(
    status: TransactionStatus,
    epoch: i16,
    by: Owner,
    commit: bool,
    bump: bool,
) -> (Result<Owner, EndError>, usize) {
    let last = if epoch == 0 { -1 } else { epoch - 1 };
    let mut world = world_at(status, epoch, last);
    let result = world.end("t", by, commit, bump);
    let ended = ended_records(&world).len();
    if ended > 0 {
        let expected =
            if commit { TransactionStatus::CompleteCommit } else { TransactionStatus::CompleteAbort };
        assert_eq!(status_of(&world), expected);
    } else {
        assert_eq!(status_of(&world), status);
    }
    (result, ended)
}

#[test]
fn t_101_versions_0_and_1_end_as_the_table_says() {
    use TransactionStatus::{CompleteAbort, CompleteCommit, Empty, Ongoing};
    for epoch in [0, 32765, 32766] {
        let me = owner(7, epoch);
        let cases = [
            (Empty, true, Err(InvalidState), 0),
            (Empty, false, Err(InvalidState), 0),
            (Ongoing, true, Ok(me), 1),
            (Ongoing, false, Ok(me), 1),
            (CompleteCommit, true, Ok(me), 0),
            (CompleteCommit, false, Err(InvalidState), 0),
            (CompleteAbort, true, Err(InvalidState), 0),
            (CompleteAbort, false, Ok(me), 0),
        ];
        for (status, commit, result, records) in cases {
            assert_eq!(
                end_in(status, epoch, me, commit, false),
                (result, records),
                "{status:?} {commit} {epoch}"
            );
        }
    }
}

#[test]
fn t_101_producer_id_then_epoch_come_first() {
    for status in STATUSES {
        for commit in [true, false] {
            let not_mine = end_in(status, 5, owner(8, 5), commit, false);
            assert_eq!(not_mine, (Err(UnknownProducer), 0));
            for epoch in [4, 6] {
                assert_eq!(end_in(status, 5, owner(7, epoch), commit, false), (Err(Fenced), 0));
            }
        }
    }
}

#[test]
fn t_102_version_2_at_the_current_epoch() {
    use TransactionStatus::{CompleteAbort, CompleteCommit, Empty, Ongoing};
    for epoch in [0, 32765, 32766] {
        let next = if epoch == 32766 { owner(1000, 0) } else { owner(7, epoch + 1) };
        let cases = [
            (Empty, true, Err(InvalidState), 0),
            (Empty, false, Ok(next), 1),
            (Ongoing, true, Ok(next), 1),
            (Ongoing, false, Ok(next), 1),
            (CompleteCommit, true, Err(InvalidState), 0),
            (CompleteCommit, false, Ok(next), 1),
            (CompleteAbort, true, Err(InvalidState), 0),
            (CompleteAbort, false, Ok(next), 1),
        ];
        for (status, commit, result, records) in cases {
            let got = end_in(status, epoch, owner(7, epoch), commit, true);
            assert_eq!(got, (result, records), "{status:?} {commit} {epoch}");
        }
    }
}

#[test]
fn t_102_t_103_version_2_at_the_epoch_before() {
    use TransactionStatus::{CompleteAbort, CompleteCommit, Empty, Ongoing};
    for epoch in [1, 32765, 32766] {
        let me = owner(7, epoch);
        let cases = [
            (Empty, true, Err(Fenced)),
            (Empty, false, Err(Fenced)),
            (Ongoing, true, Err(Fenced)),
            (Ongoing, false, Err(Fenced)),
            (CompleteCommit, true, Ok(me)),
            (CompleteCommit, false, Err(InvalidState)),
            (CompleteAbort, true, Err(Fenced)),
            (CompleteAbort, false, Ok(me)),
        ];
        for (status, commit, result) in cases {
            let got = end_in(status, epoch, owner(7, epoch - 1), commit, true);
            assert_eq!(got, (result, 0), "{status:?} {commit} {epoch}");
        }
    }
}

#[test]
fn t_102_version_2_at_any_other_epoch_is_fenced() {
    for status in STATUSES {
        for commit in [true, false] {
            for epoch in [-1, 0, 3, 6, 32767] {
                assert_eq!(end_in(status, 5, owner(7, epoch), commit, true), (Err(Fenced), 0));
            }
            assert_eq!(end_in(status, 5, owner(8, 5), commit, true), (Err(UnknownProducer), 0));
            assert_eq!(end_in(status, 5, owner(6, 5), commit, true), (Err(UnknownProducer), 0));
        }
    }
}

#[test]
fn t_102_an_epoch_another_owner_took_is_no_retry() {
    let mut world = world_at(TransactionStatus::CompleteCommit, 5, -1);
    assert_eq!(world.end("t", owner(7, 4), true, true), Err(Fenced));
}

#[test]
fn t_100_an_empty_or_unknown_id_is_refused() {
    let mut world = World::new();
    assert_eq!(world.end("", owner(7, 0), true, true), Err(EndError::NoId));
    assert_eq!(world.end("t", owner(7, 0), true, false), Err(UnknownProducer));
    assert_eq!(world.end("t", owner(7, 0), true, true), Err(UnknownProducer));
}

#[test]
fn t_104_the_marker_carries_the_new_epoch() {
    let mut world = world_at(TransactionStatus::Ongoing, 5, 4);
    assert_eq!(world.end("t", owner(7, 5), true, true), Ok(owner(7, 6)));
    let ended = ended_records(&world)[0];
    assert_eq!((ended.marker.producer_id, ended.marker.producer_epoch), owner(7, 6));
    assert_eq!(ended.state.last_epoch, ProducerEpoch(5));
}

#[test]
fn t_105_an_exhausted_epoch_rotates_the_producer_id() {
    let mut world = world_at(TransactionStatus::Ongoing, 32766, 32765);
    assert_eq!(world.end("t", owner(7, 32766), true, true), Ok(owner(1000, 0)));
    {
        let ended = ended_records(&world)[0];
        assert_eq!((ended.marker.producer_id, ended.marker.producer_epoch), owner(7, 32767));
        assert_eq!(ended.state.previous_producer_id, ProducerId(7));
    }
    assert_eq!(world.end("t", owner(7, 32766), true, true), Ok(owner(1000, 0)), "a retry");
    assert_eq!(world.end("t", owner(7, 32766), false, true), Err(InvalidState));
    assert_eq!(world.end("t", owner(7, 32765), true, true), Err(UnknownProducer));
    assert_eq!(ended_records(&world).len(), 1);
    world.write_in("t", owner(1000, 0), at(1, 1), 0).unwrap();
    assert_eq!(world.end("t", owner(1000, 0), true, true), Ok(owner(1000, 1)));
}

#[test]
fn t_105_versions_0_and_1_never_exhaust_an_epoch() {
    let mut world = world_at(TransactionStatus::Ongoing, 32766, 32765);
    assert_eq!(world.end("t", owner(7, 32766), true, false), Ok(owner(7, 32766)));
    assert_eq!(world.init("t", None), Ok(owner(1000, 0)));
}

#[test]
fn b_10_t_108_t_109_an_empty_transaction_aborts_but_does_not_commit() {
    let mut world = World::new();
    let me = world.init("a", None).unwrap();
    assert_eq!(world.end("a", me, true, true), Err(InvalidState));
    world.now = Millis(1_234_567);
    let next = world.end("a", me, false, true).unwrap();
    assert_eq!(next, (me.0, me.1.bumped()));
    let started = world.shard.transactions().get("a").unwrap().state().started;
    assert_eq!(started, Millis(1_234_567));
    assert_eq!(world.write_in("a", next, at(1, 0), 0), Ok(0));
    world.end("a", next, true, true).unwrap();
}

#[test]
fn t_009_a_transaction_may_begin_at_one_version_and_end_at_another() {
    let mut world = World::new();
    let me = world.init("a", None).unwrap();
    world.add("a", me, &[at(1, 0)]);
    assert_eq!(world.end("a", me, true, true), Ok(owner(0, 1)));
    world.write_in("a", owner(0, 1), at(1, 0), 0).unwrap();
    assert_eq!(world.end("a", owner(0, 1), true, false), Ok(owner(0, 1)));
}

#[test]
fn t_130_a_deleted_topic_does_not_hold_up_the_end() {
    let mut world = World::new();
    world.create_topic(2, 1, &[]);
    let me = world.init("a", None).unwrap();
    world.write_in("a", me, at(1, 0), 0).unwrap();
    world.write_in("a", me, at(2, 0), 0).unwrap();
    world.delete_topic(2);
    world.end("a", me, true, true).unwrap();
    let partitions: Vec<_> = ended_records(&world)[0].partitions.iter().map(|(at, _)| *at).collect();
    assert_eq!(partitions, [at(1, 0)]);
}

#[test]
fn t_110_t_141_after_a_timeout_the_owner_recovers_by_aborting() {
    let mut world = World::new();
    let me = world.init_with("a", None, 1000).unwrap();
    world.write_in("a", me, at(1, 0), 0).unwrap();
    world.pass(1000);
    assert_eq!(world.shard.transactions().get("a").unwrap().state().status, TransactionStatus::Ongoing);
    world.pass(1);
    assert_eq!(world.shard.transactions().get("a").unwrap().state().status, TransactionStatus::CompleteAbort);
    assert_eq!(world.end("a", me, true, false), Err(Fenced));
    // B-08, T-103: the late commit has to start over; its state is not invalid.
    assert_eq!(world.end("a", me, true, true), Err(Fenced));
    assert_eq!(world.end("a", me, false, true), Ok((me.0, me.1.bumped())));
}

/// An administrator's abort of the transaction of "a" that is open, or of one that started at another time.
fn abort(world: &mut World, owner: Owner, started: Millis) -> Result<(), NotOpen> {
    let ask = AbortTransaction {
        transactional_id: "a".to_owned(),
        producer_id: owner.0,
        producer_epoch: owner.1,
        started,
    };
    match world.ask(input(ask)) {
        Answer::AbortTransaction(result) => result,
        other => panic!("{other:?}"),
    }
}

#[test]
fn t_140_t_141_an_administrators_abort_is_a_timeout_that_comes_early() {
    let mut world = World::new();
    let me = world.init("a", None).unwrap();
    world.write_in("a", me, at(1, 0), 0).unwrap();
    let started = world.shard.transactions().get("a").unwrap().state().started;
    assert_eq!(abort(&mut world, me, started), Ok(()));
    let ended = ended_records(&world)[0];
    assert_eq!((ended.marker.commit, ended.marker.producer_epoch), (false, me.1.bumped()));
    assert_eq!(ended.partitions, [(at(1, 0), ottla_types::Offset(1))]);
    assert_eq!(world.end("a", me, true, true), Err(Fenced));
    assert_eq!(world.end("a", me, false, true), Ok((me.0, me.1.bumped())));
    assert_eq!(world.replayed().snapshot(), world.shard.snapshot());
}

#[test]
fn t_140_only_the_transaction_that_was_meant_is_aborted() {
    let mut world = World::new();
    let me = world.init("a", None).unwrap();
    let now = world.now;
    assert_eq!(abort(&mut world, me, now), Err(NotOpen), "none is open");
    world.write_in("a", me, at(1, 0), 0).unwrap();
    let first = world.shard.transactions().get("a").unwrap().state().started;
    world.end("a", me, true, false).unwrap();
    world.pass(5);
    world.write_in("a", me, at(1, 0), 1).unwrap();
    let ends = ended_records(&world).len();
    assert_eq!(abort(&mut world, me, first), Err(NotOpen), "the epoch is the same, the transaction another");
    let second = world.shard.transactions().get("a").unwrap().state().started;
    assert_eq!(abort(&mut world, owner(me.0.0, me.1.0 + 1), second), Err(NotOpen));
    assert_eq!(ended_records(&world).len(), ends);
}
