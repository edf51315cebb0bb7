//! LeaveGroup: members leave at once, instead of by session timeout.

use super::{ClassicGroup, State, Turn};
use crate::groups::command::{LeavingMember, MemberError};

impl ClassicGroup {
    pub(in crate::groups) fn leave(
        &mut self,
        leaving: &[LeavingMember],
        turn: &mut Turn,
    ) -> Vec<Result<(), MemberError>> {
        let results: Vec<_> = leaving.iter().map(|member| self.leave_one(member, turn)).collect();
        if results.iter().any(Result::is_ok) {
            match self.state {
                State::Completing(_) | State::Stable(_) => self.rebalance(turn),
                State::Preparing(_) => self.complete_if_all_joined(turn),
                State::Empty => {}
            }
        }
        results
    }

    fn leave_one(&mut self, leaving: &LeavingMember, turn: &mut Turn) -> Result<(), MemberError> {
        let member_id = match (leaving.member_id.as_str(), leaving.instance_id.as_deref()) {
            // An administrator removes a static member by its static id alone.
            ("", Some(instance_id)) => {
                let member = self.static_member(instance_id).ok_or(MemberError::Unknown)?;
                member.facts.member_id.clone()
            }
            ("", None) => return Err(MemberError::Unknown),
            (member_id, _) if self.promised.contains_key(member_id) => member_id.to_owned(),
            (member_id, instance_id) => {
                self.check_member(member_id, instance_id)?;
                member_id.to_owned()
            }
        };
        self.remove(&member_id, turn);
        Ok(())
    }
}
