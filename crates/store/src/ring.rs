//! Recent groups in memory, for readers at the tail.

use crate::buffer::Buffer;
use bytes::Bytes;
use std::collections::VecDeque;
use std::sync::{PoisonError, RwLock};

/// Memory that a small group takes beside its bytes, about.
const BESIDE: usize = 128;

/// Groups by position, oldest first, up to a number of bytes. Empty until something is written.
#[derive(Debug)]
pub(crate) struct Ring {
    limit: usize,
    recent: RwLock<Recent>,
}

#[derive(Debug, Default)]
struct Recent {
    groups: VecDeque<Group>,
    bytes: usize,
}

#[derive(Debug)]
struct Group {
    position: u64,
    bytes: Bytes,
    /// Memory that the group holds.
    cost: usize,
}

impl Ring {
    pub(crate) fn new(limit: usize) -> Ring {
        Ring { limit, recent: RwLock::default() }
    }

    /// Adds the group at `position`, which lies behind all others.
    pub(crate) fn push(&self, position: u64, group: Buffer) {
        if group.len() > self.limit {
            return;
        }
        // A small group in a large buffer is copied, so that the buffer can be used again.
        let (bytes, cost) = if group.capacity() >= 4 * group.len() {
            (Bytes::copy_from_slice(group.as_ref()), group.len() + BESIDE)
        } else {
            let cost = group.capacity();
            (Bytes::from_owner(group), cost)
        };
        let mut recent = self.recent.write().unwrap_or_else(PoisonError::into_inner);
        recent.bytes += cost;
        recent.groups.push_back(Group { position, bytes, cost });
        while recent.bytes > self.limit
            && let Some(oldest) = recent.groups.pop_front()
        {
            recent.bytes -= oldest.cost;
        }
    }

    /// The bytes from `position` on, if the group that holds them all is still here.
    pub(crate) fn get(&self, position: u64, len: usize) -> Option<Bytes> {
        let recent = self.recent.read().unwrap_or_else(PoisonError::into_inner);
        let after = recent.groups.partition_point(|group| group.position <= position);
        let group = recent.groups.get(after.checked_sub(1)?)?;
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
        let ring = Ring::new(1 << 20);
        ring.push(4096, group(4096, 1));
        ring.push(8192, group(8192, 2));
        assert_eq!(ring.get(4096, 4096).unwrap(), vec![1; 4096]);
        assert_eq!(ring.get(9000, 10).unwrap(), vec![2; 10]);
        assert_eq!(ring.get(0, 1), None);
        assert_eq!(ring.get(8190, 4), None);
        assert_eq!(ring.get(16384, 1), None);
    }

    #[test]
    fn the_oldest_go_first_and_readers_keep_theirs() {
        let ring = Ring::new(192 << 10);
        ring.push(0, group(64 << 10, 0));
        let kept = ring.get(0, 10).unwrap();
        for at in 1..4u8 {
            ring.push(u64::from(at) << 16, group(64 << 10, at));
        }
        assert_eq!(ring.get(0, 10), None);
        assert_eq!(kept, vec![0; 10]);
        assert!(ring.get(3 << 16, 10).is_some());
    }

    #[test]
    fn a_ring_of_nothing_keeps_nothing() {
        let ring = Ring::new(0);
        ring.push(0, group(4096, 0));
        assert_eq!(ring.get(0, 1), None);
    }
}
