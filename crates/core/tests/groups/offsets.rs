//! Committed and staged offsets (sections 13 and 15 of the rules).

use crate::ledger::{new_offset, no_member, noted, p, q};
use crate::world::{Joiner, OTHER, TOPIC, World, me};
use ottla_core::groups::{CommitFencing, GroupState, HeartbeatError, MemberRef};
use ottla_core::offsets::{DeleteOffsetsError, OffsetDeleteError, OffsetError, OffsetLookup};
use ottla_core::transactions::TransactionError;
use ottla_types::record::{CatalogRecord, LogRecord, TopicDeleted};
use ottla_types::{Millis, Offset, ProducerEpoch, ProducerId};

#[test]
fn b_77_a_commit_keeps_offset_epoch_and_note() {
    let mut world = World::new();
    assert_eq!(world.commit_all(&no_member(), vec![noted(p(0), 42, "note")]), [Ok(())]);
    world.restart();
    let OffsetLookup::Offset(found) = world.shard.offsets().fetch("g", p(0), true) else {
        panic!("nothing there")
    };
    assert_eq!((found.offset, found.leader_epoch, found.metadata.as_str()), (Offset(42), 3, "note"));
    assert_eq!(world.shard.offsets().fetch("g", p(1), true), OffsetLookup::None);
    assert_eq!(world.shard.offsets().fetch("unknown", p(0), true), OffsetLookup::None);
}

#[test]
fn t_162_only_a_plain_commit_takes_the_empty_group_id() {
    let mut world = World::new();
    let anonymous = MemberRef { group_id: String::new(), ..no_member() };
    assert_eq!(world.commit(&anonymous, p(0), 1), Ok(()));
    let owner = world.init("t");
    let refused = world.stage_as("t", owner, &anonymous, false, vec![new_offset(p(0), 1)]);
    assert_eq!(refused, [Err(OffsetError::InvalidGroupId)]);
}

#[test]
fn t_163_the_transaction_must_be_the_callers() {
    let mut world = World::new();
    let owner = world.init("t");
    let offsets = vec![new_offset(p(0), 1)];
    let stage = |world: &mut World, id: &str, owner, verify| {
        world.stage_as(id, owner, &no_member(), verify, offsets.clone())
    };
    let refused = |error| vec![Err(OffsetError::Transaction(error))];
    let stranger = (ProducerId(owner.0.0 + 1), owner.1);
    let zombie = (owner.0, ProducerEpoch(owner.1.0 + 1));
    assert_eq!(stage(&mut world, "unknown", owner, false), refused(TransactionError::UnknownProducer));
    assert_eq!(stage(&mut world, "t", stranger, false), refused(TransactionError::UnknownProducer));
    assert_eq!(stage(&mut world, "t", zombie, false), refused(TransactionError::Fenced));
    assert_eq!(stage(&mut world, "t", owner, true), refused(TransactionError::NotInTransaction));
    assert_eq!(stage(&mut world, "t", owner, false), [Ok(())]);
    assert_eq!(stage(&mut world, "t", owner, true), [Ok(())], "the group is in it by now");
}

#[test]
fn t_164_a_fenced_members_request_starts_the_transaction() {
    let mut world = World::new();
    let owner = world.init("t");
    let refused = world.stage_as("t", owner, &me("ghost", 4), false, vec![new_offset(p(0), 1)]);
    assert_eq!(refused, [Err(OffsetError::Fenced(CommitFencing::UnknownGroup))]);
    let transaction = world.shard.transactions().get("t").unwrap();
    assert_eq!(transaction.offset_partitions().len(), 1);
    world.end("t", owner, true);
    assert_eq!(world.fetch(p(0)), None);
}

/// Every row of the table for classic groups, plain and in a transaction.
#[test]
fn t_165_who_may_commit() {
    use CommitFencing::{
        FencedInstance, IllegalGeneration, RebalanceInProgress, UnknownGroup, UnknownMember,
    };
    let fixed = |member_id: &str, generation, instance_id: &str| MemberRef {
        instance_id: Some(instance_id.to_owned()),
        ..me(member_id, generation)
    };
    let mut world = World::new();
    let owner = world.init("t");
    let check = |world: &mut World, member: MemberRef, plain: Result<(), _>, staged: Result<(), _>| {
        let result = world.commit(&member, p(0), 1);
        assert_eq!(result, plain.map_err(OffsetError::Fenced), "plain {member:?}");
        let result = world.stage_as("t", owner, &member, false, vec![new_offset(p(0), 1)]);
        assert_eq!(result, [staged.map_err(OffsetError::Fenced)], "staged {member:?}");
    };
    check(&mut world, me("", 0), Err(UnknownGroup), Err(UnknownGroup));
    check(&mut world, me("", -1), Ok(()), Ok(()));
    // Now it exists, and is empty.
    check(&mut world, me("who", -1), Ok(()), Ok(()));
    check(&mut world, me("who", 0), Err(UnknownMember), Err(UnknownMember));
    let generation = world.stable(&["a", "s-1"]);
    check(&mut world, me("", -1), Err(UnknownMember), Ok(()));
    check(&mut world, me("a", generation), Ok(()), Ok(()));
    check(&mut world, me("a", generation - 1), Err(IllegalGeneration), Err(IllegalGeneration));
    check(&mut world, me("a", -1), Err(IllegalGeneration), Err(IllegalGeneration));
    check(&mut world, me("x", generation), Err(UnknownMember), Err(UnknownMember));
    check(&mut world, fixed("a", generation, "unknown"), Err(UnknownMember), Err(UnknownMember));
    check(&mut world, fixed("a", generation, "s"), Err(FencedInstance), Err(FencedInstance));
    check(&mut world, fixed("s-1", generation, "s"), Ok(()), Ok(()));
    world.join(&Joiner::named("a").known());
    assert_eq!(world.state(), Some(GroupState::PreparingRebalance));
    check(&mut world, me("a", generation), Ok(()), Ok(()));
    world.join(&Joiner::named("s-1").known());
    assert_eq!(world.state(), Some(GroupState::CompletingRebalance));
    check(&mut world, me("a", generation + 1), Err(RebalanceInProgress), Ok(()));
    check(&mut world, me("", -1), Err(UnknownMember), Ok(()));
}

#[test]
fn t_166_a_long_note_fails_its_partition_alone_and_is_counted_in_utf_16() {
    let mut world = World::with(&[("offset.metadata.max.bytes", "4")]);
    let notes = ["abcd", "abcde", "ääää", "😀😀😀"];
    let offsets: Vec<_> = (0..).zip(notes).map(|(partition, note)| noted(p(partition), 1, note)).collect();
    let expected =
        vec![Ok(()), Err(OffsetError::MetadataTooLarge), Ok(()), Err(OffsetError::MetadataTooLarge)];
    assert_eq!(world.commit_all(&no_member(), offsets.clone()), expected);
    let owner = world.init("t");
    assert_eq!(world.stage_as("t", owner, &no_member(), false, offsets), expected);
    assert!(world.is_unstable(p(0)) && !world.is_unstable(p(1)));
}

#[test]
fn a_partition_that_is_gone_fails_alone() {
    let mut world = World::new();
    let offsets = vec![new_offset(p(0), 1), new_offset(p(10), 1)];
    assert_eq!(world.commit_all(&no_member(), offsets), [Ok(()), Err(OffsetError::UnknownPartition)]);
}

#[test]
fn t_171_only_a_plain_commit_renews_the_session() {
    let mut world = World::new();
    let generation = world.stable(&["a"]);
    world.pass(9_000);
    world.commit(&me("a", generation), p(0), 1).unwrap();
    world.pass(9_000);
    assert_eq!(world.heartbeat(&me("a", generation)), Ok(()));
    let owner = world.init("t");
    world.pass(9_000);
    let staged = world.stage_as("t", owner, &me("a", generation), false, vec![new_offset(p(0), 1)]);
    assert_eq!(staged, [Ok(())]);
    world.pass(1_000);
    assert_eq!(world.heartbeat(&me("a", generation)), Err(HeartbeatError::UnknownMember));
}

#[test]
fn t_172_the_later_of_two_staged_values_wins() {
    let mut world = World::new();
    let owner = world.init("t");
    world.stage("t", owner, p(0), 1);
    world.stage("t", owner, p(0), 2);
    world.end("t", owner, true);
    assert_eq!(world.fetch(p(0)), Some(2));
}

#[test]
fn t_180_t_181_staged_offsets_show_when_they_are_committed() {
    let mut world = World::new();
    world.commit(&no_member(), p(0), 1).unwrap();
    world.commit(&no_member(), p(1), 1).unwrap();
    let mut owner = world.init("t");
    world.stage("t", owner, p(0), 2);
    assert_eq!(world.fetch(p(0)), Some(1));
    assert!(world.is_unstable(p(0)));
    assert!(!world.is_unstable(p(1)), "the others are stable");
    owner = world.end("t", owner, false);
    assert_eq!(world.fetch(p(0)), Some(1));
    assert!(!world.is_unstable(p(0)));
    world.stage("t", owner, p(0), 3);
    world.restart();
    assert!(world.is_unstable(p(0)));
    world.end("t", owner, true);
    assert_eq!(world.fetch(p(0)), Some(3));
    world.restart();
    assert_eq!(world.fetch(p(0)), Some(3));
}

#[test]
fn t_180_what_a_transaction_has_staged_is_seen_until_it_ends() {
    let mut world = World::new();
    let owner = world.init("t");
    world.stage("t", owner, p(0), 2);
    world.stage("t", owner, p(1), 7);
    let staged = |world: &World| {
        let seen = world.shard.offsets().staged(owner.0);
        seen.map(|(group, at, offset)| (group.to_owned(), at, offset.offset.0)).collect::<Vec<_>>()
    };
    assert_eq!(staged(&world), [("g".to_owned(), p(0), 2), ("g".to_owned(), p(1), 7)]);
    assert_eq!(world.shard.offsets().stagers("g", p(1)).collect::<Vec<_>>(), [owner.0]);
    world.end("t", owner, true);
    assert_eq!(staged(&world), []);
    assert_eq!(world.shard.offsets().stagers("g", p(1)).count(), 0);
}

#[test]
fn t_182_all_offsets_are_those_with_a_committed_value() {
    let mut world = World::new();
    world.commit(&no_member(), p(0), 1).unwrap();
    world.commit(&no_member(), q(0), 1).unwrap();
    let owner = world.init("t");
    world.stage("t", owner, p(0), 2);
    world.stage("t", owner, p(5), 2);
    let all: Vec<_> = world.shard.offsets().fetch_all("g", true).collect();
    assert_eq!(all.len(), 2);
    assert_eq!(all[0], (p(0), OffsetLookup::Unstable));
    assert!(matches!(all[1], (at, OffsetLookup::Offset(_)) if at == q(0)));
    assert_eq!(world.shard.offsets().fetch_all("unknown", true).count(), 0);
}

#[test]
fn t_185_the_later_record_wins_not_the_later_marker() {
    let mut world = World::new();
    let owner = world.init("t");
    world.stage("t", owner, p(0), 10);
    world.commit(&no_member(), p(0), 5).unwrap();
    world.commit(&no_member(), p(1), 5).unwrap();
    world.stage("t", owner, p(1), 10);
    world.end("t", owner, true);
    assert_eq!((world.fetch(p(0)), world.fetch(p(1))), (Some(5), Some(10)));
    world.restart();
    assert_eq!((world.fetch(p(0)), world.fetch(p(1))), (Some(5), Some(10)));
}

#[test]
fn t_185_t_187_two_transactions_stage_one_partition() {
    let mut world = World::new();
    let (first, second) = (world.init("t1"), world.init("t2"));
    world.stage("t1", first, p(0), 1);
    world.stage("t2", second, p(0), 2);
    world.end("t2", second, true);
    assert_eq!(world.fetch(p(0)), Some(2));
    assert!(world.is_unstable(p(0)), "the other one is still open");
    world.end("t1", first, true);
    assert_eq!(world.fetch(p(0)), Some(2), "it was staged before");
    assert!(!world.is_unstable(p(0)));
}

#[test]
fn t_188_b_49_b_50_a_deleted_group_takes_its_offsets_along() {
    let mut world = World::new();
    let owner = world.init("t");
    world.commit(&no_member(), p(0), 1).unwrap();
    world.stage("t", owner, p(1), 1);
    assert_eq!(world.state(), Some(GroupState::Empty));
    assert_eq!(world.delete_group("g"), Ok(()));
    world.end("t", owner, true);
    assert_eq!((world.fetch(p(0)), world.fetch(p(1))), (None, None));
    world.restart();
    assert_eq!((world.state(), world.fetch(p(0))), (None, None));
    assert_eq!(world.commit(&no_member(), p(0), 7), Ok(()));
    assert_eq!(world.fetch(p(0)), Some(7));
}

#[test]
fn t_189_offsets_of_subscribed_topics_stay() {
    let mut world = World::new();
    assert_eq!(world.delete_offsets(&[p(0)]), Err(DeleteOffsetsError::UnknownGroup));
    world.commit(&no_member(), p(0), 1).unwrap();
    world.commit(&no_member(), q(0), 1).unwrap();
    world.stable(&["a"]);
    let results = world.delete_offsets(&[p(0), q(0), q(1)]).unwrap();
    assert_eq!(results, [Err(OffsetDeleteError::Subscribed), Ok(()), Ok(())]);
    assert_eq!((world.fetch(p(0)), world.fetch(q(0))), (Some(1), None));
    world.leave("a").unwrap();
    assert_eq!(world.delete_offsets(&[p(0)]), Ok(vec![Ok(())]));
    assert_eq!(world.fetch(p(0)), None);
}

#[test]
fn t_189_a_group_of_another_type_must_be_empty() {
    let mut world = World::new();
    let mut worker = Joiner::new("a").protocols(&[("default", "opaque")]);
    worker.protocol_type = "connect".to_owned();
    world.join(&worker);
    assert_eq!(world.delete_offsets(&[p(0)]), Err(DeleteOffsetsError::NotEmpty));
}

#[test]
fn t_189_a_consumer_whose_metadata_is_unreadable_counts_as_subscribed_to_all() {
    let mut world = World::new();
    world.join(&Joiner::new("a").protocols(&[("range", "x")]));
    assert_eq!(world.delete_offsets(&[p(0)]), Ok(vec![Err(OffsetDeleteError::Subscribed)]));
}

#[test]
fn t_189_b_41_a_staged_offset_can_be_deleted() {
    let mut world = World::new();
    let owner = world.init("t");
    world.stage("t", owner, p(0), 1);
    assert_eq!(world.delete_offsets(&[p(0)]), Ok(vec![Ok(())]));
    assert!(!world.is_unstable(p(0)));
    world.end("t", owner, true);
    assert_eq!((world.fetch(p(0)), world.is_unstable(p(0))), (None, false));
    assert_eq!(world.delete_group("g"), Ok(()));
    world.restart();
}

#[test]
fn t_190_offsets_of_a_simple_group_expire_by_their_commit() {
    let mut world = World::with(&[("offsets.retention.minutes", "60")]);
    world.pass(1);
    world.commit(&no_member(), p(0), 1).unwrap();
    world.pass(30 * 60_000);
    world.commit(&no_member(), p(1), 1).unwrap();
    world.pass(40 * 60_000);
    assert_eq!((world.fetch(p(0)), world.fetch(p(1))), (None, Some(1)));
    world.pass(30 * 60_000);
    assert_eq!((world.fetch(p(1)), world.state()), (None, None), "the group goes with its last offset");
    world.restart();
}

#[test]
fn t_190_offsets_of_a_group_that_had_members_expire_after_it_emptied() {
    let mut world = World::with(&[("offsets.retention.minutes", "60")]);
    let generation = world.stable(&["a"]);
    world.commit(&me("a", generation), p(0), 1).unwrap();
    world.commit(&me("a", generation), q(0), 1).unwrap();
    for _ in 0..(120 * 60 / 9) {
        world.pass(9_000);
        assert_eq!(world.heartbeat(&me("a", generation)), Ok(()));
    }
    assert_eq!((world.fetch(p(0)), world.fetch(q(0))), (Some(1), None), "no longer subscribed to");
    world.leave("a").unwrap();
    world.pass(50 * 60_000);
    assert_eq!(world.fetch(p(0)), Some(1));
    world.pass(20 * 60_000);
    assert_eq!((world.fetch(p(0)), world.state()), (None, None));
}

#[test]
fn t_190_staged_offsets_keep_partition_and_group() {
    let configs = [("offsets.retention.minutes", "1"), ("transaction.max.timeout.ms", "900000000")];
    let mut world = World::with(&configs);
    let owner = world.init_for("t", 900_000_000);
    world.commit(&no_member(), p(0), 1).unwrap();
    world.stage("t", owner, p(0), 2);
    world.pass(60 * 60_000);
    assert_eq!(world.fetch(p(0)), Some(1));
    assert!(world.is_unstable(p(0)));
    world.end("t", owner, false);
    world.pass(20 * 60_000);
    assert_eq!((world.fetch(p(0)), world.state()), (None, None));
    world.restart();
}

#[test]
fn t_191_a_deleted_topic_takes_its_offsets_along() {
    let mut world = World::new();
    let owner = world.init("t");
    world.commit(&no_member(), p(0), 1).unwrap();
    world.commit(&no_member(), q(0), 1).unwrap();
    world.stage("t", owner, p(1), 1);
    world.append(LogRecord::Catalog(CatalogRecord::TopicDeleted(TopicDeleted { id: TOPIC, at: world.now })));
    world.end("t", owner, true);
    assert_eq!((world.fetch(p(0)), world.fetch(p(1)), world.fetch(q(0))), (None, None, Some(1)));
    world.restart();
    world.append(LogRecord::Catalog(CatalogRecord::TopicDeleted(TopicDeleted { id: OTHER, at: world.now })));
    assert_eq!(world.state(), Some(GroupState::Empty), "the group stays until old offsets are looked for");
    assert_eq!(world.delete_group("g"), Ok(()));
}

#[test]
fn t_192_the_end_of_a_transaction_without_offsets_is_harmless() {
    let mut world = World::new();
    let owner = world.init("t");
    world.end("t", owner, false);
    assert_eq!(world.fetch(p(0)), None);
}

#[test]
fn b_45_b_46_an_abandoned_transaction_ends_and_offsets_are_stable_again() {
    let mut world = World::new();
    world.commit(&no_member(), p(0), 1).unwrap();
    let owner = world.init("t");
    world.stage("t", owner, p(0), 2);
    assert!(world.is_unstable(p(0)));
    world.pass(25_000);
    assert!(!world.is_unstable(p(0)));
    assert_eq!(world.fetch(p(0)), Some(1));
    world.restart();
}

#[test]
fn t_161_without_a_partition_that_exists_nothing_else_is_looked_at() {
    let mut world = World::new();
    let owner = world.init("t");
    let result = world.stage_as("t", owner, &me("ghost", 4), false, vec![new_offset(p(10), 1)]);
    assert_eq!(result, [Err(OffsetError::UnknownPartition)]);
    assert!(world.shard.transactions().get("t").unwrap().offset_partitions().is_empty());
    let both = vec![new_offset(p(10), 1), new_offset(p(0), 1)];
    let fenced = Err(OffsetError::Fenced(CommitFencing::UnknownGroup));
    assert_eq!(world.commit_all(&me("ghost", 4), both), [Err(OffsetError::UnknownPartition), fenced]);
    // Not so where offsets are deleted: the group is looked at first.
    assert_eq!(world.delete_offsets(&[p(10)]), Err(DeleteOffsetsError::UnknownGroup));
}

/// The clock of a machine may be wrong at its start and right a moment later.
#[test]
fn t_190_offsets_expire_by_the_wall_clock_and_not_for_its_correction() {
    const HOUR: i64 = 3_600_000;
    const YEARS: i64 = 50 * 365 * 24 * HOUR;
    let mut world = World::with(&[("offsets.retention.minutes", "60")]);
    world.pass(1);
    world.commit(&no_member(), p(0), 1).unwrap();
    world.shard.set_wall_offset(world.now, Millis(YEARS));
    world.pass(HOUR / 2);
    world.commit(&no_member(), p(1), 1).unwrap();
    world.pass(HOUR / 4);
    assert_eq!(world.fetch(p(0)), Some(1), "not for the correction");
    // After a restart the steady clock begins with the right time.
    world.restart();
    world.now = world.now.after(Millis(YEARS));
    world.pass(HOUR / 2);
    assert_eq!(world.fetch(p(1)), Some(1), "its commit has the right time");
    world.pass(HOUR);
    assert_eq!(world.fetch(p(1)), None);
}

#[test]
fn t_190_a_group_empties_at_a_time_of_the_wall_clock() {
    const HOUR: i64 = 3_600_000;
    const YEARS: i64 = 50 * 365 * 24 * HOUR;
    let mut world = World::with(&[("offsets.retention.minutes", "60")]);
    world.shard.set_wall_offset(world.now, Millis(YEARS));
    let generation = world.stable(&["a"]);
    world.commit(&me("a", generation), p(0), 1).unwrap();
    world.leave("a").unwrap();
    world.restart();
    world.now = world.now.after(Millis(YEARS));
    world.pass(HOUR / 2);
    assert_eq!(world.fetch(p(0)), Some(1));
    world.pass(HOUR);
    assert_eq!(world.fetch(p(0)), None);
}
