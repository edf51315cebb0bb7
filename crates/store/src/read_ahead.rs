//! Pieces of files that are read before anybody asks for them. Whoever goes forward in a file finds the next piece in memory: the
//! disk works while the answer before it is being sent.

use crate::backoff::IoBackoff;
use crate::buffer::Pool;
use crate::medium::MediumFile;
use crate::runs::SHIFT;
use crate::stats::Histogram;
use bytes::Bytes;
use ottla_layout::{BLOCK, align_up};
use std::collections::VecDeque;
use std::ops::Range;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Pieces that are kept; the oldest goes first.
const PIECES: usize = 4;
/// Bytes of the largest piece.
const LARGEST: u64 = 5 << 18;
/// Reads of fewer bytes go through the page cache: the system reads ahead for them.
const LARGE: u64 = 128 << 10;
/// Readers that are remembered.
const READERS: usize = 16;

/// The longest pause between two pieces, for the sake of the log's syncs.
const PAUSE: Duration = Duration::from_millis(16);
/// After so long without a piece the disk counts as undisturbed by readers.
const QUIET: Duration = Duration::from_millis(200);

/// A file as its readers know it.
pub(crate) struct Source {
    /// Which file it is. The number must never stand for another one.
    pub(crate) key: u64,
    pub(crate) file: Arc<dyn MediumFile>,
    /// Nothing is read from here on.
    pub(crate) end: u64,
    /// Through the page cache, not around it.
    pub(crate) cached: bool,
}

struct Piece {
    key: u64,
    range: Range<u64>,
    /// None while it is being read.
    bytes: Option<Bytes>,
}

#[derive(Default)]
struct Table {
    /// Where readers stopped, by file; the newest last.
    ends: VecDeque<(u64, u64)>,
    pieces: VecDeque<Piece>,
    jobs: VecDeque<(Source, Range<u64>)>,
    /// A thread reads what is wanted.
    runs: bool,
    stop: bool,
}

/// The pieces of a folder.
pub(crate) struct ReadAhead {
    /// Reads of so many bytes are large.
    pub(crate) large: u64,
    /// By how much two reads of one reader may lie apart, and the second one may be larger.
    slack: u64,
    table: Mutex<Table>,
    /// Wakes the thread that reads.
    work: Condvar,
    /// Wakes whoever waits for a piece.
    read: Condvar,
}

impl ReadAhead {
    /// For a folder with segments of this size: where they are small, small reads are large.
    pub(crate) fn new(segment_size: u64) -> ReadAhead {
        let large = LARGE.min(segment_size / 16);
        let (table, work, read) = Default::default();
        ReadAhead { large, slack: large / 2, table, work, read }
    }

    fn table(&self) -> MutexGuard<'_, Table> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Bytes of a file, if a piece has them. One that is being read is waited for if `waits`.
    pub(crate) fn find(&self, key: u64, range: &Range<u64>, waits: bool) -> Option<Bytes> {
        let mut table = self.table();
        loop {
            let piece = table.pieces.iter().find(|piece| piece.has(key, range))?;
            if let Some(bytes) = &piece.bytes {
                let place = |at: u64| usize::try_from(at - piece.range.start).ok();
                return Some(bytes.slice(place(range.start)?..place(range.end)?));
            }
            if !waits {
                return None;
            }
            table = self.read.wait(table).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Notes a read. If it goes on where another one stopped, what follows is wanted next: true if it is to be read now, by
    /// [`ReadAhead::run`] or [`ReadAhead::read_next`].
    pub(crate) fn note(&self, source: Source, range: &Range<u64>) -> bool {
        let mut table = self.table();
        let table = &mut *table;
        let follows = |(key, end): &(u64, u64)| {
            *key == source.key && (range.start.saturating_sub(self.slack)..=range.start).contains(end)
        };
        let before = table.ends.iter().position(follows);
        before.and_then(|before| table.ends.remove(before));
        if table.ends.len() >= READERS {
            table.ends.pop_front();
        }
        table.ends.push_back((source.key, range.end));
        if before.is_none() {
            return false;
        }
        table.pieces.retain(|piece| {
            piece.bytes.is_none() || piece.key != source.key || piece.range.start > range.start
        });
        let start = range.end / BLOCK * BLOCK;
        let wanted = align_up(range.end - range.start + self.slack).min(LARGEST);
        let next = start..(start + wanted).min(source.end);
        let known = table.pieces.iter().any(|piece| piece.key == source.key && piece.range.start == start);
        if known || next.end < next.start + self.slack || !table.make_room() {
            return false;
        }
        table.pieces.push_back(Piece { key: source.key, range: next.clone(), bytes: None });
        table.jobs.push_back((source, next));
        self.work.notify_one();
        true
    }

    /// From now on a thread runs [`ReadAhead::run`].
    pub(crate) fn begin(&self) {
        self.table().runs = true;
    }

    /// Whether a thread reads what is wanted.
    pub(crate) fn is_run(&self) -> bool {
        self.table().runs
    }

    /// Reads what is wanted, until it is told to stop: the body of a thread. Who lags behind yields to who waits for syncs.
    pub(crate) fn run(&self, pool: &Arc<Pool>, syncs: &Histogram) {
        let mut backoff = IoBackoff::new(syncs.view(), PAUSE);
        let mut last = Instant::now();
        loop {
            let mut table = self.table();
            while table.jobs.is_empty() && !table.stop {
                table = self.work.wait(table).unwrap_or_else(PoisonError::into_inner);
            }
            if table.stop {
                return;
            }
            drop(table);
            if last.elapsed() > QUIET {
                backoff.begin(syncs.view());
            }
            std::thread::sleep(backoff.pause(syncs.view()));
            self.read_next(pool);
            last = Instant::now();
        }
    }

    /// Reads the next piece that is wanted.
    pub(crate) fn read_next(&self, pool: &Arc<Pool>) {
        let Some((source, range)) = self.table().jobs.pop_front() else { return };
        let shift = if source.cached { SHIFT } else { 0 };
        let len = (range.end - range.start) as usize;
        let mut buffer = pool.take(shift + len);
        buffer.resize_for_read(shift + len);
        let target = buffer.as_mut().get_mut(shift..).unwrap_or_default();
        let whole = source.file.read_at(target, range.start).is_ok_and(|found| found == len);
        let mut table = self.table();
        let place = table.pieces.iter().position(|piece| piece.key == source.key && piece.range == range);
        match place {
            Some(place) if whole => {
                table.pieces[place].bytes = Some(Bytes::from_owner(buffer).slice(shift..))
            }
            // Whoever wants it reads it and hears what is wrong.
            Some(place) => drop(table.pieces.remove(place)),
            None => {}
        }
        drop(table);
        self.read.notify_all();
    }

    /// Ends the thread.
    pub(crate) fn stop(&self) {
        let mut table = self.table();
        table.stop = true;
        table.jobs.clear();
        table.pieces.clear();
        drop(table);
        self.work.notify_all();
        self.read.notify_all();
    }
}

impl Table {
    /// Lets a piece go if there are too many; false if all are still being read, or nobody reads any more.
    fn make_room(&mut self) -> bool {
        if self.stop {
            return false;
        }
        if self.pieces.len() < PIECES {
            return true;
        }
        let oldest = self.pieces.iter().position(|piece| piece.bytes.is_some());
        oldest.and_then(|oldest| self.pieces.remove(oldest)).is_some()
    }
}

impl Piece {
    fn has(&self, key: u64, range: &Range<u64>) -> bool {
        self.key == key && self.range.start <= range.start && range.end <= self.range.end
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Medium, MemoryMedium};

    const MIB: u64 = 1 << 20;

    /// A file of 8 MiB in which every block has its number.
    fn file() -> Arc<dyn MediumFile> {
        let file = MemoryMedium::new().create("a").unwrap();
        for block in 0..8 * MIB / BLOCK {
            file.write_at(&block.to_le_bytes().repeat(BLOCK as usize / 8), block * BLOCK).unwrap();
        }
        file
    }

    fn source(key: u64, file: &Arc<dyn MediumFile>) -> Source {
        Source { key, file: Arc::clone(file), end: 8 * MIB, cached: key.is_multiple_of(2) }
    }

    #[test]
    fn whoever_goes_forward_finds_the_next_piece() {
        let (ahead, pool, file) = (ReadAhead::new(128 * MIB), Pool::new(0), file());
        let mut at = 100;
        let mut found = Vec::new();
        while at + MIB <= 8 * MIB {
            let range = at..at + MIB;
            let bytes = ahead.find(1, &range, true);
            found.push(bytes.is_some());
            if let Some(bytes) = bytes {
                let mut same = vec![0; MIB as usize];
                file.read_at(&mut same, at).unwrap();
                assert!(bytes == same, "at {at}");
            }
            if ahead.note(source(1, &file), &range) {
                ahead.read_next(&pool);
            }
            at += MIB + 50;
        }
        assert_eq!(found, [false, false, true, true, true, true, true]);
        assert!(ahead.table().pieces.len() <= 1, "what was passed is let go");
    }

    #[test]
    fn who_jumps_about_and_other_files_find_nothing() {
        let (ahead, file) = (ReadAhead::new(128 * MIB), file());
        for at in [0, 4 * MIB, 2 * MIB, 6 * MIB] {
            assert!(!ahead.note(source(1, &file), &(at..at + MIB)), "at {at}");
        }
        assert!(!ahead.note(source(2, &file), &(3 * MIB..4 * MIB)), "another file");
        assert!(ahead.note(source(1, &file), &(3 * MIB..4 * MIB)));
        assert!(ahead.find(1, &(4 * MIB..5 * MIB), false).is_none(), "it is not read yet");
        ahead.read_next(&Pool::new(0));
        assert!(ahead.find(2, &(4 * MIB..5 * MIB), false).is_none());
        assert!(ahead.find(1, &(4 * MIB..5 * MIB), false).is_some());
    }

    #[test]
    fn pieces_are_few_and_never_behind_the_end() {
        let (ahead, pool, file) = (ReadAhead::new(128 * MIB), Pool::new(0), file());
        for key in 0..20 {
            ahead.note(source(key, &file), &(0..MIB));
            assert!(ahead.note(source(key, &file), &(MIB..2 * MIB)));
            ahead.read_next(&pool);
        }
        assert_eq!(ahead.table().pieces.len(), PIECES);
        ahead.note(source(99, &file), &(5 * MIB..6 * MIB));
        assert!(!ahead.note(source(99, &file), &(6 * MIB..8 * MIB - 9)));
        ahead.stop();
        ahead.run(&pool, &Histogram::new(&[1]));
        assert!(ahead.find(19, &(2 * MIB..3 * MIB), true).is_none());
    }
}
