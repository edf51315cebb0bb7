//! The timers of a group: promised ids, member sessions, the join phase, the sync phase.

use super::{ClassicGroup, JoinPhase, State, SyncPhase, Turn};
use ottla_types::Millis;

impl ClassicGroup {
    /// Runs every timer that is due, then finds the next.
    pub(in crate::groups) fn expire(&mut self, turn: &mut Turn) {
        self.expire_promised(turn);
        self.expire_sessions(turn);
        self.expire_phase(turn);
        self.next = self.next_timer();
    }

    fn expire_promised(&mut self, turn: &mut Turn) {
        let lapsed = self.promised.iter().filter(|(_, at)| **at <= turn.now);
        let lapsed: Vec<String> = lapsed.map(|(member_id, _)| member_id.clone()).collect();
        for member_id in &lapsed {
            self.remove(member_id, turn);
            self.complete_if_phase_done(turn);
        }
    }

    fn expire_sessions(&mut self, turn: &mut Turn) {
        let due = |at: Option<Millis>| at.is_some_and(|at| at <= turn.now);
        let silent = self.members.iter().filter(|(_, member)| due(member.deadline));
        let silent: Vec<String> = silent.map(|(member_id, _)| member_id.clone()).collect();
        for member_id in &silent {
            self.expire_session(member_id, turn);
        }
    }

    fn expire_session(&mut self, member_id: &str, turn: &mut Turn) {
        // The end of another member's session may have renewed this one's.
        let Some(member) = self.members.get_mut(member_id) else { return };
        if member.deadline.is_none_or(|at| at > turn.now) {
            return;
        }
        if member.waits() {
            member.deadline = None;
            return;
        }
        self.remove(member_id, turn);
        match self.state {
            State::Completing(_) | State::Stable(_) => self.rebalance(turn),
            State::Preparing(_) => self.complete_if_phase_done(turn),
            State::Empty => {}
        }
    }

    /// Ends the join phase, the first one included, if it waited for the removed member alone.
    fn complete_if_phase_done(&mut self, turn: &mut Turn) {
        if let State::Preparing(_) = self.state
            && self.all_joined()
        {
            self.complete(turn);
        }
    }

    fn expire_phase(&mut self, turn: &mut Turn) {
        match &self.state {
            State::Empty => {}
            State::Preparing(JoinPhase { initial, until }) if *until <= turn.now => match *initial {
                Some(initial) => self.initial_delay_over(initial, turn),
                None => self.complete(turn),
            },
            State::Completing(syncing) | State::Stable(syncing)
                if syncing.until <= turn.now && !syncing.missing.is_empty() =>
            {
                let missing = syncing.missing.clone();
                missing.iter().for_each(|member_id| self.remove(member_id, turn));
                self.prepare(turn);
            }
            State::Preparing(_) | State::Completing(_) | State::Stable(_) => {}
        }
    }

    pub(super) fn next_timer(&self) -> Option<Millis> {
        let phase = match &self.state {
            State::Empty => None,
            State::Preparing(JoinPhase { until, .. }) => Some(*until),
            State::Completing(SyncPhase { missing, until }) | State::Stable(SyncPhase { missing, until }) => {
                (!missing.is_empty()).then_some(*until)
            }
        };
        let sessions = self.members.values().filter_map(|member| member.deadline);
        self.promised.values().copied().chain(sessions).chain(phase).min()
    }
}
