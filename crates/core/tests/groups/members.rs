//! Joining, syncing and leaving with several members.

use crate::world::{Joiner, World, me, subscription};
use ottla_core::groups::{
    GroupState, HeartbeatError, JoinError, LeaveError, MemberError, SyncError, SyncGroup,
};

#[test]
fn a_first_member_leads_and_gets_what_it_assigns() {
    let mut world = World::new();
    let ticket = world.join(&Joiner::new("a"));
    let joined = world.joined(ticket).unwrap();
    assert_eq!((joined.generation, joined.leader.as_str(), joined.member_id.as_str()), (1, "a", "a"));
    assert_eq!(joined.protocol.as_deref(), Some("range"));
    assert_eq!(joined.members[0].metadata, subscription(&["topic"]));
    assert_eq!(world.state(), Some(GroupState::CompletingRebalance));
    let ticket = world.sync(&me("a", 1), &[("a", "mine")]);
    assert_eq!(world.synced(ticket).unwrap().assignment, "mine");
    assert_eq!(world.state(), Some(GroupState::Stable));
    world.restart();
    let view = world.shard.groups().describe("g").unwrap();
    assert_eq!((view.protocol.as_str(), &view.members[0].assignment[..]), ("range", &b"mine"[..]));
}

#[test]
fn followers_wait_for_the_leader_and_only_the_leader_sees_members() {
    let mut world = World::new();
    let first = world.join(&Joiner::new("a"));
    world.joined(first).unwrap();
    let follower = world.join(&Joiner::new("b"));
    assert!(world.waits(follower));
    let leader = world.join(&Joiner::new("a").known());
    let (leader, follower) = (world.joined(leader).unwrap(), world.joined(follower).unwrap());
    assert_eq!((leader.generation, leader.members.len()), (2, 2));
    assert_eq!((follower.leader.as_str(), follower.members.len()), ("a", 0));
    let waiting = world.sync(&me("b", 2), &[]);
    assert!(world.waits(waiting));
    let ticket = world.sync(&me("a", 2), &[("a", "for a")]);
    assert_eq!(world.synced(ticket).unwrap().assignment, "for a");
    assert_eq!(world.synced(waiting).unwrap().assignment, "", "a member the leader left out gets nothing");
}

#[test]
fn a_member_without_id_comes_back_with_the_proposed_one() {
    let mut world = World::new();
    let ticket = world.join(&Joiner::new("a").strict());
    let refusal = world.joined(ticket).unwrap_err();
    assert_eq!((refusal.error.error, refusal.member_id.as_str()), (JoinError::MemberIdRequired, "a"));
    assert_eq!(world.state(), Some(GroupState::Empty));
    let ticket = world.join(&Joiner::new("a").strict().known());
    assert_eq!(world.joined(ticket).unwrap().generation, 1);
}

#[test]
fn a_promised_member_holds_up_the_join_phase_until_it_comes_or_lapses() {
    let mut world = World::new();
    world.stable(&["a"]);
    let promised = world.join(&Joiner::new("b").strict());
    assert_eq!(world.join_error(promised), JoinError::MemberIdRequired);
    let leader = world.join(&Joiner::new("a").known());
    assert!(world.waits(leader));
    world.pass(10_000);
    assert_eq!(world.joined(leader).unwrap().members.len(), 1);
}

#[test]
fn a_group_that_only_had_promises_is_forgotten() {
    let mut world = World::new();
    world.join(&Joiner::new("a").strict());
    assert_eq!(world.state(), Some(GroupState::Empty));
    world.pass(10_000);
    assert_eq!(world.state(), None);
}

#[test]
fn protocols_must_suit_all_members_and_most_votes_win() {
    let mut world = World::new();
    let joiner = Joiner::new("a").protocols(&[("range", ""), ("sticky", ""), ("own", "")]);
    let first = world.join(&joiner);
    world.joined(first).unwrap();
    for (protocol_type, protocols) in
        [("connect", vec![("range", "")]), ("consumer", vec![("other", "")]), ("consumer", vec![])]
    {
        let mut stranger = Joiner::new("x").protocols(&protocols);
        stranger.protocol_type = protocol_type.to_owned();
        let ticket = world.join(&stranger);
        assert_eq!(world.join_error(ticket), JoinError::InconsistentProtocol);
    }
    world.join(&Joiner::new("b").protocols(&[("sticky", ""), ("range", "")]));
    world.join(&Joiner::new("c").protocols(&[("sticky", ""), ("range", "")]));
    let leader = world.join(&joiner.known());
    assert_eq!(world.joined(leader).unwrap().protocol.as_deref(), Some("sticky"));
}

#[test]
fn bounds_and_empty_ids_are_checked_first() {
    let mut world = World::new();
    for session in [5_999, 1_800_001] {
        let mut joiner = Joiner::new("a");
        joiner.session = session;
        let ticket = world.join(&joiner);
        assert_eq!(world.join_error(ticket), JoinError::InvalidSessionTimeout);
    }
    let ticket = world.join(&Joiner::new("a").known());
    assert_eq!(world.join_error(ticket), JoinError::UnknownMember, "a group is not made for a known member");
    let mut unknown = me("a", 1);
    unknown.group_id = String::new();
    assert_eq!(world.heartbeat(&unknown), Err(HeartbeatError::InvalidGroupId));
    let ticket = world.sync(&unknown, &[]);
    assert_eq!(world.synced(ticket), Err(SyncError::InvalidGroupId));
    assert_eq!(world.leave_all(&[("a", None)]), Err(LeaveError::UnknownGroup));
    assert_eq!(world.state(), None);
}

#[test]
fn group_max_size_keeps_the_next_one_out() {
    let mut world = World::with(&[("group.max.size", "2")]);
    let generation = world.stable(&["a", "b"]);
    let ticket = world.join(&Joiner::new("c"));
    assert_eq!(world.join_error(ticket), JoinError::GroupFull);
    assert_eq!(world.heartbeat(&me("a", generation)), Ok(()));
    assert_eq!(world.leave("a"), Ok(()));
    world.join(&Joiner::new("c"));
    world.join(&Joiner::new("d"));
    let late = world.join(&Joiner::new("b").known());
    assert_eq!(world.join_error(late), JoinError::GroupFull, "in the join phase those who wait count");
}

#[test]
fn leaving_starts_a_rebalance_and_the_last_one_empties_the_group() {
    let mut world = World::new();
    let generation = world.stable(&["a", "b"]);
    assert_eq!(world.leave("a"), Ok(()));
    assert_eq!(world.state(), Some(GroupState::PreparingRebalance));
    assert_eq!(world.heartbeat(&me("b", generation)), Err(HeartbeatError::RebalanceInProgress));
    assert_eq!(world.heartbeat(&me("a", generation)), Err(HeartbeatError::UnknownMember));
    let ticket = world.join(&Joiner::new("b").known());
    let joined = world.joined(ticket).unwrap();
    assert_eq!((joined.leader.as_str(), joined.generation), ("b", generation + 1));
    assert_eq!(world.leave("b"), Ok(()));
    assert_eq!(world.state(), Some(GroupState::Empty));
    world.restart();
    assert_eq!(world.state(), Some(GroupState::Empty));
    let ticket = world.join(&Joiner::new("c"));
    assert_eq!(world.joined(ticket).unwrap().generation, generation + 3, "generations never start over");
}

#[test]
fn each_leaver_is_judged_by_itself() {
    let mut world = World::new();
    world.stable(&["a", "b", "s-1"]);
    world.join(&Joiner::new("p").strict());
    let left = world.leave_all(&[
        ("a", None),
        ("x", None),
        ("", None),
        ("", Some("unknown")),
        ("other", Some("s")),
        ("", Some("s")),
        ("p", None),
    ]);
    let expected = [
        Ok(()),
        Err(MemberError::Unknown),
        Err(MemberError::Unknown),
        Err(MemberError::Unknown),
        Err(MemberError::Fenced),
        Ok(()),
        Ok(()),
    ];
    assert_eq!(left.unwrap(), expected);
    let ticket = world.join(&Joiner::new("b").known());
    assert_eq!(world.joined(ticket).unwrap().members.len(), 1);
}

#[test]
fn requests_of_a_leaver_are_not_left_hanging() {
    let mut world = World::new();
    world.stable(&["a"]);
    let joining = world.join(&Joiner::new("b"));
    world.leave("b").unwrap();
    assert_eq!(world.join_error(joining), JoinError::UnknownMember);
    world.join(&Joiner::new("c"));
    world.join(&Joiner::new("a").known());
    let generation = 2;
    let syncing = world.sync(&me("c", generation), &[]);
    world.leave("c").unwrap();
    assert_eq!(world.synced(syncing), Err(SyncError::UnknownMember));
}

#[test]
fn sync_checks_generation_and_protocol() {
    let mut world = World::new();
    let generation = world.stable(&["a"]);
    let ticket = world.sync(&me("a", generation + 1), &[]);
    assert_eq!(world.synced(ticket), Err(SyncError::IllegalGeneration));
    for (protocol_type, protocol, expected) in [
        (Some("consumer"), Some("range"), None),
        (Some("connect"), Some("range"), Some(SyncError::InconsistentProtocol)),
        (Some("consumer"), Some("sticky"), Some(SyncError::InconsistentProtocol)),
    ] {
        let ticket = world.submit(SyncGroup {
            member: me("a", generation),
            protocol_type: protocol_type.map(str::to_owned),
            protocol: protocol.map(str::to_owned),
            assignments: vec![],
        });
        assert_eq!(world.synced(ticket).err(), expected);
    }
}

#[test]
fn a_repeated_request_takes_the_place_of_the_first() {
    let mut world = World::new();
    world.stable(&["a"]);
    world.join(&Joiner::new("b"));
    let generation = 2;
    world.join(&Joiner::new("a").known());
    let first = world.sync(&me("b", generation), &[]);
    let second = world.sync(&me("b", generation), &[]);
    assert_eq!(world.synced(first), Err(SyncError::Superseded));
    assert!(world.waits(second));
    world.join(&Joiner::new("c"));
    assert_eq!(world.synced(second), Err(SyncError::RebalanceInProgress));
    let first = world.join(&Joiner::new("b").known());
    let second = world.join(&Joiner::new("b").known());
    assert_eq!(world.join_error(first), JoinError::Superseded);
    assert!(world.waits(second));
}
