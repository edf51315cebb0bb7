//! One connection: each direction is read as frames, reported, and written to the other socket.

use crate::frames::{FrameReader, KeptFrame, MAX_KEPT, StreamItem};
use crate::pending::{self, PendingRequest, PendingRequests, is_answered};
use crate::rewrite::{RewriteError, names_brokers, rewrite};
use crate::{Event, Head, RelayedFrame, TapState, mask};
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
/// Bytes by which the protocol of a client is recognised: size, API and version.
const FIRST_BYTES: usize = 8;

/// One connection of a client, relayed to a broker.
pub(crate) struct Relay {
    connection: u64,
    /// The address of the tap that the client connected to.
    ip: IpAddr,
    shared: Arc<TapState>,
}

type Reader = FrameReader<OwnedReadHalf>;
type Writer = OwnedWriteHalf;

/// One of the two sockets.
struct Socket {
    from: Reader,
    to: Writer,
}

/// What is reported about a frame besides its bytes.
#[derive(Default)]
struct FrameFacts {
    head: Option<Head>,
    latency: Option<Duration>,
    rewritten: bool,
    note: Option<String>,
}

impl Relay {
    pub(crate) fn new(connection: u64, ip: IpAddr, shared: Arc<TapState>) -> Relay {
        Relay { connection, ip, shared }
    }

    /// Relays both directions until both have ended or one fails.
    pub(crate) async fn run(&self, client: TcpStream, broker: TcpStream) {
        // The relay works without them, but slower.
        let _ = client.set_nodelay(true);
        let _ = broker.set_nodelay(true);
        let (from_client, to_client) = client.into_split();
        let (from_broker, to_broker) = broker.into_split();
        let mut client =
            Socket { from: FrameReader::new(from_client, self.shared.budget.clone()), to: to_client };
        let mut broker =
            Socket { from: FrameReader::new(from_broker, self.shared.budget.clone()), to: to_broker };
        // An error ends the connection as the end of the stream does.
        if let Ok(protocol) = protocol(&mut client, &mut broker).await {
            self.relay(protocol, &mut client, &mut broker).await;
        }
        drop(broker);
        // Closing a socket with unread input resets the connection, and the client would lose the last responses.
        let mut unread = tokio::io::sink();
        let _ = timeout(LINGER, tokio::io::copy(client.from.stream(), &mut unread)).await;
    }

    async fn relay(&self, protocol: Protocol, client: &mut Socket, broker: &mut Socket) {
        match protocol {
            Protocol::Kafka => {
                let (sender, waiting) = pending::channel();
                let upstream = async {
                    if self.requests(&mut client.from, &mut broker.to, sender).await.is_err() {
                        // Tells the broker that no request follows.
                        let _ = broker.to.shutdown().await;
                    }
                };
                let downstream = self.responses(&mut broker.from, &mut client.to, waiting);
                until_both_end(upstream, downstream).await;
            }
            Protocol::Other(what) => {
                let text = format!("{what}: relayed without being decoded");
                self.shared.note(Some(self.connection), text).await;
                let upstream = async {
                    if pass_rest(&mut client.from, &mut broker.to).await.is_err() {
                        let _ = broker.to.shutdown().await;
                    }
                };
                let downstream = pass_rest(&mut broker.from, &mut client.to);
                until_both_end(upstream, downstream).await;
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
            let kept = match from.next().await? {
                StreamItem::Frame(kept) => kept,
                item => return self.no_frame("the client", item, from, to).await,
            };
            let head = Head::of_request(&kept.bytes).filter(|head| !tokens || head.is_known());
            // After version 0 of the handshake, SASL tokens follow without a header until the client is authenticated.
            tokens = match &head {
                Some(head) => head.key == ApiKey::SASL_HANDSHAKE && head.version == 0,
                None => tokens,
            };
            self.request(&kept, head, &pending).await;
            to.write_all(&kept.bytes).await?;
            pass(kept.unread, from, to).await?;
        }
    }

    async fn request(&self, kept: &KeptFrame, head: Option<Head>, pending: &mpsc::Sender<PendingRequest>) {
        if head.as_ref().is_none_or(|head| is_answered(head, &kept.bytes)) {
            // The receiver is dropped only when the connection ends.
            let _ = pending.send(PendingRequest { head: head.clone(), at: Instant::now() }).await;
        }
        let masked = match &head {
            Some(head) => mask::request(head.key, head.version, &kept.bytes),
            None => mask::token(&kept.bytes),
        };
        self.report(true, kept, masked, FrameFacts { head, ..FrameFacts::default() }).await;
    }

    async fn responses(
        &self,
        from: &mut Reader,
        to: &mut Writer,
        mut waiting: PendingRequests,
    ) -> io::Result<()> {
        loop {
            let kept = match from.next().await? {
                StreamItem::Frame(kept) => kept,
                item => return self.no_frame("the broker", item, from, to).await,
            };
            match self.response(&kept, waiting.take(&kept.bytes)).await {
                None => to.write_all(&kept.bytes).await?,
                Some(frame) => {
                    for chunk in frame.chunks() {
                        to.write_all(chunk).await?;
                    }
                }
            }
            pass(kept.unread, from, to).await?;
        }
    }

    /// Reports a response; returns the frame that the client gets instead of it, if its addresses are replaced.
    async fn response(&self, kept: &KeptFrame, asked: Option<PendingRequest>) -> Option<Frame> {
        let whole = &kept.bytes;
        let Some(PendingRequest { head, at }) = asked else {
            let note = Some("answers no known request".to_owned());
            self.report(false, kept, whole.clone(), FrameFacts { note, ..FrameFacts::default() }).await;
            return None;
        };
        let latency = Some(at.elapsed());
        let Some(head) = head.map(|head| with_response_version(head, whole)) else {
            let about = FrameFacts { latency, ..FrameFacts::default() };
            self.report(false, kept, mask::token(whole), about).await;
            return None;
        };
        let (frame, note) = match self.local(&head, kept).await {
            Ok(frame) => (frame, None),
            Err(why) => (None, Some(format!("relayed with its own addresses: {why}"))),
        };
        let masked = mask::response(head.key, head.version, whole);
        let about = FrameFacts { head: Some(head), latency, rewritten: frame.is_some(), note };
        self.report(false, kept, masked, about).await;
        frame
    }

    /// The response with the tap's addresses, after opening a port for every new broker in it; `None` if no address
    /// changes.
    async fn local(&self, head: &Head, kept: &KeptFrame) -> Result<Option<Frame>, RewriteError> {
        if !names_brokers(head.key) || kept.unread > 0 {
            return Ok(None);
        }
        let mut new = BTreeSet::new();
        let ports = &self.shared.ports;
        let first = rewrite(head.key, head.version, &kept.bytes, &mut |host, port| {
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
        rewrite(head.key, head.version, &kept.bytes, &mut |host, port| {
            ports.get(host, port, self.ip).flatten()
        })
    }

    /// Relays bytes that are no frame, and everything after them, and ends the direction.
    async fn no_frame(
        &self,
        who: &str,
        item: StreamItem,
        from: &mut Reader,
        to: &mut Writer,
    ) -> io::Result<()> {
        let (bytes, text) = match item {
            StreamItem::Frame(kept) => (kept.bytes, None),
            StreamItem::NotAFrame(bytes) => (
                bytes,
                Some(format!(
                    "{who} sent bytes that are no frame: relayed from here on without being decoded"
                )),
            ),
            StreamItem::End(bytes) if bytes.is_empty() => (bytes, None),
            StreamItem::End(bytes) => {
                let text =
                    format!("the last frame of {who} ends after {} bytes, before its size says", bytes.len());
                (bytes, Some(text))
            }
        };
        if let Some(text) = text {
            self.shared.note(Some(self.connection), text).await;
        }
        to.write_all(&bytes).await?;
        pass_rest(from, to).await
    }

    async fn report(&self, is_request: bool, kept: &KeptFrame, masked: Bytes, about: FrameFacts) {
        let FrameFacts { head, latency, rewritten, mut note } = about;
        let size = kept.size();
        let is_whole = kept.unread == 0;
        if !is_whole {
            let why = if size > MAX_KEPT { "too large" } else { "too many large frames in transit" };
            note = Some(format!("{why}: only its beginning was decoded"));
        }
        // The secrets in a part of a frame cannot be located.
        let bytes = if is_whole { masked } else { masked.slice(..FIRST_BYTES.min(masked.len())) };
        let (connection, at, _reservation) = (self.connection, SystemTime::now(), kept.reservation.clone());
        let seen = RelayedFrame {
            connection,
            is_request,
            at,
            bytes,
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

/// The header of a request with the version of its response. An ApiVersions request of a version that the broker does
/// not know is answered in version 0.
fn with_response_version(head: Head, whole: &Bytes) -> Head {
    const ERROR_CODE: usize = 8;
    let code = whole.get(ERROR_CODE..).and_then(<[u8]>::first_chunk).map(|code| i16::from_be_bytes(*code));
    let refused = code == Some(ErrorCode::UNSUPPORTED_VERSION.0) && head.key == ApiKey::API_VERSIONS;
    Head { version: if refused { 0 } else { head.version }, ..head }
}

/// The protocol of a connection.
enum Protocol {
    Kafka,
    Other(&'static str),
}

/// Waits for the first bytes of either side and recognises the protocol.
async fn protocol(client: &mut Socket, broker: &mut Socket) -> io::Result<Protocol> {
    tokio::select! {
        first = client.from.peek(FIRST_BYTES) => Ok(not_kafka(first?).map_or(Protocol::Kafka, Protocol::Other)),
        first = broker.from.peek(1) => Ok(match first? {
            [] => Protocol::Kafka,
            _ => Protocol::Other("the broker spoke first"),
        })
    }
}

/// Why these first bytes are not those of a Kafka client; `None` if they are.
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
async fn pass(unread: usize, from: &mut Reader, to: &mut Writer) -> io::Result<()> {
    if unread > 0 {
        tokio::io::copy(&mut from.stream().take(unread as u64), to).await?;
    }
    Ok(())
}

/// Copies the buffer and the rest of the stream, then shuts the direction down.
async fn pass_rest(from: &mut Reader, to: &mut Writer) -> io::Result<()> {
    to.write_all(&from.take_buffer()).await?;
    tokio::io::copy(from.stream(), to).await?;
    to.shutdown().await
}

/// Ends with the direction of responses. A client that has closed its side, or sends what the broker no longer reads,
/// still gets the remaining responses.
async fn until_both_end<T>(upstream: impl Future<Output = ()>, downstream: impl Future<Output = T>) {
    let (mut upstream, mut downstream) = (std::pin::pin!(upstream), std::pin::pin!(downstream));
    tokio::select! {
        _ = &mut downstream => {}
        () = &mut upstream => {
            downstream.await;
        }
    }
}
