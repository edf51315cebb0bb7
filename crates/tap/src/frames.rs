//! A stream cut into frames: whole ones as far as memory allows, of the others the beginning.

use bytes::{Buf, Bytes, BytesMut};
use std::io;
use std::sync::Arc;
use tokio::io::{AsyncRead, AsyncReadExt};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Larger frames pass without being kept.
pub(crate) const MAX_KEPT: usize = 100 << 20;
/// FrameReader up to this size are kept without asking the budget.
const UNBUDGETED: usize = 1 << 20;
/// What all larger frames that are under way may take together.
const BUDGET: usize = 256 << 20;
/// The budget is counted in pieces of this size.
const UNIT: usize = 1 << 10;
/// What is kept of a frame that is not kept whole.
const KEPT_HEAD: usize = 1 << 10;
/// How much is asked of the socket at a time.
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
    /// Reservation for a frame, until what comes back is dropped; `None` when it is not to be kept whole.
    fn reservation(&self, size: usize) -> Option<Reservation> {
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

/// The part of the budget that a frame has; given back when the last clone is dropped.
#[derive(Clone, Debug)]
pub(crate) struct Reservation(
    #[expect(dead_code, reason = "held for its drop")] Option<Arc<OwnedSemaphorePermit>>,
);

/// A frame as far as it is kept.
#[derive(Debug)]
pub(crate) struct KeptFrame {
    /// Its bytes, the size included.
    pub(crate) bytes: Bytes,
    /// How many bytes of it are still to come: 0 when it is whole.
    pub(crate) unread: usize,
    /// Its part of the budget, when it is whole.
    pub(crate) reservation: Option<Reservation>,
}

impl KeptFrame {
    /// The bytes of the whole frame.
    pub(crate) fn size(&self) -> usize {
        self.bytes.len() + self.unread
    }
}

/// What comes next on a stream.
#[derive(Debug)]
pub(crate) enum StreamItem {
    /// A frame, or the beginning of one.
    Frame(KeptFrame),
    /// A size that no frame has: what was read of it and after it. What follows is unknown.
    NotAFrame(Bytes),
    /// The end of the stream, with what was read of a frame that did not arrive whole.
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

    /// The stream behind what was read of it.
    pub(crate) fn stream(&mut self) -> &mut R {
        &mut self.from
    }

    /// Reads until so many bytes are there to look at; fewer at the end of the stream.
    pub(crate) async fn peek(&mut self, count: usize) -> io::Result<&[u8]> {
        self.fill(count).await?;
        Ok(&self.buffer[..self.buffer.len().min(count)])
    }

    /// What was read and not yet given out.
    pub(crate) fn take_buffer(&mut self) -> Bytes {
        self.buffer.split().freeze()
    }

    /// The next piece. Memory grows with what arrives, not with what a size claims.
    pub(crate) async fn next(&mut self) -> io::Result<StreamItem> {
        if !self.fill(SIZE).await? {
            return Ok(StreamItem::End(self.take_buffer()));
        }
        let Ok(size) = usize::try_from((&self.buffer[..SIZE]).get_i32()) else {
            return Ok(StreamItem::NotAFrame(self.take_buffer()));
        };
        let whole = SIZE + size;
        let reservation = self.budget.reservation(whole);
        let wanted = if reservation.is_some() { whole } else { KEPT_HEAD };
        if !self.fill(wanted).await? {
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

    async fn pieces(bytes: &[u8]) -> Vec<StreamItem> {
        let mut frames = FrameReader::new(bytes, Budget::default());
        let mut pieces = Vec::new();
        loop {
            pieces.push(frames.next().await.unwrap());
            match pieces.last() {
                Some(StreamItem::Frame(KeptFrame { unread: 0, .. })) => {}
                _ => return pieces,
            }
        }
    }

    #[tokio::test]
    async fn a_stream_is_cut_at_the_sizes() {
        let pieces = pieces(b"\0\0\0\x02ab\0\0\0\0\0\0\0\x03de").await;
        let [StreamItem::Frame(one), StreamItem::Frame(two), StreamItem::End(rest)] = &pieces[..] else {
            panic!("{pieces:?}")
        };
        assert_eq!((&one.bytes[..], &two.bytes[..]), (&b"\0\0\0\x02ab"[..], &b"\0\0\0\0"[..]));
        assert_eq!(&rest[..], b"\0\0\0\x03de");
    }

    #[tokio::test]
    async fn a_negative_size_ends_the_frames() {
        let pieces = pieces(b"\xff\0\0\0more").await;
        assert!(matches!(&pieces[..], [StreamItem::NotAFrame(rest)] if &rest[..] == b"\xff\0\0\0more"));
    }

    #[tokio::test]
    async fn of_a_large_frame_the_beginning_comes_out() {
        let size = (MAX_KEPT as u32 + 1).to_be_bytes();
        let pieces = pieces(&[&size[..], &[7; 5000]].concat()).await;
        let [StreamItem::Frame(head)] = &pieces[..] else { panic!("{pieces:?}") };
        assert!(head.bytes.len() >= KEPT_HEAD && head.reservation.is_none());
        assert_eq!(head.size(), SIZE + MAX_KEPT + 1);
    }

    #[tokio::test]
    async fn a_frame_that_does_not_fit_the_budget_is_not_kept() {
        let budget = Budget::default();
        let held: Vec<Reservation> = (0..2).filter_map(|_| budget.reservation(MAX_KEPT)).collect();
        assert_eq!(held.len(), 2);
        assert!(budget.reservation(MAX_KEPT).is_none());
        assert!(budget.reservation(UNBUDGETED).is_some());
        drop(held);
        assert!(budget.reservation(MAX_KEPT).is_some());
    }
}
