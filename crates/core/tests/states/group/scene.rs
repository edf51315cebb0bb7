//! Groups in each state, and how events happen to them.

use super::events::{Event, Joiner, Leaver, Member, State};
use crate::support::{Answer, input};
use crate::world::{Start, TOPIC, World};
use bytes::Bytes;
use ottla_core::catalog::TopicRef;
use ottla_core::groups::{
    CommitFencing, DeleteGroups, GroupState, Heartbeat, HeartbeatError, JoinError, JoinGroup, LeaveGroup,
    LeavingMember, MemberError, MemberRef, SyncError, SyncGroup,
};
use ottla_core::offsets::{CommitOffsets, NewOffset, OffsetError, StageOffsets, TopicOffsets};
use ottla_core::transactions::InitProducerId;
use ottla_core::{Command, Input, Ticket, TicketId};
use ottla_types::record::{GroupRecord, LogRecord};
use ottla_types::{Millis, Offset, ProducerEpoch, ProducerId};
use std::collections::BTreeMap;

pub(crate) const GROUP: &str = "g";
const SESSION: i64 = 10_000;
const REBALANCE: i64 = 30_000;

/// A group, and all requests that were ever sent to it.
pub(crate) struct Scene {
    pub(crate) world: World,
    tickets: u64,
    waiting: Vec<TicketId>,
    heard: BTreeMap<TicketId, Answer>,
    /// The latest generation that a client received.
    told: i32,
}

impl Scene {
    pub(crate) fn reach(state: State) -> Scene {
        let world = World::new().started(Start::Live);
        let mut scene = Scene { world, tickets: 0, waiting: Vec::new(), heard: BTreeMap::new(), told: 0 };
        let init =
            InitProducerId { transactional_id: Some("t".to_owned()), timeout: Millis(60_000), given: None };
        scene.world.ask(input(init));
        scene.go_to(state);
        scene
    }

    fn go_to(&mut self, state: State) {
        if state == State::None {
            return;
        }
        for joiner in [Joiner::Newcomer, Joiner::Follower, Joiner::Static] {
            self.join_first(joiner);
        }
        self.join(Joiner::Leader);
        for member in [Member::Follower, Member::Static, Member::Leader] {
            self.sync(member, self.told);
        }
        assert_eq!((self.state(), self.waiting.len()), (Some(GroupState::Stable), 0));
        match state {
            State::None | State::Stable => {}
            State::Empty => _ = self.leave(Leaver::Everybody),
            State::Dead => {
                self.leave(Leaver::Everybody);
                assert_eq!(self.happen(Event::Delete), "ok");
            }
            State::Preparing => _ = self.join(Joiner::Leader),
            State::Completing | State::Waiting => {
                for joiner in [Joiner::Leader, Joiner::Follower, Joiner::Static] {
                    self.join(joiner);
                }
            }
        }
        if state == State::Waiting {
            self.sync(Member::Follower, self.told);
        }
    }

    /// The members come in for the first time.
    fn join_first(&mut self, joiner: Joiner) {
        let (name, instance_id) = match joiner {
            Joiner::Follower => ("b", None),
            Joiner::Static => ("s-1", Some("s")),
            _ => ("a", None),
        };
        let ask = JoinGroup { instance_id: instance_id.map(str::to_owned), ..join("", name) };
        self.send(ask);
    }

    /// Sends a request; its answer, if it does not wait.
    fn send<C: Command>(&mut self, command: C) -> Option<Answer> {
        self.tickets += 1;
        let ticket = TicketId(self.tickets);
        self.waiting.push(ticket);
        let answers = self.world.step(command.into_input(Ticket::new(ticket)));
        self.hear(answers);
        self.heard.get(&ticket).cloned()
    }

    fn hear(&mut self, answers: Vec<(TicketId, Answer)>) {
        for (ticket, answer) in answers {
            if let Answer::JoinGroup(Ok(joined)) = &answer {
                self.told = joined.generation;
            }
            self.waiting.retain(|waiting| *waiting != ticket);
            assert!(self.heard.insert(ticket, answer).is_none(), "{ticket:?} is answered twice");
        }
    }

    fn pass(&mut self, span: i64) {
        self.world.now = self.world.now.after(Millis(span));
        while self.world.shard.deadline().is_some_and(|due| due <= self.world.now) {
            let answers = self.world.step(Input::Tick);
            self.hear(answers);
        }
    }

    pub(crate) fn state(&self) -> Option<GroupState> {
        self.world.shard.groups().describe(GROUP).map(|group| group.state)
    }

    /// The generation: what was stored last, or what its members were told.
    pub(crate) fn generation(&self) -> i32 {
        if let Some(GroupState::CompletingRebalance) = self.state() {
            return self.told;
        }
        let stored = self.world.log.iter().rev().find_map(|(_, record)| match record {
            LogRecord::Groups(GroupRecord::ClassicUpdated(updated)) => Some(updated.generation),
            LogRecord::Groups(GroupRecord::Deleted(_)) => Some(0),
            _ => None,
        });
        stored.unwrap_or_default()
    }

    /// In the join phase the generation is that of before; else it is this one.
    pub(crate) fn check_generation(&self, expected: i32, name: &str) {
        if self.state() != Some(GroupState::PreparingRebalance) && self.state().is_some() {
            assert_eq!(self.generation(), expected, "{name}: the generation");
        }
    }

    /// The process starts again; clients that waited have lost their connections.
    pub(crate) fn restart(&mut self) {
        self.world = self.world.copy();
        self.world.step(Input::Tick);
        self.waiting.clear();
    }

    /// No connected client waits permanently.
    pub(crate) fn check_everybody_is_answered(&mut self, name: &str) {
        (0..130).for_each(|_| self.pass(5000));
        assert!(self.waiting.is_empty(), "{name}: {:?} wait permanently", self.waiting);
    }

    /// Lets it happen; the word for the answer.
    pub(crate) fn happen(&mut self, event: Event) -> &'static str {
        // A group that is not there has no generation; the client believes in one.
        let generation = self.generation().max(1);
        match event {
            Event::Join(Joiner::Promised) => {
                self.join(Joiner::Promise);
                self.join(Joiner::Promised)
            }
            Event::Join(joiner) => self.join(joiner),
            Event::Sync(member, by) => self.sync(member, generation + by),
            Event::Heartbeat(member, by) => self.heartbeat(member, generation + by),
            Event::Leave(leaver) => self.leave(leaver),
            Event::Commit(plain, member, by) => self.commit(plain, member.at(generation + by)),
            Event::CommitWithoutMember(plain) => {
                let nobody = MemberRef { member_id: String::new(), ..Member::Stranger.at(-1) };
                self.commit(plain, nobody)
            }
            Event::Silence => {
                self.pass(SESSION);
                "-"
            }
            Event::HeartbeatsOnly => {
                for _ in 0..6 {
                    self.pass(REBALANCE / 6);
                    for member in [Member::Leader, Member::Follower, Member::Static] {
                        self.heartbeat(member, generation);
                    }
                }
                "-"
            }
            Event::Delete => self.delete(),
            Event::Restart => {
                self.restart();
                "-"
            }
        }
    }

    fn join(&mut self, joiner: Joiner) -> &'static str {
        let ask = asks(joiner);
        let answer = self.send(ask);
        match answer {
            None => "waits",
            Some(Answer::JoinGroup(Ok(_))) => "joined",
            Some(Answer::JoinGroup(Err(refusal))) => match refusal.error.error {
                JoinError::MemberIdRequired => "promised",
                JoinError::UnknownMember => "unknown",
                JoinError::FencedInstance => "fenced",
                JoinError::InconsistentProtocol => "protocol",
                other => panic!("{other:?}"),
            },
            other => panic!("{other:?}"),
        }
    }

    fn sync(&mut self, member: Member, generation: i32) -> &'static str {
        let assignments = vec![("a".to_owned(), Bytes::from_static(b"all"))];
        let member = member.at(generation);
        let (protocol_type, protocol) = (None, None);
        match self.send(SyncGroup { member, protocol_type, protocol, assignments }) {
            None => "waits",
            Some(Answer::SyncGroup(Ok(_))) => "synced",
            Some(Answer::SyncGroup(Err(refused))) => match refused.error {
                SyncError::UnknownMember => "unknown",
                SyncError::FencedInstance => "fenced",
                SyncError::IllegalGeneration => "generation",
                SyncError::RebalanceInProgress => "rebalance",
                other => panic!("{other:?}"),
            },
            other => panic!("{other:?}"),
        }
    }

    fn heartbeat(&mut self, member: Member, generation: i32) -> &'static str {
        let member = member.at(generation);
        match self.send(Heartbeat { member }) {
            Some(Answer::Heartbeat(Ok(()))) => "ok",
            Some(Answer::Heartbeat(Err(refused))) => match refused.error {
                HeartbeatError::UnknownMember => "unknown",
                HeartbeatError::FencedInstance => "fenced",
                HeartbeatError::IllegalGeneration => "generation",
                HeartbeatError::RebalanceInProgress => "rebalance",
                HeartbeatError::InvalidGroupId => panic!("the group has an id"),
            },
            other => panic!("{other:?}"),
        }
    }

    fn leave(&mut self, leaver: Leaver) -> &'static str {
        let leaving = |(member_id, instance_id): (&str, Option<&str>)| LeavingMember {
            member_id: member_id.to_owned(),
            instance_id: instance_id.map(str::to_owned),
        };
        let members = match leaver {
            Leaver::One(member) => vec![leaving(member.ids())],
            Leaver::Instance => vec![leaving(("", Some("s")))],
            Leaver::Everybody => {
                [Member::Leader, Member::Follower, Member::Static].map(|member| leaving(member.ids())).into()
            }
        };
        let group_id = GROUP.to_owned();
        match self.send(LeaveGroup { group_id, members }) {
            Some(Answer::LeaveGroup(Err(_))) => "nogroup",
            Some(Answer::LeaveGroup(Ok(results))) => match results[0] {
                Ok(()) => "ok",
                Err(MemberError::Unknown) => "unknown",
                Err(MemberError::Fenced) => "fenced",
            },
            other => panic!("{other:?}"),
        }
    }

    fn delete(&mut self) -> &'static str {
        let groups = vec![GROUP.to_owned()];
        match self.send(DeleteGroups { groups }) {
            Some(Answer::DeleteGroups(results)) => match results[0] {
                Ok(()) => "ok",
                Err(ottla_core::groups::DeleteGroupError::NotFound) => "nogroup",
                Err(ottla_core::groups::DeleteGroupError::NotEmpty) => "members",
            },
            other => panic!("{other:?}"),
        }
    }

    fn commit(&mut self, plain: bool, member: MemberRef) -> &'static str {
        let new = NewOffset { partition: 0, offset: Offset(5), leader_epoch: -1, metadata: String::new() };
        let topics = vec![TopicOffsets { topic: TopicRef::Id(TOPIC), offsets: vec![new] }];
        let answer = if plain {
            self.send(CommitOffsets { member, topics })
        } else {
            self.send(StageOffsets {
                transactional_id: "t".to_owned(),
                producer_id: ProducerId(0),
                producer_epoch: ProducerEpoch(0),
                verify_only: false,
                member,
                topics,
            })
        };
        let Some(Answer::CommitOffsets(results) | Answer::StageOffsets(results)) = answer else {
            panic!("{answer:?}")
        };
        match results[0][0] {
            Ok(()) => "ok",
            Err(refused) => {
                assert_eq!(refused.rule, Some("T-165"));
                match refused.error {
                    OffsetError::Fenced(CommitFencing::UnknownGroup) => "nogroup",
                    OffsetError::Fenced(CommitFencing::UnknownMember) => "unknown",
                    OffsetError::Fenced(CommitFencing::FencedInstance) => "fenced",
                    OffsetError::Fenced(CommitFencing::IllegalGeneration) => "generation",
                    OffsetError::Fenced(CommitFencing::RebalanceInProgress) => "rebalance",
                    other => panic!("{other:?}"),
                }
            }
        }
    }
}

/// A client that joins: with a member id, or without one and to get the proposed one.
fn join(member_id: &str, proposed_id: &str) -> JoinGroup {
    JoinGroup {
        group_id: GROUP.to_owned(),
        member_id: member_id.to_owned(),
        instance_id: None,
        proposed_id: proposed_id.to_owned(),
        require_known_member: false,
        can_skip_assignment: true,
        client_id: "client".to_owned(),
        client_host: "/127.0.0.1".to_owned(),
        session_timeout: Millis(SESSION),
        rebalance_timeout: Millis(REBALANCE),
        protocol_type: "connect".to_owned(),
        protocols: vec![("range".to_owned(), Bytes::from_static(b"about me"))],
    }
}

fn asks(joiner: Joiner) -> JoinGroup {
    let of_static = |ask: JoinGroup| JoinGroup { instance_id: Some("s".to_owned()), ..ask };
    match joiner {
        Joiner::Newcomer => join("", "n"),
        Joiner::Promise => JoinGroup { require_known_member: true, ..join("", "n") },
        Joiner::Promised => JoinGroup { require_known_member: true, ..join("n", "n") },
        Joiner::Leader => join("a", "a"),
        Joiner::Follower => join("b", "b"),
        Joiner::Changed => {
            JoinGroup { protocols: vec![("range".to_owned(), Bytes::from_static(b"news"))], ..join("b", "b") }
        }
        Joiner::Static => of_static(join("s-1", "s-1")),
        Joiner::Replacement => of_static(join("", "s-2")),
        Joiner::Fenced => of_static(join("s-0", "s-0")),
        Joiner::Stranger => join("x", "x"),
        Joiner::Alien => JoinGroup { protocol_type: "consumer".to_owned(), ..join("", "n") },
    }
}
