//! Classic consumer groups: who is a member, who leads, and who has to rejoin.
//!
//! A group's generation is durable once its leader has brought the assignment, or once it is empty. Who waits, and when who was
//! last heard of, is not: after a restart a group is as its last complete generation left it, and its members have their
//! session timeout to be heard of.

mod command;
mod expire;
mod group;
mod heartbeat;
mod join;
mod leave;
mod member;
mod rebalance;
mod store;
mod subscription;
mod sync;
mod view;

pub use command::{
    DeleteGroupError, DeleteGroups, DeleteGroupsReply, GroupCommand, Heartbeat, HeartbeatError,
    HeartbeatReply, JoinError, JoinGroup, JoinGroupReply, JoinRefusal, Joined, JoinedMember, LeaveError,
    LeaveGroup, LeaveGroupReply, LeavingMember, MemberError, MemberRef, SyncError, SyncGroup, SyncGroupReply,
    Synced,
};
pub use heartbeat::CommitFencing;
pub use view::{GroupListing, GroupState, GroupView, MemberView};

use crate::config::Settings;
use crate::effect::{Effects, Ticket, TicketId};
use crate::reach::Reach;
use crate::refusal::{Facts, Refused};
use group::{Group, Rules, Turn};
use member::Member;
use ottla_types::Millis;
use ottla_types::record::{
    ClassicGroupUpdated, GroupDeleted, GroupRecord, LogRecord, OffsetRecord, SnapshotUnit,
};
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;

/// All groups.
#[derive(Debug)]
pub struct Groups {
    rules: Rules,
    groups: BTreeMap<String, Group>,
    /// When which group has a timer that may be due.
    timers: BTreeSet<(Millis, String)>,
    /// Groups read back from the log whose members' sessions have not started.
    restored: BTreeSet<String>,
    /// What members of all groups say of themselves and are assigned takes no more than this, in bytes.
    most_bytes: usize,
    /// At least what it takes now.
    bytes: usize,
}

impl Groups {
    pub(crate) fn new(settings: &Settings) -> Groups {
        let rules = Rules {
            initial_delay: settings.group_initial_rebalance_delay,
            min_session: settings.group_min_session_timeout,
            max_session: settings.group_max_session_timeout,
            max_size: settings.group_max_size,
        };
        Groups {
            rules,
            groups: BTreeMap::new(),
            timers: BTreeSet::new(),
            restored: BTreeSet::new(),
            most_bytes: settings.group_bytes,
            bytes: 0,
        }
    }

    /// Counts what somebody brings; the refusal if it is too much. What went is only taken off when it matters.
    fn count<E>(&mut self, bytes: usize, error: E) -> Result<(), Refused<E>> {
        if self.bytes.saturating_add(bytes) > self.most_bytes {
            self.bytes = self.groups.values().map(Group::bytes).sum();
        }
        let after = self.bytes.saturating_add(bytes);
        if after > self.most_bytes {
            let most = i64::try_from(self.most_bytes).unwrap_or(i64::MAX);
            let given = i64::try_from(after).unwrap_or(i64::MAX);
            return Err(Refused::on(error, Facts::Most { given, most }));
        }
        self.bytes = after;
        Ok(())
    }

    /// All groups, by id (ListGroups).
    pub fn list(&self) -> impl Iterator<Item = GroupListing<'_>> {
        self.groups.values().map(Group::listing)
    }

    /// One group (DescribeGroups); none if there is no such group.
    pub fn describe(&self, group_id: &str) -> Option<GroupView> {
        self.groups.get(group_id).map(Group::describe)
    }

    /// Judges a command. The replies to JoinGroup and SyncGroup may come from a later step.
    pub(crate) fn step(&mut self, now: Millis, command: GroupCommand, out: &mut Effects) {
        match command {
            GroupCommand::JoinGroup(command, ticket) => self.join(now, command, ticket, out),
            GroupCommand::SyncGroup(command, ticket) => self.sync(now, command, ticket, out),
            GroupCommand::Heartbeat(command, ticket) => out.reply(ticket, self.heartbeat(now, &command)),
            GroupCommand::LeaveGroup(command, ticket) => {
                let reply = self.leave(now, &command, out);
                out.reply(ticket, reply);
            }
            GroupCommand::DeleteGroups(command, ticket) => {
                let reply = self.delete(command, out);
                out.reply(ticket, reply);
            }
        }
    }

    fn join(&mut self, now: Millis, ask: JoinGroup, ticket: Ticket<JoinGroupReply>, out: &mut Effects) {
        self.start_sessions(now);
        let mut turn = Turn { now, rules: self.rules, out };
        if ask.group_id.is_empty() {
            return turn.refuse_join(ticket, &ask.member_id, JoinError::InvalidGroupId);
        }
        if !(self.rules.min_session..=self.rules.max_session).contains(&ask.session_timeout) {
            let (least, most) = (self.rules.min_session.0, self.rules.max_session.0);
            let facts = Facts::Bounds { given: ask.session_timeout.0, least, most };
            let refused = Refused::on(JoinError::InvalidSessionTimeout, facts);
            return turn.refuse_join(ticket, &ask.member_id, refused);
        }
        let known = self.groups.contains_key(&ask.group_id);
        if !known && !ask.member_id.is_empty() {
            return turn.refuse_join(ticket, &ask.member_id, JoinError::UnknownMember);
        }
        if let Err(refused) = self.count(member::size(&ask.protocols), JoinError::NoMemory) {
            return turn.refuse_join(ticket, &ask.member_id, refused);
        }
        if !known {
            self.groups.insert(ask.group_id.clone(), Group::new(&ask.group_id));
        }
        let group_id = ask.group_id.clone();
        self.with(&group_id, |group| group.join(ask, ticket, &mut turn));
    }

    fn sync(&mut self, now: Millis, ask: SyncGroup, ticket: Ticket<SyncGroupReply>, out: &mut Effects) {
        self.start_sessions(now);
        let mut turn = Turn { now, rules: self.rules, out };
        let group_id = ask.member.group_id.clone();
        if group_id.is_empty() {
            return turn.reply_sync(ticket, Err(SyncError::InvalidGroupId.into()));
        }
        let assigned = ask.assignments.iter().map(|(_, bytes)| bytes.len()).sum();
        if let Err(refused) = self.count(assigned, SyncError::NoMemory) {
            return turn.reply_sync(ticket, Err(refused));
        }
        if self.with(&group_id, |group| group.sync(ask, ticket, &mut turn)).is_none() {
            turn.reply_sync(ticket, Err(SyncError::UnknownMember.into()));
        }
    }

    fn heartbeat(&mut self, now: Millis, ask: &Heartbeat) -> HeartbeatReply {
        self.start_sessions(now);
        if ask.member.group_id.is_empty() {
            return Err(HeartbeatError::InvalidGroupId.into());
        }
        let judged = self.with(&ask.member.group_id, |group| group.heartbeat(now, &ask.member));
        judged.unwrap_or(Err(HeartbeatError::UnknownMember.into()))
    }

    fn leave(&mut self, now: Millis, ask: &LeaveGroup, out: &mut Effects) -> LeaveGroupReply {
        self.start_sessions(now);
        if ask.group_id.is_empty() {
            return Err(LeaveError::InvalidGroupId);
        }
        let mut turn = Turn { now, rules: self.rules, out };
        let results = self.with(&ask.group_id, |group| group.leave(&ask.members, &mut turn));
        results.ok_or(LeaveError::UnknownGroup)
    }

    fn delete(&self, ask: DeleteGroups, out: &mut Effects) -> DeleteGroupsReply {
        let mut results = Vec::with_capacity(ask.groups.len());
        for group_id in ask.groups {
            let judged = match self.groups.get(&group_id) {
                None => Err(DeleteGroupError::NotFound),
                Some(group) if !group.is_empty() => Err(DeleteGroupError::NotEmpty),
                Some(_) => Ok(()),
            };
            if judged.is_ok() {
                out.append(GroupDeleted { group_id });
            }
            results.push(judged);
        }
        results
    }

    /// Judges who may commit offsets, plainly or in a transaction (T-165). A plain commit of a member renews its session.
    pub(crate) fn admit_commit(
        &mut self,
        now: Millis,
        member: &MemberRef,
        plain: bool,
    ) -> Result<(), Refused<CommitFencing>> {
        self.start_sessions(now);
        let judged = self.with(&member.group_id, |group| {
            group.check_commit(member, plain)?;
            if plain {
                group.committed(now, &member.member_id);
            }
            Ok(())
        });
        match judged {
            Some(judged) => judged,
            None if member.generation < 0 => Ok(()),
            None => Err(heartbeat::refuse(CommitFencing::UnknownGroup, Facts::None)),
        }
    }

    /// One group, for offsets.
    pub(crate) fn get(&self, group_id: &str) -> Option<&Group> {
        self.groups.get(group_id)
    }

    pub(crate) fn tick(&mut self, now: Millis, out: &mut Effects) {
        self.start_sessions(now);
        let due = self.timers.iter().take_while(|(at, _)| *at <= now);
        let due: Vec<String> = due.map(|(_, group_id)| group_id.clone()).collect();
        for group_id in due {
            let mut turn = Turn { now, rules: self.rules, out };
            self.with(&group_id, |group| group.expire(&mut turn));
        }
    }

    /// The earliest timer of any group; at once if groups were read back and their sessions are still to start.
    pub(crate) fn deadline(&self) -> Option<Millis> {
        if !self.restored.is_empty() {
            return Some(Millis(0));
        }
        self.timers.first().map(|(at, _)| *at)
    }

    pub(crate) fn apply(&mut self, record: &GroupRecord, reach: &Reach) {
        match record {
            GroupRecord::ClassicUpdated(updated) => {
                if reach.covers(|| SnapshotUnit::Group(updated.group_id.clone())) {
                    self.apply_updated(updated);
                }
            }
            GroupRecord::Deleted(deleted) => self.apply_deleted(deleted),
        }
    }

    /// A group for which offsets are stored exists, if it did not before.
    pub(crate) fn apply_offsets(&mut self, record: &OffsetRecord, reach: &Reach) {
        let (group_id, offsets) = match record {
            OffsetRecord::OffsetsCommitted(committed) => (&committed.group_id, &committed.offsets),
            OffsetRecord::OffsetsStaged(staged) => (&staged.group_id, &staged.offsets),
            OffsetRecord::OffsetsDeleted(_)
            | OffsetRecord::OffsetsRestored(_)
            | OffsetRecord::StagedRestored(_) => return,
        };
        if reach.covers(|| SnapshotUnit::Group(group_id.clone())) {
            let at = offsets.first().map_or(Millis::NONE, |(_, offset)| offset.at);
            self.group_mut(group_id).apply_simple(at);
        }
    }

    fn apply_updated(&mut self, updated: &ClassicGroupUpdated) {
        let group = self.group_mut(&updated.group_id);
        let decided_here = group.unapplied > 0;
        group.apply(updated);
        if !decided_here && !updated.members.is_empty() {
            self.restored.insert(updated.group_id.clone());
        }
    }

    /// The log refused a record of the last step. A group that decided what was not stored is again as its last stored
    /// generation left it, as after a restart; returns whose requests it had held.
    pub(crate) fn refused(&mut self) -> Vec<TicketId> {
        let undone = self.groups.extract_if(.., |_, group| group.unapplied > 0);
        let undone: Vec<(String, Group)> = undone.collect();
        let mut waiting = Vec::new();
        for (group_id, group) in undone {
            group.next.map(|at| self.timers.remove(&(at, group_id)));
            waiting.extend(group.members.values().flat_map(Member::tickets));
            if let Some(stored) = &group.stored {
                self.apply_updated(stored);
            }
        }
        waiting
    }

    fn apply_deleted(&mut self, deleted: &GroupDeleted) {
        self.restored.remove(&deleted.group_id);
        if let Some(group) = self.groups.remove(&deleted.group_id)
            && let Some(at) = group.next
        {
            self.timers.remove(&(at, deleted.group_id.clone()));
        }
    }

    /// The group that follows this one, or the first; some hold nothing that is stored.
    pub(crate) fn after(&self, after: Option<&str>) -> Option<&str> {
        let from = after.map_or(Bound::Unbounded, Bound::Excluded);
        self.groups.range::<str, _>((from, Bound::Unbounded)).next().map(|(id, _)| id.as_str())
    }

    pub(crate) fn snapshot_of(&self, group_id: &str, rows: &mut Vec<LogRecord>) {
        let stored = self.groups.get(group_id).and_then(|group| group.stored.clone());
        rows.extend(stored.map(LogRecord::from));
    }

    /// The stored state of every group, by id.
    pub(crate) fn stored(&self) -> impl Iterator<Item = &ClassicGroupUpdated> {
        self.groups.values().filter_map(|group| group.stored.as_ref())
    }

    fn group_mut(&mut self, group_id: &str) -> &mut Group {
        self.groups.entry(group_id.to_owned()).or_insert_with(|| Group::new(group_id))
    }

    /// Runs an event on a group, then keeps its timer in the books. None if there is no such group.
    fn with<T>(&mut self, group_id: &str, event: impl FnOnce(&mut Group) -> T) -> Option<T> {
        let group = self.groups.get_mut(group_id)?;
        let before = group.next;
        let result = event(group);
        if group.next != before {
            before.map(|at| self.timers.remove(&(at, group_id.to_owned())));
            group.next.map(|at| self.timers.insert((at, group_id.to_owned())));
        }
        if group.is_nothing() {
            group.next.map(|at| self.timers.remove(&(at, group_id.to_owned())));
            self.groups.remove(group_id);
        }
        Some(result)
    }

    fn start_sessions(&mut self, now: Millis) {
        for group_id in std::mem::take(&mut self.restored) {
            self.with(&group_id, |group| group.start_sessions(now));
        }
    }
}
