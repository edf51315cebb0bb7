//! What a group is after the log refused its record.

use crate::world::{Joiner, World, me};
use ottla_core::groups::{GroupState, HeartbeatError};

#[test]
fn a_generation_that_was_refused_never_was() {
    let mut world = World::new();
    let first = world.stable(&["a"]);
    let leader = world.join(&Joiner::new("b"));
    let rejoined = world.join(&Joiner::new("a").known());
    let second = world.joined(rejoined).unwrap().generation;
    world.joined(leader).unwrap();
    assert!(second > first);
    let waiting = world.sync(&me("b", second), &[]);
    let (refused, in_vain) = world.refuse(|world| world.sync(&me("a", second), &[("a", "x"), ("b", "y")]));
    assert!(world.waits(refused) && world.waits(waiting), "neither receives what was not stored");
    assert_eq!(in_vain, []);
    // As after a restart: the stored generation, whose member has its session timeout to send a heartbeat.
    assert_eq!(world.state(), Some(GroupState::Stable));
    assert_eq!(world.heartbeat(&me("a", second)), Err(HeartbeatError::IllegalGeneration));
    assert_eq!(world.heartbeat(&me("b", second)), Err(HeartbeatError::UnknownMember));
    assert_eq!(world.heartbeat(&me("a", first)), Ok(()));
    world.restart();
}

#[test]
fn a_group_that_was_never_stored_is_gone_with_its_first_record() {
    let mut world = World::new();
    let ticket = world.join(&Joiner::new("a"));
    let generation = world.joined(ticket).unwrap().generation;
    world.refuse(|world| world.sync(&me("a", generation), &[("a", "x")]));
    assert_eq!(world.state(), None);
    assert!(world.shard.deadline().is_none_or(|due| due <= world.now), "no timer of it is left");
    assert_eq!(world.stable(&["b"]), 1);
}
