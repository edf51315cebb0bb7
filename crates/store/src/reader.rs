//! Reads batch bytes: from recent groups in memory, else from ranges that were read ahead, else from the store.

use crate::log_core::LogCore;
use crate::medium::ReadMode;
use crate::read_ahead::{LOG_KEY, ReadSource, ReadTarget};
use crate::recent::MemoryReservation;
use crate::runs::Runs;
use crate::stats::LogStats;
use bytes::{Bytes, BytesMut};
use ottla_layout::{BLOCK, align_up};
use ottla_types::LogPosition;
use std::io;
use std::ops::Range;
use std::sync::Arc;

/// The largest gap between two ranges that one access reads, in bytes.
const MOST_GAP: u64 = 32 << 10;
/// The largest access for several ranges, in bytes.
const MOST_SPAN: u64 = 5 << 18;

/// Reads durable bytes of the log. Clones share one log.
#[derive(Clone)]
pub struct LogReader {
    core: Arc<LogCore>,
}

impl std::fmt::Debug for LogReader {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("LogReader").finish_non_exhaustive()
    }
}

impl LogReader {
    pub(crate) fn new(core: Arc<LogCore>) -> LogReader {
        LogReader { core }
    }

    /// Whether the log has no threads of its own: its reads then belong on the caller's thread too.
    pub fn is_driven(&self) -> bool {
        !self.core.options.threads
    }

    /// The runs, which hold what was rewritten.
    pub fn runs(&self) -> Runs {
        self.core.runs()
    }

    /// Bytes of the largest record that the log takes: half a segment.
    pub fn largest_record(&self) -> u64 {
        self.core.store.largest_entry()
    }

    /// Number of the segment that holds `position`.
    pub fn segment_of(&self, position: LogPosition) -> u64 {
        self.core.store.segment_of(position.0)
    }

    /// The end of what is durable.
    pub fn durable(&self) -> LogPosition {
        LogPosition(self.core.durable())
    }

    /// The end of what was accepted.
    pub fn end(&self) -> LogPosition {
        LogPosition(self.core.lock().end())
    }

    /// Bytes that can still be written to the medium, as far as known. Asks the system.
    pub fn free_space(&self) -> io::Result<u64> {
        self.core.store.free_space()
    }

    /// Bytes that fit on the medium, used or not, if that is known. Asks the system.
    pub fn capacity(&self) -> io::Result<Option<u64>> {
        self.core.store.capacity()
    }

    /// Figures since the log was opened.
    pub fn stats(&self) -> &LogStats {
        &self.core.stats
    }

    /// The `len` bytes from `position` on, if they are in memory. Never blocks.
    pub fn recent(&self, position: LogPosition, len: usize) -> Option<Bytes> {
        self.core.recent.get(position.0, len)
    }

    /// Takes memory from the recent groups for another use, until the reservation is dropped.
    pub fn reserve_memory(&self, bytes: usize) -> MemoryReservation {
        self.core.recent.reserve(bytes)
    }

    /// The `len` bytes from `position` on, inside one entry. Blocks while the medium reads, if they are not in memory.
    ///
    /// An error names the file: `NotFound` if the segment was freed, `UnexpectedEof` if it is shorter than the log.
    /// Bytes that are not durable yet are refused with `WouldBlock`.
    pub fn read(&self, position: LogPosition, len: usize) -> io::Result<Bytes> {
        self.read_span(position, len, ReadMode::Blocking)
    }

    fn read_span(&self, position: LogPosition, len: usize, mode: ReadMode) -> io::Result<Bytes> {
        if position.0.saturating_add(len as u64) > self.core.durable() {
            let why = format!("position {} is not durable yet", position.0);
            return Err(io::Error::new(io::ErrorKind::WouldBlock, why));
        }
        match self.recent(position, len) {
            Some(bytes) => Ok(bytes),
            None => self.read_stored(position.0, len, mode),
        }
    }

    /// The bytes of several ranges, each inside one entry, in their order. Ranges that lie near each other are read by
    /// one access.
    ///
    /// Errors are those of [`LogReader::read`].
    pub fn read_all(&self, ranges: &[(LogPosition, usize)]) -> io::Result<Vec<Bytes>> {
        self.read_all_with(ranges, ReadMode::Blocking)
    }

    /// As [`LogReader::read_all`], but a non-blocking read fails with `WouldBlock` if it would have to wait.
    pub fn read_all_with(&self, ranges: &[(LogPosition, usize)], mode: ReadMode) -> io::Result<Vec<Bytes>> {
        let mut all = Vec::with_capacity(ranges.len());
        while let Some((position, len)) = ranges.get(all.len()) {
            let near = match self.recent(*position, *len) {
                Some(bytes) => {
                    all.push(bytes);
                    continue;
                }
                None => near(|position| self.core.store.segment_of(position), &ranges[all.len()..]),
            };
            match near {
                [several @ .., (last, last_len)] if !several.is_empty() => {
                    let span = usize::try_from(last.0 - position.0).unwrap_or(usize::MAX) + last_len;
                    let bytes = self.read_span(*position, span, mode)?;
                    all.extend(cut(&bytes, position.0, near));
                }
                _ => all.push(self.read_span(*position, *len, mode)?),
            }
        }
        Ok(all)
    }

    /// Gives the durable bytes from `from` up to `to`, which lie in one segment, to `show`: in pieces, each with the
    /// position of its first byte. The pieces are read in order and in whole blocks, for jobs that read much of the
    /// log. Errors are those of [`LogReader::read`]; `show` may end it with one of its own.
    pub fn scan(
        &self,
        from: LogPosition,
        to: LogPosition,
        show: &mut dyn FnMut(LogPosition, &[u8]) -> io::Result<()>,
    ) -> io::Result<()> {
        const PIECE: u64 = 1 << 20;
        if to.0 > self.core.durable() {
            let why = format!("position {} is not durable yet", to.0);
            return Err(io::Error::new(io::ErrorKind::WouldBlock, why));
        }
        let mut at = from.0;
        while at < to.0 {
            let block = at / BLOCK * BLOCK;
            let limit = to.0.min(self.core.store.segment_end(at)).min(block + PIECE);
            let bytes = self.read_blocks(block, limit)?;
            show(LogPosition(at), &bytes[(at - block) as usize..(limit - block) as usize])?;
            at = limit;
        }
        Ok(())
    }

    /// Reads bytes that are not in recent groups. A large read takes them from ranges that were read ahead, and starts
    /// the read-ahead of the next range.
    fn read_stored(&self, position: u64, len: usize, mode: ReadMode) -> io::Result<Bytes> {
        let (store, ahead) = (&self.core.store, &self.core.read_ahead);
        if (len as u64) < ahead.large {
            return self.read_store(position, len, mode);
        }
        let range = position..position + len as u64;
        if mode == ReadMode::NonBlocking && ahead.access_counts.count(LOG_KEY, &range) > 0 {
            return self.read_store(position, len, mode);
        }
        let found = ahead.find(LOG_KEY, &range, mode == ReadMode::Blocking);
        if found.is_none() && mode == ReadMode::NonBlocking {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        ahead.access_counts.add(LOG_KEY, &range);
        let bytes = match found {
            Some(bytes) if store.is_live(store.segment_of(position)) => bytes,
            // The error of a freed segment comes from the store.
            _ => self.read_store(position, len, mode)?,
        };
        self.continue_from(&range);
        Ok(bytes)
    }

    /// Starts the read-ahead of the next range in the segment, if the reader is sequential.
    fn continue_from(&self, range: &Range<u64>) {
        let store = &self.core.store;
        let end = self.core.durable().min(store.segment_end(range.start)) / BLOCK * BLOCK;
        let source = ReadSource { target: ReadTarget::Log(Arc::clone(store)), end, cached: true };
        self.core.read_ahead.note_read(source, range, &self.core.pool);
    }

    /// Whole blocks from `block` on that hold everything up to `limit`.
    fn read_blocks(&self, block: u64, limit: u64) -> io::Result<Bytes> {
        let len = (limit - block) as usize;
        match self.read_store(block, align_up(limit - block) as usize, ReadMode::Blocking) {
            // The last block of a file need not be whole.
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => {
                self.read_store(block, len, ReadMode::Blocking)
            }
            other => other,
        }
    }

    fn read_store(&self, position: u64, len: usize, mode: ReadMode) -> io::Result<Bytes> {
        let mut buffer = self.core.pool.take(len);
        buffer.resize_for_read(len);
        self.core.store.read(position, buffer.as_mut(), mode)?;
        // A few bytes must not hold a large buffer in memory.
        if buffer.capacity() > 2 * len {
            return Ok(Bytes::copy_from_slice(buffer.as_ref()));
        }
        Ok(Bytes::from_owner(buffer))
    }
}

/// The first ranges that one access can read: ascending, in one segment, with small gaps.
fn near(segment_of: impl Fn(u64) -> u64, ranges: &[(LogPosition, usize)]) -> &[(LogPosition, usize)] {
    let Some((first, first_len)) = ranges.first() else { return ranges };
    let segment = segment_of(first.0);
    let mut end = first.0 + *first_len as u64;
    let mut fits = |(position, len): &(LogPosition, usize)| {
        let gap = position.0.checked_sub(end);
        end = position.0 + *len as u64;
        gap.is_some_and(|gap| gap <= MOST_GAP)
            && segment_of(position.0) == segment
            && end - first.0 <= MOST_SPAN
    };
    let more = ranges[1..].iter().take_while(|range| fits(range)).count();
    &ranges[..=more]
}

/// Cuts ranges out of `bytes`, which begin at position `start`. Ranges that are less than half of the bytes are copied,
/// so that the rest is not kept in memory.
fn cut(bytes: &Bytes, start: u64, ranges: &[(LogPosition, usize)]) -> Vec<Bytes> {
    let place = |(position, len): &(LogPosition, usize)| {
        let from = usize::try_from(position.0 - start).unwrap_or(usize::MAX);
        from..from + len
    };
    let wanted: usize = ranges.iter().map(|(_, len)| len).sum();
    if bytes.len() <= 2 * wanted {
        return ranges.iter().map(|range| bytes.slice(place(range))).collect();
    }
    let mut copy = BytesMut::with_capacity(wanted);
    let cut = |range| {
        copy.extend_from_slice(&bytes[place(range)]);
        copy.split().freeze()
    };
    ranges.iter().map(cut).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(position: u64, len: usize) -> (LogPosition, usize) {
        (LogPosition(position), len)
    }

    #[test]
    fn ranges_are_near_as_long_as_little_lies_between_them() {
        let geometry = ottla_layout::Geometry::new(1 << 20).unwrap();
        let count = |ranges: &[_]| near(|position| geometry.segment_of(position), ranges).len();
        assert_eq!(count(&[at(5000, 100)]), 1);
        assert_eq!(count(&[at(5000, 100), at(5100, 50), at(5000 + MOST_GAP, 9), at(90_000, 1)]), 3);
        assert_eq!(count(&[at(5000, 100), at(4000, 50)]), 1, "behind each other");
        let end = geometry.end_of(geometry.segment_of(5000));
        assert_eq!(count(&[at(end - 100, 50), at(end + 4096, 50)]), 1, "another segment");
    }

    #[test]
    fn what_is_cut_out_of_much_keeps_nothing_of_it() {
        let bytes = Bytes::from((0..=255).collect::<Vec<u8>>());
        let few = cut(&bytes, 1000, &[at(1000, 2), at(1100, 3)]);
        assert_eq!(few, [&[0, 1][..], &[100, 101, 102]]);
        assert!(!bytes.as_ptr_range().contains(&few[1].as_ptr()));
        let most = cut(&bytes, 1000, &[at(1000, 100), at(1110, 100)]);
        assert!(bytes.as_ptr_range().contains(&most[1].as_ptr()));
        assert_eq!(most[1][0], 110);
    }
}
