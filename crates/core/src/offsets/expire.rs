//! Old offsets, and groups that have nothing left (T-190).

use super::Offsets;
use crate::catalog::Catalog;
use crate::effect::Effects;
use crate::groups::Groups;
use ottla_types::record::{ClassicGroupUpdated, GroupDeleted, OffsetsDeleted};
use ottla_types::{Millis, TopicPartition};

impl Offsets {
    /// Looks for old offsets if it is time. `wall` is the wall time at `now`: offsets are judged by it.
    pub(crate) fn tick(
        &mut self,
        (now, wall): (Millis, Millis),
        others: (&Catalog, &Groups),
        out: &mut Effects,
    ) {
        let (catalog, groups) = others;
        let interval = catalog.settings().offsets_retention_check_interval;
        match self.next_expiry {
            Some(at) if at > now => return,
            Some(_) => groups.stored().for_each(|stored| self.expire_group(wall, stored, others, out)),
            None => {}
        }
        self.next_expiry = Some(now.after(interval));
    }

    /// No offset expires before this span is over.
    pub(crate) fn postpone(&mut self, now: Millis, span: Millis) {
        self.next_expiry = Some(now.after(span));
    }

    /// When old offsets have to be looked for; at once after start, to begin the interval.
    pub(crate) fn deadline(&self, groups: &Groups) -> Option<Millis> {
        groups.stored().next()?;
        Some(self.next_expiry.unwrap_or_default())
    }

    fn expire_group(
        &self,
        wall: Millis,
        stored: &ClassicGroupUpdated,
        others: (&Catalog, &Groups),
        out: &mut Effects,
    ) {
        let Some(group) = others.1.classic(&stored.group_id).filter(|group| group.is_settled()) else {
            return;
        };
        let (old, left) = self.old_offsets(wall, stored, others);
        if left == 0 && group.is_idle() {
            let group_id = stored.group_id.clone();
            out.append(GroupDeleted { group_id });
        } else if !old.is_empty() {
            let group_id = stored.group_id.clone();
            out.append(OffsetsDeleted { group_id, partitions: old });
        }
    }

    /// The partitions whose offsets are past retention, and how many offsets stay. Time counts from the commit; in a
    /// group that had members, from when it lost the last. Staged offsets stay and keep their partition's committed
    /// one.
    fn old_offsets(
        &self,
        wall: Millis,
        stored: &ClassicGroupUpdated,
        (catalog, groups): (&Catalog, &Groups),
    ) -> (Vec<TopicPartition>, usize) {
        let (Some(group), Some(offsets)) =
            (groups.classic(&stored.group_id), self.groups.get(&stored.group_id))
        else {
            return (Vec::new(), 0);
        };
        let staged = offsets.staged.values().map(|staged| staged.len()).sum::<usize>();
        let by_commit = stored.protocol_type.is_none() || !group.is_empty();
        let judgeable = group.is_empty() || (group.is_stable() && group.knows_subscription());
        if !judgeable {
            return (Vec::new(), offsets.committed.len() + staged);
        }
        let retention = catalog.settings().offsets_retention;
        let is_old = |partition: &TopicPartition, commit: Millis| {
            let since = if by_commit { commit } else { stored.at };
            let topic = catalog.topic(partition.topic);
            let subscribed = topic.is_some_and(|topic| group.is_subscribed(&topic.name));
            wall.since(since) >= retention && !subscribed && !offsets.is_staged(*partition)
        };
        let old = offsets.committed.iter().filter(|(partition, placed)| is_old(partition, placed.value.at));
        let old: Vec<TopicPartition> = old.map(|(partition, _)| *partition).collect();
        let left = offsets.committed.len() - old.len() + staged;
        (old, left)
    }
}
