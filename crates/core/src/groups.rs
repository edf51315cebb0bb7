//! Consumer groups: one table of the groups of all kinds, of which there is one so far, the classic one.
//!
//! A classic group's generation is durable once its leader has sent the assignment, or once it is empty. Waiting
//! requests and the times of heartbeats are not: after a restart a group is as its last complete generation left it,
//! and each member has its session timeout to send a heartbeat.

mod classic;
mod command;
mod group;
mod view;

pub use command::{
    Assignment, CommitFencing, DeleteGroupError, DeleteGroups, DeleteGroupsReply, GroupCommand, Heartbeat,
    HeartbeatError, HeartbeatReply, JoinError, JoinGroup, JoinGroupReply, JoinRefusal, JoinedMember,
    LeaveError, LeaveGroup, LeaveGroupReply, LeavingMember, MemberError, MemberRef, Membership, SyncError,
    SyncGroup, SyncGroupReply,
};
pub use view::{GroupListing, GroupState, GroupView, MemberView};

use crate::catalog::Catalog;
use crate::config::Settings;
use crate::effect::{Effects, Ticket, TicketId};
use crate::reach::Reach;
use crate::refusal::{Facts, Rejection};
use classic::{ClassicGroup, Rules, Turn};
use group::Group;
use ottla_types::Millis;
use ottla_types::record::{
    CatalogRecord, ClassicGroupUpdated, GroupDeleted, GroupRecord, LogRecord, OffsetRecord, SnapshotUnit,
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

    /// Counts the bytes that a request adds; the refusal if it is too much. Bytes that went are only taken off when it
    /// matters.
    fn count<E>(&mut self, bytes: usize, error: E) -> Result<(), Rejection<E>> {
        if self.bytes.saturating_add(bytes) > self.most_bytes {
            self.bytes = self.groups.values().map(Group::bytes).sum();
        }
        let after = self.bytes.saturating_add(bytes);
        if after > self.most_bytes {
            let most = i64::try_from(self.most_bytes).unwrap_or(i64::MAX);
            let given = i64::try_from(after).unwrap_or(i64::MAX);
            return Err(Rejection::on(error, Facts::Most { given, most }));
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
    pub(crate) fn step(
        &mut self,
        (now, wall): (Millis, Millis),
        command: GroupCommand,
        catalog: &Catalog,
        out: &mut Effects,
    ) {
        let mut turn = Turn { now, wall, rules: self.rules, catalog, out };
        match command {
            GroupCommand::JoinGroup(command, ticket) => self.join(command, ticket, &mut turn),
            GroupCommand::SyncGroup(command, ticket) => self.sync(command, ticket, &mut turn),
            GroupCommand::Heartbeat(command, ticket) => {
                let reply = self.heartbeat(now, &command);
                turn.out.reply(ticket, reply);
            }
            GroupCommand::LeaveGroup(command, ticket) => {
                let reply = self.leave(&command, &mut turn);
                turn.out.reply(ticket, reply);
            }
            GroupCommand::DeleteGroups(command, ticket) => {
                let reply = self.delete(command, turn.out);
                turn.out.reply(ticket, reply);
            }
        }
    }

    fn join(&mut self, command: JoinGroup, ticket: Ticket<JoinGroupReply>, turn: &mut Turn) {
        self.start_sessions(turn.now);
        if command.group_id.is_empty() {
            return turn.refuse_join(ticket, &command.member_id, JoinError::InvalidGroupId);
        }
        if !(self.rules.min_session..=self.rules.max_session).contains(&command.session_timeout) {
            let (least, most) = (self.rules.min_session.0, self.rules.max_session.0);
            let facts = Facts::Bounds { given: command.session_timeout.0, least, most };
            let refused = Rejection::on(JoinError::InvalidSessionTimeout, facts);
            return turn.refuse_join(ticket, &command.member_id, refused);
        }
        let known = self.groups.contains_key(&command.group_id);
        if !known && !command.member_id.is_empty() {
            return turn.refuse_join(ticket, &command.member_id, JoinError::UnknownMember);
        }
        if let Err(refused) = self.count(classic::size(&command.protocols), JoinError::NoMemory) {
            return turn.refuse_join(ticket, &command.member_id, refused);
        }
        let group_id = command.group_id.clone();
        self.classic_or_new(&group_id);
        self.with_classic(&group_id, |group| group.join(command, ticket, turn));
    }

    fn sync(&mut self, command: SyncGroup, ticket: Ticket<SyncGroupReply>, turn: &mut Turn) {
        self.start_sessions(turn.now);
        let group_id = command.member.group_id.clone();
        if group_id.is_empty() {
            return turn.reply_sync(ticket, Err(SyncError::InvalidGroupId.into()));
        }
        let assigned = command.assignments.iter().map(|(_, bytes)| bytes.len()).sum();
        if let Err(refused) = self.count(assigned, SyncError::NoMemory) {
            return turn.reply_sync(ticket, Err(refused));
        }
        if self.with_classic(&group_id, |group| group.sync(command, ticket, turn)).is_none() {
            turn.reply_sync(ticket, Err(SyncError::UnknownMember.into()));
        }
    }

    fn heartbeat(&mut self, now: Millis, ask: &Heartbeat) -> HeartbeatReply {
        self.start_sessions(now);
        if ask.member.group_id.is_empty() {
            return Err(HeartbeatError::InvalidGroupId.into());
        }
        let judged = self.with_classic(&ask.member.group_id, |group| group.heartbeat(now, &ask.member));
        judged.unwrap_or(Err(HeartbeatError::UnknownMember.into()))
    }

    fn leave(&mut self, ask: &LeaveGroup, turn: &mut Turn) -> LeaveGroupReply {
        self.start_sessions(turn.now);
        if ask.group_id.is_empty() {
            return Err(LeaveError::InvalidGroupId);
        }
        let results = self.with_classic(&ask.group_id, |group| group.leave(&ask.members, turn));
        results.ok_or(LeaveError::UnknownGroup)
    }

    fn delete(&self, ask: DeleteGroups, out: &mut Effects) -> DeleteGroupsReply {
        let mut results = Vec::with_capacity(ask.groups.len());
        for group_id in ask.groups {
            let judged = match self.groups.get(&group_id) {
                None => Err(DeleteGroupError::NotFound),
                Some(Group::Classic(group)) if !group.is_empty() => Err(DeleteGroupError::NotEmpty),
                Some(_) => Ok(()),
            };
            if judged.is_ok() {
                out.append(GroupDeleted { group_id });
            }
            results.push(judged);
        }
        results
    }

    /// Judges who may commit offsets, plainly or in a transaction (T-165). A plain commit of a member renews its
    /// session.
    pub(crate) fn admit_commit(
        &mut self,
        now: Millis,
        member: &MemberRef,
        plain: bool,
    ) -> Result<(), Rejection<CommitFencing>> {
        self.start_sessions(now);
        let judged = self.with_classic(&member.group_id, |group| {
            group.check_commit(member, plain)?;
            if plain {
                group.committed(now, &member.member_id);
            }
            Ok(())
        });
        match judged {
            Some(judged) => judged,
            None if member.generation < 0 => Ok(()),
            None => Err(command::refuse_commit(CommitFencing::UnknownGroup, Facts::None)),
        }
    }

    /// A classic group, for its offsets.
    pub(crate) fn classic(&self, group_id: &str) -> Option<&ClassicGroup> {
        self.groups.get(group_id).map(|Group::Classic(group)| group)
    }

    pub(crate) fn tick(&mut self, (now, wall): (Millis, Millis), catalog: &Catalog, out: &mut Effects) {
        self.start_sessions(now);
        let due = self.timers.iter().take_while(|(at, _)| *at <= now);
        let due: Vec<String> = due.map(|(_, group_id)| group_id.clone()).collect();
        for group_id in due {
            let mut turn = Turn { now, wall, rules: self.rules, catalog, out };
            self.with_classic(&group_id, |group| group.expire(&mut turn));
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
            self.classic_or_new(group_id);
            self.with_classic(group_id, |group| group.apply_simple(at));
        }
    }

    /// Topics and their partitions are known to every group by way of the catalog; their changes are events.
    pub(crate) fn apply_catalog(&mut self, record: &CatalogRecord) {
        match record {
            CatalogRecord::TopicCreated(_)
            | CatalogRecord::TopicDeleted(_)
            | CatalogRecord::PartitionsAdded(_) => {
                self.groups.values_mut().for_each(|group| group.catalog_changed(record));
            }
            CatalogRecord::ClusterCreated(_)
            | CatalogRecord::TopicConfigured(_)
            | CatalogRecord::BrokerConfigured(_) => {}
        }
    }

    fn apply_updated(&mut self, updated: &ClassicGroupUpdated) {
        self.classic_or_new(&updated.group_id);
        let proposed = self.groups.get(&updated.group_id).is_some_and(Group::has_proposed);
        self.with_classic(&updated.group_id, |group| group.apply(updated));
        if !proposed && !updated.members.is_empty() {
            self.restored.insert(updated.group_id.clone());
        }
    }

    /// The log refused a record of the last step. A group that decided what was not stored is again as its last stored
    /// generation left it, as after a restart; returns whose requests it had held.
    pub(crate) fn refused(&mut self) -> Vec<TicketId> {
        let undone = self.groups.extract_if(.., |_, group| group.has_proposed());
        let undone: Vec<(String, Group)> = undone.collect();
        let mut waiting = Vec::new();
        for (group_id, Group::Classic(group)) in undone {
            group.next.map(|at| self.timers.remove(&(at, group_id)));
            waiting.extend(group.tickets());
            if let Some(stored) = &group.stored {
                self.apply_updated(stored);
            }
        }
        waiting
    }

    fn apply_deleted(&mut self, deleted: &GroupDeleted) {
        self.restored.remove(&deleted.group_id);
        if let Some(group) = self.groups.remove(&deleted.group_id)
            && let Some(at) = group.next_timer()
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
        let stored = self.classic(group_id).and_then(|group| group.stored.clone());
        rows.extend(stored.map(LogRecord::from));
    }

    /// The stored state of every classic group, by id.
    pub(crate) fn stored(&self) -> impl Iterator<Item = &ClassicGroupUpdated> {
        self.groups.values().filter_map(|Group::Classic(group)| group.stored.as_ref())
    }

    /// Sees to it that a group of this id exists: a new one is classic.
    fn classic_or_new(&mut self, group_id: &str) {
        if !self.groups.contains_key(group_id) {
            let group = Group::Classic(ClassicGroup::new(group_id));
            self.groups.insert(group_id.to_owned(), group);
        }
    }

    /// Runs an event on a classic group; see [`Groups::with`].
    fn with_classic<T>(&mut self, group_id: &str, event: impl FnOnce(&mut ClassicGroup) -> T) -> Option<T> {
        self.with(group_id, |Group::Classic(group)| event(group))
    }

    /// Runs an event on a group, then updates the table of timers. None if there is no such group.
    fn with<T>(&mut self, group_id: &str, event: impl FnOnce(&mut Group) -> T) -> Option<T> {
        let group = self.groups.get_mut(group_id)?;
        let before = group.next_timer();
        let result = event(group);
        let next = group.next_timer();
        if next != before {
            before.map(|at| self.timers.remove(&(at, group_id.to_owned())));
            next.map(|at| self.timers.insert((at, group_id.to_owned())));
        }
        if group.is_nothing() {
            next.map(|at| self.timers.remove(&(at, group_id.to_owned())));
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
