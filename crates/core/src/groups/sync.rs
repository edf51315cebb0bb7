//! SyncGroup: the leader brings the assignment, everybody takes theirs.

use super::command::{SyncError, SyncGroup, SyncGroupReply, Synced};
use super::group::{Group, State, Syncing, Turn};
use crate::effect::Ticket;
use crate::refusal::Refused;
use bytes::Bytes;

impl Group {
    pub(super) fn sync(&mut self, ask: SyncGroup, ticket: Ticket<SyncGroupReply>, turn: &mut Turn) {
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

    fn check_sync(&self, ask: &SyncGroup) -> Result<(), Refused<SyncError>> {
        self.check_member(&ask.member.member_id, ask.member.instance_id.as_deref())?;
        if ask.member.generation != self.generation {
            let facts = self.generation(ask.member.generation);
            return Err(Refused::on(SyncError::IllegalGeneration, facts));
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

    /// The generation is complete: it is stored, then everybody who waits gets its assignment.
    fn stabilise(&mut self, assignments: Vec<(String, Bytes)>, turn: &mut Turn) {
        self.assign(assignments);
        let syncing = match &mut self.state {
            State::Completing(syncing) => std::mem::take(syncing),
            State::Empty | State::Preparing(_) | State::Stable(_) => Syncing::default(),
        };
        self.state = State::Stable(syncing);
        self.store(turn);
        let ids: Vec<String> = self.members.keys().cloned().collect();
        for member_id in &ids {
            let waiting = self.members.get_mut(member_id).and_then(|member| member.syncing.take());
            if let Some(ticket) = waiting {
                let synced = self.synced(member_id);
                turn.reply_sync(ticket, Ok(synced));
                self.touch(member_id, turn.now);
            }
        }
    }

    fn synced(&self, member_id: &str) -> Synced {
        Synced {
            protocol_type: self.protocol_type.clone(),
            protocol: self.protocol.clone(),
            assignment: self.members.get(member_id).map(|m| m.facts.assignment.clone()).unwrap_or_default(),
        }
    }
}
