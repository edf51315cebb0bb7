//! One connection: its two directions, each read as frames, told, and written to the other side.

use crate::frames::{FrameReader, KeptFrame, MAX_KEPT, StreamItem};
use crate::pending::{self, PendingRequest, PendingRequests, is_answered};
use crate::rewrite::{RewriteError, names_brokers, rewrite};
use crate::{Event, Head, RelayedFrame, Shared, mask};
use bytes::Bytes;
use ottla_wire::frame::Frame;
use ottla_wire::{ApiKey, ErrorCode};
use std::collections::BTreeSet;
use std::io;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::sync::mpsc;
use tokio::time::timeout;

/// How long a client may take to read the last answers before its connection is closed.
const LINGER: Duration = Duration::from_secs(1);
/// Bytes that tell whether a client speaks Kafka: size, API and version.
const FIRST_BYTES: usize = 8;

/// One connection.
pub(crate) struct Relay {
    connection: u64,
    /// The tap's address as this client knows it.
    ip: IpAddr,
    shared: Arc<Shared>,
}

type Reader = FrameReader<OwnedReadHalf>;
type Writer = OwnedWriteHalf;

/// One of the two sockets.
struct Socket {
    from: Reader,
    to: Writer,
}

/// How a frame is told, beside its bytes.
#[derive(Default)]
struct FrameFacts {
    head: Option<Head>,
    latency: Option<Duration>,
    rewritten: bool,
    note: Option<String>,
}

impl Relay {
    pub(crate) fn new(connection: u64, ip: IpAddr, shared: Arc<Shared>) -> Relay {
        Relay { connection, ip, shared }
    }

    /// Carries both directions until both have ended, or one cannot go on.
    pub(crate) async fn run(&self, client: TcpStream, broker: TcpStream) {
        // Without these the tap would only be slower.
        let _ = client.set_nodelay(true);
        let _ = broker.set_nodelay(true);
        let (from_client, to_client) = client.into_split();
        let (from_broker, to_broker) = broker.into_split();
        let mut client =
            Socket { from: FrameReader::new(from_client, self.shared.budget.clone()), to: to_client };
        let mut broker =
            Socket { from: FrameReader::new(from_broker, self.shared.budget.clone()), to: to_broker };
        // How a direction ended makes no difference: the connection has ended.
        if let Ok(protocol) = protocol(&mut client, &mut broker).await {
            self.relay(protocol, &mut client, &mut broker).await;
        }
        drop(broker);
        // A socket closed with unread input takes back what was written to it last.
        let mut unread = tokio::io::sink();
        let _ = timeout(LINGER, tokio::io::copy(client.from.stream(), &mut unread)).await;
    }

    async fn relay(&self, protocol: Protocol, client: &mut Socket, broker: &mut Socket) {
        match protocol {
            Protocol::Kafka => {
                let (sender, waiting) = pending::channel();
                let there = async {
                    if self.requests(&mut client.from, &mut broker.to, sender).await.is_err() {
                        // The broker is to learn that nothing follows.
                        let _ = broker.to.shutdown().await;
                    }
                };
                let back = self.responses(&mut broker.from, &mut client.to, waiting);
                until_both_end(there, back).await;
            }
            Protocol::Other(what) => {
                let text = format!("{what}: passed through, not looked into");
                self.shared.note(Some(self.connection), text).await;
                let there = async {
                    if pass_rest(&mut client.from, &mut broker.to).await.is_err() {
                        let _ = broker.to.shutdown().await;
                    }
                };
                let back = pass_rest(&mut broker.from, &mut client.to);
                until_both_end(there, back).await;
            }
        }
    }

    async fn requests(
        &self,
        from: &mut Reader,
        to: &mut Writer,
        pending: mpsc::Sender<PendingRequest>,
    ) -> io::Result<()> {
        let mut tokens = false;
        loop {
            let arrived = match from.next().await? {
                StreamItem::Frame(arrived) => arrived,
                piece => return self.no_frame("the client", piece, from, to).await,
            };
            let head = Head::of_request(&arrived.bytes).filter(|head| !tokens || head.is_known());
            // After version 0 of the handshake, tokens follow without a header until the client is known.
            tokens = match &head {
                Some(head) => head.key == ApiKey::SASL_HANDSHAKE && head.version == 0,
                None => tokens,
            };
            self.request(&arrived, head, &pending).await;
            to.write_all(&arrived.bytes).await?;
            pass(arrived.unread, from, to).await?;
        }
    }

    async fn request(&self, arrived: &KeptFrame, head: Option<Head>, pending: &mpsc::Sender<PendingRequest>) {
        if head.as_ref().is_none_or(|head| is_answered(head, &arrived.bytes)) {
            // The other end goes away only when the connection does.
            let _ = pending.send(PendingRequest { head: head.clone(), at: Instant::now() }).await;
        }
        let masked = match &head {
            Some(head) => mask::request(head.key, head.version, &arrived.bytes),
            None => mask::token(&arrived.bytes),
        };
        self.report(true, arrived, masked, FrameFacts { head, ..FrameFacts::default() }).await;
    }

    async fn responses(
        &self,
        from: &mut Reader,
        to: &mut Writer,
        mut waiting: PendingRequests,
    ) -> io::Result<()> {
        loop {
            let arrived = match from.next().await? {
                StreamItem::Frame(arrived) => arrived,
                piece => return self.no_frame("the broker", piece, from, to).await,
            };
            match self.response(&arrived, waiting.take(&arrived.bytes)).await {
                None => to.write_all(&arrived.bytes).await?,
                Some(frame) => {
                    for chunk in frame.chunks() {
                        to.write_all(chunk).await?;
                    }
                }
            }
            pass(arrived.unread, from, to).await?;
        }
    }

    /// Tells a response; comes back with what the client is given instead of it.
    async fn response(&self, arrived: &KeptFrame, asked: Option<PendingRequest>) -> Option<Frame> {
        let whole = &arrived.bytes;
        let Some(PendingRequest { head, at }) = asked else {
            let note = Some("answers no request that was seen".to_owned());
            self.report(false, arrived, whole.clone(), FrameFacts { note, ..FrameFacts::default() }).await;
            return None;
        };
        let latency = Some(at.elapsed());
        let Some(head) = head.map(|head| answered(head, whole)) else {
            let about = FrameFacts { latency, ..FrameFacts::default() };
            self.report(false, arrived, mask::token(whole), about).await;
            return None;
        };
        let (frame, note) = match self.local(&head, arrived).await {
            Ok(frame) => (frame, None),
            Err(why) => (None, Some(format!("passed as it is, addresses included: {why}"))),
        };
        let masked = mask::response(head.key, head.version, whole);
        let about = FrameFacts { head: Some(head), latency, rewritten: frame.is_some(), note };
        self.report(false, arrived, masked, about).await;
        frame
    }

    /// The answer with this tap's addresses, after giving every broker in it a port; `None` when that changes nothing.
    async fn local(&self, head: &Head, arrived: &KeptFrame) -> Result<Option<Frame>, RewriteError> {
        if !names_brokers(head.key) || arrived.unread > 0 {
            return Ok(None);
        }
        let mut new = BTreeSet::new();
        let ports = &self.shared.ports;
        let first = rewrite(head.key, head.version, &arrived.bytes, &mut |host, port| {
            ports.get(host, port, self.ip).unwrap_or_else(|| {
                new.insert((host.to_owned(), port));
                None
            })
        })?;
        if new.is_empty() {
            return Ok(first);
        }
        for broker in new {
            self.shared.open(broker).await;
        }
        rewrite(head.key, head.version, &arrived.bytes, &mut |host, port| {
            ports.get(host, port, self.ip).flatten()
        })
    }

    /// Passes on what is no frame and ends the direction.
    async fn no_frame(
        &self,
        who: &str,
        piece: StreamItem,
        from: &mut Reader,
        to: &mut Writer,
    ) -> io::Result<()> {
        let (bytes, text) = match piece {
            StreamItem::Frame(arrived) => (arrived.bytes, None),
            StreamItem::NotAFrame(bytes) => {
                (bytes, Some(format!("{who} sent what is no frame: passed through from here on")))
            }
            StreamItem::End(bytes) if bytes.is_empty() => (bytes, None),
            StreamItem::End(bytes) => {
                let text = format!("the last frame of {who} breaks off after {} bytes", bytes.len());
                (bytes, Some(text))
            }
        };
        if let Some(text) = text {
            self.shared.note(Some(self.connection), text).await;
        }
        to.write_all(&bytes).await?;
        pass_rest(from, to).await
    }

    async fn report(&self, is_request: bool, arrived: &KeptFrame, masked: Bytes, about: FrameFacts) {
        let FrameFacts { head, latency, rewritten, mut note } = about;
        let size = arrived.size();
        let is_whole = arrived.unread == 0;
        if !is_whole {
            let why = if size > MAX_KEPT { "too large" } else { "too many large frames under way" };
            note = Some(format!("{why}: only its beginning was looked at"));
        }
        // Where the secrets of a part are is not known.
        let frame = if is_whole { masked } else { masked.slice(..FIRST_BYTES.min(masked.len())) };
        let (connection, at, _reservation) =
            (self.connection, SystemTime::now(), arrived.reservation.clone());
        let seen = RelayedFrame {
            connection,
            is_request,
            at,
            frame,
            size,
            head,
            latency,
            rewritten,
            note,
            _reservation,
        };
        self.shared.report(Event::Frame(seen)).await;
    }
}

/// The head of a request as its response has it: an ApiVersions request of a version that the broker does not know is answered in
/// version 0.
fn answered(head: Head, whole: &Bytes) -> Head {
    const ERROR_CODE: usize = 8;
    let code = whole.get(ERROR_CODE..).and_then(<[u8]>::first_chunk).map(|code| i16::from_be_bytes(*code));
    let refused = code == Some(ErrorCode::UNSUPPORTED_VERSION.0) && head.key == ApiKey::API_VERSIONS;
    Head { version: if refused { 0 } else { head.version }, ..head }
}

/// What a connection speaks.
enum Protocol {
    Kafka,
    Other(&'static str),
}

/// Waits for the first bytes and says what they are.
async fn protocol(client: &mut Socket, broker: &mut Socket) -> io::Result<Protocol> {
    tokio::select! {
        first = client.from.peek(FIRST_BYTES) => Ok(not_kafka(first?).map_or(Protocol::Kafka, Protocol::Other)),
        first = broker.from.peek(1) => Ok(match first? {
            [] => Protocol::Kafka,
            _ => Protocol::Other("the broker spoke first"),
        })
    }
}

/// Why these first bytes are not a Kafka client's.
fn not_kafka(first: &[u8]) -> Option<&'static str> {
    let [s0, s1, s2, s3, k0, k1, ..] = *first else { return None };
    let is_known = ApiKey(i16::from_be_bytes([k0, k1])).info().is_some();
    match usize::try_from(i32::from_be_bytes([s0, s1, s2, s3])) {
        _ if (s0, s1) == (0x16, 3) => Some("TLS"),
        Ok(size) if size <= MAX_KEPT || is_known => None,
        _ => Some("not Kafka's protocol"),
    }
}

/// Copies the rest of a frame.
async fn pass(left: usize, from: &mut Reader, to: &mut Writer) -> io::Result<()> {
    if left > 0 {
        tokio::io::copy(&mut from.stream().take(left as u64), to).await?;
    }
    Ok(())
}

/// Copies what was read and what follows, then closes the way.
async fn pass_rest(from: &mut Reader, to: &mut Writer) -> io::Result<()> {
    to.write_all(&from.take_buffer()).await?;
    tokio::io::copy(from.stream(), to).await?;
    to.shutdown().await
}

/// Ends with the way back. A client that has closed its side, or sends what the broker does not take any more, still gets the answers.
async fn until_both_end<T>(there: impl Future<Output = ()>, back: impl Future<Output = T>) {
    let (mut there, mut back) = (std::pin::pin!(there), std::pin::pin!(back));
    tokio::select! {
        _ = &mut back => {}
        () = &mut there => {
            back.await;
        }
    }
}
