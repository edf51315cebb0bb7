//! The way from one generation to the next: the join phase and its end.

use super::subscription;
use super::{ClassicGroup, Initial, JoinPhase, State, SyncPhase, Turn};
use crate::groups::command::{JoinedMember, Membership, SyncError};
use bytes::Bytes;
use ottla_types::Millis;
use ottla_types::record::ClassicGroupUpdated;
use std::collections::{BTreeMap, BTreeSet};

impl ClassicGroup {
    /// Starts a rebalance, or, if one is on, ends its join phase as soon as it waits for no member.
    pub(super) fn rebalance(&mut self, turn: &mut Turn) {
        match self.state {
            State::Empty | State::Completing(_) | State::Stable(_) => self.prepare(turn),
            State::Preparing(_) => self.complete_if_all_joined(turn),
        }
    }

    /// Starts the join phase of the next generation.
    pub(super) fn prepare(&mut self, turn: &mut Turn) {
        match self.state {
            State::Empty => return self.prepare_first(turn),
            State::Completing(_) => self.call_off_sync(turn),
            State::Preparing(_) | State::Stable(_) => {}
        }
        self.await_joins(turn.now, None);
        if self.all_joined() {
            self.complete(turn);
        }
    }

    /// The first join phase of a group lasts for a while, so that members that start together get one generation.
    fn prepare_first(&mut self, turn: &mut Turn) {
        let delay = turn.rules.initial_delay;
        let remaining = Millis((self.rebalance_timeout().0 - delay.0).max(0));
        let until = turn.now.after(delay);
        let initial = Initial { delay, remaining, newcomer: false };
        self.state = State::Preparing(JoinPhase { initial: Some(initial), until });
        self.arm(until);
        if delay <= Millis(0) {
            self.complete(turn);
        }
    }

    fn await_joins(&mut self, now: Millis, initial: Option<Initial>) {
        let until = now.after(self.rebalance_timeout());
        self.state = State::Preparing(JoinPhase { initial, until });
        self.arm(until);
    }

    /// Members that wait for the leader's assignment have to rejoin.
    fn call_off_sync(&mut self, turn: &mut Turn) {
        let mut called_off = Vec::new();
        for member in self.members.values_mut() {
            member.facts.assignment = Bytes::new();
            if let Some(ticket) = member.syncing.take() {
                turn.reply_sync(ticket, Err(SyncError::RebalanceInProgress.into()));
                called_off.push(member.facts.member_id.clone());
            }
        }
        called_off.iter().for_each(|member_id| self.touch(member_id, turn.now));
    }

    /// Ends the join phase if it waits for no member; the first one runs its time.
    pub(super) fn complete_if_all_joined(&mut self, turn: &mut Turn) {
        if let State::Preparing(JoinPhase { initial: None, .. }) = self.state
            && self.all_joined()
        {
            self.complete(turn);
        }
    }

    /// Time is up for the first join phase: wait longer if a member joined meanwhile, else end it.
    pub(super) fn initial_delay_over(&mut self, initial: Initial, turn: &mut Turn) {
        if !initial.newcomer || initial.remaining <= Millis(0) {
            return self.complete(turn);
        }
        let delay = turn.rules.initial_delay.min(initial.remaining);
        let remaining = Millis((initial.remaining.0 - initial.delay.0).max(0));
        let until = turn.now.after(delay);
        let initial = Initial { delay, remaining, newcomer: false };
        self.state = State::Preparing(JoinPhase { initial: Some(initial), until });
        self.arm(until);
    }

    /// Ends the join phase: dynamic members that have not joined are dropped, static ones stay until their session
    /// ends.
    pub(super) fn complete(&mut self, turn: &mut Turn) {
        if self.proposed {
            return;
        }
        let absent = |group: &ClassicGroup| -> Vec<String> {
            let members =
                group.members.values().filter(|member| member.joining.is_none() && !member.is_static());
            members.map(|member| member.facts.member_id.clone()).collect()
        };
        absent(self).iter().for_each(|member_id| self.remove(member_id, turn));
        if self.members.is_empty() {
            return self.complete_empty(turn);
        }
        if !self.elect_joined_leader() {
            let initial = match &self.state {
                State::Preparing(joining) => {
                    joining.initial.map(|initial| Initial { remaining: Millis(0), ..initial })
                }
                State::Empty | State::Completing(_) | State::Stable(_) => None,
            };
            return self.await_joins(turn.now, initial);
        }
        self.begin_generation(turn);
    }

    fn complete_empty(&mut self, turn: &mut Turn) {
        let generation = next_generation(self.generation);
        let empty =
            ClassicGroupUpdated { generation, protocol: None, leader: None, ..self.to_record(turn.wall) };
        self.propose(empty, turn);
    }

    fn begin_generation(&mut self, turn: &mut Turn) {
        self.generation = next_generation(self.generation);
        self.protocol = self.choose_protocol();
        self.subscribed = self.subscribed_topics();
        let until = turn.now.after(self.rebalance_timeout());
        let missing = self.members.keys().cloned().collect();
        self.state = State::Completing(SyncPhase { missing, until });
        self.arm(until);
        let ids: Vec<String> = self.members.keys().cloned().collect();
        for member_id in &ids {
            let joined = self.joined(member_id);
            let Some(member) = self.members.get_mut(member_id) else { continue };
            member.is_new = false;
            if let Some(ticket) = member.joining.take() {
                turn.reply_join(ticket, Ok(joined));
            }
            self.touch(member_id, turn.now);
        }
    }

    /// What a member receives about the current generation; the leader receives all members.
    pub(super) fn joined(&self, member_id: &str) -> Membership {
        let members = if self.is_leader(member_id) { self.joined_members() } else { Vec::new() };
        Membership {
            generation: self.generation,
            protocol_type: self.protocol_type.clone(),
            protocol: self.protocol.clone(),
            leader: self.leader.clone().unwrap_or_default(),
            member_id: member_id.to_owned(),
            skip_assignment: false,
            members,
        }
    }

    fn joined_members(&self) -> Vec<JoinedMember> {
        let protocol = self.protocol.as_deref().unwrap_or_default();
        let seen = self.members.values().map(|member| JoinedMember {
            member_id: member.facts.member_id.clone(),
            instance_id: member.facts.instance_id.clone(),
            metadata: member.metadata(protocol),
        });
        seen.collect()
    }

    /// Makes sure that the leader is a member that joined. False if none did.
    fn elect_joined_leader(&mut self) -> bool {
        let joined = |member_id: &String| self.members.get(member_id).is_some_and(|m| m.joining.is_some());
        if self.leader.as_ref().is_some_and(joined) {
            return true;
        }
        let Some(member) = self.members.values().find(|member| member.joining.is_some()) else {
            return false;
        };
        self.leader = Some(member.facts.member_id.clone());
        true
    }

    /// Each member votes for the protocol that it prefers among those that all support. Most votes win, then the first
    /// name.
    pub(super) fn choose_protocol(&self) -> Option<String> {
        let all_support = |name: &str| self.members.values().all(|member| member.supports(name));
        let first = self.members.values().next()?;
        let names = first.facts.protocols.iter().map(|(name, _)| name.as_str());
        let candidates: Vec<&str> = names.filter(|name| all_support(name)).collect();
        let mut votes: BTreeMap<&str, usize> = BTreeMap::new();
        for name in self.members.values().filter_map(|member| member.vote(&candidates)) {
            *votes.entry(name).or_default() += 1;
        }
        let most = votes.values().max().copied()?;
        votes.into_iter().find(|(_, count)| *count == most).map(|(name, _)| name.to_owned())
    }

    /// Topics all members together subscribe to; none if their metadata is not a consumer's or cannot be read.
    pub(super) fn subscribed_topics(&self) -> Option<BTreeSet<String>> {
        if !self.is_consumer() {
            return None;
        }
        let mut topics = BTreeSet::new();
        for member in self.members.values() {
            topics.extend(subscription::topics(&member.metadata(self.protocol.as_deref()?))?);
        }
        Some(topics)
    }
}

fn next_generation(generation: i32) -> i32 {
    generation.checked_add(1).unwrap_or(1)
}
