//! The null broker: reads a frame, computes its checksum, makes it durable together with all others that have arrived,
//! and sends an empty answer. No broker that waits for the disk before it answers can be faster than it on the same
//! machine.

use std::fs::{File, OpenOptions};
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, Thread};

const BLOCK: usize = 4096;
/// The file is zero-filled to this size once and then written round and round.
const FILE: u64 = 128 << 20;
const GROUP: usize = 1 << 20;
/// What an answer has behind its size.
const ANSWER: usize = 40;
/// The largest frame that is accepted.
const LARGEST: usize = 4 << 20;

#[derive(Default)]
struct State {
    /// Bytes that wait to be written.
    open: usize,
    /// The connections that wait for them, each with its number.
    waiting: Vec<(u64, Thread)>,
    next: u64,
    durable: u64,
}

struct Log {
    state: Mutex<State>,
    work: Condvar,
}

impl Log {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns when `bytes` more bytes are durable.
    fn append(&self, bytes: usize) {
        let number = {
            let mut state = self.lock();
            state.open += bytes;
            state.next += 1;
            let number = state.next;
            state.waiting.push((number, thread::current()));
            number
        };
        self.work.notify_one();
        while self.lock().durable < number {
            thread::park();
        }
    }

    /// One group after the other: everything that waits, one write, one sync.
    fn write_groups(&self, file: &File) -> std::io::Result<()> {
        let mut memory = vec![7u8; GROUP + 2 * BLOCK];
        let start = memory.as_ptr().align_offset(BLOCK);
        let buffer = memory.get_mut(start..start + GROUP).unwrap_or_default();
        let mut place = 0;
        loop {
            let (bytes, waiting) = {
                let mut state = self.lock();
                while state.waiting.is_empty() {
                    state = self.work.wait(state).unwrap_or_else(PoisonError::into_inner);
                }
                (std::mem::take(&mut state.open), std::mem::take(&mut state.waiting))
            };
            let length = bytes.next_multiple_of(BLOCK).min(GROUP);
            if place + length as u64 > FILE {
                place = 0;
            }
            file.write_all_at(buffer.get(..length).unwrap_or_default(), place)?;
            file.sync_data()?;
            place += length as u64;
            if let Some((last, _)) = waiting.last() {
                self.lock().durable = *last;
            }
            waiting.iter().for_each(|(_, thread)| thread.unpark());
        }
    }
}

/// Serves until it is killed.
pub(crate) fn run(port: &str, path: &str) -> Result<(), String> {
    let told = |e: std::io::Error| format!("null broker with {path}: {e}");
    let file = zeroed(path).map_err(told)?;
    let listener = TcpListener::bind(format!("127.0.0.1:{port}")).map_err(told)?;
    let log = Arc::new(Log { state: Mutex::default(), work: Condvar::new() });
    let writer = Arc::clone(&log);
    thread::spawn(move || {
        if let Err(error) = writer.write_groups(&file) {
            eprintln!("ottla-bench: null broker: {error}");
            std::process::exit(1);
        }
    });
    for stream in listener.incoming() {
        let (stream, log) = (stream.map_err(told)?, Arc::clone(&log));
        thread::spawn(move || serve(stream, &log));
    }
    Ok(())
}

/// The file, filled once so that no write has to extend it, opened past the page cache where that is possible.
fn zeroed(path: &str) -> std::io::Result<File> {
    let mut file = File::create(path)?;
    let zeros = vec![0; GROUP];
    for _ in 0..FILE / GROUP as u64 {
        file.write_all(&zeros)?;
    }
    file.sync_all()?;
    let direct = rustix::fs::OFlags::DIRECT.bits() as i32;
    let options = || {
        let mut options = OpenOptions::new();
        options.read(true).write(true);
        options
    };
    options().custom_flags(direct).open(path).or_else(|_| options().open(path))
}

/// Answers frames in order. A frame may arrive in parts, or with the next.
fn serve(mut stream: TcpStream, log: &Log) {
    let mut answer = vec![0; 4 + ANSWER];
    answer[..4].copy_from_slice(&(ANSWER as u32).to_be_bytes());
    if stream.set_nodelay(true).is_err() {
        return;
    }
    let mut held: Vec<u8> = Vec::new();
    let mut chunk = vec![0; 128 << 10];
    loop {
        while let Some(frame) = whole_frame(&held) {
            std::hint::black_box(crc32c::crc32c(frame));
            let size = frame.len();
            log.append(size);
            held.drain(..size);
            if stream.write_all(&answer).is_err() {
                return;
            }
        }
        match stream.read(&mut chunk) {
            Ok(read) if read > 0 => held.extend(&chunk[..read]),
            _ => return,
        }
    }
}

/// The frame that is there from end to end, its length field included.
fn whole_frame(held: &[u8]) -> Option<&[u8]> {
    let size = u32::from_be_bytes(*held.first_chunk()?) as usize;
    held.get(..size.min(LARGEST) + 4)
}
