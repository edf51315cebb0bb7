//! One connection: its two directions, each read as frames, told, and written to the other side.

use crate::frames::{Arrived, Frames, LARGEST, Piece};
use crate::pending::{self, Asked, Waiting, is_answered};
use crate::rewrite::{RewriteError, names_brokers, rewrite};
use crate::{Event, Head, Seen, Shared, mask};
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
const OPENING: usize = 8;

/// One connection.
pub(crate) struct Link {
    connection: u64,
    /// The tap's address as this client knows it.
    ip: IpAddr,
    shared: Arc<Shared>,
}

type Input = Frames<OwnedReadHalf>;
type Output = OwnedWriteHalf;

/// One of the two sockets.
struct Side {
    from: Input,
    to: Output,
}

/// How a frame is told, beside its bytes.
#[derive(Default)]
struct About {
    head: Option<Head>,
    latency: Option<Duration>,
    rewritten: bool,
    note: Option<String>,
}

impl Link {
    pub(crate) fn new(connection: u64, ip: IpAddr, shared: Arc<Shared>) -> Link {
        Link { connection, ip, shared }
    }

    /// Carries both directions until both have ended, or one cannot go on.
    pub(crate) async fn carry(&self, client: TcpStream, broker: TcpStream) {
        // Without these the tap would only be slower.
        let _ = client.set_nodelay(true);
        let _ = broker.set_nodelay(true);
        let (from_client, to_client) = client.into_split();
        let (from_broker, to_broker) = broker.into_split();
        let mut client = Side { from: Frames::new(from_client, self.shared.budget.clone()), to: to_client };
        let mut broker = Side { from: Frames::new(from_broker, self.shared.budget.clone()), to: to_broker };
        // How a direction ended makes no difference: the connection has ended.
        if let Ok(opening) = opening(&mut client, &mut broker).await {
            self.carry_on(opening, &mut client, &mut broker).await;
        }
        drop(broker);
        // A socket closed with unread input takes back what was written to it last.
        let mut unread = tokio::io::sink();
        let _ = timeout(LINGER, tokio::io::copy(client.from.stream(), &mut unread)).await;
    }

    async fn carry_on(&self, opening: Opening, client: &mut Side, broker: &mut Side) {
        match opening {
            Opening::Kafka => {
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
            Opening::Other(what) => {
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
        from: &mut Input,
        to: &mut Output,
        asked: mpsc::Sender<Asked>,
    ) -> io::Result<()> {
        let mut tokens = false;
        loop {
            let arrived = match from.next().await? {
                Piece::Frame(arrived) => arrived,
                piece => return self.no_frame("the client", piece, from, to).await,
            };
            let head = Head::of_request(&arrived.bytes).filter(|head| !tokens || head.is_known());
            // After version 0 of the handshake, tokens follow without a header until the client is known.
            tokens = match &head {
                Some(head) => head.key == ApiKey::SASL_HANDSHAKE && head.version == 0,
                None => tokens,
            };
            self.request(&arrived, head, &asked).await;
            to.write_all(&arrived.bytes).await?;
            pass(arrived.left, from, to).await?;
        }
    }

    async fn request(&self, arrived: &Arrived, head: Option<Head>, asked: &mpsc::Sender<Asked>) {
        if head.as_ref().is_none_or(|head| is_answered(head, &arrived.bytes)) {
            // The other end goes away only when the connection does.
            let _ = asked.send(Asked { head: head.clone(), at: Instant::now() }).await;
        }
        let masked = match &head {
            Some(head) => mask::request(head.key, head.version, &arrived.bytes),
            None => mask::token(&arrived.bytes),
        };
        self.tell(true, arrived, masked, About { head, ..About::default() }).await;
    }

    async fn responses(&self, from: &mut Input, to: &mut Output, mut waiting: Waiting) -> io::Result<()> {
        loop {
            let arrived = match from.next().await? {
                Piece::Frame(arrived) => arrived,
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
            pass(arrived.left, from, to).await?;
        }
    }

    /// Tells a response; comes back with what the client is given instead of it.
    async fn response(&self, arrived: &Arrived, asked: Option<Asked>) -> Option<Frame> {
        let whole = &arrived.bytes;
        let Some(Asked { head, at }) = asked else {
            let note = Some("answers no request that was seen".to_owned());
            self.tell(false, arrived, whole.clone(), About { note, ..About::default() }).await;
            return None;
        };
        let latency = Some(at.elapsed());
        let Some(head) = head.map(|head| answered(head, whole)) else {
            let about = About { latency, ..About::default() };
            self.tell(false, arrived, mask::token(whole), about).await;
            return None;
        };
        let (frame, note) = match self.local(&head, arrived).await {
            Ok(frame) => (frame, None),
            Err(why) => (None, Some(format!("passed as it is, addresses included: {why}"))),
        };
        let masked = mask::response(head.key, head.version, whole);
        let about = About { head: Some(head), latency, rewritten: frame.is_some(), note };
        self.tell(false, arrived, masked, about).await;
        frame
    }

    /// The answer with this tap's addresses, after giving every broker in it a port; `None` when that changes nothing.
    async fn local(&self, head: &Head, arrived: &Arrived) -> Result<Option<Frame>, RewriteError> {
        if !names_brokers(head.key) || arrived.left > 0 {
            return Ok(None);
        }
        let mut new = BTreeSet::new();
        let nodes = &self.shared.nodes;
        let first = rewrite(head.key, head.version, &arrived.bytes, &mut |host, port| {
            nodes.get(host, port, self.ip).unwrap_or_else(|| {
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
            nodes.get(host, port, self.ip).flatten()
        })
    }

    /// Passes on what is no frame and ends the direction.
    async fn no_frame(&self, who: &str, piece: Piece, from: &mut Input, to: &mut Output) -> io::Result<()> {
        let (bytes, text) = match piece {
            Piece::Frame(arrived) => (arrived.bytes, None),
            Piece::Foreign(bytes) => {
                (bytes, Some(format!("{who} sent what is no frame: passed through from here on")))
            }
            Piece::End(bytes) if bytes.is_empty() => (bytes, None),
            Piece::End(bytes) => {
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

    async fn tell(&self, is_request: bool, arrived: &Arrived, masked: Bytes, about: About) {
        let About { head, latency, rewritten, mut note } = about;
        let size = arrived.size();
        let is_whole = arrived.left == 0;
        if !is_whole {
            let why = if size > LARGEST { "too large" } else { "too many large frames under way" };
            note = Some(format!("{why}: only its beginning was looked at"));
        }
        // Where the secrets of a part are is not known.
        let frame = if is_whole { masked } else { masked.slice(..OPENING.min(masked.len())) };
        let (connection, at, _room) = (self.connection, SystemTime::now(), arrived.room.clone());
        let seen = Seen { connection, is_request, at, frame, size, head, latency, rewritten, note, _room };
        self.shared.tell(Event::Frame(seen)).await;
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
enum Opening {
    Kafka,
    Other(&'static str),
}

/// Waits for the first bytes and says what they are.
async fn opening(client: &mut Side, broker: &mut Side) -> io::Result<Opening> {
    tokio::select! {
        first = client.from.peek(OPENING) => Ok(not_kafka(first?).map_or(Opening::Kafka, Opening::Other)),
        first = broker.from.peek(1) => Ok(match first? {
            [] => Opening::Kafka,
            _ => Opening::Other("the broker spoke first"),
        })
    }
}

/// Why these first bytes are not a Kafka client's.
fn not_kafka(first: &[u8]) -> Option<&'static str> {
    let [s0, s1, s2, s3, k0, k1, ..] = *first else { return None };
    let is_known = ApiKey(i16::from_be_bytes([k0, k1])).info().is_some();
    match usize::try_from(i32::from_be_bytes([s0, s1, s2, s3])) {
        _ if (s0, s1) == (0x16, 3) => Some("TLS"),
        Ok(size) if size <= LARGEST || is_known => None,
        _ => Some("not Kafka's protocol"),
    }
}

/// Copies the rest of a frame.
async fn pass(left: usize, from: &mut Input, to: &mut Output) -> io::Result<()> {
    if left > 0 {
        tokio::io::copy(&mut from.stream().take(left as u64), to).await?;
    }
    Ok(())
}

/// Copies what was read and what follows, then closes the way.
async fn pass_rest(from: &mut Input, to: &mut Output) -> io::Result<()> {
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
