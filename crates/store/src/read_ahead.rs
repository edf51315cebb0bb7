//! Read-ahead for sequential readers: the next range is read while the response before it is being sent, so that the
//! reader finds it in memory.
//!
//! ```text
//!   read a..b, then b..c: forward ──▶ job c..d ──▶ thread (or the caller) reads it ──▶ found by the read of c..d
//! ```

use crate::access_counts::AccessCounts;
use crate::backoff::IoBackoff;
use crate::blob::Blob;
use crate::buffer::Pool;
use crate::group_store::GroupStore;
use crate::medium::ReadMode;
use crate::stats::Histogram;
use bytes::Bytes;
use ottla_layout::{BLOCK, align_up};
use std::collections::VecDeque;
use std::ops::Range;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Bytes by which a buffer is shifted off its alignment, so that a read into it goes through the page cache. Copies out
/// of it stay fast.
pub(crate) const SHIFT: usize = 64;
/// The key of the log, whose ranges are positions. No run has this number.
pub(crate) const LOG_KEY: u64 = u64::MAX;
/// Ranges that are kept; the oldest is dropped first.
const KEPT: usize = 4;
/// Bytes of the largest range.
const LARGEST: u64 = 5 << 18;
/// Reads of fewer bytes go through the page cache: the system reads ahead for them.
const LARGE: u64 = 128 << 10;
/// Readers whose positions are kept.
const READERS: usize = 16;

/// The longest pause between two ranges, so that the log's syncs are not slowed down.
const PAUSE: Duration = Duration::from_millis(16);
/// After this time without a job the disk counts as undisturbed by readers.
const QUIET: Duration = Duration::from_millis(200);

/// The source of ranges that are read ahead.
#[derive(Clone)]
pub(crate) enum ReadTarget {
    /// The log: ranges are positions.
    Log(Arc<dyn GroupStore>),
    /// The run with this number: ranges are offsets in it.
    Run(u64, Arc<dyn Blob>),
}

impl ReadTarget {
    fn key(&self) -> u64 {
        match self {
            ReadTarget::Log(_) => LOG_KEY,
            ReadTarget::Run(number, _) => *number,
        }
    }

    /// Fills `buf` from `offset`; returns false if that fails. The reader that wants the bytes then reads them itself
    /// and gets the error.
    fn read(&self, buf: &mut [u8], offset: u64) -> bool {
        match self {
            ReadTarget::Log(store) => store.read(offset, buf, ReadMode::Blocking).is_ok(),
            ReadTarget::Run(_, blob) => blob.read_at(buf, offset).is_ok_and(|found| found == buf.len()),
        }
    }
}

/// The data that a reader reads.
pub(crate) struct ReadSource {
    pub(crate) target: ReadTarget,
    /// The end of the data that may be read.
    pub(crate) end: u64,
    /// Read through the page cache instead of bypassing it.
    pub(crate) cached: bool,
}

/// A range that was read ahead, or is being read.
struct FetchedRange {
    key: u64,
    range: Range<u64>,
    /// None while it is being read.
    bytes: Option<Bytes>,
}

#[derive(Default)]
struct FetchTable {
    /// Where readers stopped, by key; the newest last.
    ends: VecDeque<(u64, u64)>,
    fetched: VecDeque<FetchedRange>,
    jobs: VecDeque<(ReadSource, Range<u64>)>,
    /// A thread does the jobs.
    has_thread: bool,
    stop: bool,
}

/// The read-ahead of a log and its runs.
pub(crate) struct ReadAhead {
    /// How often ranges were read: decides whether a read bypasses the page cache.
    pub(crate) access_counts: AccessCounts,
    /// Reads of at least this many bytes are large: only they are read ahead.
    pub(crate) large: u64,
    /// The largest gap between two reads of one reader, and by how much the second one may be larger, in bytes.
    slack: u64,
    table: Mutex<FetchTable>,
    /// Wakes the thread that reads.
    work: Condvar,
    /// Wakes readers that wait for a range.
    read: Condvar,
}

impl ReadAhead {
    /// With small segments, the threshold above which a read counts as large is lower.
    pub(crate) fn new(segment_size: u64) -> ReadAhead {
        let large = LARGE.min(segment_size / 16);
        let (table, work, read) = Default::default();
        ReadAhead { access_counts: AccessCounts::new(), large, slack: large / 2, table, work, read }
    }

    fn table(&self) -> MutexGuard<'_, FetchTable> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The bytes of a range, if they were read ahead. A range that is being read is waited for if `waits`.
    pub(crate) fn find(&self, key: u64, range: &Range<u64>, waits: bool) -> Option<Bytes> {
        let mut table = self.table();
        loop {
            let fetched = table.fetched.iter().find(|fetched| fetched.covers(key, range))?;
            if let Some(bytes) = &fetched.bytes {
                let index = |at: u64| usize::try_from(at - fetched.range.start).ok();
                return Some(bytes.slice(index(range.start)?..index(range.end)?));
            }
            if !waits {
                return None;
            }
            table = self.read.wait(table).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Records a read. If its reader is sequential, the next range is read ahead: by the thread, or by the caller if
    /// there is no thread.
    pub(crate) fn note_read(&self, source: ReadSource, range: &Range<u64>, pool: &Arc<Pool>) {
        if self.add_job(source, range) && !self.table().has_thread {
            self.read_next(pool);
        }
    }

    /// Records a read. If it begins where another one stopped, adds a job for the next range; returns whether it did.
    fn add_job(&self, source: ReadSource, range: &Range<u64>) -> bool {
        let mut table = self.table();
        let (table, key) = (&mut *table, source.target.key());
        let follows = |(other, end): &(u64, u64)| {
            *other == key && (range.start.saturating_sub(self.slack)..=range.start).contains(end)
        };
        let before = table.ends.iter().position(follows);
        before.and_then(|before| table.ends.remove(before));
        if table.ends.len() >= READERS {
            table.ends.pop_front();
        }
        table.ends.push_back((key, range.end));
        if before.is_none() {
            return false;
        }
        let is_ahead = |fetched: &FetchedRange| fetched.key != key || fetched.range.start > range.start;
        table.fetched.retain(|fetched| fetched.bytes.is_none() || is_ahead(fetched));
        let start = range.end / BLOCK * BLOCK;
        let wanted = align_up(range.end - range.start + self.slack).min(LARGEST);
        let next = start..(start + wanted).min(source.end);
        let known = table.fetched.iter().any(|fetched| fetched.key == key && fetched.range.start == start);
        if known || next.end < next.start + self.slack || !table.make_space() {
            return false;
        }
        table.fetched.push_back(FetchedRange { key, range: next.clone(), bytes: None });
        table.jobs.push_back((source, next));
        self.work.notify_one();
        true
    }

    /// From now on a thread runs [`ReadAhead::run`].
    pub(crate) fn begin(&self) {
        self.table().has_thread = true;
    }

    /// The body of the thread: does the jobs until it is stopped. It pauses while the log's syncs are slow, since
    /// producers that wait for syncs have priority over lagging consumers.
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

    /// Does the next job.
    fn read_next(&self, pool: &Arc<Pool>) {
        let Some((source, range)) = self.table().jobs.pop_front() else { return };
        let shift = if source.cached { SHIFT } else { 0 };
        let len = (range.end - range.start) as usize;
        let mut buffer = pool.take(shift + len);
        buffer.resize_for_read(shift + len);
        let target = buffer.as_mut().get_mut(shift..).unwrap_or_default();
        let whole = source.target.read(target, range.start);
        let mut table = self.table();
        let key = source.target.key();
        let index = table.fetched.iter().position(|fetched| fetched.key == key && fetched.range == range);
        match index {
            Some(index) if whole => {
                table.fetched[index].bytes = Some(Bytes::from_owner(buffer).slice(shift..))
            }
            Some(index) => drop(table.fetched.remove(index)),
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
        table.fetched.clear();
        drop(table);
        self.work.notify_all();
        self.read.notify_all();
    }
}

impl FetchTable {
    /// Drops the oldest range if there are too many; false if all are still being read, or the thread has ended.
    fn make_space(&mut self) -> bool {
        if self.stop {
            return false;
        }
        if self.fetched.len() < KEPT {
            return true;
        }
        let oldest = self.fetched.iter().position(|fetched| fetched.bytes.is_some());
        oldest.and_then(|oldest| self.fetched.remove(oldest)).is_some()
    }
}

impl FetchedRange {
    fn covers(&self, key: u64, range: &Range<u64>) -> bool {
        self.key == key && self.range.start <= range.start && range.end <= self.range.end
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::blob::file_blob;
    use crate::{Medium, MemoryMedium};

    const MIB: u64 = 1 << 20;

    /// A file of 8 MiB in which every block has its number.
    fn file() -> Arc<dyn Blob> {
        let file = MemoryMedium::new().create("a").unwrap();
        for block in 0..8 * MIB / BLOCK {
            file.write_at(&block.to_le_bytes().repeat(BLOCK as usize / 8), block * BLOCK).unwrap();
        }
        file_blob(file)
    }

    fn source(key: u64, file: &Arc<dyn Blob>) -> ReadSource {
        let target = ReadTarget::Run(key, Arc::clone(file));
        ReadSource { target, end: 8 * MIB, cached: key.is_multiple_of(2) }
    }

    #[test]
    fn a_reader_that_goes_forward_finds_the_next_range() {
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
            if ahead.add_job(source(1, &file), &range) {
                ahead.read_next(&pool);
            }
            at += MIB + 50;
        }
        assert_eq!(found, [false, false, true, true, true, true, true]);
        assert!(ahead.table().fetched.len() <= 1, "a range behind the reader is dropped");
    }

    #[test]
    fn a_reader_that_jumps_and_other_files_find_nothing() {
        let (ahead, file) = (ReadAhead::new(128 * MIB), file());
        for at in [0, 4 * MIB, 2 * MIB, 6 * MIB] {
            assert!(!ahead.add_job(source(1, &file), &(at..at + MIB)), "at {at}");
        }
        assert!(!ahead.add_job(source(2, &file), &(3 * MIB..4 * MIB)), "another file");
        assert!(ahead.add_job(source(1, &file), &(3 * MIB..4 * MIB)));
        assert!(ahead.find(1, &(4 * MIB..5 * MIB), false).is_none(), "it is not read yet");
        ahead.read_next(&Pool::new(0));
        assert!(ahead.find(2, &(4 * MIB..5 * MIB), false).is_none());
        assert!(ahead.find(1, &(4 * MIB..5 * MIB), false).is_some());
    }

    #[test]
    fn ranges_are_few_and_never_behind_the_end() {
        let (ahead, pool, file) = (ReadAhead::new(128 * MIB), Pool::new(0), file());
        for key in 0..20 {
            ahead.add_job(source(key, &file), &(0..MIB));
            assert!(ahead.add_job(source(key, &file), &(MIB..2 * MIB)));
            ahead.read_next(&pool);
        }
        assert_eq!(ahead.table().fetched.len(), KEPT);
        ahead.add_job(source(99, &file), &(5 * MIB..6 * MIB));
        assert!(!ahead.add_job(source(99, &file), &(6 * MIB..8 * MIB - 9)));
        ahead.stop();
        ahead.run(&pool, &Histogram::new(&[1]));
        assert!(ahead.find(19, &(2 * MIB..3 * MIB), true).is_none());
    }
}
