//! Reads a stream as frames: whole frames as far as memory allows, and the beginning of larger ones.

use bytes::{Buf, Bytes, BytesMut};
use std::io;
use std::sync::Arc;
use tokio::io::{AsyncRead, AsyncReadExt};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Larger frames are relayed without being kept.
pub(crate) const MAX_KEPT: usize = 100 << 20;
/// Frames up to this size are kept without a reservation.
const UNBUDGETED: usize = 1 << 20;
/// Bytes that all larger frames together may take.
const BUDGET: usize = 256 << 20;
/// The budget is counted in units of so many bytes.
const UNIT: usize = 1 << 10;
/// Bytes that are kept of a frame that is not kept whole.
const KEPT_HEAD: usize = 1 << 10;
/// Bytes of one read from the socket.
const MAX_READ: usize = 64 << 10;
const MIN_READ: usize = 4 << 10;
/// Bytes of the size in front of a frame.
const SIZE: usize = 4;

/// The memory that large frames share.
#[derive(Clone, Debug)]
pub(crate) struct Budget(Arc<Semaphore>);

impl Default for Budget {
    fn default() -> Budget {
        Budget(Arc::new(Semaphore::new(BUDGET / UNIT)))
    }
}

impl Budget {
    /// Reserves memory for a frame until the reservation is dropped; `None` if the frame must not be kept whole.
    fn reserve(&self, size: usize) -> Option<Reservation> {
        match size {
            0..=UNBUDGETED => Some(Reservation(None)),
            _ if size > MAX_KEPT => None,
            _ => {
                let units = u32::try_from(size.div_ceil(UNIT)).ok()?;
                Some(Reservation(Some(Arc::new(self.0.clone().try_acquire_many_owned(units).ok()?))))
            }
        }
    }
}

/// The part of the budget that a frame takes; released when the last clone is dropped.
#[derive(Clone, Debug)]
pub(crate) struct Reservation(
    #[expect(dead_code, reason = "held for its drop")] Option<Arc<OwnedSemaphorePermit>>,
);

/// A frame, or the beginning of one that is not kept whole.
#[derive(Debug)]
pub(crate) struct KeptFrame {
    /// Its bytes, the size in front included.
    pub(crate) bytes: Bytes,
    /// Bytes of it that are still to be read from the stream: 0 if it is whole.
    pub(crate) unread: usize,
    /// Its part of the budget, if it is whole.
    pub(crate) reservation: Option<Reservation>,
}

impl KeptFrame {
    /// Bytes of the whole frame.
    pub(crate) fn size(&self) -> usize {
        self.bytes.len() + self.unread
    }
}

/// The next item of a stream.
#[derive(Debug)]
pub(crate) enum StreamItem {
    /// A frame, or the beginning of one.
    Frame(KeptFrame),
    /// A size that no frame has, with the bytes read so far. The rest of the stream cannot be split into frames.
    NotAFrame(Bytes),
    /// The end of the stream, with the bytes of a frame that did not arrive whole.
    End(Bytes),
}

/// One direction of a connection, read as frames.
#[derive(Debug)]
pub(crate) struct FrameReader<R> {
    from: R,
    buffer: BytesMut,
    budget: Budget,
}

impl<R: AsyncRead + Unpin> FrameReader<R> {
    pub(crate) fn new(from: R, budget: Budget) -> FrameReader<R> {
        FrameReader { from, buffer: BytesMut::new(), budget }
    }

    /// The stream, for reading what follows the buffer.
    pub(crate) fn stream(&mut self) -> &mut R {
        &mut self.from
    }

    /// Reads until the buffer holds `count` bytes, and returns them without consuming them; fewer at the end of the
    /// stream.
    pub(crate) async fn peek(&mut self, count: usize) -> io::Result<&[u8]> {
        self.fill(count).await?;
        Ok(&self.buffer[..self.buffer.len().min(count)])
    }

    /// Takes the bytes that were read and belong to no item yet.
    pub(crate) fn take_buffer(&mut self) -> Bytes {
        self.buffer.split().freeze()
    }

    /// Reads the next item. Memory grows with the bytes that arrive, not with the size that a frame claims.
    pub(crate) async fn next(&mut self) -> io::Result<StreamItem> {
        if !self.fill(SIZE).await? {
            return Ok(StreamItem::End(self.take_buffer()));
        }
        let Ok(size) = usize::try_from((&self.buffer[..SIZE]).get_i32()) else {
            return Ok(StreamItem::NotAFrame(self.take_buffer()));
        };
        let whole = SIZE + size;
        let reservation = self.budget.reserve(whole);
        let needed = if reservation.is_some() { whole } else { KEPT_HEAD };
        if !self.fill(needed).await? {
            return Ok(StreamItem::End(self.take_buffer()));
        }
        let kept = if reservation.is_some() { whole } else { self.buffer.len().min(whole) };
        let bytes = self.buffer.split_to(kept).freeze();
        Ok(StreamItem::Frame(KeptFrame { bytes, unread: whole - kept, reservation }))
    }

    /// Reads until the buffer holds `count` bytes; false at the end of the stream.
    async fn fill(&mut self, count: usize) -> io::Result<bool> {
        while self.buffer.len() < count {
            let missing = count - self.buffer.len();
            self.buffer.reserve(missing.clamp(MIN_READ, MAX_READ));
            if self.from.read_buf(&mut self.buffer).await? == 0 {
                return Ok(false);
            }
        }
        Ok(true)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn items(bytes: &[u8]) -> Vec<StreamItem> {
        let mut frames = FrameReader::new(bytes, Budget::default());
        let mut items = Vec::new();
        loop {
            items.push(frames.next().await.unwrap());
            match items.last() {
                Some(StreamItem::Frame(KeptFrame { unread: 0, .. })) => {}
                _ => return items,
            }
        }
    }

    #[tokio::test]
    async fn a_stream_is_cut_at_the_sizes() {
        let items = items(b"\0\0\0\x02ab\0\0\0\0\0\0\0\x03de").await;
        let [StreamItem::Frame(one), StreamItem::Frame(two), StreamItem::End(rest)] = &items[..] else {
            panic!("{items:?}")
        };
        assert_eq!((&one.bytes[..], &two.bytes[..]), (&b"\0\0\0\x02ab"[..], &b"\0\0\0\0"[..]));
        assert_eq!(&rest[..], b"\0\0\0\x03de");
    }

    #[tokio::test]
    async fn a_negative_size_ends_the_frames() {
        let items = items(b"\xff\0\0\0more").await;
        assert!(matches!(&items[..], [StreamItem::NotAFrame(rest)] if &rest[..] == b"\xff\0\0\0more"));
    }

    #[tokio::test]
    async fn of_a_large_frame_the_beginning_comes_out() {
        let size = (MAX_KEPT as u32 + 1).to_be_bytes();
        let items = items(&[&size[..], &[7; 5000]].concat()).await;
        let [StreamItem::Frame(head)] = &items[..] else { panic!("{items:?}") };
        assert!(head.bytes.len() >= KEPT_HEAD && head.reservation.is_none());
        assert_eq!(head.size(), SIZE + MAX_KEPT + 1);
    }

    #[tokio::test]
    async fn a_frame_that_does_not_fit_the_budget_is_not_kept() {
        let budget = Budget::default();
        let held: Vec<Reservation> = (0..2).filter_map(|_| budget.reserve(MAX_KEPT)).collect();
        assert_eq!(held.len(), 2);
        assert!(budget.reserve(MAX_KEPT).is_none());
        assert!(budget.reserve(UNBUDGETED).is_some());
        drop(held);
        assert!(budget.reserve(MAX_KEPT).is_some());
    }
}
