//! The null sink of `cargo xtask bench data`: the limit of what a broker can do. It reads Produce requests, compares
//! the checksum of every batch, keeps the bytes durably in groups or drops them, and answers; it answers Fetch with the
//! same bytes every time, out of memory, of cached files or of the disk. It knows no topics, offsets or sequences. One
//! thread serves all connections.

mod disk;
mod reads;

use crate::load::template;
use bytes::{Buf, Bytes, BytesMut};
use disk::Disk;
use ottla_wire::ApiKey;
use reads::Reads;
use rustix::event::{PollFd, PollFlags, poll};
use std::collections::VecDeque;
use std::io::{ErrorKind, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::fd::AsFd;

/// What one read asks for.
const CHUNK: usize = 256 << 10;
/// The largest frame that is accepted.
const LARGEST: usize = 16 << 20;

/// Where the bytes of Produce requests go.
enum Keep {
    Durably(Disk),
    Nowhere,
}

/// A connection, its answers in the order of the requests.
struct Peer {
    stream: TcpStream,
    inbox: BytesMut,
    /// Answers, each with the group that must be durable before it leaves.
    waiting: VecDeque<(u64, i32)>,
    out: VecDeque<Bytes>,
    gone: bool,
}

struct Sink {
    keep: Keep,
    reads: Reads,
}

/// `sink PORT FOLDER durable|discard memory|file|cold`: serves until it is killed.
pub(crate) fn run(port: &str, folder: &str, keep: &str, reads: &str) -> Result<(), String> {
    let told = |e: std::io::Error| format!("null sink in {folder}: {e}");
    std::fs::create_dir_all(folder).map_err(told)?;
    let keep = match keep {
        "durable" => Keep::Durably(Disk::start(&format!("{folder}/sink.log")).map_err(told)?),
        "discard" => Keep::Nowhere,
        other => return Err(format!("{other} is neither durable nor discard")),
    };
    let reads = Reads::open(reads, folder)?;
    let listener = TcpListener::bind(format!("127.0.0.1:{port}")).map_err(told)?;
    listener.set_nonblocking(true).map_err(told)?;
    serve(&listener, &mut Sink { keep, reads }).map_err(told)
}

fn serve(listener: &TcpListener, sink: &mut Sink) -> std::io::Result<()> {
    let mut peers: Vec<Peer> = Vec::new();
    loop {
        wait(listener, &peers, &sink.keep)?;
        match listener.accept() {
            Ok((stream, _)) => peers.push(Peer::new(stream)?),
            Err(e) if e.kind() == ErrorKind::WouldBlock => {}
            Err(e) => return Err(e),
        }
        if let Keep::Durably(disk) = &sink.keep {
            disk.clear_signal();
        }
        for peer in &mut peers {
            // A connection that ends badly is only closed, as a broker does.
            peer.gone |= peer.read().is_err() || sink.take(peer)?.is_none();
            sink.release(peer);
            peer.gone |= peer.write().is_err();
        }
        peers.retain(|peer| !peer.gone);
    }
}

/// Waits until a socket or the disk has something.
fn wait(listener: &TcpListener, peers: &[Peer], keep: &Keep) -> std::io::Result<()> {
    let mut waits = vec![PollFd::new(listener, PollFlags::IN)];
    if let Keep::Durably(disk) = keep {
        waits.push(PollFd::from_borrowed_fd(disk.signal().as_fd(), PollFlags::IN));
    }
    for peer in peers {
        let reading = if peer.is_full() { PollFlags::empty() } else { PollFlags::IN };
        let writing = if peer.out.is_empty() { PollFlags::empty() } else { PollFlags::OUT };
        waits.push(PollFd::new(&peer.stream, reading | writing));
    }
    match poll(&mut waits, None) {
        Ok(_) | Err(rustix::io::Errno::INTR) => Ok(()),
        Err(e) => Err(e.into()),
    }
}

impl Sink {
    /// Executes the whole requests. None if one is not valid.
    fn take(&mut self, peer: &mut Peer) -> std::io::Result<Option<()>> {
        while let Some(size) = peer.whole_frame() {
            if size > LARGEST {
                return Ok(None);
            }
            let frame = &peer.inbox[..size];
            let Some(key) = frame.get(4..6).map(|key| i16::from_be_bytes([key[0], key[1]])) else {
                return Ok(None);
            };
            let Some(correlation) = frame.get(8..12).and_then(|part| part.first_chunk()) else {
                return Ok(None);
            };
            let correlation = i32::from_be_bytes(*correlation);
            if key == ApiKey::PRODUCE.0 {
                if let Keep::Durably(disk) = &self.keep
                    && !disk.has_room(size)
                {
                    return Ok(Some(()));
                }
                let Some(batches) = template::batches(frame) else { return Ok(None) };
                if !batches.into_iter().all(checksum_fits) {
                    return Ok(None);
                }
                let group = match &self.keep {
                    Keep::Durably(disk) => disk.append(frame),
                    Keep::Nowhere => 0,
                };
                peer.waiting.push_back((group, correlation));
            } else if key == ApiKey::FETCH.0 {
                peer.out.extend(self.reads.answer(correlation)?);
            } else {
                return Ok(None);
            }
            peer.inbox.advance(size);
        }
        Ok(Some(()))
    }

    /// Moves the answers that may leave to where they leave from.
    fn release(&self, peer: &mut Peer) {
        let durable = match &self.keep {
            Keep::Durably(disk) => disk.durable(),
            Keep::Nowhere => 0,
        };
        let mut answers = Vec::new();
        while let Some((_, correlation)) = peer.waiting.pop_front_if(|(group, _)| *group <= durable) {
            // Size, correlation, no tags; no topics, which means no errors; no throttling, no tags.
            answers.extend(11u32.to_be_bytes());
            answers.extend(correlation.to_be_bytes());
            answers.extend([0, 1, 0, 0, 0, 0, 0]);
        }
        if !answers.is_empty() {
            peer.out.push_back(answers.into());
        }
    }
}

fn checksum_fits(batch: &[u8]) -> bool {
    let told = batch.get(17..21).and_then(|crc| crc.first_chunk()).map(|crc| u32::from_be_bytes(*crc));
    batch.get(21..).is_some_and(|rest| told == Some(crc32c::crc32c(rest)))
}

impl Peer {
    fn new(stream: TcpStream) -> std::io::Result<Peer> {
        stream.set_nodelay(true)?;
        stream.set_nonblocking(true)?;
        let inbox = BytesMut::with_capacity(2 * CHUNK);
        Ok(Peer { stream, inbox, waiting: VecDeque::new(), out: VecDeque::new(), gone: false })
    }

    /// The size of the frame at the front, its length field included, when all of it is there.
    fn whole_frame(&self) -> Option<usize> {
        let size = u32::from_be_bytes(*self.inbox.first_chunk()?) as usize + 4;
        (self.inbox.len() >= size || size > LARGEST).then_some(size)
    }

    /// Whether it holds whole requests that the disk has no room for.
    fn is_full(&self) -> bool {
        self.whole_frame().is_some()
    }

    /// Reads until there is nothing, or a few frames are there.
    fn read(&mut self) -> std::io::Result<()> {
        while !self.is_full() {
            let filled = self.inbox.len();
            self.inbox.resize(filled + CHUNK, 0);
            let read = self.stream.read(&mut self.inbox[filled..]);
            self.inbox.truncate(filled + *read.as_ref().unwrap_or(&0));
            match read {
                Ok(0) => return Err(ErrorKind::UnexpectedEof.into()),
                Ok(_) => {}
                Err(e) if e.kind() == ErrorKind::WouldBlock => return Ok(()),
                Err(e) if e.kind() == ErrorKind::Interrupted => {}
                Err(e) => return Err(e),
            }
        }
        Ok(())
    }

    fn write(&mut self) -> std::io::Result<()> {
        while let Some(front) = self.out.front_mut() {
            match self.stream.write(front) {
                Ok(count) => front.advance(count),
                Err(e) if e.kind() == ErrorKind::WouldBlock => return Ok(()),
                Err(e) if e.kind() == ErrorKind::Interrupted => {}
                Err(e) => return Err(e),
            }
            if front.is_empty() {
                self.out.pop_front();
            }
        }
        Ok(())
    }
}
