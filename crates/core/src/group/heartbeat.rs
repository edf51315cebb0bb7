//! Heartbeat, and the fencing of offset commits, which count as signs of life as well.

use super::ask::{HeartbeatError, MemberError, MemberRef};
use super::state::{Group, State};
use ottla_types::Millis;

/// Why a group does not take a member's offsets (T-165).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CommitFencing {
    /// A generation was given, and there is no such group.
    UnknownGroup,
    /// The group does not know this member, or has members and was told of none.
    UnknownMember,
    /// Another member took over this static id.
    FencedInstance,
    /// The member believes in another generation.
    IllegalGeneration,
    /// The member's generation has no assignment yet.
    RebalanceInProgress,
}

impl From<MemberError> for CommitFencing {
    fn from(error: MemberError) -> CommitFencing {
        match error {
            MemberError::Unknown => CommitFencing::UnknownMember,
            MemberError::Fenced => CommitFencing::FencedInstance,
        }
    }
}

impl Group {
    pub(super) fn heartbeat(&mut self, now: Millis, member: &MemberRef) -> Result<(), HeartbeatError> {
        self.check_member(&member.member_id, member.instance_id.as_deref())?;
        if member.generation != self.generation {
            return Err(HeartbeatError::IllegalGeneration);
        }
        match self.state {
            State::Empty => Err(HeartbeatError::UnknownMember),
            State::Preparing(_) => {
                self.touch(&member.member_id, now);
                Err(HeartbeatError::RebalanceInProgress)
            }
            // Some clients start their heartbeats before they have an assignment.
            State::Completing(_) | State::Stable(_) => {
                self.touch(&member.member_id, now);
                Ok(())
            }
        }
    }

    /// Judges who may commit offsets. `plain` is false for a commit in a transaction, which is judged less strictly because
    /// old clients cannot say who they are (T-165).
    pub(super) fn check_commit(&self, member: &MemberRef, plain: bool) -> Result<(), CommitFencing> {
        if member.generation < 0 && self.is_empty() {
            return Ok(());
        }
        let anonymous = member.generation < 0 && member.member_id.is_empty() && member.instance_id.is_none();
        if !anonymous {
            self.check_member(&member.member_id, member.instance_id.as_deref())?;
            if member.generation != self.generation {
                return Err(CommitFencing::IllegalGeneration);
            }
        } else if plain {
            return Err(CommitFencing::UnknownMember);
        }
        match self.state {
            State::Completing(_) if plain => Err(CommitFencing::RebalanceInProgress),
            State::Empty | State::Preparing(_) | State::Completing(_) | State::Stable(_) => Ok(()),
        }
    }

    /// A plain commit keeps the session of its member alive (T-171: one in a transaction does not).
    pub(super) fn committed(&mut self, now: Millis, member_id: &str) {
        match self.state {
            State::Preparing(_) | State::Stable(_) => self.touch(member_id, now),
            State::Empty | State::Completing(_) => {}
        }
    }
}
