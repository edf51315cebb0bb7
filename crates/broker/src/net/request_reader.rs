//! Reads requests from a socket: the length first, then only as many bytes as the request has paid for.

use super::frame_bounds::{FrameBounds, SMALLEST_REQUEST};
use super::request_budget::{RequestBudget, RequestCharge};
use crate::Limits;
use bytes::{Buf, BufMut, Bytes, BytesMut};
use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};
use thiserror::Error;
use tokio::io::{AsyncRead, AsyncReadExt};
use tokio::time::timeout;

const PREFIX: usize = 4;
/// Bytes that are paid for and read of a request before it counts as large.
const FIRST_STEP: usize = 16 << 10;
/// Bytes charged to each request in addition to its frame: arrays, names and the future that answers it.
const OVERHEAD: usize = 2 << 10;
/// Bytes that must arrive within [`Limits::read_stall`].
const STALL_STEP: usize = 64 << 10;
/// Replaces [`Limits::read_stall`] while other requests wait for the bytes that a large request has paid for.
const PRESSED_STALL: Duration = Duration::from_secs(1);
/// Buffer of an idle connection, in bytes.
const IDLE_BUFFER: usize = 512;
const READ_AHEAD: usize = 4 << 10;
/// Buffer of a connection that sends many small requests, in bytes. The connection pays for it.
const BUSY_BUFFER: usize = 64 << 10;
/// Requests up to this size, in bytes, are copied out of the busy buffer, so that it can be reused.
const COPIED: usize = 8 << 10;

/// Why the connection cannot be read further.
#[derive(Debug, Error)]
pub(crate) enum ReadError {
    #[error("the client closed the connection")]
    HungUp,
    #[error("no bytes for {} s", .0.as_secs())]
    Idle(Duration),
    #[error("field size, byte 0 of the frame: the length {0} is {1}")]
    BadLength(i32, String),
    #[error("the client closed the connection after {got} of {size} bytes of a request")]
    Torn { got: usize, size: usize },
    #[error("byte {got} of a request of {size}: fewer than 64 KiB arrived within {} ms", .stall.as_millis())]
    Stalled { got: usize, size: usize, stall: Duration },
    #[error("byte {got} of a request: no memory for more within {} s (queued.max.request.bytes)", .patience.as_secs())]
    NoMemory { got: usize, patience: Duration },
    #[error("reading failed: {0}")]
    Io(#[from] io::Error),
}

/// Takes the end of a TLS connection without a closing alert for an end. Many clients send none, and the lengths of
/// frames show whether a request is whole.
fn unnotified_end(read: io::Result<usize>) -> io::Result<usize> {
    match read {
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Ok(0),
        read => read,
    }
}

/// A whole request, without its length prefix.
#[derive(Debug)]
pub(crate) struct InboundRequest {
    pub(crate) bytes: Bytes,
    pub(crate) charge: RequestCharge,
    /// When the last byte arrived; set only while tracing is on.
    pub(crate) received: Option<Instant>,
}

/// The next request, or the beginning of it.
#[derive(Debug)]
pub(crate) enum NextRequest {
    /// A whole request.
    Whole(InboundRequest),
    /// The first bytes of a large request; [`RequestReader::rest`] reads the remainder.
    Large(Bytes),
}

/// The reading half of a connection.
#[derive(Debug)]
pub(crate) struct RequestReader<R> {
    source: R,
    buffer: BytesMut,
    charge: RequestCharge,
    paid: usize,
    /// The charge for the busy buffer, while the connection has one.
    busy: Option<RequestCharge>,
    budget: Arc<RequestBudget>,
    limits: Arc<Limits>,
    bounds: Arc<FrameBounds>,
}

impl<R: AsyncRead + Unpin> RequestReader<R> {
    pub(crate) fn new(
        source: R,
        budget: Arc<RequestBudget>,
        limits: Arc<Limits>,
        bounds: FrameBounds,
    ) -> RequestReader<R> {
        let (buffer, charge) = (BytesMut::new(), RequestCharge::default());
        let bounds = Arc::new(bounds);
        RequestReader { source, buffer, charge, paid: 0, busy: None, budget, limits, bounds }
    }

    /// The sizes of frames that the connection may receive.
    pub(crate) fn bounds(&self) -> &Arc<FrameBounds> {
        &self.bounds
    }

    /// The budget that the requests are charged to.
    pub(crate) fn budget(&self) -> &Arc<RequestBudget> {
        &self.budget
    }

    /// Waits for the next request. Takes and returns the reader, so that the caller can keep the future across other
    /// events.
    pub(crate) async fn next(mut self) -> (Self, Result<NextRequest, ReadError>) {
        let result = self.first_step().await;
        (self, result)
    }

    /// Reads the remainder of a large request.
    pub(crate) async fn rest(mut self) -> (Self, Result<NextRequest, ReadError>) {
        let result = self.further_steps().await;
        (self, result)
    }

    async fn first_step(&mut self) -> Result<NextRequest, ReadError> {
        self.first_byte().await?;
        self.fill(PREFIX, PREFIX).await?;
        let size = self.checked_size()?;
        let first = size.min(FIRST_STEP);
        self.budget.admit(&mut self.charge, first + OVERHEAD).await;
        self.paid = first;
        self.fill(PREFIX + first, PREFIX + size).await?;
        if first == size {
            return Ok(NextRequest::Whole(self.take(size)));
        }
        Ok(NextRequest::Large(Bytes::copy_from_slice(&self.buffer[PREFIX..PREFIX + SMALLEST_REQUEST])))
    }

    async fn further_steps(&mut self) -> Result<NextRequest, ReadError> {
        let size = self.checked_size()?;
        // If the whole request is paid at once, its buffer is allocated once and nothing is copied.
        if self.budget.try_pay(&mut self.charge, size - self.paid) {
            self.paid = size;
        }
        loop {
            self.reserve_exact((PREFIX + self.paid).saturating_sub(self.buffer.len()));
            while self.buffer.len() < PREFIX + self.paid {
                let goal = (self.buffer.len() + STALL_STEP).min(PREFIX + self.paid);
                self.fill(goal, PREFIX + size).await?;
            }
            if self.paid == size {
                break;
            }
            self.pay_up_to(size.min(self.paid.saturating_mul(4))).await?;
        }
        Ok(NextRequest::Whole(self.take(size)))
    }

    async fn first_byte(&mut self) -> Result<(), ReadError> {
        if !self.buffer.is_empty() {
            return Ok(());
        }
        if self.busy.is_none() && !(PREFIX..=READ_AHEAD).contains(&self.buffer.capacity()) {
            self.buffer = BytesMut::with_capacity(IDLE_BUFFER);
        }
        let (idle, room) = (self.limits.max_idle, self.buffer.capacity());
        match timeout(idle, self.source.read_buf(&mut self.buffer)).await.map(unnotified_end) {
            Err(_) => return Err(ReadError::Idle(idle)),
            Ok(Ok(0)) => return Err(ReadError::HungUp),
            Ok(Ok(_)) => {}
            Ok(Err(error)) => return Err(error.into()),
        }
        self.choose_buffer(room);
        Ok(())
    }

    /// Takes the busy buffer if one read filled the small buffer and no request waits for memory. Drops it if a read
    /// brought little.
    fn choose_buffer(&mut self, room: usize) {
        let announced = self.buffer.first_chunk().map_or(0, |size| u32::from_be_bytes(*size));
        if self.busy.is_some() {
            if self.buffer.len() < READ_AHEAD / 2 {
                self.busy = None;
            }
        } else if self.buffer.len() == room && (announced as usize) < COPIED {
            let mut charge = RequestCharge::default();
            self.busy = self.budget.try_pay(&mut charge, BUSY_BUFFER).then_some(charge);
        }
    }

    /// The length prefix, if it is legal.
    fn checked_size(&self) -> Result<usize, ReadError> {
        let announced = (&self.buffer[..]).get_i32();
        let most = self.limits.max_request_bytes.min(self.bounds.largest());
        let least = self.bounds.smallest();
        let why = match usize::try_from(announced) {
            Err(_) => "negative".to_owned(),
            Ok(size) if size < least => format!("too small for a request header ({least} bytes)"),
            Ok(size) if size > most && most < self.limits.max_request_bytes => {
                format!("over sasl.server.max.receive.size ({most}), and the client is not authenticated")
            }
            Ok(size) if size > most => format!("over socket.request.max.bytes ({most})"),
            Ok(size) => return Ok(size),
        };
        Err(ReadError::BadLength(announced, why))
    }

    /// Pays for more of a large request. Gives up after a time, because other requests need the memory that this one
    /// holds.
    async fn pay_up_to(&mut self, target: usize) -> Result<(), ReadError> {
        let patience = self.limits.read_stall;
        let paying = self.budget.pay(&mut self.charge, target - self.paid);
        if timeout(patience, paying).await.is_err() {
            return Err(ReadError::NoMemory { got: self.paid, patience });
        }
        self.paid = target;
        Ok(())
    }

    /// Reads until the buffer holds `goal` bytes. `whole` is the size of the frame, for the error text.
    async fn fill(&mut self, goal: usize, whole: usize) -> Result<(), ReadError> {
        let stall = self.limits.read_stall;
        let pressed = stall.min(PRESSED_STALL);
        let mut waited = Duration::ZERO;
        while waited < stall {
            if let Ok(result) = timeout(pressed, self.read_to(goal, whole)).await {
                return result;
            }
            waited += pressed;
            if whole > PREFIX && self.budget.has_waiting() {
                break;
            }
        }
        Err(ReadError::Stalled { got: self.buffer.len(), size: whole, stall: waited })
    }

    async fn read_to(&mut self, goal: usize, whole: usize) -> Result<(), ReadError> {
        while self.buffer.len() < goal {
            let missing = goal - self.buffer.len();
            // At most the bytes that were paid for, and a little read-ahead.
            let ahead = if self.busy.is_some() { BUSY_BUFFER } else { READ_AHEAD };
            if self.buffer.capacity() - self.buffer.len() < missing {
                self.reserve_exact(missing.max(ahead.saturating_sub(self.buffer.len())));
            }
            let paid = (PREFIX + self.paid).saturating_sub(self.buffer.len());
            let mut room = (&mut self.buffer).limit(missing.max(ahead).max(paid));
            if unnotified_end(self.source.read_buf(&mut room).await)? == 0 {
                return Err(ReadError::Torn { got: self.buffer.len(), size: whole });
            }
        }
        Ok(())
    }

    /// Reserves exactly `more` bytes. A buffer that doubles would be larger than what was paid for.
    fn reserve_exact(&mut self, more: usize) {
        if !self.buffer.try_reclaim(more) {
            let mut larger = BytesMut::with_capacity(self.buffer.len() + more);
            larger.extend_from_slice(&self.buffer);
            self.buffer = larger;
        }
    }

    fn take(&mut self, size: usize) -> InboundRequest {
        self.buffer.advance(PREFIX);
        self.paid = 0;
        let bytes = if self.busy.is_some() && size <= COPIED {
            let bytes = Bytes::copy_from_slice(&self.buffer[..size]);
            self.buffer.advance(size);
            if self.buffer.is_empty() {
                // Makes the buffer start at its beginning again.
                self.buffer.reserve(BUSY_BUFFER);
            }
            bytes
        } else {
            self.busy = None;
            let bytes = self.buffer.split_to(size).freeze();
            if size > COPIED {
                // A shared buffer would keep the memory of this request alive after its charge has ended.
                self.buffer = BytesMut::from(&self.buffer[..]);
            }
            bytes
        };
        InboundRequest { bytes, charge: std::mem::take(&mut self.charge), received: None }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::pin::Pin;
    use std::task::{Context, Poll};
    use tokio::io::{AsyncWriteExt, ReadBuf};

    /// Sends requests of these sizes in a row. No request shares memory with the next one, and the buffer between them
    /// is small.
    #[tokio::test]
    async fn a_finished_request_keeps_no_memory() {
        let (mut peer, source) = tokio::io::duplex(8 << 20);
        let sizes = [1 << 20, 16_500, 300_000, 200, 64 << 10, 70_000, 20, 1 << 20];
        for (number, size) in sizes.into_iter().enumerate() {
            peer.write_all(&(size as i32).to_be_bytes()).await.unwrap();
            peer.write_all(&vec![number as u8; size]).await.unwrap();
        }
        let limits = Arc::new(Limits::default());
        let mut reader =
            RequestReader::new(source, RequestBudget::of(&limits, None), limits, FrameBounds::of_requests());
        for (number, size) in sizes.into_iter().enumerate() {
            let (first, mut next) = reader.next().await;
            reader = first;
            if matches!(next, Ok(NextRequest::Large(_))) {
                (reader, next) = reader.rest().await;
            }
            let Ok(NextRequest::Whole(request)) = next else { panic!("request {number}: {next:?}") };
            assert_eq!(request.bytes, vec![number as u8; size]);
            assert!(request.bytes.is_unique() || size <= COPIED, "request {number} shares its memory");
            assert!(reader.buffer.capacity() <= BUSY_BUFFER, "{} are kept", reader.buffer.capacity());
        }
    }

    /// A source that ends as TLS does when the peer sends no closing alert.
    struct WithoutAlert(&'static [u8]);

    impl AsyncRead for WithoutAlert {
        fn poll_read(
            mut self: Pin<&mut Self>,
            _cx: &mut Context<'_>,
            into: &mut ReadBuf<'_>,
        ) -> Poll<io::Result<()>> {
            if self.0.is_empty() {
                return Poll::Ready(Err(io::ErrorKind::UnexpectedEof.into()));
            }
            let bytes = std::mem::take(&mut self.0);
            into.put_slice(bytes);
            Poll::Ready(Ok(()))
        }
    }

    #[tokio::test]
    async fn a_tls_connection_may_end_without_an_alert() {
        let next = async |sent| {
            let (limits, bounds) = (Arc::new(Limits::default()), FrameBounds::of_requests());
            let budget = RequestBudget::of(&limits, None);
            RequestReader::new(WithoutAlert(sent), budget, limits, bounds).next().await.1
        };
        assert!(matches!(next(b"").await, Err(ReadError::HungUp)));
        assert!(matches!(next(b"\0\0\0\x09ab").await, Err(ReadError::Torn { got: 6, size: 13 })));
    }
}
