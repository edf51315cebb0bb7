//! Static members (KIP-345): they come back without their member id and keep their place.

use crate::world::{Joiner, World, me};
use ottla_core::groups::{GroupState, HeartbeatError, JoinError, MemberRef, SyncError};

fn returning(name: &str) -> Joiner {
    Joiner::named(name)
}

fn fixed(member_id: &str, generation: i32, instance_id: &str) -> MemberRef {
    MemberRef { instance_id: Some(instance_id.to_owned()), ..me(member_id, generation) }
}

#[test]
fn coming_back_to_a_stable_group_changes_nothing_for_the_others() {
    let mut world = World::new();
    let generation = world.stable(&["a", "s-1"]);
    let ticket = world.join(&returning("s-2"));
    let joined = world.joined(ticket).unwrap();
    assert_eq!((joined.generation, joined.member_id.as_str()), (generation, "s-2"));
    assert_eq!((joined.leader.as_str(), joined.skip_assignment), ("a", false));
    assert_eq!(world.state(), Some(GroupState::Stable));
    let ticket = world.sync(&fixed("s-2", generation, "s"), &[]);
    assert_eq!(world.synced(ticket).unwrap().assignment, "s-1", "the assignment stays");
    assert_eq!(world.heartbeat(&fixed("s-1", generation, "s")), Err(HeartbeatError::FencedInstance));
    assert_eq!(world.heartbeat(&me("s-1", generation)), Err(HeartbeatError::UnknownMember));
    assert_eq!(world.heartbeat(&fixed("s-2", generation, "s")), Ok(()));
    world.restart();
    assert_eq!(world.heartbeat(&fixed("s-2", generation, "s")), Ok(()), "the new member id is durable");
}

#[test]
fn a_leader_that_comes_back_need_not_assign() {
    let mut world = World::new();
    let generation = world.stable(&["s-1", "b"]);
    let ticket = world.join(&returning("s-2"));
    let joined = world.joined(ticket).unwrap();
    assert_eq!(
        (joined.generation, joined.leader.as_str(), joined.skip_assignment),
        (generation, "s-2", true)
    );
    assert_eq!(joined.members.len(), 2);
}

#[test]
fn an_old_client_that_led_believes_that_another_leads() {
    let mut world = World::new();
    let generation = world.stable(&["s-1", "b"]);
    let mut joiner = returning("s-2");
    joiner.can_skip_assignment = false;
    let ticket = world.join(&joiner);
    let joined = world.joined(ticket).unwrap();
    assert_eq!(
        (joined.generation, joined.leader.as_str(), joined.skip_assignment),
        (generation, "s-1", false)
    );
    assert!(joined.members.is_empty());
    // It does lead: when it joins again with its id, the group rebalances.
    world.join(&joiner.known());
    assert_eq!(world.state(), Some(GroupState::PreparingRebalance));
}

#[test]
fn coming_back_with_another_choice_of_protocol_rebalances() {
    let mut world = World::new();
    let both = |joiner: Joiner| joiner.protocols(&[("range", ""), ("sticky", "")]);
    let joiner = both(returning("s-1"));
    let ticket = world.join(&joiner);
    world.joined(ticket).unwrap();
    world.sync(&me("s-1", 1), &[]);
    let ticket = world.join(&returning("s-2").protocols(&[("sticky", "")]));
    let joined = world.joined(ticket);
    assert_eq!(joined.err().map(|refusal| refusal.error), None, "the only member is a rebalance by itself");
    assert_eq!(world.shard.groups().describe("g").unwrap().state, GroupState::CompletingRebalance);
}

#[test]
fn a_duplicate_fences_requests_that_wait() {
    let mut world = World::new();
    world.stable(&["a", "s-1"]);
    world.join(&Joiner::new("c"));
    let joining = world.join(&returning("s-1").known());
    assert!(world.waits(joining));
    world.join(&returning("s-2"));
    let refusal = world.joined(joining).unwrap_err();
    assert_eq!((refusal.error.error, refusal.member_id.as_str()), (JoinError::FencedInstance, "s-1"));
    let leader = world.join(&Joiner::new("a").known());
    let generation = world.joined(leader).unwrap().generation;
    let syncing = world.sync(&me("s-2", generation), &[]);
    world.join(&returning("s-3"));
    assert_eq!(world.synced(syncing), Err(SyncError::FencedInstance));
    assert_eq!(
        world.state(),
        Some(GroupState::PreparingRebalance),
        "the leader may be assigning to the old id"
    );
}

#[test]
fn a_static_member_may_not_come_with_an_unknown_or_foreign_member_id() {
    let mut world = World::new();
    world.stable(&["a", "s-1"]);
    let mut joiner = returning("x").known();
    joiner.instance_id = Some("s".to_owned());
    let ticket = world.join(&joiner);
    assert_eq!(world.join_error(ticket), JoinError::FencedInstance);
    joiner.instance_id = Some("t".to_owned());
    let ticket = world.join(&joiner);
    assert_eq!(world.join_error(ticket), JoinError::UnknownMember);
}

#[test]
fn a_static_member_that_does_not_rejoin_stays_until_its_session_ends() {
    let mut world = World::new();
    let mut long = returning("s-1");
    long.session = 100_000;
    world.stable(&["a"]);
    world.join(&long);
    let ticket = world.join(&Joiner::new("a").known());
    world.joined(ticket).unwrap();
    world.sync(&me("s-1", 2), &[]);
    world.sync(&me("a", 2), &[]);
    world.join(&Joiner::new("b"));
    let leader = world.join(&Joiner::new("a").known());
    assert!(world.waits(leader));
    world.pass(30_000);
    let joined = world.joined(leader).unwrap();
    assert_eq!(joined.members.len(), 3, "the silent static member is still assigned to");
}
