//! Sessions, the join phase, the sync phase, and the first rebalance.

use crate::world::{Joiner, World, me};
use ottla_core::groups::{GroupState, HeartbeatError, JoinError};

#[test]
fn a_silent_member_is_dropped_after_its_session_timeout() {
    let mut world = World::new();
    let generation = world.stable(&["a", "b"]);
    world.pass(9_999);
    assert_eq!(world.heartbeat(&me("a", generation)), Ok(()));
    assert_eq!(world.state(), Some(GroupState::Stable));
    world.pass(1);
    assert_eq!(world.state(), Some(GroupState::PreparingRebalance));
    assert_eq!(world.heartbeat(&me("b", generation)), Err(HeartbeatError::UnknownMember));
    assert_eq!(world.heartbeat(&me("a", generation)), Err(HeartbeatError::RebalanceInProgress));
}

#[test]
fn a_group_whose_members_all_went_silent_is_empty_and_stays_so() {
    let mut world = World::new();
    world.stable(&["a", "b"]);
    world.pass(60_000);
    assert_eq!(world.state(), Some(GroupState::Empty));
    world.restart();
    assert_eq!(world.state(), Some(GroupState::Empty));
}

#[test]
fn members_that_do_not_rejoin_in_time_are_dropped() {
    let mut world = World::new();
    let generation = world.stable(&["a", "b", "c"]);
    let joining = world.join(&Joiner::new("a").known());
    for _ in 0..4 {
        world.pass(7_000);
        assert_eq!(world.heartbeat(&me("b", generation)), Err(HeartbeatError::RebalanceInProgress));
        let _ = world.heartbeat(&me("c", generation));
    }
    assert!(world.waits(joining));
    world.pass(2_000);
    assert_eq!(world.joined(joining).unwrap().members.len(), 1);
    assert_eq!(world.heartbeat(&me("b", generation)), Err(HeartbeatError::UnknownMember));
}

#[test]
fn a_waiting_request_counts_as_a_sign_of_life() {
    let mut world = World::new();
    let generation = world.stable(&["a", "b"]);
    let joining = world.join(&Joiner::new("a").known());
    for _ in 0..3 {
        world.pass(9_000);
        let _ = world.heartbeat(&me("b", generation));
    }
    assert!(world.waits(joining), "its own session of 10 s ended meanwhile");
    world.join(&Joiner::new("b").known());
    assert_eq!(world.joined(joining).unwrap().members.len(), 2);
}

#[test]
fn a_newcomer_may_not_wait_for_ever() {
    let mut world = World::new();
    world.stable(&["a"]);
    let mut slow = Joiner::new("a").known();
    slow.rebalance = 10_000_000;
    slow.session = 1_000_000;
    let leader = world.join(&slow);
    world.joined(leader).unwrap();
    let newcomer = world.join(&Joiner::new("b"));
    world.pass(299_999);
    assert!(world.waits(newcomer));
    world.pass(1);
    assert_eq!(world.join_error(newcomer), JoinError::UnknownMember);
}

#[test]
fn members_that_never_sync_are_dropped() {
    let mut world = World::new();
    world.stable(&["a"]);
    world.join(&Joiner::new("b"));
    let ticket = world.join(&Joiner::new("a").known());
    let generation = world.joined(ticket).unwrap().generation;
    world.sync(&me("a", generation), &[]);
    assert_eq!(world.state(), Some(GroupState::Stable));
    for _ in 0..3 {
        world.pass(9_000);
        assert_eq!(world.heartbeat(&me("a", generation)), Ok(()));
        assert_eq!(world.heartbeat(&me("b", generation)), Ok(()));
    }
    world.pass(3_000);
    assert_eq!(world.state(), Some(GroupState::PreparingRebalance));
    assert_eq!(world.heartbeat(&me("b", generation)), Err(HeartbeatError::UnknownMember));
}

#[test]
fn a_leader_that_never_syncs_is_dropped_and_the_others_rejoin() {
    let mut world = World::new();
    world.stable(&["a"]);
    world.join(&Joiner::new("b"));
    world.join(&Joiner::new("a").known());
    let waiting = world.sync(&me("b", 2), &[]);
    for _ in 0..3 {
        world.pass(9_000);
        let _ = world.heartbeat(&me("a", 2));
    }
    world.pass(3_000);
    assert!(world.synced(waiting).is_err());
    let ticket = world.join(&Joiner::new("b").known());
    assert_eq!(world.joined(ticket).unwrap().leader, "b");
}

#[test]
fn the_first_rebalance_waits_for_more_members() {
    let mut world = World::with(&[("group.initial.rebalance.delay.ms", "3000")]);
    let first = world.join(&Joiner::new("a"));
    world.pass(2_000);
    let second = world.join(&Joiner::new("b"));
    world.pass(1_000);
    assert!(world.waits(first), "a newcomer prolongs the wait");
    world.pass(3_000);
    assert_eq!(world.joined(first).unwrap().members.len(), 2);
    assert_eq!(world.joined(second).unwrap().generation, 1);
}

#[test]
fn the_first_rebalance_never_outlasts_the_rebalance_timeout() {
    let mut world = World::with(&[("group.initial.rebalance.delay.ms", "3000")]);
    let mut joiner = Joiner::new("a");
    joiner.rebalance = 7_000;
    let first = world.join(&joiner);
    for n in 0..7 {
        assert!(world.waits(first));
        world.pass(1_000);
        if n < 6 {
            let mut more = Joiner::new(&format!("b{n}"));
            more.rebalance = 7_000;
            world.join(&more);
        }
    }
    assert_eq!(world.joined(first).unwrap().members.len(), 7);
}

#[test]
fn after_a_restart_members_have_their_session_timeout_to_be_heard_of() {
    let mut world = World::new();
    let generation = world.stable(&["a", "b"]);
    world.restart();
    assert_eq!(world.state(), Some(GroupState::Stable));
    world.pass(9_000);
    assert_eq!(world.heartbeat(&me("a", generation)), Ok(()));
    world.pass(1_500);
    assert_eq!(world.state(), Some(GroupState::PreparingRebalance), "b sent no heartbeat");
    let ticket = world.join(&Joiner::new("a").known());
    assert_eq!(world.joined(ticket).unwrap().members.len(), 1);
}
