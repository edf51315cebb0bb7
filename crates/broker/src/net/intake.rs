//! Reads requests off a socket: the length first, then as much as has been paid for.

use super::budget::{Budget, Charge};
use crate::Limits;
use bytes::{Buf, BufMut, Bytes, BytesMut};
use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};
use thiserror::Error;
use tokio::io::{AsyncRead, AsyncReadExt};
use tokio::time::timeout;

const PREFIX: usize = 4;
/// The smallest request header: key, version and correlation id.
const SMALLEST: usize = 8;
/// What is paid for and read of a request before it counts as large.
const FIRST_STEP: usize = 16 << 10;
/// What a request takes beside its bytes, as it is answered: a few lists and names, and whoever waits for something.
const BESIDE: usize = 2 << 10;
/// How much must arrive within [`Limits::read_stall`].
const STALL_STEP: usize = 64 << 10;
/// The time for that while other requests wait for what a large one holds.
const PRESSED_STALL: Duration = Duration::from_secs(1);
/// The buffer of a connection that has nothing to say.
const IDLE_BUFFER: usize = 512;
const READ_AHEAD: usize = 4 << 10;
/// The buffer of a connection that says much in small requests, which pays for it.
const BUSY_BUFFER: usize = 64 << 10;
/// Requests up to this size are copied out of it, so that it can be used again.
const COPIED: usize = 8 << 10;

/// Why nothing more can be read.
#[derive(Debug, Error)]
pub(crate) enum Ended {
    #[error("the peer closed the connection")]
    HungUp,
    #[error("silent for {} s", .0.as_secs())]
    Idle(Duration),
    #[error("field size, byte 0 of the frame: the length {0} is {1}")]
    BadLength(i32, String),
    #[error("the peer closed the connection after {got} of {size} bytes of a request")]
    Torn { got: usize, size: usize },
    #[error("byte {got} of a request of {size}: too little came within {} ms", .stall.as_millis())]
    Stalled { got: usize, size: usize, stall: Duration },
    #[error("byte {got} of a request: no room for more within {} s (queued.max.request.bytes)", .patience.as_secs())]
    NoRoom { got: usize, patience: Duration },
    #[error("reading failed: {0}")]
    Io(#[from] io::Error),
}

/// A whole request, without its length prefix.
#[derive(Debug)]
pub(crate) struct Inbound {
    pub(crate) bytes: Bytes,
    pub(crate) charge: Charge,
    /// When it was there, if that is wanted.
    pub(crate) arrived: Option<Instant>,
}

/// What came next.
#[derive(Debug)]
pub(crate) enum Arrival {
    /// A whole request.
    Whole(Inbound),
    /// The first bytes of a large one; [`Intake::rest`] reads on.
    Large(Bytes),
}

/// The reading half of a connection.
#[derive(Debug)]
pub(crate) struct Intake<R> {
    source: R,
    buffer: BytesMut,
    charge: Charge,
    paid: usize,
    /// What a large buffer for small requests costs.
    busy: Option<Charge>,
    budget: Arc<Budget>,
    limits: Arc<Limits>,
}

impl<R: AsyncRead + Unpin> Intake<R> {
    pub(crate) fn new(source: R, budget: Arc<Budget>, limits: Arc<Limits>) -> Intake<R> {
        let (buffer, charge) = (BytesMut::new(), Charge::default());
        Intake { source, buffer, charge, paid: 0, busy: None, budget, limits }
    }

    /// What requests are paid from.
    pub(crate) fn budget(&self) -> &Arc<Budget> {
        &self.budget
    }

    /// Waits for the next request. Takes and gives back the intake, so that the wait can be kept across other events.
    pub(crate) async fn next(mut self) -> (Self, Result<Arrival, Ended>) {
        let result = self.first_step().await;
        (self, result)
    }

    /// Reads the rest of a large request.
    pub(crate) async fn rest(mut self) -> (Self, Result<Arrival, Ended>) {
        let result = self.further_steps().await;
        (self, result)
    }

    async fn first_step(&mut self) -> Result<Arrival, Ended> {
        self.first_byte().await?;
        self.fill(PREFIX, PREFIX).await?;
        let size = self.checked_size()?;
        let first = size.min(FIRST_STEP);
        self.budget.admit(&mut self.charge, first + BESIDE).await;
        self.paid = first;
        self.fill(PREFIX + first, PREFIX + size).await?;
        if first == size {
            return Ok(Arrival::Whole(self.take(size)));
        }
        Ok(Arrival::Large(Bytes::copy_from_slice(&self.buffer[PREFIX..PREFIX + SMALLEST])))
    }

    async fn further_steps(&mut self) -> Result<Arrival, Ended> {
        let size = self.checked_size()?;
        // Paid at once, nothing of it is copied on the way.
        if self.budget.try_pay(&mut self.charge, size - self.paid) {
            self.paid = size;
        }
        loop {
            self.make_room((PREFIX + self.paid).saturating_sub(self.buffer.len()));
            while self.buffer.len() < PREFIX + self.paid {
                let goal = (self.buffer.len() + STALL_STEP).min(PREFIX + self.paid);
                self.fill(goal, PREFIX + size).await?;
            }
            if self.paid == size {
                break;
            }
            self.pay_up_to(size.min(self.paid.saturating_mul(4))).await?;
        }
        Ok(Arrival::Whole(self.take(size)))
    }

    async fn first_byte(&mut self) -> Result<(), Ended> {
        if !self.buffer.is_empty() {
            return Ok(());
        }
        if self.busy.is_none() && !(PREFIX..=READ_AHEAD).contains(&self.buffer.capacity()) {
            self.buffer = BytesMut::with_capacity(IDLE_BUFFER);
        }
        let (idle, room) = (self.limits.max_idle, self.buffer.capacity());
        match timeout(idle, self.source.read_buf(&mut self.buffer)).await {
            Err(_) => return Err(Ended::Idle(idle)),
            Ok(Ok(0)) => return Err(Ended::HungUp),
            Ok(Ok(_)) => {}
            Ok(Err(error)) => return Err(error.into()),
        }
        self.choose_buffer(room);
        Ok(())
    }

    /// Takes a large buffer when the small one was full at once, not while others need the memory; lets it go when little came.
    fn choose_buffer(&mut self, room: usize) {
        let announced = self.buffer.first_chunk().map_or(0, |size| u32::from_be_bytes(*size));
        if self.busy.is_some() {
            if self.buffer.len() < READ_AHEAD / 2 {
                self.busy = None;
            }
        } else if self.buffer.len() == room && (announced as usize) < COPIED {
            let mut charge = Charge::default();
            self.busy = self.budget.try_pay(&mut charge, BUSY_BUFFER).then_some(charge);
        }
    }

    /// The announced length, if it is a possible one.
    fn checked_size(&self) -> Result<usize, Ended> {
        let announced = (&self.buffer[..]).get_i32();
        let most = self.limits.max_request_bytes;
        let why = match usize::try_from(announced) {
            Err(_) => "negative".to_owned(),
            Ok(size) if size < SMALLEST => format!("too small for a request header ({SMALLEST} bytes)"),
            Ok(size) if size > most => format!("over socket.request.max.bytes ({most})"),
            Ok(size) => return Ok(size),
        };
        Err(Ended::BadLength(announced, why))
    }

    /// Pays for more of a large request. It does not wait for ever: what it holds is wanted by others.
    async fn pay_up_to(&mut self, target: usize) -> Result<(), Ended> {
        let patience = self.limits.read_stall;
        let paying = self.budget.pay(&mut self.charge, target - self.paid);
        if timeout(patience, paying).await.is_err() {
            return Err(Ended::NoRoom { got: self.paid, patience });
        }
        self.paid = target;
        Ok(())
    }

    /// Reads until the buffer holds `goal` bytes; `whole` is the size of the frame, for the error.
    async fn fill(&mut self, goal: usize, whole: usize) -> Result<(), Ended> {
        let stall = self.limits.read_stall;
        let pressed = stall.min(PRESSED_STALL);
        let mut waited = Duration::ZERO;
        while waited < stall {
            if let Ok(result) = timeout(pressed, self.read_to(goal, whole)).await {
                return result;
            }
            waited += pressed;
            if whole > PREFIX && self.budget.is_wanted() {
                break;
            }
        }
        Err(Ended::Stalled { got: self.buffer.len(), size: whole, stall: waited })
    }

    async fn read_to(&mut self, goal: usize, whole: usize) -> Result<(), Ended> {
        while self.buffer.len() < goal {
            let missing = goal - self.buffer.len();
            // No more than was paid for, and a little of what follows.
            let ahead = if self.busy.is_some() { BUSY_BUFFER } else { READ_AHEAD };
            if self.buffer.capacity() - self.buffer.len() < missing {
                self.make_room(missing.max(ahead.saturating_sub(self.buffer.len())));
            }
            let paid = (PREFIX + self.paid).saturating_sub(self.buffer.len());
            let mut room = (&mut self.buffer).limit(missing.max(ahead).max(paid));
            if self.source.read_buf(&mut room).await? == 0 {
                return Err(Ended::Torn { got: self.buffer.len(), size: whole });
            }
        }
        Ok(())
    }

    /// Room for so many bytes more and no others: a buffer that doubles would be larger than what was paid.
    fn make_room(&mut self, more: usize) {
        if !self.buffer.try_reclaim(more) {
            let mut larger = BytesMut::with_capacity(self.buffer.len() + more);
            larger.extend_from_slice(&self.buffer);
            self.buffer = larger;
        }
    }

    fn take(&mut self, size: usize) -> Inbound {
        self.buffer.advance(PREFIX);
        self.paid = 0;
        let bytes = if self.busy.is_some() && size <= COPIED {
            let bytes = Bytes::copy_from_slice(&self.buffer[..size]);
            self.buffer.advance(size);
            if self.buffer.is_empty() {
                // Begins at its start again.
                self.buffer.reserve(BUSY_BUFFER);
            }
            bytes
        } else {
            self.busy = None;
            let bytes = self.buffer.split_to(size).freeze();
            if size > COPIED {
                // What follows would keep the memory of this request, which is paid for no longer than it lasts.
                self.buffer = BytesMut::from(&self.buffer[..]);
            }
            bytes
        };
        Inbound { bytes, charge: std::mem::take(&mut self.charge), arrived: None }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::io::AsyncWriteExt;

    /// Requests of these sizes, sent one right behind the other: none shares memory with what is read next, and what is kept
    /// in between is small.
    #[tokio::test]
    async fn a_request_that_is_through_leaves_no_memory_behind() {
        let (mut peer, source) = tokio::io::duplex(8 << 20);
        let sizes = [1 << 20, 16_500, 300_000, 200, 64 << 10, 70_000, 20, 1 << 20];
        for (number, size) in sizes.into_iter().enumerate() {
            peer.write_all(&(size as i32).to_be_bytes()).await.unwrap();
            peer.write_all(&vec![number as u8; size]).await.unwrap();
        }
        let limits = Arc::new(Limits::default());
        let mut intake = Intake::new(source, Budget::of(&limits, None), limits);
        for (number, size) in sizes.into_iter().enumerate() {
            let (first, mut arrival) = intake.next().await;
            intake = first;
            if matches!(arrival, Ok(Arrival::Large(_))) {
                (intake, arrival) = intake.rest().await;
            }
            let Ok(Arrival::Whole(inbound)) = arrival else { panic!("request {number}: {arrival:?}") };
            assert_eq!(inbound.bytes, vec![number as u8; size]);
            assert!(inbound.bytes.is_unique() || size <= COPIED, "request {number} shares its memory");
            assert!(intake.buffer.capacity() <= BUSY_BUFFER, "{} are kept", intake.buffer.capacity());
        }
    }
}
