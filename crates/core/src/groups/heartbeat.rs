//! Heartbeat, and the fencing of offset commits, which count as signs of life as well.

use super::command::{HeartbeatError, MemberError, MemberRef};
use super::group::{Group, State};
use crate::refusal::{Facts, Refused, words};
use ottla_types::Millis;
use std::fmt::{self, Display};

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

words! { CommitFencing:
    CommitFencing::UnknownGroup => "there is no such group, and a generation was given",
    CommitFencing::UnknownMember => "the group does not know the member",
    CommitFencing::FencedInstance => "another member has taken over the static id",
    CommitFencing::IllegalGeneration => "not the group's generation",
    CommitFencing::RebalanceInProgress => "the member's generation has no assignment yet",
}

/// Why a group does not take offsets, by the table of T-165.
pub(super) fn refuse(error: CommitFencing, facts: Facts) -> Refused<CommitFencing> {
    Refused::by("T-165", error, facts)
}

impl From<MemberError> for Refused<CommitFencing> {
    fn from(error: MemberError) -> Refused<CommitFencing> {
        match error {
            MemberError::Unknown => refuse(CommitFencing::UnknownMember, Facts::None),
            MemberError::Fenced => refuse(CommitFencing::FencedInstance, Facts::None),
        }
    }
}

impl Group {
    pub(super) fn heartbeat(
        &mut self,
        now: Millis,
        member: &MemberRef,
    ) -> Result<(), Refused<HeartbeatError>> {
        self.check_member(&member.member_id, member.instance_id.as_deref())?;
        if member.generation != self.generation {
            let facts = self.generation(member.generation);
            return Err(Refused::on(HeartbeatError::IllegalGeneration, facts));
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

    /// Judges who may commit offsets. `plain` is false for a commit in a transaction, which is judged less strictly because
    /// old clients cannot say who they are (T-165).
    pub(super) fn check_commit(&self, member: &MemberRef, plain: bool) -> Result<(), Refused<CommitFencing>> {
        if member.generation < 0 && self.is_empty() {
            return Ok(());
        }
        let anonymous = member.generation < 0 && member.member_id.is_empty() && member.instance_id.is_none();
        if !anonymous {
            self.check_member(&member.member_id, member.instance_id.as_deref())?;
            if member.generation != self.generation {
                return Err(refuse(CommitFencing::IllegalGeneration, self.generation(member.generation)));
            }
        } else if plain {
            return Err(refuse(CommitFencing::UnknownMember, Facts::None));
        }
        match self.state {
            State::Completing(_) if plain => Err(refuse(CommitFencing::RebalanceInProgress, Facts::None)),
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
