//! A one-way connection in memory: bytes arrive in order, each piece after its delay.

use crate::random::Random;
use bytes::{Buf, Bytes};
use std::collections::VecDeque;
use std::io::{self, ErrorKind};
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Instant, Sleep, sleep_until};

#[derive(Debug)]
struct PipeState {
    queue: VecDeque<(Instant, Bytes)>,
    /// When the last piece arrives, or the end.
    last: Instant,
    /// Nothing more is written.
    ended: bool,
    /// The reading end is gone.
    deaf: bool,
    reader: Option<Waker>,
}

type Pipe = Arc<Mutex<PipeState>>;

fn lock(pipe: &Pipe) -> MutexGuard<'_, PipeState> {
    pipe.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The delay of pieces.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Latency {
    /// The usual limit, in milliseconds.
    pub(crate) usual: u64,
    /// How many pieces of a thousand take ten times as long.
    pub(crate) slow: u64,
}

impl Latency {
    fn draw(self, random: &mut Random) -> Duration {
        let most = if random.per_mille(self.slow) { 10 * self.usual + 10 } else { self.usual };
        Duration::from_millis(random.within(0..most + 1))
    }
}

/// The sender's end.
#[derive(Debug)]
pub(crate) struct Writer {
    pipe: Pipe,
    latency: Latency,
    random: Random,
}

/// The receiver's end.
#[derive(Debug)]
pub(crate) struct Reader {
    pipe: Pipe,
    sleep: Option<Pin<Box<Sleep>>>,
}

pub(crate) fn pipe(latency: Latency, random: Random) -> (Writer, Reader) {
    let shared =
        PipeState { queue: VecDeque::new(), last: Instant::now(), ended: false, deaf: false, reader: None };
    let pipe = Arc::new(Mutex::new(shared));
    (Writer { pipe: Arc::clone(&pipe), latency, random }, Reader { pipe, sleep: None })
}

impl Writer {
    /// Sends bytes that take `extra` longer than usual. Bytes that are sent later arrive after them.
    pub(crate) fn send(&mut self, bytes: Bytes, extra: Duration) {
        let mut shared = lock(&self.pipe);
        let at = Instant::now() + self.latency.draw(&mut self.random) + extra;
        shared.last = shared.last.max(at);
        let at = shared.last;
        shared.queue.push_back((at, bytes));
        if let Some(reader) = shared.reader.take() {
            reader.wake();
        }
    }
}

impl Writer {
    /// Drops the bytes in flight.
    pub(crate) fn cut(&mut self) {
        lock(&self.pipe).queue.clear();
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        let mut shared = lock(&self.pipe);
        shared.ended = true;
        if let Some(reader) = shared.reader.take() {
            reader.wake();
        }
    }
}

impl Drop for Reader {
    fn drop(&mut self) {
        let mut shared = lock(&self.pipe);
        shared.deaf = true;
        shared.queue.clear();
    }
}

impl AsyncWrite for Writer {
    fn poll_write(mut self: Pin<&mut Self>, _cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        if lock(&self.pipe).deaf {
            return Poll::Ready(Err(ErrorKind::BrokenPipe.into()));
        }
        self.send(Bytes::copy_from_slice(bytes), Duration::ZERO);
        Poll::Ready(Ok(bytes.len()))
    }

    fn poll_flush(self: Pin<&mut Self>, _cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}

impl AsyncRead for Reader {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        loop {
            let next = {
                let mut shared = lock(&self.pipe);
                let ended = shared.ended;
                match shared.queue.front_mut() {
                    Some((at, bytes)) if *at <= Instant::now() => {
                        let len = bytes.len().min(buf.remaining());
                        buf.put_slice(&bytes[..len]);
                        bytes.advance(len);
                        if bytes.is_empty() {
                            shared.queue.pop_front();
                        }
                        return Poll::Ready(Ok(()));
                    }
                    Some((at, _)) => *at,
                    None if ended => return Poll::Ready(Ok(())),
                    None => {
                        shared.reader = Some(cx.waker().clone());
                        return Poll::Pending;
                    }
                }
            };
            let sleep = self.sleep.get_or_insert_with(|| Box::pin(sleep_until(next)));
            if sleep.deadline() != next {
                sleep.as_mut().reset(next);
            }
            if sleep.as_mut().poll(cx).is_pending() {
                return Poll::Pending;
            }
        }
    }
}
