//! Writes answers to a socket, without joining their chunks.

use super::Hold;
use bytes::{Buf, Bytes};
use std::collections::VecDeque;
use std::io::{self, IoSlice};
use std::time::Duration;
use thiserror::Error;
use tokio::io::{AsyncWrite, AsyncWriteExt};
use tokio::time::timeout;

/// How much must be accepted within the time given to [`Outbox::flush`].
const STALL_STEP: usize = 64 << 10;
/// How long a peer may take before chunks are copied, so that what they are parts of can be freed.
const PATIENCE: Duration = Duration::from_secs(1);
/// Chunks handed to the kernel at once.
const SLICES: usize = 256;

/// Why an answer could not be written.
#[derive(Debug, Error)]
pub(crate) enum Undelivered {
    #[error("the peer accepted too little of an answer within {} s, {left} bytes are left", .stall.as_secs())]
    Stalled { left: usize, stall: Duration },
    #[error("writing failed: {0}")]
    Io(#[from] io::Error),
}

/// The writing half of a connection.
#[derive(Debug)]
pub(crate) struct Outbox<W> {
    sink: W,
    chunks: VecDeque<Bytes>,
    left: usize,
    holds: Vec<Hold>,
}

impl<W: AsyncWrite + Unpin> Outbox<W> {
    pub(crate) fn new(sink: W) -> Outbox<W> {
        Outbox { sink, chunks: VecDeque::new(), left: 0, holds: Vec::new() }
    }

    /// Takes an answer to be written by the next [`Outbox::flush`].
    pub(crate) fn push(&mut self, chunks: Vec<Bytes>, hold: Option<Hold>) {
        self.holds.extend(hold);
        for chunk in chunks.into_iter().filter(|chunk| !chunk.is_empty()) {
            self.left += chunk.len();
            self.chunks.push_back(chunk);
        }
    }

    /// Writes all that was pushed; `stall` is how long the peer may take for each 64 KiB, or [`PATIENCE`] if others wait for what
    /// it holds.
    pub(crate) async fn flush(&mut self, stall: Duration) -> Result<(), Undelivered> {
        let mut waited = Duration::ZERO;
        while self.left > 0 {
            let goal = self.left.saturating_sub(STALL_STEP);
            let patience = PATIENCE.min(stall.saturating_sub(waited));
            if let Ok(written) = timeout(patience, self.write_down_to(goal)).await {
                written?;
                waited = Duration::ZERO;
                continue;
            }
            if waited.is_zero() {
                self.let_go();
            }
            waited += patience;
            if waited >= stall || self.holds.iter().any(Hold::is_wanted) {
                return Err(Undelivered::Stalled { left: self.left, stall: waited });
            }
        }
        self.holds.clear();
        Ok(())
    }

    /// Copies what is left: chunks may be small parts of large buffers, which a slow peer must not keep in memory.
    fn let_go(&mut self) {
        for chunk in &mut self.chunks {
            *chunk = Bytes::copy_from_slice(chunk);
        }
    }

    async fn write_down_to(&mut self, goal: usize) -> io::Result<()> {
        while self.left > goal {
            let mut slices = [IoSlice::new(&[]); SLICES];
            for (slice, chunk) in slices.iter_mut().zip(&self.chunks) {
                *slice = IoSlice::new(chunk);
            }
            let used = self.chunks.len().min(SLICES);
            let written = self.sink.write_vectored(&slices[..used]).await?;
            if written == 0 {
                return Err(io::ErrorKind::WriteZero.into());
            }
            self.advance(written);
        }
        Ok(())
    }

    fn advance(&mut self, mut written: usize) {
        self.left -= written;
        while written > 0 {
            let Some(front) = self.chunks.front_mut() else { return };
            if front.len() > written {
                front.advance(written);
                return;
            }
            written -= front.len();
            self.chunks.pop_front();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::io::AsyncReadExt;

    #[tokio::test]
    async fn chunks_leave_whole_and_in_order_through_a_narrow_pipe() {
        let (near, mut far) = tokio::io::duplex(100);
        let chunks: Vec<Bytes> = (0..200u8).map(|n| Bytes::from(vec![n; usize::from(n)])).collect();
        let expected = chunks.concat();
        let mut outbox = Outbox::new(near);
        outbox.push(chunks, None);
        let mut got = Vec::new();
        let (flushed, _) = tokio::join!(
            async {
                let flushed = outbox.flush(Duration::from_secs(60)).await;
                drop(outbox);
                flushed
            },
            far.read_to_end(&mut got)
        );
        flushed.unwrap();
        assert_eq!(got, expected);
    }

    #[tokio::test(start_paused = true)]
    async fn a_peer_that_accepts_nothing_is_given_up() {
        let (near, _far) = tokio::io::duplex(10);
        let mut outbox = Outbox::new(near);
        outbox.push(vec![Bytes::from_static(&[1; 25])], None);
        let error = outbox.flush(Duration::from_secs(7)).await.unwrap_err();
        assert!(matches!(error, Undelivered::Stalled { left: 15, .. }), "{error}");
    }
}
