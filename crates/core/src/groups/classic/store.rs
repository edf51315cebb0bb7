//! The stored state of a group: the record that proposes it, and what applying that record changes.

use super::member::Member;
use super::{ClassicGroup, State, SyncPhase, Turn};
use ottla_types::Millis;
use ottla_types::record::ClassicGroupUpdated;
use std::collections::BTreeMap;

impl ClassicGroup {
    /// The live generation as a record.
    pub(super) fn to_record(&self, wall: Millis) -> ClassicGroupUpdated {
        ClassicGroupUpdated {
            group_id: self.id.clone(),
            generation: self.generation,
            protocol_type: self.protocol_type.clone(),
            protocol: self.protocol.clone(),
            leader: self.leader.clone(),
            members: self.members.values().map(|member| member.facts.clone()).collect(),
            at: wall,
        }
    }

    /// Proposes a new stored state: it takes effect when the record is applied.
    pub(super) fn propose(&mut self, record: ClassicGroupUpdated, turn: &mut Turn) {
        self.proposed = true;
        turn.out.append(record);
    }

    /// Takes the stored state of a record, live or on replay. Requests that wait and the sessions of members that stay
    /// are kept.
    pub(in crate::groups) fn apply(&mut self, updated: &ClassicGroupUpdated) {
        if !std::mem::take(&mut self.proposed) {
            self.promised.clear();
        }
        self.generation = updated.generation;
        self.protocol_type = updated.protocol_type.clone();
        self.protocol = updated.protocol.clone();
        self.leader = updated.leader.clone();
        let mut known = std::mem::take(&mut self.members);
        let member = |facts: &ottla_types::record::ClassicMember| match known.remove(&facts.member_id) {
            Some(member) => Member { facts: facts.clone(), ..member },
            None => Member::restored(facts),
        };
        let members = updated.members.iter().map(member);
        self.members =
            members.map(|member| (member.facts.member_id.clone(), member)).collect::<BTreeMap<_, _>>();
        self.subscribed = self.subscribed_topics();
        self.state = match std::mem::replace(&mut self.state, State::Empty) {
            _ if self.members.is_empty() => State::Empty,
            State::Completing(syncing) | State::Stable(syncing) => State::Stable(syncing),
            State::Empty | State::Preparing(_) => State::Stable(SyncPhase::default()),
        };
        self.stored = Some(updated.clone());
        self.next = self.next_timer();
    }

    /// Makes a group that stores offsets and has never had members exist, as Kafka does for simple consumers.
    pub(in crate::groups) fn apply_simple(&mut self, at: Millis) {
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

    /// After a restart members have their session timeout, from now on, to send a heartbeat.
    pub(in crate::groups) fn start_sessions(&mut self, now: Millis) {
        let ids: Vec<String> = self.members.keys().cloned().collect();
        ids.iter().for_each(|member_id| self.touch(member_id, now));
    }
}
