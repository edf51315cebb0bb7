//! The newest batches of a partition, which still lie in the log: one small entry for each, in chunks that know their largest
//! timestamp and their bytes.

use super::index::{MARKER_BYTES, size};
use ottla_types::record::{BatchPlace, Marker, StoredBatch};
use ottla_types::{LogPosition, Millis, Offset};
use std::collections::VecDeque;

/// Entries in a chunk, at most.
const CHUNK: usize = 128;

/// A batch, in 32 bytes: there may be a million.
#[derive(Clone, Copy, Debug)]
struct Entry {
    base_offset: Offset,
    /// The largest timestamp, if not negative. Else -1 less the time of the append, which counts only then.
    stamp: i64,
    position: LogPosition,
    /// 0 for a marker, which lies elsewhere.
    size: u32,
    /// Last offset less the first.
    span: u32,
}

const _: () = assert!(size_of::<Entry>() == 32);

/// Some batches that follow each other.
#[derive(Debug, Default)]
struct Chunk {
    entries: Vec<Entry>,
    latest: Millis,
    bytes: u64,
}

/// The batches in offset order.
#[derive(Debug, Default)]
pub(super) struct Tail {
    chunks: VecDeque<Chunk>,
    markers: VecDeque<(Offset, Marker)>,
    entries: usize,
    bytes: u64,
}

impl Entry {
    fn new(batch: &StoredBatch) -> Entry {
        let StoredBatch { base_offset, last_offset, max_timestamp, appended, .. } = *batch;
        let stamp = if max_timestamp.0 >= 0 { max_timestamp.0 } else { -1 - appended.0.max(0) };
        let (position, size) = match batch.place {
            BatchPlace::Log { position, size } => (position, size),
            BatchPlace::Marker(_) => (LogPosition(0), 0),
        };
        let span = u32::try_from(last_offset.0 - base_offset.0).unwrap_or(0);
        Entry { base_offset, stamp, position, size, span }
    }

    fn last_offset(&self) -> Offset {
        self.base_offset.plus(i64::from(self.span))
    }

    fn max_timestamp(&self) -> Millis {
        Millis(self.stamp).max(Millis::NONE)
    }

    fn bytes(&self) -> u64 {
        u64::from(if self.size == 0 { MARKER_BYTES } else { self.size })
    }
}

impl Chunk {
    fn push(&mut self, entry: Entry) {
        let latest = if self.entries.is_empty() { Millis::NONE } else { self.latest };
        self.latest = latest.max(entry.max_timestamp());
        self.bytes += entry.bytes();
        self.entries.push(entry);
    }

    /// Where the entry is that holds `offset`, or else the next one.
    fn find(&self, offset: Offset) -> usize {
        self.entries.partition_point(|entry| entry.last_offset() < offset)
    }

    fn drop_front(&mut self, count: usize) {
        let rest = self.entries.split_off(count);
        *self = Chunk::default();
        rest.into_iter().for_each(|entry| self.push(entry));
    }
}

impl Tail {
    pub(super) fn push(&mut self, batch: &StoredBatch) {
        if let BatchPlace::Marker(marker) = batch.place {
            self.markers.push_back((batch.base_offset, marker));
        }
        self.entries += 1;
        self.bytes += u64::from(size(batch));
        let entry = Entry::new(batch);
        match self.chunks.back_mut() {
            Some(chunk) if chunk.entries.len() < CHUNK => chunk.push(entry),
            _ => {
                let mut chunk = Chunk::default();
                chunk.push(entry);
                self.chunks.push_back(chunk);
            }
        }
    }

    pub(super) fn len(&self) -> usize {
        self.entries
    }

    pub(super) fn bytes(&self) -> u64 {
        self.bytes
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = StoredBatch> {
        self.chunks.iter().flat_map(|chunk| &chunk.entries).map(|entry| self.batch(entry))
    }

    /// The batches from the one that holds `offset`, or else follows it, onwards.
    pub(super) fn from(&self, offset: Offset) -> impl Iterator<Item = StoredBatch> {
        let (chunk, entry) = self.find(offset);
        let first = self.chunks.get(chunk).map_or(&[][..], |chunk| &chunk.entries[entry..]);
        let later = self.chunks.range((chunk + 1).min(self.chunks.len())..);
        let entries = first.iter().chain(later.flat_map(|chunk| &chunk.entries));
        entries.map(|entry| self.batch(entry))
    }

    /// Bytes of the batches from `offset` on that end before `end`, counted up to `enough`.
    pub(super) fn bytes_between(&self, offset: Offset, end: Offset, enough: u64) -> u64 {
        let (first, entry) = self.find(offset);
        let mut bytes = 0;
        let mut skip = entry;
        for chunk in self.chunks.range(first.min(self.chunks.len())..) {
            let whole = skip == 0 && chunk.entries.last().is_some_and(|last| last.last_offset() < end);
            if whole {
                bytes += chunk.bytes;
            } else {
                let within = chunk.entries[skip..].iter().take_while(|entry| entry.last_offset() < end);
                bytes += within.map(Entry::bytes).sum::<u64>();
            }
            if bytes >= enough || chunk.entries.last().is_none_or(|last| last.last_offset() >= end) {
                break;
            }
            skip = 0;
        }
        bytes
    }

    /// The first batch from `from` on that may hold a record of this time or later. Timestamps have no order, so this passes
    /// over chunks by their largest one.
    pub(super) fn at_time(&self, time: Millis, from: Offset) -> Option<StoredBatch> {
        let (first, skip) = self.find(from);
        let is_late = |entry: &&Entry| entry.max_timestamp() >= time;
        let head = self.chunks.get(first)?.entries[skip..].iter().find(is_late);
        let mut later = self.chunks.range(first + 1..).filter(|chunk| chunk.latest >= time);
        let found = head.or_else(|| later.find_map(|chunk| chunk.entries.iter().find(is_late)));
        found.map(|entry| self.batch(entry))
    }

    /// The first batch with the largest timestamp of all; none if none has any.
    pub(super) fn latest_time(&self) -> Option<StoredBatch> {
        let latest = self.chunks.iter().map(|chunk| chunk.latest).max().filter(|time| *time >= Millis(0))?;
        self.at_time(latest, Offset(0))
    }

    /// Takes out the first `count` batches.
    pub(super) fn drop_front(&mut self, count: usize) -> Vec<StoredBatch> {
        let dropped: Vec<_> = self.iter().take(count).collect();
        let mut left = dropped.len();
        while let Some(chunk) = self.chunks.front_mut().filter(|_| left > 0) {
            if chunk.entries.len() > left {
                chunk.drop_front(left);
                break;
            }
            left -= chunk.entries.len();
            self.chunks.pop_front();
        }
        for batch in &dropped {
            self.entries -= 1;
            self.bytes -= u64::from(size(batch));
            if matches!(batch.place, BatchPlace::Marker(_)) {
                self.markers.pop_front();
            }
        }
        dropped
    }

    /// How many batches end before `offset`.
    pub(super) fn count_below(&self, offset: Offset) -> usize {
        let (chunk, entry) = self.find(offset);
        self.chunks.range(..chunk).map(|chunk| chunk.entries.len()).sum::<usize>() + entry
    }

    /// Chunk and place in it of the batch that holds `offset`, or else follows it.
    fn find(&self, offset: Offset) -> (usize, usize) {
        let before = |chunk: &Chunk| chunk.entries.last().is_some_and(|last| last.last_offset() < offset);
        let chunk = self.chunks.partition_point(before);
        (chunk, self.chunks.get(chunk).map_or(0, |chunk| chunk.find(offset)))
    }

    fn batch(&self, entry: &Entry) -> StoredBatch {
        let Entry { base_offset, stamp, position, size, .. } = *entry;
        StoredBatch {
            base_offset,
            last_offset: entry.last_offset(),
            max_timestamp: entry.max_timestamp(),
            appended: if stamp < 0 { Millis(-1 - stamp) } else { Millis::NONE },
            place: self.marker(entry).map_or(BatchPlace::Log { position, size }, BatchPlace::Marker),
        }
    }

    fn marker(&self, entry: &Entry) -> Option<Marker> {
        if entry.size > 0 {
            return None;
        }
        let found = self.markers.binary_search_by_key(&entry.base_offset, |(offset, _)| *offset).ok()?;
        self.markers.get(found).map(|(_, marker)| *marker)
    }
}
