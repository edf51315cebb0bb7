//! Large buffers aligned to 4 KiB, as O_DIRECT requires. They are pooled, because newly allocated memory costs a page
//! fault every 4 KiB.

use ottla_layout::{BLOCK, align_up};
use std::sync::{Arc, Mutex, PoisonError};

const ALIGN: usize = BLOCK as usize;
/// The smallest capacity of a buffer, in bytes.
const SMALLEST: usize = 64 << 10;

/// Rounds up to a power of two or to the middle between two of them, so that a returned buffer fits later requests of a
/// similar size.
fn size_class(capacity: usize) -> usize {
    let power = capacity.max(SMALLEST).next_power_of_two();
    let half_step = power / 4 * 3;
    if (SMALLEST..=half_step).contains(&capacity) { half_step } else { power }
}

/// Keeps returned memory for the next buffer, up to a limit.
#[derive(Debug)]
pub(crate) struct Pool {
    limit: usize,
    spare: Mutex<Vec<Vec<u8>>>,
}

impl Pool {
    /// A pool that keeps at most `limit` bytes of unused memory.
    pub(crate) fn new(limit: usize) -> Arc<Pool> {
        Arc::new(Pool { limit, spare: Mutex::new(Vec::new()) })
    }

    /// An empty buffer with capacity for at least `capacity` bytes.
    pub(crate) fn take(self: &Arc<Pool>, capacity: usize) -> Buffer {
        let capacity = size_class(capacity);
        let memory = self.reuse(capacity).unwrap_or_else(|| vec![0; capacity + ALIGN]);
        let start = memory.as_ptr().align_offset(ALIGN).min(ALIGN);
        Buffer { pool: Arc::clone(self), memory, start, len: 0 }
    }

    fn reuse(&self, capacity: usize) -> Option<Vec<u8>> {
        let mut spare = self.spare.lock().unwrap_or_else(PoisonError::into_inner);
        let found = spare.iter().position(|memory| memory.len() == capacity + ALIGN)?;
        Some(spare.swap_remove(found))
    }

    fn put_back(&self, memory: Vec<u8>) {
        let mut spare = self.spare.lock().unwrap_or_else(PoisonError::into_inner);
        let kept: usize = spare.iter().map(Vec::len).sum();
        if kept + memory.len() <= self.limit {
            spare.push(memory);
        }
    }
}

/// A buffer aligned to 4 KiB. Dropping it returns its memory to the pool.
#[derive(Debug)]
pub(crate) struct Buffer {
    pool: Arc<Pool>,
    /// Never reallocated, so that the start stays aligned.
    memory: Vec<u8>,
    start: usize,
    len: usize,
}

impl Buffer {
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    pub(crate) fn capacity(&self) -> usize {
        self.memory.len() - ALIGN
    }

    /// Appends `bytes`.
    pub(crate) fn write(&mut self, bytes: &[u8]) {
        let end = self.len + bytes.len();
        self.reserve(end);
        self.memory[self.start + self.len..self.start + end].copy_from_slice(bytes);
        self.len = end;
    }

    /// Sets the length; bytes that are new are zero.
    pub(crate) fn resize(&mut self, len: usize) {
        self.reserve(len);
        if len > self.len {
            self.memory[self.start + self.len..self.start + len].fill(0);
        }
        self.len = len;
    }

    /// Sets the length. The content is undefined until a read has overwritten it.
    pub(crate) fn resize_for_read(&mut self, len: usize) {
        if len > self.capacity() {
            self.len = 0;
            self.reserve(len);
        }
        self.len = len;
    }

    /// Pads with zeros to a whole number of blocks.
    pub(crate) fn pad(&mut self) {
        self.resize(align_up(self.len as u64) as usize);
    }

    fn reserve(&mut self, capacity: usize) {
        if capacity <= self.capacity() {
            return;
        }
        let mut larger = self.pool.take(capacity);
        larger.memory[larger.start..larger.start + self.len].copy_from_slice(self.as_ref());
        larger.len = self.len;
        std::mem::swap(self, &mut larger);
    }
}

impl AsRef<[u8]> for Buffer {
    fn as_ref(&self) -> &[u8] {
        &self.memory[self.start..self.start + self.len]
    }
}

impl AsMut<[u8]> for Buffer {
    fn as_mut(&mut self) -> &mut [u8] {
        &mut self.memory[self.start..self.start + self.len]
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        self.pool.put_back(std::mem::take(&mut self.memory));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn starts_on_a_boundary_and_keeps_its_bytes_when_it_grows() {
        let pool = Pool::new(1 << 20);
        let mut buffer = pool.take(10);
        let mut expected = Vec::new();
        for round in 0..40u8 {
            buffer.write(&[round; 7001]);
            expected.extend([round; 7001]);
            assert_eq!(buffer.as_ref().as_ptr().align_offset(ALIGN), 0);
        }
        assert_eq!(buffer.as_ref(), expected);
        buffer.pad();
        assert_eq!(buffer.len() % ALIGN, 0);
        assert!(buffer.as_ref()[expected.len()..].iter().all(|byte| *byte == 0));
    }

    #[test]
    fn memory_is_used_again_and_padding_is_clean() {
        let pool = Pool::new(1 << 20);
        let mut first = pool.take(1);
        first.write(&[0xff; 5000]);
        drop(first);
        let mut second = pool.take(1);
        assert!(pool.spare.lock().unwrap().is_empty());
        second.write(&[1]);
        second.pad();
        assert_eq!(second.as_ref()[1..], [0; 4095]);
    }

    #[test]
    fn sizes_come_in_classes() {
        let kib = |size: usize| size_class(size << 10) >> 10;
        assert_eq!([0, 1, 64, 65, 96, 97, 1025].map(kib), [64, 64, 64, 96, 96, 128, 1536]);
    }

    #[test]
    fn no_more_is_kept_than_allowed() {
        let pool = Pool::new(100 << 10);
        let buffers = [pool.take(1), pool.take(1), pool.take(1)];
        drop(buffers);
        assert_eq!(pool.spare.lock().unwrap().len(), 1);
    }
}
