//! A cache of recent groups, for readers at the end of the log.
//!
//! The memory of a group that was dropped counts as long as a reader holds bytes of it. Fewer groups are kept then, so
//! that slow readers do not make the memory grow.

use crate::buffer::Buffer;
use bytes::Bytes;
use std::collections::VecDeque;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, PoisonError, RwLock};

/// Approximate memory of a small group in addition to its bytes.
const GROUP_OVERHEAD: usize = 128;

/// The recent groups by position, oldest first, up to a number of bytes.
#[derive(Debug)]
pub(crate) struct RecentGroups {
    limit: usize,
    /// Memory of groups that are kept or still held by readers.
    held: Arc<AtomicUsize>,
    /// The part of the limit that is reserved for another use.
    reserved: Arc<AtomicUsize>,
    recent: RwLock<VecDeque<Group>>,
}

#[derive(Debug)]
struct Group {
    position: u64,
    bytes: Bytes,
}

/// The memory of a group, counted until the last holder drops it.
struct AccountedBytes<T> {
    bytes: T,
    cost: usize,
    held: Arc<AtomicUsize>,
}

impl<T: AsRef<[u8]> + Send + 'static> AccountedBytes<T> {
    fn share(bytes: T, cost: usize, held: &Arc<AtomicUsize>) -> Bytes {
        held.fetch_add(cost, Relaxed);
        Bytes::from_owner(AccountedBytes { bytes, cost, held: Arc::clone(held) })
    }
}

impl<T: AsRef<[u8]>> AsRef<[u8]> for AccountedBytes<T> {
    fn as_ref(&self) -> &[u8] {
        self.bytes.as_ref()
    }
}

impl<T> Drop for AccountedBytes<T> {
    fn drop(&mut self) {
        self.held.fetch_sub(self.cost, Relaxed);
    }
}

/// A part of the memory for recent groups that is reserved for another use, until this is dropped.
#[derive(Debug)]
pub struct MemoryReservation {
    reserved: Arc<AtomicUsize>,
    bytes: usize,
}

impl Drop for MemoryReservation {
    fn drop(&mut self) {
        self.reserved.fetch_sub(self.bytes, Relaxed);
    }
}

impl RecentGroups {
    pub(crate) fn new(limit: usize) -> RecentGroups {
        RecentGroups { limit, held: Arc::default(), reserved: Arc::default(), recent: RwLock::default() }
    }

    /// Adds the group at `position`, which is after all others.
    pub(crate) fn push(&self, position: u64, group: Buffer) {
        // A small group in a large buffer is copied, so that the buffer can be used again.
        let copies = group.capacity() >= 4 * group.len();
        let cost = if copies { group.len() + GROUP_OVERHEAD } else { group.capacity() };
        let mut recent = self.recent.write().unwrap_or_else(PoisonError::into_inner);
        if !self.make_space(&mut recent, cost) {
            return;
        }
        let bytes = if copies {
            AccountedBytes::share(group.as_ref().to_vec(), cost, &self.held)
        } else {
            AccountedBytes::share(group, cost, &self.held)
        };
        recent.push_back(Group { position, bytes });
    }

    /// Drops the oldest groups until `cost` bytes fit; false if they do not fit even without any group.
    fn make_space(&self, recent: &mut VecDeque<Group>, cost: usize) -> bool {
        let limit = self.limit.saturating_sub(self.reserved.load(Relaxed));
        let fits = || self.held.load(Relaxed) + cost <= limit;
        // A group that is larger than the limit does not evict others.
        while !fits() && cost <= limit && recent.pop_front().is_some() {}
        fits()
    }

    /// Reserves a part of the limit until the reservation is dropped.
    pub(crate) fn reserve(&self, bytes: usize) -> MemoryReservation {
        self.reserved.fetch_add(bytes, Relaxed);
        let reservation = MemoryReservation { reserved: Arc::clone(&self.reserved), bytes };
        let mut recent = self.recent.write().unwrap_or_else(PoisonError::into_inner);
        self.make_space(&mut recent, 0);
        reservation
    }

    /// The bytes from `position` on, if the group that holds all of them is kept.
    pub(crate) fn get(&self, position: u64, len: usize) -> Option<Bytes> {
        let recent = self.recent.read().unwrap_or_else(PoisonError::into_inner);
        let after = recent.partition_point(|group| group.position <= position);
        let group = recent.get(after.checked_sub(1)?)?;
        let start = usize::try_from(position - group.position).ok()?;
        let end = start.checked_add(len)?;
        (end <= group.bytes.len()).then(|| group.bytes.slice(start..end))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::buffer::Pool;

    fn group(len: usize, byte: u8) -> Buffer {
        let mut buffer = Pool::new(0).take(len);
        buffer.resize(len);
        buffer.as_mut().fill(byte);
        buffer
    }

    #[test]
    fn finds_ranges_inside_one_group() {
        let recent = RecentGroups::new(1 << 20);
        recent.push(4096, group(4096, 1));
        recent.push(8192, group(8192, 2));
        assert_eq!(recent.get(4096, 4096).unwrap(), vec![1; 4096]);
        assert_eq!(recent.get(9000, 10).unwrap(), vec![2; 10]);
        assert_eq!(recent.get(0, 1), None);
        assert_eq!(recent.get(8190, 4), None);
        assert_eq!(recent.get(16384, 1), None);
    }

    #[test]
    fn the_oldest_go_first_and_what_readers_keep_is_counted() {
        let recent = RecentGroups::new(192 << 10);
        recent.push(0, group(64 << 10, 0));
        let kept = recent.get(0, 10).unwrap();
        for at in 1..4u8 {
            recent.push(u64::from(at) << 16, group(64 << 10, at));
        }
        let there = || (0..4u64).filter(|at| recent.get(at << 16, 10).is_some()).collect::<Vec<_>>();
        assert_eq!(kept, vec![0; 10]);
        assert_eq!(there(), [2, 3], "beside the one that is held");
        drop(kept);
        recent.push(4 << 16, group(64 << 10, 4));
        assert_eq!(there(), [2, 3]);
        assert_eq!(recent.held.load(Relaxed), 192 << 10);
    }

    #[test]
    fn what_is_lent_is_not_used() {
        let recent = RecentGroups::new(192 << 10);
        for at in 0..3 {
            recent.push(at << 16, group(64 << 10, 1));
        }
        let reservation = recent.reserve(128 << 10);
        assert_eq!(recent.held.load(Relaxed), 64 << 10);
        let all = recent.reserve(1 << 30);
        recent.push(3 << 16, group(64 << 10, 1));
        assert_eq!(recent.held.load(Relaxed), 0);
        drop((reservation, all));
        recent.push(4 << 16, group(64 << 10, 1));
        assert!(recent.get(4 << 16, 1).is_some());
    }

    #[test]
    fn a_ring_of_nothing_keeps_nothing() {
        let recent = RecentGroups::new(0);
        recent.push(0, group(4096, 0));
        assert_eq!(recent.get(0, 1), None);
    }
}
