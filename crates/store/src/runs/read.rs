//! Reads for consumers: slices of whole batches, and lookups by time.

use crate::runs::error::RunError;
use crate::runs::part::{Cursor, PartView, ReadPath, StretchWindow};
use bytes::Bytes;
use ottla_layout::run::BatchHead;
use ottla_types::{Millis, Offset};

/// Bytes that are searched at once when the directory does not show the place.
const SEARCHED: u64 = 256 << 10;

/// Bytes by which a large read stays below the requested size.
const MARGIN: usize = 8 << 10;

/// Half of the smallest buffer.
const LITTLE: usize = 32 << 10;

/// The range of a part that is to be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReadRange {
    /// The first offset: the batch that holds it, or the first one after it.
    pub from: Offset,
    /// No batch that reaches this offset.
    pub to: Offset,
    /// How many bytes at most.
    pub max_bytes: usize,
    /// The first batch is wanted even if it has more bytes.
    pub first_whole: bool,
}

/// Whole batches of a part.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PartSlice {
    /// The batches, one after the other; empty if none fits or none is there.
    pub bytes: Bytes,
    /// Base offset of the first batch; where reading began if there is none.
    pub first: Offset,
    /// Last offset of the last batch; the offset before `first` if there is none.
    pub last: Offset,
    /// Nothing of the range follows in this part: a reader continues with the next part, or has reached the end.
    pub complete: bool,
}

/// A batch of a part.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PartBatch {
    /// Offset of its first record.
    pub base_offset: Offset,
    /// Offset of its last record.
    pub last_offset: Offset,
    /// Its largest timestamp, -1 for none.
    pub max_timestamp: Millis,
    /// The batch.
    pub bytes: Bytes,
}

impl PartBatch {
    pub(crate) fn of(window: &StretchWindow, at: usize, head: &BatchHead) -> PartBatch {
        PartBatch {
            base_offset: head.base_offset,
            last_offset: head.last_offset,
            max_timestamp: head.max_timestamp,
            bytes: window.bytes.slice(at..at + head.size),
        }
    }
}

/// Copies a small slice out of its buffer: a response of a thousand small slices would hold a thousand buffers.
fn without_the_rest(slice: Bytes) -> Bytes {
    if slice.len() <= LITTLE { Bytes::copy_from_slice(&slice) } else { slice }
}

/// The batches that were taken from a window so far.
struct WindowRead {
    start: usize,
    end: usize,
    first: Offset,
    last: Offset,
    /// The next batch exceeds the limit on bytes.
    full: bool,
    past: bool,
}

impl WindowRead {
    fn take(&mut self, wanted: &ReadRange, at: usize, head: &BatchHead) -> bool {
        if self.full || self.past || head.last_offset < wanted.from {
            return !self.full && !self.past;
        }
        let none = self.start == self.end;
        let start = if none { at } else { self.start };
        let fits = at + head.size - start <= wanted.max_bytes || (none && wanted.first_whole);
        if head.last_offset >= wanted.to {
            self.past = true;
        } else if !fits {
            self.full = true;
        } else {
            self.first = if none { head.base_offset } else { self.first };
            (self.start, self.end, self.last) = (start, at + head.size, head.last_offset);
        }
        !self.full && !self.past
    }
}

impl PartView {
    pub(crate) fn slice(&self, wanted: &ReadRange) -> Result<PartSlice, RunError> {
        let mut cursor = self.seek(|stretch| stretch.next_offset > wanted.from)?;
        let nothing = PartSlice {
            bytes: Bytes::new(),
            first: wanted.from,
            last: Offset(wanted.from.0.saturating_sub(1)),
            complete: true,
        };
        // Whole blocks around it then fit into a buffer of the size that was asked for.
        let margin = if wanted.max_bytes > MARGIN * 8 { MARGIN } else { 0 };
        let max = (wanted.max_bytes - margin) as u64;
        let before_end = |stretch: &ottla_layout::run::Stretch| stretch.base_offset < wanted.to;
        loop {
            let Some(window) = self.window(&mut cursor, max, ReadPath::Adaptive, before_end)? else {
                return Ok(nothing);
            };
            let (first, last) = (nothing.first, nothing.last);
            let mut taking = WindowRead { start: 0, end: 0, first, last, full: false, past: false };
            self.walk(&window, |at, head| taking.take(wanted, at, head))?;
            let empty = taking.start == taking.end;
            if empty && !taking.full && !taking.past {
                continue;
            }
            let more = taking.full || (!taking.past && self.goes_on(&mut cursor, wanted.to));
            return Ok(PartSlice {
                bytes: without_the_rest(window.bytes.slice(taking.start..taking.end)),
                first: taking.first,
                last: taking.last,
                complete: !more,
            });
        }
    }

    /// Whether there is more before `to`. A damaged page counts as more: the next read reports the damage.
    fn goes_on(&self, cursor: &mut Cursor, to: Offset) -> bool {
        self.peek(cursor).map_or(true, |next| next.is_some_and(|next| next.base_offset < to))
    }

    pub(crate) fn find_time(
        &self,
        time: Millis,
        from: Offset,
        to: Offset,
    ) -> Result<Option<PartBatch>, RunError> {
        let mut cursor = self.seek(|stretch| stretch.max_timestamp >= time && stretch.next_offset > from)?;
        let mut max_bytes = 0;
        // The first stretch has it, unless an earlier batch than those wanted has such a time.
        while let Some(window) =
            self.window(&mut cursor, max_bytes, ReadPath::PageCache, |next| next.base_offset < to)?
        {
            max_bytes = SEARCHED;
            let mut found = None;
            self.walk(&window, |at, head| {
                let fits = head.last_offset >= from && head.last_offset < to && head.max_timestamp >= time;
                if fits && found.is_none() {
                    found = Some(PartBatch::of(&window, at, head));
                }
                found.is_none()
            })?;
            if found.is_some() {
                return Ok(found);
            }
        }
        Ok(None)
    }

    pub(crate) fn latest_time(&self, to: Offset) -> Result<Option<PartBatch>, RunError> {
        // The last stretch that begins before `to`: all earlier ones end before it.
        let mut cursor = self.seek(|stretch| stretch.next_offset >= to || stretch.end >= self.data_end())?;
        let Some(window) =
            self.window(&mut cursor, 0, ReadPath::PageCache, |stretch| stretch.base_offset < to)?
        else {
            return Ok(None);
        };
        let mut latest: Option<PartBatch> = None;
        self.walk(&window, |at, head| {
            let later = latest.as_ref().is_none_or(|latest| head.max_timestamp > latest.max_timestamp);
            if later && head.last_offset < to {
                latest = Some(PartBatch::of(&window, at, head));
            }
            true
        })?;
        let place = window.stretches.first().map_or(0, |stretch| stretch.place);
        let before = self.time_before(place)?;
        match latest {
            Some(latest) if latest.max_timestamp > before => Ok(Some(latest)),
            _ if before < Millis(0) => Ok(None),
            _ => self.find_time(before, self.part().base_offset, to),
        }
    }

    fn data_end(&self) -> u64 {
        self.part().data + self.part().bytes
    }

    /// The largest timestamp before the stretch at `place`.
    fn time_before(&self, place: u64) -> Result<Millis, RunError> {
        let mut cursor = self.seek(|stretch| stretch.end >= place)?;
        let found = self.peek(&mut cursor)?.filter(|stretch| stretch.end == place);
        Ok(found.map_or(Millis::NONE, |stretch| stretch.max_timestamp))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_small_slice_does_not_hold_its_buffer() {
        let buffer = Bytes::from(vec![7; 64 << 10]);
        let slice = without_the_rest(buffer.slice(5..500));
        assert!(*slice == [7; 495] && buffer.is_unique());
        let slice = without_the_rest(buffer.slice(5..40_000));
        assert!(slice.len() == 39_995 && !buffer.is_unique());
    }
}
