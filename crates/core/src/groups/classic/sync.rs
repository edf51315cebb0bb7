//! SyncGroup: the leader sends the assignments, each member receives its own.

use super::{ClassicGroup, State, Turn};
use crate::effect::Ticket;
use crate::groups::command::{Assignment, SyncError, SyncGroup, SyncGroupReply};
use crate::refusal::Rejection;
use bytes::Bytes;
use std::collections::BTreeMap;

impl ClassicGroup {
    pub(in crate::groups) fn sync(
        &mut self,
        ask: SyncGroup,
        ticket: Ticket<SyncGroupReply>,
        turn: &mut Turn,
    ) {
        if let Err(error) = self.check_sync(&ask) {
            return turn.reply_sync(ticket, Err(error));
        }
        let member_id = ask.member.member_id.clone();
        match &mut self.state {
            State::Empty => turn.reply_sync(ticket, Err(SyncError::UnknownMember.into())),
            State::Preparing(_) => turn.reply_sync(ticket, Err(SyncError::RebalanceInProgress.into())),
            State::Completing(syncing) => {
                syncing.missing.remove(&member_id);
                self.await_assignment(&member_id, ticket, turn);
                if self.is_leader(&member_id) {
                    self.stabilise(ask.assignments, turn);
                }
            }
            State::Stable(syncing) => {
                syncing.missing.remove(&member_id);
                let synced = self.synced(&member_id);
                turn.reply_sync(ticket, Ok(synced));
            }
        }
    }

    fn check_sync(&self, ask: &SyncGroup) -> Result<(), Rejection<SyncError>> {
        self.check_member(&ask.member.member_id, ask.member.instance_id.as_deref())?;
        if ask.member.generation != self.generation {
            let facts = self.generation(ask.member.generation);
            return Err(Rejection::on(SyncError::IllegalGeneration, facts));
        }
        let differs =
            |given: &Option<String>, own: &Option<String>| given.is_some() && own.is_some() && given != own;
        if differs(&ask.protocol_type, &self.protocol_type) || differs(&ask.protocol, &self.protocol) {
            return Err(SyncError::InconsistentProtocol.into());
        }
        Ok(())
    }

    fn await_assignment(&mut self, member_id: &str, ticket: Ticket<SyncGroupReply>, turn: &mut Turn) {
        let older = self.members.get_mut(member_id).and_then(|member| member.syncing.replace(ticket));
        if let Some(ticket) = older {
            turn.reply_sync(ticket, Err(SyncError::Superseded.into()));
        }
    }

    /// The generation is complete: its record holds the leader's assignments, and members that wait get theirs. Members
    /// that the leader left out get an empty assignment.
    fn stabilise(&mut self, assignments: Vec<(String, Bytes)>, turn: &mut Turn) {
        let mut record = self.to_record(turn.wall);
        let mut assignments: BTreeMap<String, Bytes> = assignments.into_iter().collect();
        for facts in &mut record.members {
            facts.assignment = assignments.remove(&facts.member_id).unwrap_or_default();
        }
        let mut waiting = Vec::new();
        for facts in &record.members {
            let ticket = self.members.get_mut(&facts.member_id).and_then(|member| member.syncing.take());
            if let Some(ticket) = ticket {
                waiting
                    .push((ticket, Assignment { assignment: facts.assignment.clone(), ..self.synced("") }));
                self.touch(&facts.member_id, turn.now);
            }
        }
        self.propose(record, turn);
        waiting.into_iter().for_each(|(ticket, synced)| turn.reply_sync(ticket, Ok(synced)));
    }

    fn synced(&self, member_id: &str) -> Assignment {
        Assignment {
            protocol_type: self.protocol_type.clone(),
            protocol: self.protocol.clone(),
            assignment: self.members.get(member_id).map(|m| m.facts.assignment.clone()).unwrap_or_default(),
        }
    }
}
