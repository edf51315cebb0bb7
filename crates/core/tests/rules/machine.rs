//! The state machine of a transactional id (section 8), and what the broker does of its own accord.

use crate::ending::{STATUSES, ended_records, status_of, world_at};
use crate::support::Answer;
use crate::world::{Owner, World, adding, at, batch, ending, initialise, owner, producing, staging};
use TransactionStatus::{CompleteAbort, CompleteCommit, Empty, Ongoing};
use ottla_core::partitions::ProduceError;
use ottla_core::transactions::{EndError, InitError, TransactionCheck, TransactionError};
use ottla_types::record::{LogRecord, TransactionRecord, TransactionStatus, TransactionUpdated};
use ottla_types::{Millis, ProducerEpoch, ProducerId};
use std::collections::BTreeSet;

const ME: Owner = (ProducerId(7), ProducerEpoch(5));

#[test]
fn t_29_what_init_does_depends_on_the_state() {
    for status in STATUSES {
        for given in [None, Some(ME)] {
            let mut world = world_at(status, 5, 4);
            let result = world.init("t", given);
            if status == Ongoing {
                assert_eq!((result, status_of(&world)), (Err(InitError::Concurrent), CompleteAbort));
            } else {
                assert_eq!((result, status_of(&world)), (Ok(owner(7, 6)), Empty), "{status:?} {given:?}");
            }
        }
    }
}

/// Something that happens; false if it was refused.
type Event = fn(&mut World) -> bool;

/// Everything that can happen to the transaction of [`ME`], by name.
fn events() -> Vec<(&'static str, Event)> {
    vec![
        ("init", |world| world.init("t", None).is_ok()),
        ("init of the owner", |world| world.init("t", Some(ME)).is_ok()),
        ("init of a retry", |world| world.init("t", Some(owner(7, 4))).is_ok()),
        ("add", |world| world.add("t", ME, &[at(1, 1)])[0].is_ok()),
        ("add nothing", |world| world.add("t", ME, &[]).is_empty()),
        ("verify", |world| world.claim("t", ME, &[at(1, 0)], TransactionCheck::Verify)[0].is_ok()),
        ("stage", |world| !world.step(staging("t", ME, at(1, 0), 3)).is_empty()),
        ("write", |world| world.write_in("t", ME, at(1, 2), 0).is_ok()),
        ("write at version 1", |world| {
            world.write_checked("t", ME, at(1, 2), 0, TransactionCheck::Verify).is_ok()
        }),
        ("commit 1", |world| world.end("t", ME, true, false).is_ok()),
        ("abort 1", |world| world.end("t", ME, false, false).is_ok()),
        ("commit 2", |world| world.end("t", ME, true, true).is_ok()),
        ("abort 2", |world| world.end("t", ME, false, true).is_ok()),
        ("commit 2 again", |world| world.end("t", owner(7, 4), true, true).is_ok()),
        ("abort 2 again", |world| world.end("t", owner(7, 4), false, true).is_ok()),
        ("timeout", |world| {
            world.pass(60_001);
            true
        }),
        ("restart", |world| {
            world.restart_from_snapshot();
            true
        }),
    ]
}

#[test]
fn t_90_t_93_only_the_allowed_transitions_happen() {
    let mut seen = BTreeSet::new();
    for from in STATUSES {
        for (name, event) in events() {
            let mut world = world_at(from, 5, 4);
            let accepted = event(&mut world);
            let to = status_of(&world);
            if from != to {
                let fenced = name.starts_with("init") && from == Ongoing;
                assert!(accepted || fenced, "{name} was refused and changed {from:?} to {to:?}");
                seen.insert((format!("{from:?}"), format!("{to:?}"), name));
            }
        }
    }
    let steps: BTreeSet<(&str, &str)> = seen.iter().map(|(from, to, _)| (&from[..], &to[..])).collect();
    // Kafka's table without its passing states, which never exist here.
    let allowed = [
        ("CompleteAbort", "Empty"),
        ("CompleteAbort", "Ongoing"),
        ("CompleteCommit", "CompleteAbort"),
        ("CompleteCommit", "Empty"),
        ("CompleteCommit", "Ongoing"),
        ("Empty", "CompleteAbort"),
        ("Empty", "Ongoing"),
        ("Ongoing", "CompleteAbort"),
        ("Ongoing", "CompleteCommit"),
    ];
    assert_eq!(steps, BTreeSet::from(allowed));
    let aborts = |from: &str| {
        let of = seen.iter().filter(|(f, to, _)| f == from && to == "CompleteAbort");
        of.map(|(_, _, name)| *name).collect::<Vec<_>>()
    };
    assert_eq!(aborts("Empty"), ["abort 2"]);
    assert_eq!(aborts("CompleteCommit"), ["abort 2"]);
}

#[test]
fn t_90_idle_ids_go_and_open_ones_end_first() {
    for status in STATUSES {
        let mut world = world_at(status, 5, 4);
        world.pass(604_800_000);
        let known = world.shard.transactions().get("t").map(|known| known.state().status);
        assert_eq!(known, (status == Ongoing).then_some(CompleteAbort), "{status:?}");
    }
}

#[test]
fn t_92_what_each_operation_may_do_in_each_state() {
    for status in STATUSES {
        let starts = status != Ongoing;
        let world = || world_at(status, 5, 4);
        assert_eq!(world().add("t", ME, &[at(1, 1)]), [Ok(())], "{status:?}");
        let offsets = world().step(staging("t", ME, at(1, 0), 3));
        assert_eq!(format!("{offsets:?}").matches("Ok").count(), 1, "{offsets:?}");
        let verified = world().claim("t", ME, &[at(1, 0), at(1, 1)], TransactionCheck::Verify);
        let out = Err(TransactionError::NotInTransaction);
        assert_eq!(verified, [if starts { out } else { Ok(()) }, out], "{status:?}");
        let append = world().write_checked("t", ME, at(1, 0), 0, TransactionCheck::Verify);
        assert_eq!(append, if starts { Err(ProduceError::NotInTransaction) } else { Ok(0) });
        assert_eq!(world().write_in("t", ME, at(1, 1), 0), Ok(0), "{status:?}");
        let mut started = world();
        started.now = Millis(2_000_000);
        started.add("t", ME, &[at(1, 1)]);
        let state = started.shard.transactions().get("t").unwrap().state().clone();
        let since = if starts { Millis(2_000_000) } else { Millis(1_000_000) };
        assert_eq!((state.status, state.started), (Ongoing, since));
    }
}

#[test]
fn t_27_t_91_nothing_is_ever_under_way() {
    // Everything is asked for before anything of it is durable.
    let mut world = World::new();
    let me = world.init("t", None).unwrap();
    let batches = [(at(1, 0), batch(me, 0, 1, true))];
    let mut answers = Vec::new();
    answers.extend(world.step(producing(Some("t"), TransactionCheck::Add, &batches)));
    answers.extend(world.step(ending("t", me, true, true)));
    answers.extend(world.step(ending("t", me, true, true)));
    let next = owner(0, 1);
    answers.extend(world.step(adding("t", next, &[at(1, 1)], TransactionCheck::Add)));
    answers.extend(world.step(ending("t", next, false, true)));
    answers.extend(world.step(initialise("t", None, 60_000)));
    let ended = |epoch| Answer::EndTxn(Ok(owner(0, epoch)));
    assert!(matches!(&answers[0], Answer::Produce(results) if results[0].is_ok()));
    assert_eq!(answers[1..3], [ended(1), ended(1)], "the second commit is a retry");
    assert_eq!(answers[3], Answer::AddPartitionsToTxn(vec![Ok(())]));
    assert_eq!(answers[4..], [ended(2), Answer::InitProducerId(Ok(owner(0, 3)))]);
    assert_eq!(ended_records(&world).len(), 2);
}

#[test]
fn t_05_the_version_of_each_request_decides() {
    // One transaction: joined as version 1 does, extended as version 2 does, ended either way.
    for bump in [false, true] {
        let mut world = World::new();
        let me = world.init("t", None).unwrap();
        let verify = TransactionCheck::Verify;
        assert_eq!(world.write_checked("t", me, at(1, 0), 0, verify), Err(ProduceError::NotInTransaction));
        world.add("t", me, &[at(1, 0)]);
        assert_eq!(world.write_checked("t", me, at(1, 0), 0, verify), Ok(0));
        assert_eq!(world.write_in("t", me, at(1, 1), 0), Ok(0));
        let next = world.end("t", me, true, bump).unwrap();
        assert_eq!(next.1.0, i16::from(bump));
        assert_eq!(world.read_committed(at(1, 0), 0).sources.len(), 2);
        assert_eq!(world.read_committed(at(1, 1), 0).sources.len(), 2);
    }
}

#[test]
fn t_06_what_the_broker_ends_bumps_whatever_the_client_speaks() {
    // A client of version 1 whose transaction times out, or is fenced.
    for fence in [false, true] {
        let mut world = World::new();
        let me = world.init("t", None).unwrap();
        world.add("t", me, &[at(1, 0)]);
        world.write_checked("t", me, at(1, 0), 0, TransactionCheck::Verify).unwrap();
        if fence {
            assert_eq!(world.init("t", None), Err(InitError::Concurrent));
        } else {
            world.pass(60_001);
        }
        assert_eq!(ended_records(&world)[0].marker.producer_epoch, ProducerEpoch(1));
        assert_eq!(world.end("t", me, true, false), Err(EndError::Fenced));
        assert_eq!(world.add("t", me, &[at(1, 0)]), [Err(TransactionError::Fenced)]);
    }
}

#[test]
fn t_07_clients_of_both_versions_share_partitions_and_an_id() {
    let mut world = World::new();
    let (old, new) = (world.init("old", None).unwrap(), world.init("new", None).unwrap());
    world.add("old", old, &[at(1, 0)]);
    assert_eq!(world.write_checked("old", old, at(1, 0), 0, TransactionCheck::Verify), Ok(0));
    assert_eq!(world.write_in("new", new, at(1, 0), 0), Ok(1));
    assert_eq!(world.end("new", new, true, true), Ok(owner(1, 1)));
    assert_eq!(world.end("old", old, false, false), Ok(old));
    let read = world.read_committed(at(1, 0), 0);
    assert_eq!((read.sources.len(), read.aborted.len()), (4, 1));
    // The application is upgraded: the new client takes the old one's id over.
    let next = world.init("old", None).unwrap();
    assert_eq!(world.write_in("old", next, at(1, 0), 0), Ok(4));
    assert_eq!(
        world.write_checked("old", old, at(1, 0), 1, TransactionCheck::Verify),
        Err(ProduceError::StaleEpoch)
    );
    world.end("old", next, true, true).unwrap();
}

#[test]
fn t_235_a_live_transaction_is_ended_by_init() {
    let mut world = World::new();
    let me = world.init("t", None).unwrap();
    world.write_in("t", me, at(1, 0), 0).unwrap();
    // The administrator's request brings its own timeout, which stays.
    assert_eq!(world.init_with("t", None, 30_000), Err(InitError::Concurrent));
    assert_eq!(world.init_with("t", None, 30_000), Ok(owner(0, 2)));
    assert_eq!(world.shard.transactions().get("t").unwrap().state().timeout, Millis(30_000));
    assert_eq!(world.write_in("t", me, at(1, 0), 1), Err(ProduceError::StaleEpoch));
    assert_eq!(world.read_committed(at(1, 0), 0).aborted.len(), 1);
}

#[test]
fn t_283_an_abort_is_answered_with_no_code_that_forbids_going_on() {
    for status in STATUSES {
        for (by, bump) in [(ME, true), (owner(7, 4), true), (ME, false)] {
            let result = world_at(status, 5, 4).end("t", by, false, bump);
            let fatal = result == Err(EndError::InvalidState);
            // Kafka's tables call for it in these cells and no other.
            let called_for = matches!(
                (status, by == ME, bump),
                (CompleteCommit, false, true) | (Empty | CompleteCommit, true, false)
            );
            assert_eq!(fatal, called_for, "{status:?} {by:?} {bump}: {result:?}");
        }
    }
}

#[test]
fn t_290_the_retry_after_a_fence_gets_an_epoch_that_nobody_held() {
    for given in [None, Some(ME)] {
        let mut world = world_at(Ongoing, 5, 4);
        assert_eq!(world.init("t", given), Err(InitError::Concurrent));
        let next = world.init("t", given).unwrap();
        assert!(next.1 > ME.1, "{next:?}");
        assert_eq!(world.write_in("t", ME, at(1, 0), 0), Err(ProduceError::StaleEpoch));
        assert_eq!(world.write_in("t", next, at(1, 0), 0), Ok(1));
    }
}

#[test]
fn t_251_every_field_of_an_id_is_kept() {
    let mut world = world_at(Ongoing, 32766, 32765);
    world.step(staging("t", owner(7, 32766), at(1, 0), 3));
    let whole = world.shard.transactions().get("t").unwrap().clone();
    let rows = world.shard.snapshot();
    let row = rows.iter().find_map(|row| match row {
        LogRecord::Transactions(TransactionRecord::TransactionUpdated(updated)) => Some(updated),
        _ => None,
    });
    let offset_partitions = vec![ottla_core::offsets_partition("g", 50)];
    let state = whole.state().clone();
    assert_eq!((state.previous_producer_id, state.last_epoch.0), (ProducerId(6), 32765));
    let expected = TransactionUpdated { state, partitions: vec![at(1, 0)], offset_partitions };
    assert_eq!(row, Some(&expected));
    world.restart_from_snapshot();
    assert_eq!(world.shard.transactions().get("t"), Some(&whole));
    assert_eq!(world.end("t", owner(7, 32766), true, true), Ok(owner(1000, 0)));
}
