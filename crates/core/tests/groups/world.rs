//! A shard with a clock, a log and a memory of answers.

use bytes::Bytes;
use ottla_core::config::Settings;
use ottla_core::groups::{
    Assignment, DeleteGroupError, DeleteGroups, GroupState, Heartbeat, HeartbeatError, JoinError, JoinGroup,
    JoinGroupReply, LeaveGroup, LeaveGroupReply, LeavingMember, MemberError, MemberRef, SyncError, SyncGroup,
    SyncGroupReply,
};
use ottla_core::{
    Command, Effect, Effects, Input, RecordPosition, Rejection, Reply, Shard, Ticket, TicketId,
};
use ottla_types::record::{CatalogRecord, LogRecord, TopicCreated};
use ottla_types::{LogPosition, Millis, TopicId};
use std::collections::BTreeMap;

/// The topic that every world has, with ten partitions.
pub(crate) const TOPIC: TopicId = TopicId([1; 16]);
/// Another one.
pub(crate) const OTHER: TopicId = TopicId([2; 16]);

pub(crate) struct World {
    pub(crate) shard: Shard,
    settings: Settings,
    pub(crate) now: Millis,
    pub(crate) log: Vec<(RecordPosition, LogRecord)>,
    /// Replies that no test has read, but for those to JoinGroup.
    replies: BTreeMap<TicketId, Reply>,
    /// Members that wait to join, and the replies of those that do not that no test has read.
    joining: BTreeMap<TicketId, Ticket<JoinGroupReply>>,
    joined: BTreeMap<TicketId, JoinGroupReply>,
    tickets: u64,
    /// The log refuses records.
    full: bool,
}

impl World {
    pub(crate) fn new() -> World {
        World::with(&[])
    }

    pub(crate) fn with(configs: &[(&str, &str)]) -> World {
        let given = configs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        let settings = Settings::from_configs(&given).unwrap();
        let mut world = World {
            shard: Shard::new(settings.clone()),
            settings,
            now: Millis(1_000_000),
            log: Vec::new(),
            replies: BTreeMap::new(),
            joining: BTreeMap::new(),
            joined: BTreeMap::new(),
            tickets: 0,
            full: false,
        };
        for (id, name) in [(TOPIC, "topic"), (OTHER, "other")] {
            let created =
                TopicCreated { id, name: name.to_owned(), partitions: 10, configs: vec![], at: world.now };
            world.append(LogRecord::Catalog(CatalogRecord::TopicCreated(created)));
        }
        world
    }

    /// Submits a command; its reply may come later.
    pub(crate) fn submit<C: Command>(&mut self, command: C) -> Ticket<C::Reply> {
        self.tickets += 1;
        let ticket = Ticket::new(TicketId(self.tickets));
        self.step(command.into_input(ticket));
        ticket
    }

    /// Submits a command that is replied to at once.
    pub(crate) fn ask<C: Command>(&mut self, command: C) -> C::Reply {
        let ticket = self.submit(command);
        self.reply(ticket).unwrap()
    }

    fn step(&mut self, input: Input) {
        let mut out = Effects::default();
        self.shard.step(self.now, input, &mut out);
        for effect in out.drain() {
            match effect {
                Effect::Append(_) if self.full => return,
                Effect::Append(record) => self.append(record),
                Effect::Reply(reply) => {
                    let id = reply.ticket();
                    let twice = match self.joining.remove(&id) {
                        Some(ticket) => self.joined.insert(id, ticket.open(reply).unwrap()).is_some(),
                        None => self.replies.insert(id, reply).is_some(),
                    };
                    assert!(!twice, "{id:?} is replied to twice");
                }
                Effect::Advanced(_) => {}
            }
        }
    }

    /// Does something whose first record the log refuses, as the host does; what it gives, and who waits in vain.
    pub(crate) fn refuse<T>(&mut self, act: impl FnOnce(&mut World) -> T) -> (T, Vec<TicketId>) {
        self.full = true;
        let result = act(self);
        self.full = false;
        (result, self.shard.refused())
    }

    /// Stores a record and applies it, as the host does.
    pub(crate) fn append(&mut self, record: LogRecord) {
        let position = LogPosition(self.log.len() as u64 * 100);
        let at = RecordPosition { position, payload: position };
        self.shard.apply(at, &record);
        self.log.push((at, record));
    }

    /// Lets time go by, with a tick at every deadline on the way.
    pub(crate) fn pass(&mut self, span: i64) {
        let end = self.now.after(Millis(span));
        for _ in 0..10_000 {
            match self.shard.deadline() {
                Some(at) if at <= end => {
                    self.now = self.now.max(at);
                    self.step(Input::Tick);
                }
                _ => {
                    self.now = end;
                    return;
                }
            }
        }
        panic!("timers that never end: {:?}", self.shard.deadline());
    }

    /// Forgets everything that is not in the log, and checks the law: replay gives the live state, and so does a
    /// snapshot.
    pub(crate) fn restart(&mut self) {
        let mut replayed = Shard::new(self.settings.clone());
        self.log.iter().for_each(|(at, record)| replayed.apply(*at, record));
        assert_eq!(replayed.snapshot(), self.shard.snapshot());
        self.check_snapshot();
        self.shard = replayed;
        self.replies.clear();
        self.joined.clear();
    }

    /// The state rebuilt from snapshot rows and the log from record number `tail` on.
    pub(crate) fn rebuilt(&self, rows: &[LogRecord], tail: usize) -> Vec<LogRecord> {
        let mut shard = Shard::new(self.settings.clone());
        rows.iter().for_each(|row| shard.restore(row));
        self.log[tail..].iter().for_each(|(at, record)| shard.apply(*at, record));
        shard.snapshot()
    }

    /// A snapshot rebuilds what it was taken from.
    pub(crate) fn check_snapshot(&self) {
        let rows = self.shard.snapshot();
        assert_eq!(self.rebuilt(&rows, self.log.len()), rows);
    }

    /// The reply to a command, if it has come.
    pub(crate) fn reply<R: Send + 'static>(&mut self, ticket: Ticket<R>) -> Option<R> {
        let reply = self.replies.remove(&ticket.id())?;
        Some(ticket.open(reply).unwrap())
    }

    pub(crate) fn waits<R: Send + 'static>(&self, ticket: Ticket<R>) -> bool {
        !self.replies.contains_key(&ticket.id()) && !self.joined.contains_key(&ticket.id())
    }

    /// The latest generation of the replies to JoinGroup that no test has read.
    pub(crate) fn joined_generation(&self) -> i32 {
        let joined = self.joined.values().flatten();
        joined.map(|joined| joined.generation).max().unwrap_or_default()
    }

    /// The reply to a JoinGroup, if it has come.
    pub(crate) fn join_reply(&mut self, ticket: Ticket<JoinGroupReply>) -> Option<JoinGroupReply> {
        self.joined.remove(&ticket.id())
    }

    pub(crate) fn state(&self) -> Option<GroupState> {
        self.shard.groups().describe("g").map(|group| group.state)
    }

    pub(crate) fn joined(&mut self, ticket: Ticket<JoinGroupReply>) -> JoinGroupReply {
        self.join_reply(ticket).unwrap()
    }

    pub(crate) fn join_error(&mut self, ticket: Ticket<JoinGroupReply>) -> JoinError {
        self.joined(ticket).unwrap_err().error.error
    }

    pub(crate) fn synced(&mut self, ticket: Ticket<SyncGroupReply>) -> Result<Assignment, SyncError> {
        kind(self.reply(ticket).unwrap())
    }

    pub(crate) fn heartbeat(&mut self, member: &MemberRef) -> Result<(), HeartbeatError> {
        kind(self.ask(Heartbeat { member: member.clone() }))
    }

    pub(crate) fn leave_all(&mut self, members: &[(&str, Option<&str>)]) -> LeaveGroupReply {
        let members = members.iter().map(|(member_id, instance_id)| LeavingMember {
            member_id: (*member_id).to_owned(),
            instance_id: instance_id.map(str::to_owned),
        });
        let members = members.collect();
        self.ask(LeaveGroup { group_id: "g".to_owned(), members })
    }

    pub(crate) fn leave(&mut self, member_id: &str) -> Result<(), MemberError> {
        self.leave_all(&[(member_id, None)]).unwrap().remove(0)
    }

    pub(crate) fn delete_group(&mut self, group_id: &str) -> Result<(), DeleteGroupError> {
        self.ask(DeleteGroups { groups: vec![group_id.to_owned()] }).remove(0)
    }

    pub(crate) fn join(&mut self, joiner: &Joiner) -> Ticket<JoinGroupReply> {
        self.tickets += 1;
        let ticket = Ticket::new(TicketId(self.tickets));
        self.joining.insert(ticket.id(), ticket);
        self.step(joiner.command().into_input(ticket));
        ticket
    }

    pub(crate) fn sync(
        &mut self,
        member: &MemberRef,
        assignments: &[(&str, &str)],
    ) -> Ticket<SyncGroupReply> {
        let assignments = assignments.iter();
        let assignments = assignments.map(|(id, text)| ((*id).to_owned(), Bytes::from((*text).to_owned())));
        let assignments = assignments.collect();
        self.submit(SyncGroup { member: member.clone(), protocol_type: None, protocol: None, assignments })
    }

    /// A stable group of these members, the first of them leading; each is assigned its own name. Gives the generation.
    /// A name like `a-1` is static member `a`.
    pub(crate) fn stable(&mut self, members: &[&str]) -> i32 {
        let joiners: Vec<Joiner> = members.iter().map(|member| Joiner::named(member)).collect();
        let mut tickets: Vec<_> = joiners.iter().map(|joiner| self.join(joiner)).collect();
        if members.len() > 1 {
            // The first had a generation to itself before the others came.
            tickets.push(self.join(&joiners[0].clone().known()));
        }
        let generations: Vec<i32> =
            tickets.into_iter().map(|ticket| self.joined(ticket).unwrap().generation).collect();
        let generation = generations[generations.len() - 1];
        let assignments: Vec<(&str, &str)> = members.iter().map(|member| (*member, *member)).collect();
        for member in members.iter().rev() {
            self.sync(&me(member, generation), &assignments);
        }
        assert_eq!(self.state(), Some(GroupState::Stable));
        generation
    }
}

/// A member of group "g" in some generation.
pub(crate) fn me(member_id: &str, generation: i32) -> MemberRef {
    MemberRef { group_id: "g".to_owned(), generation, member_id: member_id.to_owned(), instance_id: None }
}

/// A client that joins group "g".
#[derive(Clone)]
pub(crate) struct Joiner {
    pub(crate) member_id: String,
    pub(crate) instance_id: Option<String>,
    pub(crate) proposed_id: String,
    pub(crate) require_known_member: bool,
    pub(crate) can_skip_assignment: bool,
    pub(crate) session: i64,
    pub(crate) rebalance: i64,
    pub(crate) protocol_type: String,
    pub(crate) protocols: Vec<(String, Bytes)>,
}

impl Joiner {
    /// Joins without a member id, and gets this one.
    pub(crate) fn new(proposed_id: &str) -> Joiner {
        Joiner {
            member_id: String::new(),
            instance_id: None,
            proposed_id: proposed_id.to_owned(),
            require_known_member: false,
            can_skip_assignment: true,
            session: 10_000,
            rebalance: 30_000,
            protocol_type: "consumer".to_owned(),
            protocols: vec![("range".to_owned(), subscription(&["topic"]))],
        }
    }

    /// Joins without a member id; a name like `a-1` is static member `a`.
    pub(crate) fn named(name: &str) -> Joiner {
        let instance_id = name.split_once('-').map(|(instance, _)| instance.to_owned());
        Joiner { instance_id, ..Joiner::new(name) }
    }

    /// Joins with its member id.
    pub(crate) fn known(mut self) -> Joiner {
        self.member_id = self.proposed_id.clone();
        self
    }

    /// Has to come back with its member id.
    pub(crate) fn strict(mut self) -> Joiner {
        self.require_known_member = true;
        self
    }

    pub(crate) fn protocols(mut self, protocols: &[(&str, &str)]) -> Joiner {
        let protocols = protocols.iter();
        self.protocols =
            protocols.map(|(name, text)| ((*name).to_owned(), Bytes::from((*text).to_owned()))).collect();
        self
    }

    fn command(&self) -> JoinGroup {
        JoinGroup {
            group_id: "g".to_owned(),
            member_id: self.member_id.clone(),
            instance_id: self.instance_id.clone(),
            proposed_id: self.proposed_id.clone(),
            require_known_member: self.require_known_member,
            can_skip_assignment: self.can_skip_assignment,
            client_id: "client".to_owned(),
            client_host: "/127.0.0.1".to_owned(),
            session_timeout: Millis(self.session),
            rebalance_timeout: Millis(self.rebalance),
            protocol_type: self.protocol_type.clone(),
            protocols: self.protocols.clone(),
        }
    }
}

/// Metadata of a consumer that subscribes to these topics.
pub(crate) fn subscription(topics: &[&str]) -> Bytes {
    let mut bytes = vec![0, 1];
    bytes.extend((topics.len() as u32).to_be_bytes());
    for topic in topics {
        bytes.extend((topic.len() as u16).to_be_bytes());
        bytes.extend(topic.as_bytes());
    }
    bytes.extend([0xff; 4]);
    bytes.into()
}

/// A result with the kind of its refusal alone.
pub(crate) fn kind<T, E>(result: Result<T, Rejection<E>>) -> Result<T, E> {
    result.map_err(|refused| refused.error)
}
