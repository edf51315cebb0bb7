//! Group commit: everything that arrived while the last group was written goes to the disk with one write and one sync.

use rustix::event::{EventfdFlags, eventfd};
use std::fs::{File, OpenOptions};
use std::io::Write;
use std::os::fd::OwnedFd;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

const BLOCK: usize = 4096;
/// The file is filled with zeros to this size once and then written round and round.
const FILE: u64 = 256 << 20;
/// The most that one group holds.
const GROUP: usize = 4 << 20;

/// Memory that starts at a block of the disk.
struct Buffer {
    memory: Vec<u8>,
    start: usize,
    filled: usize,
}

impl Buffer {
    fn new() -> Buffer {
        // Not zero, so that every page is there before the clock starts.
        let memory = vec![7; GROUP + 2 * BLOCK];
        let start = memory.as_ptr().align_offset(BLOCK);
        Buffer { memory, start, filled: 0 }
    }

    fn push(&mut self, bytes: &[u8]) {
        let at = self.start + self.filled;
        if let Some(room) = self.memory.get_mut(at..at + bytes.len()) {
            room.copy_from_slice(bytes);
            self.filled += bytes.len();
        }
    }

    /// What is filled, up to the end of its last block.
    fn blocks(&self) -> &[u8] {
        let length = self.filled.next_multiple_of(BLOCK);
        self.memory.get(self.start..self.start + length).unwrap_or_default()
    }
}

struct State {
    /// The group that fills.
    open: Buffer,
    /// Its number; all before it are being written or durable.
    number: u64,
    durable: u64,
}

struct WriterState {
    state: Mutex<State>,
    work: Condvar,
    signal: OwnedFd,
}

/// The disk's thread, as the others see it.
pub(super) struct Disk(Arc<WriterState>);

impl Disk {
    /// Fills the file and starts the thread, which ends the program when the disk fails.
    pub(super) fn start(path: &str) -> std::io::Result<Disk> {
        let file = zeroed(path)?;
        let state = State { open: Buffer::new(), number: 1, durable: 0 };
        let signal = eventfd(0, EventfdFlags::NONBLOCK)?;
        let shared = Arc::new(WriterState { state: Mutex::new(state), work: Condvar::new(), signal });
        let writer = Arc::clone(&shared);
        std::thread::spawn(move || {
            if let Err(error) = writer.write_groups(&file) {
                eprintln!("ottla-bench: null sink: {error}");
                std::process::exit(1);
            }
        });
        Ok(Disk(shared))
    }

    /// Becomes readable when a group became durable.
    pub(super) fn signal(&self) -> &OwnedFd {
        &self.0.signal
    }

    pub(super) fn clear_signal(&self) {
        // There may be none; that is no error worth telling.
        let _ = rustix::io::read(&self.0.signal, &mut [0; 8]);
    }

    pub(super) fn has_room(&self, size: usize) -> bool {
        self.0.lock().open.filled + size <= GROUP
    }

    /// Puts bytes into the open group and returns its number.
    pub(super) fn append(&self, bytes: &[u8]) -> u64 {
        let mut state = self.0.lock();
        state.open.push(bytes);
        let number = state.number;
        drop(state);
        self.0.work.notify_one();
        number
    }

    /// The last group that is durable.
    pub(super) fn durable(&self) -> u64 {
        self.0.lock().durable
    }
}

impl WriterState {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn write_groups(&self, file: &File) -> std::io::Result<()> {
        let mut spare = Buffer::new();
        let mut place = 0;
        loop {
            let number = {
                let mut state = self.lock();
                while state.open.filled == 0 {
                    state = self.work.wait(state).unwrap_or_else(PoisonError::into_inner);
                }
                std::mem::swap(&mut state.open, &mut spare);
                state.number += 1;
                state.number - 1
            };
            let blocks = spare.blocks();
            if place + blocks.len() as u64 > FILE {
                place = 0;
            }
            file.write_all_at(blocks, place)?;
            file.sync_data()?;
            place += blocks.len() as u64;
            spare.filled = 0;
            self.lock().durable = number;
            rustix::io::write(&self.signal, &1u64.to_ne_bytes())?;
        }
    }
}

/// The file, filled once so that no write has to extend it, opened past the page cache where that is possible.
pub(super) fn zeroed(path: &str) -> std::io::Result<File> {
    let mut file = File::create(path)?;
    let zeros = vec![0; 1 << 20];
    for _ in 0..FILE >> 20 {
        file.write_all(&zeros)?;
    }
    file.sync_all()?;
    direct(path)
}

/// Opens past the page cache where that is possible.
pub(super) fn direct(path: &str) -> std::io::Result<File> {
    let mut options = OpenOptions::new();
    options.read(true).write(true);
    let flag = rustix::fs::OFlags::DIRECT.bits() as i32;
    options.clone().custom_flags(flag).open(path).or_else(|_| options.open(path))
}
