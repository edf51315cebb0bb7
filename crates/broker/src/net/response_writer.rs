//! Writes responses to a socket without joining their chunks.

use super::ResponseCharge;
use bytes::{Buf, Bytes};
use std::collections::VecDeque;
use std::io::{self, IoSlice};
use std::time::Duration;
use thiserror::Error;
use tokio::io::{AsyncWrite, AsyncWriteExt};
use tokio::time::timeout;

/// Bytes that the client must read within the time given to [`ResponseWriter::flush`].
const STALL_STEP: usize = 64 << 10;
/// A client that takes longer than this is slow: its chunks are copied, so that the larger buffers they are slices of
/// can be freed, and it is disconnected if another response waits for memory.
const SLOW_AFTER: Duration = Duration::from_secs(1);
/// Chunks in one system call.
const SLICES: usize = 256;

/// Why a response could not be written.
#[derive(Debug, Error)]
pub(crate) enum WriteError {
    #[error("the client read too little of a response within {} s, {left} bytes are left", .stall.as_secs())]
    Stalled { left: usize, stall: Duration },
    #[error("writing failed: {0}")]
    Io(#[from] io::Error),
}

/// The writing half of a connection.
#[derive(Debug)]
pub(crate) struct ResponseWriter<W> {
    sink: W,
    chunks: VecDeque<Bytes>,
    /// Bytes in `chunks`.
    left: usize,
    charges: Vec<ResponseCharge>,
}

impl<W: AsyncWrite + Unpin> ResponseWriter<W> {
    pub(crate) fn new(sink: W) -> ResponseWriter<W> {
        ResponseWriter { sink, chunks: VecDeque::new(), left: 0, charges: Vec::new() }
    }

    /// Queues a response, which the next [`ResponseWriter::flush`] writes.
    pub(crate) fn push(&mut self, chunks: Vec<Bytes>, charge: Option<ResponseCharge>) {
        self.charges.extend(charge);
        for chunk in chunks.into_iter().filter(|chunk| !chunk.is_empty()) {
            self.left += chunk.len();
            self.chunks.push_back(chunk);
        }
    }

    /// Writes all queued responses. The client must read 64 KiB in each `stall`, or in each [`SLOW_AFTER`] if another
    /// response waits for memory.
    pub(crate) async fn flush(&mut self, stall: Duration) -> Result<(), WriteError> {
        let mut waited = Duration::ZERO;
        while self.left > 0 {
            let goal = self.left.saturating_sub(STALL_STEP);
            let span = SLOW_AFTER.min(stall.saturating_sub(waited));
            if let Ok(written) = timeout(span, self.write_down_to(goal)).await {
                written?;
                waited = Duration::ZERO;
                continue;
            }
            if waited.is_zero() {
                self.copy_chunks();
            }
            waited += span;
            if waited >= stall || self.charges.iter().any(ResponseCharge::has_waiting) {
                return Err(WriteError::Stalled { left: self.left, stall: waited });
            }
        }
        self.charges.clear();
        Ok(())
    }

    /// Copies the remaining chunks. They may be small slices of large buffers, which a slow client must not keep in
    /// memory.
    fn copy_chunks(&mut self) {
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
        let mut writer = ResponseWriter::new(near);
        writer.push(chunks, None);
        let mut got = Vec::new();
        let (flushed, _) = tokio::join!(
            async {
                let flushed = writer.flush(Duration::from_secs(60)).await;
                drop(writer);
                flushed
            },
            far.read_to_end(&mut got)
        );
        flushed.unwrap();
        assert_eq!(got, expected);
    }

    #[tokio::test(start_paused = true)]
    async fn a_client_that_reads_nothing_is_disconnected() {
        let (near, _far) = tokio::io::duplex(10);
        let mut writer = ResponseWriter::new(near);
        writer.push(vec![Bytes::from_static(&[1; 25])], None);
        let error = writer.flush(Duration::from_secs(7)).await.unwrap_err();
        assert!(matches!(error, WriteError::Stalled { left: 15, .. }), "{error}");
    }
}
