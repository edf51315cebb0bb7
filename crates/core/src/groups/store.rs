//! The durable half of a group: what a completed, replaced or emptied generation leaves in the log, and the way back.

use super::group::{Group, State, Syncing, Turn};
use super::member::Member;
use ottla_types::Millis;
use ottla_types::record::ClassicGroupUpdated;

impl Group {
    /// Pushes the current generation to the log.
    pub(super) fn store(&mut self, turn: &mut Turn) {
        self.unapplied += 1;
        turn.out.append(ClassicGroupUpdated {
            group_id: self.id.clone(),
            generation: self.generation,
            protocol_type: self.protocol_type.clone(),
            protocol: self.protocol.clone(),
            leader: self.leader.clone(),
            members: self.members.values().map(|member| member.facts.clone()).collect(),
            at: turn.now,
        });
    }

    /// Takes a stored generation. If this very process decided it, the volatile half is right already and maybe further on;
    /// on replay it is built anew: members whose sessions are still to start.
    pub(super) fn apply(&mut self, updated: &ClassicGroupUpdated) {
        self.stored = Some(updated.clone());
        if self.unapplied > 0 {
            self.unapplied -= 1;
            return;
        }
        self.generation = updated.generation;
        self.protocol_type = updated.protocol_type.clone();
        self.protocol = updated.protocol.clone();
        self.leader = updated.leader.clone();
        let members = updated.members.iter();
        self.members = members.map(|facts| (facts.member_id.clone(), Member::restored(facts))).collect();
        self.promised.clear();
        self.subscribed = self.subscribed_topics();
        self.state = if self.members.is_empty() { State::Empty } else { State::Stable(Syncing::default()) };
    }

    /// Makes a group that stores offsets and nothing else exist, as Kafka does for simple consumers.
    pub(super) fn apply_simple(&mut self, at: Millis) {
        self.stored.get_or_insert_with(|| ClassicGroupUpdated {
            group_id: self.id.clone(),
            generation: 0,
            protocol_type: None,
            protocol: None,
            leader: None,
            members: Vec::new(),
            at,
        });
    }

    /// After a restart: members have their session timeout, from now on, to be heard of.
    pub(super) fn start_sessions(&mut self, now: Millis) {
        let ids: Vec<String> = self.members.keys().cloned().collect();
        ids.iter().for_each(|member_id| self.touch(member_id, now));
    }
}
