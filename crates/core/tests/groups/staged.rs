//! Offsets in transactions: what the next one sees, which groups an add covers, what is compared and what is not.

use crate::ledger::{Owner, new_offset, no_member, p};
use crate::world::{World, kind, me};
use ottla_core::groups::MemberRef;
use ottla_core::offsets::{OffsetError, OffsetLookup, StageOffsets};
use ottla_core::transactions::{AddOffsetsToTxn, EndTxn};
use ottla_core::transactions::{TransactionCheck, TransactionClaim, TransactionError};
use ottla_core::{Command, Effects, Ticket, TicketId, offsets_partition};
use ottla_types::record::{LogRecord, OffsetRecord, TransactionRecord, TransactionStatus};

fn add_offsets(world: &mut World, id: &str, owner: Owner, group: &str) -> Result<(), TransactionError> {
    let claim = TransactionClaim {
        transactional_id: id.to_owned(),
        producer_id: owner.0,
        producer_epoch: owner.1,
        check: TransactionCheck::Add,
    };
    let group_id = group.to_owned();
    kind(world.ask(AddOffsetsToTxn { claim, group_id }))
}

/// Group `name` without members.
fn anyone(name: &str) -> MemberRef {
    MemberRef { group_id: name.to_owned(), ..no_member() }
}

#[test]
fn b_12_t_131_the_next_transaction_sees_the_offsets_of_the_one_before() {
    let mut world = World::new();
    let mut owner = world.init("t");
    for offset in 0..100 {
        world.stage("t", owner, p(0), offset);
        owner = world.end("t", owner, true);
        // Nothing lies between the answer to the end and what it applies.
        assert_eq!(add_offsets(&mut world, "t", owner, "g"), Ok(()));
        assert_eq!((world.fetch(p(0)), world.is_unstable(p(0))), (Some(offset), false));
        if offset % 10 == 0 {
            world.restart();
        }
    }
}

#[test]
fn t_131_staged_and_plain_offsets_are_applied_in_the_order_of_one_log() {
    let mut world = World::new();
    let owner = world.init("t");
    world.stage("t", owner, p(0), 1);
    world.commit(&no_member(), p(0), 2).unwrap();
    world.stage("t", owner, p(1), 3);
    world.commit(&no_member(), p(1), 4).unwrap();
    world.stage("t", owner, p(1), 5);
    world.end("t", owner, true);
    world.commit(&no_member(), p(2), 6).unwrap();
    assert_eq!([0, 1, 2].map(|n| world.fetch(p(n))), [Some(2), Some(5), Some(6)]);
    world.restart();
    assert_eq!([0, 1, 2].map(|n| world.fetch(p(n))), [Some(2), Some(5), Some(6)]);
}

#[test]
fn t_150_adding_a_group_does_not_look_at_it() {
    let mut world = World::new();
    let owner = world.init("t");
    assert_eq!(add_offsets(&mut world, "t", owner, "never seen"), Ok(()));
    assert!(world.shard.groups().describe("never seen").is_none(), "nor does it make it");
    world.stable(&["a"]);
    assert_eq!(add_offsets(&mut world, "t", owner, "g"), Ok(()));
    world.end("t", owner, true);
}

#[test]
fn t_153_groups_of_one_offsets_partition_are_covered_by_one_add() {
    let mut world = World::new();
    let home = |name: &str| offsets_partition(name, 50);
    let twin = (0..).map(|n| format!("g{n}")).find(|name| home(name) == home("g")).unwrap();
    let other = (0..).map(|n| format!("g{n}")).find(|name| home(name) != home("g")).unwrap();
    let owner = world.init("t");
    assert_eq!(add_offsets(&mut world, "t", owner, "g"), Ok(()));
    let stage = |world: &mut World, group: &str| {
        world.stage_as("t", owner, &anyone(group), true, vec![new_offset(p(0), 1)])
    };
    assert_eq!(stage(&mut world, "g"), [Ok(())]);
    assert_eq!(stage(&mut world, &twin), [Ok(())]);
    let out = OffsetError::Transaction(TransactionError::NotInTransaction);
    assert_eq!(stage(&mut world, &other), [Err(out)]);
    world.end("t", owner, true);
    let found = world.shard.offsets().fetch(&twin, p(0), true);
    assert!(matches!(found, OffsetLookup::Offset(committed) if committed.offset.0 == 1));
}

#[test]
fn t_167_offsets_are_kept_as_they_are_said() {
    let mut world = World::new();
    let owner = world.init("t");
    // The partition is empty; its log ends at 0.
    for (at, offset) in [(p(0), 1_000_000), (p(1), 0), (p(2), i64::MAX)] {
        world.stage("t", owner, at, offset);
    }
    let now = world.now;
    world.pass(1000);
    world.end("t", owner, true);
    for (at, offset) in [(p(0), 1_000_000), (p(1), 0), (p(2), i64::MAX)] {
        let OffsetLookup::Offset(found) = world.shard.offsets().fetch("g", at, true) else {
            panic!("{at:?}")
        };
        assert_eq!((found.offset.0, found.leader_epoch, found.at), (offset, 3, now), "{at:?}");
    }
}

#[test]
fn t_168_staging_a_retry_again_needs_no_sequence() {
    let mut world = World::new();
    let owner = world.init("t");
    for _ in 0..3 {
        world.stage("t", owner, p(0), 5);
    }
    let staged = world
        .log
        .iter()
        .filter(|(_, record)| matches!(record, LogRecord::Offsets(OffsetRecord::OffsetsStaged(_))));
    assert_eq!(staged.count(), 3);
    world.end("t", owner, true);
    assert_eq!(world.fetch(p(0)), Some(5));
}

#[test]
fn t_168_the_record_comes_before_the_answer() {
    let mut world = World::new();
    let owner = world.init("t");
    let ticket = Ticket::new(TicketId(0));
    let stage = StageOffsets {
        transactional_id: "t".to_owned(),
        producer_id: owner.0,
        producer_epoch: owner.1,
        verify_only: false,
        member: no_member(),
        topics: vec![new_offset(p(0), 1)],
    };
    let mut out = Effects::default();
    world.shard.step(world.now, stage.into_input(ticket), &mut out);
    let effects: Vec<_> = out.drain().collect();
    use ottla_core::Effect::{Append, Reply};
    assert!(
        matches!(
            &effects[..],
            [
                Append(LogRecord::Transactions(TransactionRecord::TransactionUpdated(_))),
                Append(LogRecord::Offsets(OffsetRecord::OffsetsStaged(_))),
                Reply(reply)
            ] if reply.ticket() == ticket.id()
        ),
        "{effects:?}"
    );
}

#[test]
fn t_184_an_unknown_group_has_no_offsets() {
    let mut world = World::new();
    assert_eq!(world.shard.offsets().fetch("unknown", p(0), true), OffsetLookup::None);
    assert_eq!(world.shard.offsets().fetch_all("unknown", true).count(), 0);
    // One with members and no offsets, too.
    world.stable(&["a"]);
    assert_eq!(world.shard.offsets().fetch("g", p(0), true), OffsetLookup::None);
    assert_eq!(world.shard.offsets().fetch_all("g", false).count(), 0);
}

#[test]
fn t_257_a_restart_at_any_point_replays_offsets_in_order() {
    let mut lived = World::new();
    let (one, two) = (lived.init("one"), lived.init("two"));
    lived.stage("one", one, p(0), 1);
    lived.commit(&no_member(), p(0), 2).unwrap();
    lived.stage("two", two, p(0), 3);
    lived.stage("two", two, p(1), 4);
    lived.delete_offsets(&[p(1)]).unwrap();
    lived.end("two", two, true);
    lived.commit(&no_member(), p(1), 5).unwrap();
    lived.end("one", one, true);
    let expected = (lived.fetch(p(0)), lived.fetch(p(1)));
    assert_eq!(expected, (Some(3), Some(5)));
    let whole = lived.shard.snapshot();
    for cut in 0..lived.log.len() {
        let mut shard = ottla_core::Shard::new(ottla_core::config::Settings::default());
        lived.log[..cut].iter().for_each(|(at, record)| shard.apply(*at, record));
        assert_eq!(lived.rebuilt(&shard.snapshot(), cut), whole, "a snapshot after {cut} records");
    }
}

#[test]
fn b_23_the_offsets_share_the_fate_of_their_transaction() {
    // Several ids and groups, in different partitions of the offsets topic.
    let mut world = World::new();
    let mut expected = Vec::new();
    for n in 0..40 {
        let (id, group) = (format!("id-{n}"), format!("group-{n}"));
        let owner = world.init(&id);
        let staged = world.stage_as(&id, owner, &anyone(&group), false, vec![new_offset(p(n % 10), 1)]);
        assert_eq!(staged, [Ok(())]);
        if n % 5 == 0 {
            world.restart();
        }
        let committed = n % 4 == 0;
        if n % 4 < 2 {
            world.end(&id, owner, committed);
        }
        expected.push((id, group, p(n % 10), committed));
    }
    world.pass(20_000);
    world.restart();
    for (id, group, at, committed) in expected {
        let found = matches!(world.shard.offsets().fetch(&group, at, true), OffsetLookup::Offset(_));
        let status = world.shard.transactions().get(&id).unwrap().state().status;
        assert_eq!((found, status == TransactionStatus::CompleteCommit), (committed, committed), "{id}");
    }
}

#[test]
fn b_41_a_group_with_a_deleted_staged_offset_can_be_deleted_before_and_after_the_end() {
    for early in [true, false] {
        let mut world = World::new();
        let owner = world.init("t");
        world.stage("t", owner, p(0), 1);
        world.delete_offsets(&[p(0)]).unwrap();
        if early {
            assert_eq!(world.delete_group("g"), Ok(()));
        }
        world.end("t", owner, true);
        assert_eq!((world.fetch(p(0)), world.is_unstable(p(0))), (None, false));
        assert_eq!(world.delete_group("g").is_ok(), !early);
        assert!(world.shard.groups().describe("g").is_none());
    }
}

#[test]
fn b_46_a_group_that_was_only_added_is_never_unstable() {
    let mut world = World::new();
    world.commit(&no_member(), p(0), 1).unwrap();
    let owner = world.init("t");
    assert_eq!(add_offsets(&mut world, "t", owner, "g"), Ok(()));
    assert!(!world.is_unstable(p(0)));
    world.pass(25_000);
    assert_eq!((world.fetch(p(0)), world.is_unstable(p(0))), (Some(1), false));
    // Staged, deleted, aborted.
    let owner = world.init("t");
    world.stage("t", owner, p(0), 2);
    world.delete_offsets(&[p(0)]).unwrap();
    world.end("t", owner, false);
    assert_eq!((world.fetch(p(0)), world.is_unstable(p(0))), (None, false));
}

#[test]
fn t_192_an_end_leaves_the_staged_offsets_of_others() {
    let mut world = World::new();
    let (one, two) = (world.init("one"), world.init("two"));
    world.stage("one", one, p(0), 1);
    assert!(
        world
            .ask(EndTxn {
                transactional_id: "two".to_owned(),
                producer_id: two.0,
                producer_epoch: two.1,
                commit: false,
                bump: true
            })
            .is_ok()
    );
    assert!(world.is_unstable(p(0)));
    let member = me("", -1);
    assert_eq!(world.stage_as("one", one, &member, true, vec![new_offset(p(1), 1)]), [Ok(())]);
    world.end("one", one, true);
    assert_eq!((world.fetch(p(0)), world.fetch(p(1))), (Some(1), Some(1)));
}
