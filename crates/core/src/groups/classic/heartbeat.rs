//! Heartbeat, and the fencing of offset commits, which count as heartbeats as well.

use super::{ClassicGroup, State};
use crate::groups::command::{CommitFencing, HeartbeatError, MemberRef, refuse_commit};
use crate::refusal::{Facts, Rejection};
use ottla_types::Millis;

impl ClassicGroup {
    pub(in crate::groups) fn heartbeat(
        &mut self,
        now: Millis,
        member: &MemberRef,
    ) -> Result<(), Rejection<HeartbeatError>> {
        self.check_member(&member.member_id, member.instance_id.as_deref())?;
        if member.generation != self.generation {
            let facts = self.generation(member.generation);
            return Err(Rejection::on(HeartbeatError::IllegalGeneration, facts));
        }
        match self.state {
            State::Empty => Err(HeartbeatError::UnknownMember.into()),
            State::Preparing(_) => {
                self.touch(&member.member_id, now);
                Err(HeartbeatError::RebalanceInProgress.into())
            }
            // Some clients start their heartbeats before they have an assignment.
            State::Completing(_) | State::Stable(_) => {
                self.touch(&member.member_id, now);
                Ok(())
            }
        }
    }

    /// Judges who may commit offsets. `plain` is false for a commit in a transaction, which is judged less strictly
    /// because old clients cannot say who they are (T-165).
    pub(in crate::groups) fn check_commit(
        &self,
        member: &MemberRef,
        plain: bool,
    ) -> Result<(), Rejection<CommitFencing>> {
        if member.generation < 0 && self.is_empty() {
            return Ok(());
        }
        let anonymous = member.generation < 0 && member.member_id.is_empty() && member.instance_id.is_none();
        if !anonymous {
            self.check_member(&member.member_id, member.instance_id.as_deref())?;
            if member.generation != self.generation {
                return Err(refuse_commit(
                    CommitFencing::IllegalGeneration,
                    self.generation(member.generation),
                ));
            }
        } else if plain {
            return Err(refuse_commit(CommitFencing::UnknownMember, Facts::None));
        }
        match self.state {
            State::Completing(_) if plain => {
                Err(refuse_commit(CommitFencing::RebalanceInProgress, Facts::None))
            }
            State::Empty | State::Preparing(_) | State::Completing(_) | State::Stable(_) => Ok(()),
        }
    }

    /// A plain commit keeps the session of its member alive (T-171: one in a transaction does not).
    pub(in crate::groups) fn committed(&mut self, now: Millis, member_id: &str) {
        match self.state {
            State::Preparing(_) | State::Stable(_) => self.touch(member_id, now),
            State::Empty | State::Completing(_) => {}
        }
    }
}
