//! Connections with clients that violate the protocol. The handler of these tests does what the first byte of the
//! request says.

use super::{
    BeginError, Connection, ConnectionEvent, ConnectionInfo, FrameBounds, ListenerTask, Reply, ReplyFuture,
    RequestBudget, RequestHandler, RequestReader, ResponseWriter, SharedByListeners,
};
use crate::Limits;
use crate::trace::Recording;
use bytes::{BufMut, Bytes, BytesMut};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, DuplexStream, duplex, split};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{mpsc, watch};
use tokio::time::Instant;

/// Kinds of request: the first byte of a frame.
const ECHO: u8 = 0;
/// Waits until released; may overlap with its kind.
const HOLD: u8 = 1;
/// Waits until released.
const HOLD_ALONE: u8 = 2;
const CLOSE: u8 = 3;
const PANIC: u8 = 4;
const NOTHING: u8 = 5;
/// Gets a response, and mutes its connection for [`MUTED`].
const MUTE: u8 = 6;
const MUTED: Duration = Duration::from_secs(5);

#[derive(Debug, PartialEq)]
enum Event {
    Began(u8),
    Ended(u8),
}

struct Script {
    events: mpsc::UnboundedSender<Event>,
    /// Held requests with at most this number continue.
    released: watch::Receiver<u8>,
}

struct Noted(mpsc::UnboundedSender<Event>, u8);

impl Drop for Noted {
    fn drop(&mut self) {
        let _ = self.0.send(Event::Ended(self.1));
    }
}

impl RequestHandler for Script {
    type Session = ();

    fn open(&self, _: &ConnectionInfo, _: &Arc<FrameBounds>) {}

    fn begin(
        &self,
        (): &mut (),
        frame: Bytes,
        _: usize,
        _: Option<&Recording>,
    ) -> Result<ReplyFuture, BeginError> {
        let (kind, number) = (frame[0], frame[1]);
        let _ = self.events.send(Event::Began(number));
        let ended = Noted(self.events.clone(), number);
        let mut released = self.released.clone();
        if kind == CLOSE {
            return Err(BeginError::Malformed("told to".to_owned()));
        }
        Ok(Box::pin(async move {
            let _ended = ended;
            match kind {
                PANIC => panic!("told to panic"),
                NOTHING => return Reply::Nothing,
                HOLD | HOLD_ALONE => {
                    let _ = released.wait_for(|upto| *upto >= number).await;
                }
                _ => {}
            }
            let mut size = BytesMut::new();
            size.put_i32(i32::try_from(frame.len()).unwrap());
            let reply = Reply::Send(vec![size.freeze(), frame], None);
            if kind == MUTE { Reply::Muted(Box::new(reply), MUTED) } else { reply }
        }))
    }

    fn connection_event(&self, _coming: ConnectionEvent) {}

    fn may_overlap(&self, head: &[u8]) -> bool {
        head[0] == HOLD
    }
}

struct World {
    server: ListenerTask,
    events: mpsc::UnboundedReceiver<Event>,
    release: watch::Sender<u8>,
}

async fn world(limits: Limits) -> World {
    let (events_in, events) = mpsc::unbounded_channel();
    let (release, released) = watch::channel(0);
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let script = Script { events: events_in, released };
    let budget = RequestBudget::of(&limits, None);
    let shared = SharedByListeners { open: Arc::default(), budget };
    let server = ListenerTask::start(listener, Arc::new(script), limits, shared, None).unwrap();
    World { server, events, release }
}

impl World {
    async fn connect(&self) -> TcpStream {
        TcpStream::connect(self.server.local_addr()).await.unwrap()
    }

    async fn event(&mut self) -> Event {
        self.events.recv().await.unwrap()
    }

    async fn still_serves(&self) {
        let mut peer = self.connect().await;
        ask(&mut peer, ECHO, 99, 8).await;
        assert_eq!(answer(&mut peer).await.unwrap()[1], 99);
    }
}

async fn ask(peer: &mut (impl AsyncWrite + Unpin), kind: u8, number: u8, size: usize) {
    let mut frame = BytesMut::new();
    frame.put_i32(i32::try_from(size).unwrap());
    frame.put_u8(kind);
    frame.put_u8(number);
    frame.resize(4 + size, 0);
    peer.write_all(&frame).await.unwrap();
}

/// The next response; none if the connection was closed.
async fn answer(peer: &mut (impl AsyncRead + Unpin)) -> Option<Vec<u8>> {
    let size = peer.read_i32().await.ok()?;
    let mut frame = vec![0; usize::try_from(size).unwrap()];
    peer.read_exact(&mut frame).await.unwrap();
    Some(frame)
}

async fn is_closed(peer: &mut TcpStream) -> bool {
    answer(peer).await.is_none()
}

#[tokio::test]
async fn a_bad_length_closes_its_connection_only() {
    let world = world(Limits { max_request_bytes: 1000, ..Limits::default() }).await;
    for length in [-1, i32::MIN, 0, 7, 1001, i32::MAX] {
        let mut peer = world.connect().await;
        peer.write_i32(length).await.unwrap();
        assert!(is_closed(&mut peer).await, "length {length}");
        world.still_serves().await;
    }
    let mut peer = world.connect().await;
    ask(&mut peer, ECHO, 1, 1000).await;
    assert_eq!(answer(&mut peer).await.unwrap().len(), 1000);
}

#[tokio::test]
async fn a_request_that_trickles_in_is_given_up() {
    let stall = Duration::from_millis(30);
    let world = world(Limits { read_stall: stall, ..Limits::default() }).await;
    for begun in [&[0u8, 0][..], &[0, 0, 0, 9], &[0, 0, 0, 9, 1, 2, 3], &[0, 2, 0, 0, 1, 2, 3]] {
        let mut peer = world.connect().await;
        peer.write_all(begun).await.unwrap();
        assert!(is_closed(&mut peer).await, "after {begun:?}");
    }
    world.still_serves().await;
}

#[tokio::test]
async fn an_idle_connection_is_closed_unless_a_response_is_due() {
    let mut world = world(Limits { max_idle: Duration::from_millis(20), ..Limits::default() }).await;
    let mut busy = world.connect().await;
    ask(&mut busy, HOLD_ALONE, 1, 8).await;
    assert_eq!(world.event().await, Event::Began(1));
    let mut idle = world.connect().await;
    assert!(is_closed(&mut idle).await);
    world.release.send_replace(1);
    assert_eq!(answer(&mut busy).await.unwrap()[1], 1);
}

#[tokio::test]
async fn a_frame_in_single_bytes_and_many_in_one_write_are_the_same() {
    let world = world(Limits::default()).await;
    let mut peer = world.connect().await;
    for byte in [0, 0, 0, 8, ECHO, 1, 0, 0, 0, 0, 0, 0] {
        peer.write_u8(byte).await.unwrap();
        peer.flush().await.unwrap();
    }
    assert_eq!(answer(&mut peer).await.unwrap()[1], 1);
    let mut many = Vec::new();
    for number in 0..100 {
        many.extend_from_slice(&[0, 0, 0, 8, ECHO, number, 0, 0, 0, 0, 0, 0]);
    }
    peer.write_all(&many).await.unwrap();
    for number in 0..100 {
        assert_eq!(answer(&mut peer).await.unwrap()[1], number);
    }
}

#[tokio::test]
async fn overlapping_requests_begin_early_and_answers_keep_their_order() {
    let mut world = world(Limits::default()).await;
    let mut peer = world.connect().await;
    ask(&mut peer, HOLD, 2, 8).await;
    ask(&mut peer, HOLD, 1, 8).await;
    ask(&mut peer, NOTHING, 3, 8).await;
    ask(&mut peer, ECHO, 4, 8).await;
    assert_eq!(world.event().await, Event::Began(2));
    assert_eq!(world.event().await, Event::Began(1));
    world.release.send_replace(1);
    world.release.send_replace(2);
    for number in [2, 1, 4] {
        assert_eq!(answer(&mut peer).await.unwrap()[1], number);
    }
    let mut rest = Vec::new();
    for _ in 0..6 {
        rest.push(world.event().await);
    }
    let place = |event: Event| rest.iter().position(|other| *other == event).unwrap();
    assert!(place(Event::Ended(2)) < place(Event::Ended(1)));
    assert!(place(Event::Ended(1)) < place(Event::Began(3)), "the third waits for the others: {rest:?}");
    assert!(place(Event::Ended(3)) < place(Event::Began(4)));
}

#[tokio::test]
async fn overlapping_requests_are_capped() {
    let mut world = world(Limits { max_pipelined: 3, ..Limits::default() }).await;
    let mut peer = world.connect().await;
    for number in 1..=5 {
        ask(&mut peer, HOLD, number, 8).await;
    }
    for number in 1..=3 {
        assert_eq!(world.event().await, Event::Began(number));
    }
    world.release.send_replace(1);
    assert_eq!(world.event().await, Event::Ended(1));
    assert_eq!(world.event().await, Event::Began(4));
    world.release.send_replace(5);
    for number in 1..=5 {
        assert_eq!(answer(&mut peer).await.unwrap()[1], number);
    }
}

#[tokio::test]
async fn a_waiting_request_is_dropped_when_its_client_disconnects() {
    let mut world = world(Limits::default()).await;
    let mut peer = world.connect().await;
    ask(&mut peer, HOLD_ALONE, 1, 8).await;
    ask(&mut peer, ECHO, 2, 8).await;
    assert_eq!(world.event().await, Event::Began(1));
    drop(peer);
    assert_eq!(world.event().await, Event::Ended(1));
    world.still_serves().await;
}

#[tokio::test]
async fn a_client_that_closed_only_its_sending_side_gets_its_responses() {
    let world = world(Limits::default()).await;
    let mut peer = world.connect().await;
    ask(&mut peer, ECHO, 1, 8).await;
    ask(&mut peer, ECHO, 2, 40_000).await;
    peer.shutdown().await.unwrap();
    assert_eq!(answer(&mut peer).await.unwrap()[1], 1);
    assert_eq!(answer(&mut peer).await.unwrap().len(), 40_000);
    assert!(is_closed(&mut peer).await);
}

#[tokio::test]
async fn a_refused_or_panicking_request_ends_only_its_connection() {
    let world = world(Limits::default()).await;
    for kind in [CLOSE, PANIC] {
        let mut other = world.connect().await;
        let mut peer = world.connect().await;
        ask(&mut peer, ECHO, 1, 8).await;
        ask(&mut peer, kind, 2, 8).await;
        ask(&mut peer, ECHO, 3, 8).await;
        assert_eq!(answer(&mut peer).await.unwrap()[1], 1);
        assert!(is_closed(&mut peer).await);
        ask(&mut other, ECHO, 4, 8).await;
        assert_eq!(answer(&mut other).await.unwrap()[1], 4);
    }
}

#[tokio::test]
async fn announced_sizes_take_little_memory_and_large_requests_all_complete() {
    let limits = Limits { max_request_bytes: 200_000, max_queued_bytes: 500_000, ..Limits::default() };
    let world = world(limits).await;
    let mut silent = Vec::new();
    for _ in 0..15 {
        let mut peer = world.connect().await;
        peer.write_i32(200_000).await.unwrap();
        silent.push(peer);
    }
    let mut large = Vec::new();
    for number in 0..8 {
        let mut peer = world.connect().await;
        large.push(tokio::spawn(async move {
            ask(&mut peer, ECHO, number, 200_000).await;
            answer(&mut peer).await.unwrap().len()
        }));
    }
    for task in large {
        assert_eq!(task.await.unwrap(), 200_000);
    }
    for peer in &mut silent {
        peer.write_all(&vec![0; 200_000]).await.unwrap();
        assert_eq!(answer(peer).await.unwrap().len(), 200_000);
    }
}

#[tokio::test]
async fn clients_that_stop_half_way_are_disconnected_for_others() {
    let limits = Limits { max_request_bytes: 200_000, max_queued_bytes: 400_000, ..Limits::default() };
    let world = world(limits).await;
    let mut stopped = Vec::new();
    for _ in 0..2 {
        let mut peer = world.connect().await;
        peer.write_i32(200_000).await.unwrap();
        peer.write_all(&[0; 60_000]).await.unwrap();
        stopped.push(peer);
    }
    world.still_serves().await;
    let mut peer = world.connect().await;
    ask(&mut peer, ECHO, 1, 200_000).await;
    assert_eq!(answer(&mut peer).await.unwrap().len(), 200_000);
    world.still_serves().await;
}

#[tokio::test]
async fn a_large_request_behind_a_waiting_one_is_not_read_yet() {
    let limits = Limits { max_request_bytes: 200_000, max_queued_bytes: 300_000, ..Limits::default() };
    let mut world = world(limits).await;
    let mut holder = world.connect().await;
    ask(&mut holder, HOLD, 2, 8).await;
    assert_eq!(world.event().await, Event::Began(2));
    let (mut answers, mut requests) = holder.into_split();
    let large = tokio::spawn(async move {
        let frame = [&200_000i32.to_be_bytes()[..], &[ECHO, 3], &[0; 199_998]].concat();
        requests.write_all(&frame).await.unwrap();
        requests
    });
    let mut other = world.connect().await;
    for _ in 0..3 {
        ask(&mut other, ECHO, 4, 200_000).await;
        assert_eq!(answer(&mut other).await.unwrap()[1], 4, "the budget has room for one at a time");
    }
    world.release.send_replace(2);
    let mut all = vec![0; 12 + 200_004];
    answers.read_exact(&mut all).await.unwrap();
    assert_eq!((all[5], all[17]), (2, 3));
    drop(large.await.unwrap());
}

#[tokio::test]
async fn a_connection_beyond_the_limit_is_closed() {
    let world = world(Limits { max_connections: 2, ..Limits::default() }).await;
    let mut first = world.connect().await;
    ask(&mut first, ECHO, 1, 8).await;
    assert!(answer(&mut first).await.is_some());
    let mut second = world.connect().await;
    ask(&mut second, ECHO, 2, 8).await;
    assert!(answer(&mut second).await.is_some());
    let mut third = world.connect().await;
    assert!(is_closed(&mut third).await);
    drop(first);
    loop {
        let mut peer = world.connect().await;
        // The socket of a rejected client may be reset while the client writes.
        let wrote = peer.write_all(&[0, 0, 0, 8, ECHO, 4, 0, 0, 0, 0, 0, 0]).await;
        if wrote.is_ok() && answer(&mut peer).await.is_some() {
            break;
        }
    }
}

#[tokio::test]
async fn stopping_sends_pending_responses_and_refuses_further_requests() {
    let mut world = world(Limits { stop_grace: Duration::from_secs(60), ..Limits::default() }).await;
    let mut idle = world.connect().await;
    let mut busy = world.connect().await;
    ask(&mut busy, HOLD, 1, 8).await;
    assert_eq!(world.event().await, Event::Began(1));
    let address = world.server.local_addr();
    let stopping = tokio::spawn(world.server.stop());
    assert!(is_closed(&mut idle).await);
    world.release.send_replace(1);
    assert_eq!(answer(&mut busy).await.unwrap()[1], 1);
    assert!(is_closed(&mut busy).await);
    stopping.await.unwrap();
    assert!(TcpStream::connect(address).await.is_err());
}

#[tokio::test]
async fn stopping_waits_no_longer_than_the_grace_period() {
    let mut world = world(Limits { stop_grace: Duration::from_millis(10), ..Limits::default() }).await;
    let mut busy = world.connect().await;
    ask(&mut busy, HOLD, 1, 8).await;
    assert_eq!(world.event().await, Event::Began(1));
    let World { server, mut events, release: _release } = world;
    server.stop().await;
    assert!(is_closed(&mut busy).await);
    assert_eq!(events.recv().await, Some(Event::Ended(1)));
}

/// The client's end of a connection over a pipe with a small buffer, and the sender that stops the connection. For
/// virtual time.
fn piped() -> (DuplexStream, watch::Sender<bool>) {
    let script = Script { events: mpsc::unbounded_channel().0, released: watch::channel(0).1 };
    let limits = Arc::new(Limits::default());
    let (peer, broker) = duplex(64);
    let (source, sink) = split(broker);
    let reader = RequestReader::new(
        source,
        RequestBudget::of(&limits, None),
        Arc::clone(&limits),
        FrameBounds::of_requests(),
    );
    let info =
        ConnectionInfo { number: 1, peer: SocketAddr::from(([127, 0, 0, 1], 1)), certificate_name: None };
    let connection = Connection::new(Arc::new(script), limits, info, reader, ResponseWriter::new(sink));
    let (stop, stopping) = watch::channel(false);
    tokio::spawn(connection.serve(stopping));
    (peer, stop)
}

#[tokio::test(start_paused = true)]
async fn requests_of_a_muted_connection_begin_when_the_mute_ends() {
    let (mut peer, _stop) = piped();
    let begun = Instant::now();
    ask(&mut peer, MUTE, 1, 8).await;
    ask(&mut peer, ECHO, 2, 8).await;
    assert_eq!(answer(&mut peer).await.unwrap()[1], 1);
    assert_eq!(begun.elapsed(), Duration::ZERO, "its own answer does not wait");
    assert_eq!(answer(&mut peer).await.unwrap()[1], 2);
    assert!(begun.elapsed() >= MUTED);
    ask(&mut peer, ECHO, 3, 8).await;
    assert_eq!(answer(&mut peer).await.unwrap()[1], 3);
    assert!(begun.elapsed() < 2 * MUTED, "once");
}

#[tokio::test(start_paused = true)]
async fn a_muted_connection_is_not_read_from() {
    let (mut peer, _stop) = piped();
    let begun = Instant::now();
    ask(&mut peer, MUTE, 1, 8).await;
    assert_eq!(answer(&mut peer).await.unwrap()[1], 1);
    ask(&mut peer, ECHO, 2, 100_000).await;
    assert!(begun.elapsed() >= MUTED, "a large request is taken while its connection is muted");
    assert_eq!(answer(&mut peer).await.unwrap().len(), 100_000);
}

#[tokio::test(start_paused = true)]
async fn requests_of_a_muted_client_are_answered_when_it_disconnects() {
    let (mut peer, _stop) = piped();
    let begun = Instant::now();
    ask(&mut peer, MUTE, 1, 8).await;
    ask(&mut peer, ECHO, 2, 8).await;
    peer.shutdown().await.unwrap();
    for number in [1, 2] {
        assert_eq!(answer(&mut peer).await.unwrap()[1], number);
    }
    assert!(begun.elapsed() < MUTED);
}
