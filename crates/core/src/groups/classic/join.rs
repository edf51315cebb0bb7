//! JoinGroup: a client wants to be in the next generation.

use super::member::Member;
use super::{ClassicGroup, JoinPhase, State, Turn};
use crate::effect::Ticket;
use crate::groups::command::{JoinError, JoinGroup, JoinGroupReply};
use crate::refusal::{Facts, Rejection};
use ottla_types::Millis;

/// How long a newcomer's JoinGroup may wait. It cannot send heartbeats yet, and a client that went away while it waited
/// would otherwise hold up the group permanently; one that is still there tries again.
const NEWCOMER_TIMEOUT: Millis = Millis(300_000);

impl ClassicGroup {
    pub(in crate::groups) fn join(
        &mut self,
        ask: JoinGroup,
        ticket: Ticket<JoinGroupReply>,
        turn: &mut Turn,
    ) {
        if !self.has_room_for(&ask.member_id, turn.rules.max_size) {
            let facts =
                Facts::Most { given: turn.rules.max_size as i64 + 1, most: turn.rules.max_size as i64 };
            turn.refuse_join(ticket, "", Rejection::on(JoinError::GroupFull, facts));
            self.remove(&ask.member_id, turn);
            if let State::Preparing(_) = self.state {
                self.complete_if_all_joined(turn);
            }
            return;
        }
        if !self.supports_one_of(&ask) {
            return turn.refuse_join(ticket, &ask.member_id, JoinError::InconsistentProtocol);
        }
        if ask.member_id.is_empty() {
            self.join_new(ask, ticket, turn);
        } else if self.promised.contains_key(&ask.member_id) && ask.instance_id.is_none() {
            let member_id = ask.member_id.clone();
            self.add(member_id, &ask, ticket, turn);
        } else {
            self.rejoin(ask, ticket, turn);
        }
    }

    /// Kafka's rule for group.max.size: in the join phase those who wait count, afterwards the members.
    fn has_room_for(&self, member_id: &str, max_size: usize) -> bool {
        let member = self.members.get(member_id);
        match self.state {
            State::Empty => true,
            State::Preparing(_) => {
                member.is_some_and(|member| member.joining.is_some()) || self.joining_count() < max_size
            }
            State::Completing(_) | State::Stable(_) => member.is_some() || self.members.len() < max_size,
        }
    }

    /// True if the type is the group's and all members support one of the protocols.
    fn supports_one_of(&self, ask: &JoinGroup) -> bool {
        if self.is_empty() {
            return !ask.protocol_type.is_empty() && !ask.protocols.is_empty();
        }
        let all_support = |name: &str| self.members.values().all(|member| member.supports(name));
        self.protocol_type.as_deref() == Some(ask.protocol_type.as_str())
            && ask.protocols.iter().any(|(name, _)| all_support(name))
    }

    /// A client without a member id.
    fn join_new(&mut self, ask: JoinGroup, ticket: Ticket<JoinGroupReply>, turn: &mut Turn) {
        let known = ask.instance_id.as_deref().and_then(|instance_id| self.static_member(instance_id));
        if let Some(old) = known.map(|member| member.facts.member_id.clone()) {
            return self.take_over(&old, ask, ticket, turn);
        }
        let member_id = ask.proposed_id.clone();
        if ask.instance_id.is_none() && ask.require_known_member {
            let lapses = turn.now.after(ask.session_timeout);
            self.arm(lapses);
            turn.refuse_join(ticket, &member_id, JoinError::MemberIdRequired);
            self.promised.insert(member_id, lapses);
            return;
        }
        self.add(member_id, &ask, ticket, turn);
    }

    /// Adds a new member.
    fn add(&mut self, member_id: String, ask: &JoinGroup, ticket: Ticket<JoinGroupReply>, turn: &mut Turn) {
        if let State::Preparing(JoinPhase { initial: Some(initial), .. }) = &mut self.state {
            initial.newcomer = true;
        }
        if self.members.is_empty() {
            self.protocol_type = Some(ask.protocol_type.clone());
        }
        self.promised.remove(&member_id);
        let mut member = Member::new(member_id.clone(), ask, ticket);
        let deadline = turn.now.after(NEWCOMER_TIMEOUT);
        member.deadline = Some(deadline);
        self.arm(deadline);
        self.leader.get_or_insert_with(|| member_id.clone());
        self.members.insert(member_id, member);
        self.rebalance(turn);
    }

    /// A client with a member id.
    fn rejoin(&mut self, ask: JoinGroup, ticket: Ticket<JoinGroupReply>, turn: &mut Turn) {
        if let Err(error) = self.check_member(&ask.member_id, ask.instance_id.as_deref()) {
            return turn.refuse_join(ticket, &ask.member_id, JoinError::from(error));
        }
        let unchanged =
            self.members.get(&ask.member_id).is_some_and(|member| member.facts.protocols == ask.protocols);
        match self.state {
            State::Empty => turn.refuse_join(ticket, &ask.member_id, JoinError::UnknownMember),
            State::Preparing(_) => self.update_and_rebalance(ask, ticket, turn),
            // Its first answer may have been lost: the same again.
            State::Completing(_) if unchanged => self.answer_current(ticket, &ask.member_id, turn),
            State::Completing(_) => self.update_and_rebalance(ask, ticket, turn),
            // A leader that joins wants a rebalance, for reasons its metadata need not show.
            State::Stable(_) if unchanged && !self.is_leader(&ask.member_id) => {
                self.answer_current(ticket, &ask.member_id, turn);
            }
            State::Stable(_) => self.update_and_rebalance(ask, ticket, turn),
        }
    }

    fn answer_current(&self, ticket: Ticket<JoinGroupReply>, member_id: &str, turn: &mut Turn) {
        turn.reply_join(ticket, Ok(self.joined(member_id)));
    }

    fn update_and_rebalance(&mut self, ask: JoinGroup, ticket: Ticket<JoinGroupReply>, turn: &mut Turn) {
        let member_id = ask.member_id.clone();
        self.update(&member_id, ask, ticket, turn);
        self.rebalance(turn);
    }

    /// Takes over the request of a known member, which waits from now on.
    fn update(&mut self, member_id: &str, ask: JoinGroup, ticket: Ticket<JoinGroupReply>, turn: &mut Turn) {
        let Some(member) = self.members.get_mut(member_id) else { return };
        member.facts.protocols = ask.protocols;
        member.facts.rebalance_timeout = ask.rebalance_timeout;
        member.facts.session_timeout = ask.session_timeout;
        if let Some(older) = member.joining.replace(ticket) {
            turn.refuse_join(older, member_id, JoinError::Superseded);
        }
    }

    /// A static member joins again without its member id: it gets a new one, and the client with the old one is fenced
    /// (KIP-345).
    fn take_over(&mut self, old_id: &str, ask: JoinGroup, ticket: Ticket<JoinGroupReply>, turn: &mut Turn) {
        let leader_before = self.leader.clone().unwrap_or_default();
        let can_skip = ask.can_skip_assignment;
        let new_id = ask.proposed_id.clone();
        self.replace(old_id, &new_id, turn);
        self.update(&new_id, ask, ticket, turn);
        self.touch(&new_id, turn.now);
        match self.state {
            State::Stable(_) if self.choose_protocol() == self.protocol => {
                self.keep_generation(&new_id, leader_before, can_skip, turn);
            }
            State::Stable(_) => self.rebalance(turn),
            // The leader may be assigning to the old id just now.
            State::Completing(_) => self.prepare(turn),
            State::Preparing(_) => self.complete_if_all_joined(turn),
            // A known static member means the group has members.
            State::Empty => {}
        }
    }

    fn replace(&mut self, old_id: &str, new_id: &str, turn: &mut Turn) {
        let Some(mut member) = self.members.remove(old_id) else { return };
        if let Some(ticket) = member.joining.take() {
            turn.refuse_join(ticket, old_id, JoinError::FencedInstance);
        }
        if let Some(ticket) = member.syncing.take() {
            turn.reply_sync(ticket, Err(crate::groups::command::SyncError::FencedInstance.into()));
        }
        if self.is_leader(old_id) {
            self.leader = Some(new_id.to_owned());
        }
        if let State::Completing(syncing) | State::Stable(syncing) = &mut self.state
            && syncing.missing.remove(old_id)
        {
            syncing.missing.insert(new_id.to_owned());
        }
        member.facts.member_id = new_id.to_owned();
        member.is_new = false;
        self.members.insert(new_id.to_owned(), member);
    }

    /// Nothing changes for the others: the new member id is stored and the member told its place. A client that can
    /// skip the assignment learns that it leads; an older one receives the old leader's id, so that it does not assign.
    fn keep_generation(&mut self, member_id: &str, leader_before: String, can_skip: bool, turn: &mut Turn) {
        self.propose(self.to_record(turn.wall), turn);
        let mut joined = self.joined(member_id);
        if can_skip {
            joined.skip_assignment = self.is_leader(member_id);
        } else {
            joined.leader = leader_before;
            joined.members = Vec::new();
        }
        let waiting = self.members.get_mut(member_id).and_then(|member| member.joining.take());
        if let Some(ticket) = waiting {
            turn.reply_join(ticket, Ok(joined));
        }
    }
}
