//! The table of the group's state machine: every event in every state.

use crate::world::{Joiner, World, me};
use ottla_core::groups::{GroupState, HeartbeatError, JoinError, MemberError, SyncError};

const STATES: [GroupState; 4] =
    [GroupState::Empty, GroupState::PreparingRebalance, GroupState::CompletingRebalance, GroupState::Stable];

/// A group in this state whose members are `a`, who leads, and the static member `s-1`; and the generation.
fn in_state(state: GroupState) -> (World, i32) {
    let mut world = World::new();
    let mut generation = world.stable(&["a", "s-1"]);
    match state {
        GroupState::Stable => {}
        GroupState::PreparingRebalance => drop(world.join(&Joiner::named("a").known())),
        GroupState::CompletingRebalance => {
            world.join(&Joiner::named("a").known());
            world.join(&Joiner::named("s-1").known());
            generation += 1;
        }
        GroupState::Empty => {
            world.leave_all(&[("a", None), ("s-1", None)]).unwrap();
            generation += 1;
        }
    }
    assert_eq!(world.state(), Some(state));
    (world, generation)
}

/// Runs an event in every state; gives the state after it, or none if the group is gone.
fn table(event: impl Fn(&mut World, i32) -> String) -> Vec<String> {
    let run = |state: &GroupState| {
        let (mut world, generation) = in_state(*state);
        let outcome = event(&mut world, generation);
        world.check_snapshot();
        let after = world.state().map_or("gone", GroupState::name);
        format!("{state}: {outcome} -> {after}")
    };
    STATES.iter().map(run).collect()
}

fn join(world: &mut World, joiner: &Joiner) -> String {
    let ticket = world.join(joiner);
    match world.join_reply(ticket) {
        None => "waits".to_owned(),
        Some(Ok(joined)) => format!("joined {}", joined.generation),
        Some(Err(refusal)) => format!("{:?}", refusal.error.error),
    }
}

fn sync(world: &mut World, member_id: &str, generation: i32) -> String {
    let ticket = world.sync(&me(member_id, generation), &[]);
    if world.waits(ticket) {
        return "waits".to_owned();
    }
    world.synced(ticket).map_or_else(|error| format!("{error:?}"), |_| "synced".to_owned())
}

#[test]
fn a_newcomer_joins() {
    let rows = table(|world, _| join(world, &Joiner::new("n")));
    assert_eq!(
        rows,
        [
            "Empty: joined 4 -> CompletingRebalance",
            "PreparingRebalance: waits -> PreparingRebalance",
            "CompletingRebalance: waits -> PreparingRebalance",
            "Stable: waits -> PreparingRebalance",
        ]
    );
}

#[test]
fn a_newcomer_is_promised_an_id() {
    let rows = table(|world, _| join(world, &Joiner::new("n").strict()));
    assert_eq!(
        rows,
        [
            "Empty: MemberIdRequired -> Empty",
            "PreparingRebalance: MemberIdRequired -> PreparingRebalance",
            "CompletingRebalance: MemberIdRequired -> CompletingRebalance",
            "Stable: MemberIdRequired -> Stable",
        ]
    );
}

#[test]
fn a_promised_member_joins() {
    let rows = table(|world, _| {
        join(world, &Joiner::new("n").strict());
        join(world, &Joiner::new("n").strict().known())
    });
    assert_eq!(
        rows,
        [
            "Empty: joined 4 -> CompletingRebalance",
            "PreparingRebalance: waits -> PreparingRebalance",
            "CompletingRebalance: waits -> PreparingRebalance",
            "Stable: waits -> PreparingRebalance",
        ]
    );
}

#[test]
fn the_leader_rejoins() {
    let rows = table(|world, _| join(world, &Joiner::named("a").known()));
    assert_eq!(
        rows,
        [
            "Empty: UnknownMember -> Empty",
            "PreparingRebalance: waits -> PreparingRebalance",
            "CompletingRebalance: joined 3 -> CompletingRebalance",
            "Stable: waits -> PreparingRebalance",
        ]
    );
}

#[test]
fn a_follower_rejoins_unchanged() {
    let rows = table(|world, _| join(world, &Joiner::named("s-1").known()));
    assert_eq!(
        rows,
        [
            "Empty: UnknownMember -> Empty",
            "PreparingRebalance: joined 3 -> CompletingRebalance",
            "CompletingRebalance: joined 3 -> CompletingRebalance",
            "Stable: joined 2 -> Stable",
        ]
    );
}

#[test]
fn a_follower_rejoins_with_other_metadata() {
    let rows = table(|world, _| join(world, &Joiner::named("s-1").known().protocols(&[("range", "news")])));
    assert_eq!(
        rows,
        [
            "Empty: UnknownMember -> Empty",
            "PreparingRebalance: joined 3 -> CompletingRebalance",
            "CompletingRebalance: waits -> PreparingRebalance",
            "Stable: waits -> PreparingRebalance",
        ]
    );
}

#[test]
fn a_static_member_comes_back_without_its_id() {
    let rows = table(|world, _| join(world, &Joiner::named("s-2")));
    assert_eq!(
        rows,
        [
            "Empty: joined 4 -> CompletingRebalance",
            "PreparingRebalance: joined 3 -> CompletingRebalance",
            "CompletingRebalance: waits -> PreparingRebalance",
            "Stable: joined 2 -> Stable",
        ]
    );
}

#[test]
fn a_stranger_joins_with_a_member_id() {
    let rows = table(|world, _| join(world, &Joiner::new("x").known()));
    assert_eq!(
        rows,
        [
            "Empty: UnknownMember -> Empty",
            "PreparingRebalance: UnknownMember -> PreparingRebalance",
            "CompletingRebalance: UnknownMember -> CompletingRebalance",
            "Stable: UnknownMember -> Stable",
        ]
    );
}

#[test]
fn the_leader_syncs() {
    let rows = table(|world, generation| sync(world, "a", generation));
    assert_eq!(
        rows,
        [
            "Empty: UnknownMember -> Empty",
            "PreparingRebalance: RebalanceInProgress -> PreparingRebalance",
            "CompletingRebalance: synced -> Stable",
            "Stable: synced -> Stable",
        ]
    );
}

#[test]
fn a_follower_syncs() {
    let rows = table(|world, generation| sync(world, "s-1", generation));
    assert_eq!(
        rows,
        [
            "Empty: UnknownMember -> Empty",
            "PreparingRebalance: RebalanceInProgress -> PreparingRebalance",
            "CompletingRebalance: waits -> CompletingRebalance",
            "Stable: synced -> Stable",
        ]
    );
}

#[test]
fn a_member_of_another_generation_syncs() {
    let rows = table(|world, generation| sync(world, "a", generation + 1));
    assert_eq!(rows[0], "Empty: UnknownMember -> Empty");
    assert!(rows[1..].iter().all(|row| row.contains(&format!("{:?}", SyncError::IllegalGeneration))));
}

#[test]
fn a_member_sends_a_heartbeat() {
    let rows = table(|world, generation| format!("{:?}", world.heartbeat(&me("a", generation))));
    assert_eq!(
        rows,
        [
            "Empty: Err(UnknownMember) -> Empty",
            "PreparingRebalance: Err(RebalanceInProgress) -> PreparingRebalance",
            "CompletingRebalance: Ok(()) -> CompletingRebalance",
            "Stable: Ok(()) -> Stable",
        ]
    );
    let rows = table(|world, generation| format!("{:?}", world.heartbeat(&me("a", generation - 1))));
    assert!(rows[1..].iter().all(|row| row.contains(&format!("{:?}", HeartbeatError::IllegalGeneration))));
}

#[test]
fn a_member_leaves() {
    let rows = table(|world, _| format!("{:?}", world.leave("s-1")));
    assert_eq!(
        rows,
        [
            "Empty: Err(Unknown) -> Empty",
            "PreparingRebalance: Ok(()) -> CompletingRebalance",
            "CompletingRebalance: Ok(()) -> PreparingRebalance",
            "Stable: Ok(()) -> PreparingRebalance",
        ]
    );
    let rows = table(|world, _| format!("{:?}", world.leave("x")));
    assert!(rows.iter().all(|row| row.contains(&format!("{:?}", MemberError::Unknown))));
}

#[test]
fn everybody_leaves() {
    let rows = table(|world, _| format!("{:?}", world.leave_all(&[("a", None), ("", Some("s"))])));
    assert_eq!(
        rows,
        [
            "Empty: Ok([Err(Unknown), Err(Unknown)]) -> Empty",
            "PreparingRebalance: Ok([Ok(()), Ok(())]) -> Empty",
            "CompletingRebalance: Ok([Ok(()), Ok(())]) -> Empty",
            "Stable: Ok([Ok(()), Ok(())]) -> Empty",
        ]
    );
}

/// Sessions last ten seconds, rebalances thirty. In the join phase `a` waits, which keeps it in.
#[test]
fn nobody_is_heard_of_for_ten_seconds() {
    let rows = table(|world, _| {
        world.pass(10_000);
        "time".to_owned()
    });
    assert_eq!(
        rows,
        [
            "Empty: time -> Empty",
            "PreparingRebalance: time -> CompletingRebalance",
            "CompletingRebalance: time -> Empty",
            "Stable: time -> Empty",
        ]
    );
}

#[test]
fn a_group_is_deleted() {
    let rows = table(|world, _| format!("{:?}", world.delete_group("g")));
    assert_eq!(
        rows,
        [
            "Empty: Ok(()) -> gone",
            "PreparingRebalance: Err(NotEmpty) -> PreparingRebalance",
            "CompletingRebalance: Err(NotEmpty) -> CompletingRebalance",
            "Stable: Err(NotEmpty) -> Stable",
        ]
    );
}

#[test]
fn a_join_of_another_type_is_refused_unless_the_group_is_empty() {
    let rows = table(|world, _| {
        let mut joiner = Joiner::new("n");
        joiner.protocol_type = "connect".to_owned();
        join(world, &joiner)
    });
    assert_eq!(rows[0], "Empty: joined 4 -> CompletingRebalance");
    assert!(rows[1..].iter().all(|row| row.contains(&format!("{:?}", JoinError::InconsistentProtocol))));
}
