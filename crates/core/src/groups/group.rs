//! A group of any kind. A group id belongs to one kind at a time.

use super::classic::ClassicGroup;
use super::view::{GroupListing, GroupView};
use ottla_types::Millis;
use ottla_types::record::CatalogRecord;

/// A group.
#[derive(Debug)]
pub(crate) enum Group {
    /// Its members elect a leader, which assigns the partitions.
    Classic(ClassicGroup),
}

impl Group {
    /// No timer of the group is due before this.
    pub(super) fn next_timer(&self) -> Option<Millis> {
        match self {
            Group::Classic(group) => group.next,
        }
    }

    /// True if nothing would be lost by forgetting the group.
    pub(super) fn is_nothing(&self) -> bool {
        match self {
            Group::Classic(group) => group.is_nothing(),
        }
    }

    /// True if a step has proposed a record of it that is not applied yet.
    pub(super) fn has_proposed(&self) -> bool {
        match self {
            Group::Classic(group) => !group.is_settled(),
        }
    }

    /// Memory that its members take, in bytes.
    pub(super) fn bytes(&self) -> usize {
        match self {
            Group::Classic(group) => group.bytes(),
        }
    }

    pub(super) fn start_sessions(&mut self, now: Millis) {
        match self {
            Group::Classic(group) => group.start_sessions(now),
        }
    }

    /// A topic was created, has more partitions, or was deleted. The clients of a classic group find out by themselves.
    pub(super) fn catalog_changed(&mut self, _record: &CatalogRecord) {
        match self {
            Group::Classic(_) => {}
        }
    }

    pub(super) fn listing(&self) -> GroupListing<'_> {
        match self {
            Group::Classic(group) => group.listing(),
        }
    }

    pub(super) fn describe(&self) -> GroupView {
        match self {
            Group::Classic(group) => group.describe(),
        }
    }
}
