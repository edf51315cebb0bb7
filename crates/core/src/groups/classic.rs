//! One classic group: its state, its members, and what every event may change.
//!
//! ```text
//!               first member joins
//!      Empty ───────────────────────────────► Preparing ◄──────────────────────────┐
//!        ▲  ▲                                  │     ▲                             │
//!        │  │ all members left or were dropped │     │ member joins with news,     │ member joins with news,
//!        │  └──────────────────────────────────┤     │ leaves or expires;          │ leaves or expires;
//!        │                                     │     │ a member never synced       │ the leader joins;
//!        │                 all joined, or time │     │                             │ a member never synced
//!        │                 is up: new          ▼     │                             │
//!        │                 generation       Completing ──────────────────────► Stable
//!        │                                             the leader brings the assignment
//!        └── (Preparing only: a group empties by way of a generation without members)
//! ```
//!
//! A deleted group is Dead in Kafka's words; here it is gone. Events, each in its own file with a `match` over all
//! states: join, sync, heartbeat, leave, and in `expire` the timers: member session, promised id, join phase, sync
//! phase.
//!
//! A step changes only volatile state: waiting requests, times of heartbeats, and a generation whose assignment is
//! awaited. A complete, changed or emptied generation is a record; applying the record changes the stored state and the
//! live one that follows from it.

mod expire;
mod heartbeat;
mod join;
mod leave;
mod member;
mod rebalance;
mod store;
mod subscription;
mod sync;
mod view;

pub(super) use member::size;

use super::command::{JoinError, JoinGroupReply, JoinRefusal, MemberError, SyncError, SyncGroupReply};
use crate::catalog::Catalog;
use crate::effect::{Effects, Ticket, TicketId};
use crate::refusal::{Facts, Rejection};
use member::Member;
use ottla_types::Millis;
use ottla_types::record::ClassicGroupUpdated;
use std::collections::{BTreeMap, BTreeSet};

/// The broker's bounds for groups.
#[derive(Clone, Copy, Debug)]
pub(super) struct Rules {
    pub(super) initial_delay: Millis,
    pub(super) min_session: Millis,
    pub(super) max_session: Millis,
    pub(super) max_size: usize,
}

/// What an event needs next to the group: the time, the rules, the topics, and where its effects go.
pub(super) struct Turn<'a> {
    /// Steady time, for timers.
    pub(super) now: Millis,
    /// Wall time, for records.
    pub(super) wall: Millis,
    pub(super) rules: Rules,
    /// For kinds of groups whose assignor runs in the broker.
    #[expect(dead_code, reason = "classic groups assign partitions in their leader")]
    pub(super) catalog: &'a Catalog,
    pub(super) out: &'a mut Effects,
}

impl Turn<'_> {
    pub(super) fn reply_join(&mut self, ticket: Ticket<JoinGroupReply>, reply: JoinGroupReply) {
        self.out.reply(ticket, reply);
    }

    pub(super) fn refuse_join(
        &mut self,
        ticket: Ticket<JoinGroupReply>,
        member_id: &str,
        error: impl Into<Rejection<JoinError>>,
    ) {
        let refusal = JoinRefusal { member_id: member_id.to_owned(), error: error.into() };
        self.reply_join(ticket, Err(refusal));
    }

    pub(super) fn reply_sync(&mut self, ticket: Ticket<SyncGroupReply>, reply: SyncGroupReply) {
        self.out.reply(ticket, reply);
    }
}

/// The first rebalance of a group waits for more members (group.initial.rebalance.delay.ms).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Initial {
    /// The wait under way.
    pub(super) delay: Millis,
    /// What may still be added to it.
    pub(super) remaining: Millis,
    /// True if a member joined during this wait.
    pub(super) newcomer: bool,
}

/// The join phase.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct JoinPhase {
    /// Set if the group was empty before: then a timer ends the phase, not the last member that joins.
    pub(super) initial: Option<Initial>,
    /// When the phase ends without those who have not joined.
    pub(super) until: Millis,
}

/// The sync phase: members fetch their assignments.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct SyncPhase {
    /// Members that have not sent SyncGroup.
    pub(super) missing: BTreeSet<String>,
    /// When they are dropped.
    pub(super) until: Millis,
}

/// The states, named as in Kafka.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum State {
    /// No members.
    Empty,
    /// PreparingRebalance: members (re)join.
    Preparing(JoinPhase),
    /// CompletingRebalance: all members have their generation, the leader's assignment is awaited.
    Completing(SyncPhase),
    /// Assigned.
    Stable(SyncPhase),
}

/// The live state of a group, and its stored state.
#[derive(Debug)]
pub(crate) struct ClassicGroup {
    pub(super) id: String,
    pub(super) state: State,
    pub(super) generation: i32,
    pub(super) protocol_type: Option<String>,
    pub(super) protocol: Option<String>,
    pub(super) leader: Option<String>,
    pub(super) members: BTreeMap<String, Member>,
    /// Member ids that were handed out (KIP-394) and not used yet, and when each lapses.
    pub(super) promised: BTreeMap<String, Millis>,
    /// Topics the members subscribe to; none if that cannot be known.
    pub(super) subscribed: Option<BTreeSet<String>>,
    /// No timer is due before this.
    pub(super) next: Option<Millis>,
    /// The durable state; none for a group that was not stored yet.
    pub(super) stored: Option<ClassicGroupUpdated>,
    /// A step has proposed a record that is not applied yet. The group takes no further decision before that.
    pub(super) proposed: bool,
}

impl ClassicGroup {
    /// Memory that its members take.
    pub(super) fn bytes(&self) -> usize {
        self.members.values().map(Member::bytes).sum()
    }

    /// The tickets of requests that wait for a reply.
    pub(super) fn tickets(&self) -> impl Iterator<Item = TicketId> {
        self.members.values().flat_map(Member::tickets)
    }

    pub(super) fn new(id: &str) -> ClassicGroup {
        ClassicGroup {
            id: id.to_owned(),
            state: State::Empty,
            generation: 0,
            protocol_type: None,
            protocol: None,
            leader: None,
            members: BTreeMap::new(),
            promised: BTreeMap::new(),
            subscribed: None,
            next: None,
            stored: None,
            proposed: false,
        }
    }

    /// True if the group is in state Empty.
    pub(crate) fn is_empty(&self) -> bool {
        self.state == State::Empty
    }

    /// True if nothing would be lost by forgetting the group.
    pub(super) fn is_nothing(&self) -> bool {
        self.is_empty() && self.promised.is_empty() && self.stored.is_none() && !self.proposed
    }

    /// True if members run the protocol that topics and offsets can be read from.
    pub(crate) fn is_consumer(&self) -> bool {
        self.protocol_type.as_deref() == Some("consumer")
    }

    /// Schedules a timer no later than `at`.
    pub(super) fn arm(&mut self, at: Millis) {
        self.next = Some(self.next.map_or(at, |next| next.min(at)));
    }

    /// The member sent a request: its session starts over.
    pub(super) fn touch(&mut self, member_id: &str, now: Millis) {
        if let Some(member) = self.members.get_mut(member_id) {
            let deadline = now.after(member.facts.session_timeout);
            member.deadline = Some(deadline);
            self.arm(deadline);
        }
    }

    /// The member of a static id.
    pub(super) fn static_member(&self, instance_id: &str) -> Option<&Member> {
        self.members.values().find(|member| member.facts.instance_id.as_deref() == Some(instance_id))
    }

    /// Checks the identity of a member (KIP-345): a static id decides first, then the member id.
    pub(super) fn check_member(&self, member_id: &str, instance_id: Option<&str>) -> Result<(), MemberError> {
        if let Some(instance_id) = instance_id {
            let known = self.static_member(instance_id).ok_or(MemberError::Unknown)?;
            if known.facts.member_id != member_id {
                return Err(MemberError::Fenced);
            }
        }
        if self.members.contains_key(member_id) { Ok(()) } else { Err(MemberError::Unknown) }
    }

    /// Checks the generation of a request against that of the group.
    pub(super) fn generation(&self, given: i32) -> Facts {
        Facts::Generation { given, current: self.generation }
    }

    pub(super) fn is_leader(&self, member_id: &str) -> bool {
        self.leader.as_deref() == Some(member_id)
    }

    /// Members whose JoinGroup waits.
    pub(super) fn joining_count(&self) -> usize {
        self.members.values().filter(|member| member.joining.is_some()).count()
    }

    /// True if the join phase waits for no member.
    pub(super) fn all_joined(&self) -> bool {
        self.promised.is_empty() && self.members.values().all(|member| member.joining.is_some())
    }

    /// The longest rebalance timeout of its members, at least a millisecond.
    pub(super) fn rebalance_timeout(&self) -> Millis {
        let timeouts = self.members.values().map(|member| member.facts.rebalance_timeout);
        timeouts.max().unwrap_or_default().max(Millis(1))
    }

    /// Takes a member out, or a promised id back. Requests that wait for it are refused.
    pub(super) fn remove(&mut self, member_id: &str, turn: &mut Turn) {
        self.promised.remove(member_id);
        if let State::Completing(syncing) | State::Stable(syncing) = &mut self.state {
            syncing.missing.remove(member_id);
        }
        let Some(member) = self.members.remove(member_id) else { return };
        if let Some(ticket) = member.joining {
            turn.refuse_join(ticket, "", JoinError::UnknownMember);
        }
        if let Some(ticket) = member.syncing {
            turn.reply_sync(ticket, Err(SyncError::UnknownMember.into()));
        }
        if self.is_leader(member_id) {
            self.leader = self.members.keys().next().cloned();
        }
    }
}

/// What offsets need to know of a group.
impl ClassicGroup {
    /// True if the group is in state Stable.
    pub(crate) fn is_stable(&self) -> bool {
        matches!(self.state, State::Stable(_))
    }

    /// True if the group has no member and no client that joins it.
    pub(crate) fn is_idle(&self) -> bool {
        self.is_empty() && self.promised.is_empty()
    }

    /// True if what is stored of it is up to date.
    pub(crate) fn is_settled(&self) -> bool {
        !self.proposed
    }

    /// True if the topics its members subscribe to are known.
    pub(crate) fn knows_subscription(&self) -> bool {
        self.subscribed.is_some()
    }

    /// True if members subscribe to this topic, or may, since a consumer's metadata could not be read.
    pub(crate) fn is_subscribed(&self, topic: &str) -> bool {
        self.subscribed.as_ref().map_or(self.is_consumer(), |topics| topics.contains(topic))
    }
}
