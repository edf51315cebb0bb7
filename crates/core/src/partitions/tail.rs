//! The newest batches of a partition, which still lie in the log: one small entry for each, in chunks that know their
//! largest timestamp and their bytes.

use super::batch_size::{MARKER_BYTES, size};
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

    /// The first batch from `from` on that may hold a record of this time or later. Timestamps have no order, so this
    /// passes over chunks by their largest one.
    pub(super) fn at_time(&self, time: Millis, from: Offset) -> Option<StoredBatch> {
        let (first, skip) = self.find(from);
        let is_late = |entry: &&Entry| entry.max_timestamp() >= time;
        let head = self.chunks.get(first)?.entries[skip..].iter().find(is_late);
        let mut later = self.chunks.range(first + 1..).filter(|chunk| chunk.latest >= time);
        let found = head.or_else(|| later.find_map(|chunk| chunk.entries.iter().find(is_late)));
        found.map(|entry| self.batch(entry))
    }

    /// The first batch with the largest timestamp of all, which is -1 if none has any.
    pub(super) fn latest_time(&self) -> Option<StoredBatch> {
        let latest = self.chunks.iter().map(|chunk| chunk.latest).max()?;
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

#[cfg(test)]
mod tests {
    use super::*;
    use ottla_types::{ProducerEpoch, ProducerId};

    /// Numbers without an obvious order.
    fn numbers() -> impl Iterator<Item = i64> {
        std::iter::successors(Some(12_345_u64), |last| Some(last.wrapping_mul(6_364_136_223_846_793_005) + 1))
            .map(|number| (number >> 40) as i64)
    }

    fn batches(count: usize) -> Vec<StoredBatch> {
        let mut numbers = numbers();
        let mut next = || numbers.next().unwrap_or_default();
        let mut offset = Offset(0);
        let one = |_| {
            let (base_offset, time) = (offset, Millis(next() % 1000 - 1));
            let is_marker = next() % 4 == 0;
            let last_offset = if is_marker { base_offset } else { base_offset.plus(next() % 5) };
            offset = last_offset.plus(1);
            let marker = Marker {
                commit: true,
                producer_id: ProducerId(next()),
                producer_epoch: ProducerEpoch(0),
                coordinator_epoch: 0,
                at: time,
            };
            let place = match is_marker {
                true => BatchPlace::Marker(marker),
                false => {
                    BatchPlace::Log { position: LogPosition(next() as u64), size: 61 + (next() % 100) as u32 }
                }
            };
            let appended = if time < Millis(0) { Millis(next()) } else { Millis::NONE };
            StoredBatch { base_offset, last_offset, max_timestamp: time, appended, place }
        };
        (0..count).map(one).collect()
    }

    fn tail(batches: &[StoredBatch]) -> Tail {
        let mut tail = Tail::default();
        batches.iter().for_each(|batch| tail.push(batch));
        tail
    }

    #[test]
    fn many_chunks_are_as_one_list() {
        let mut list = batches(1000);
        let mut tail = tail(&list);
        let end = list[999].last_offset.0 + 2;
        for drop in [0, 1, 127, 128, 300, 37] {
            assert_eq!(tail.drop_front(drop), list.drain(..drop).collect::<Vec<_>>());
            assert_eq!(tail.iter().collect::<Vec<_>>(), list);
            let bytes: u64 = list.iter().map(|batch| u64::from(size(batch))).sum();
            assert_eq!((tail.len(), tail.bytes()), (list.len(), bytes));
            for offset in (0..end).step_by(7).map(Offset) {
                let from = list.partition_point(|batch| batch.last_offset < offset);
                assert_eq!(tail.count_below(offset), from);
                assert!(tail.from(offset).eq(list[from..].iter().copied()));
                let time = Millis(offset.0 % 1001);
                let late = list[from..].iter().find(|batch| batch.max_timestamp >= time);
                assert_eq!(tail.at_time(time, offset).as_ref(), late);
                let to = Offset(offset.0 * 2);
                let within = list[from..].iter().take_while(|batch| batch.last_offset < to);
                let within = within.map(|batch| u64::from(size(batch))).sum();
                assert_eq!(tail.bytes_between(offset, to, u64::MAX), within);
                assert!(tail.bytes_between(offset, to, 500) >= within.min(500));
            }
            let latest = list.iter().map(|batch| batch.max_timestamp).max();
            assert_eq!(tail.latest_time().map(|batch| batch.max_timestamp), latest);
        }
        assert_eq!(tail.drop_front(1000).len(), list.len());
        assert_eq!((tail.len(), tail.bytes(), tail.markers.len(), tail.chunks.len()), (0, 0, 0, 0));
    }

    #[test]
    fn an_entry_keeps_the_time_of_its_append_only_where_it_has_no_other() {
        let mut batch = batches(1)[0];
        (batch.max_timestamp, batch.appended) = (Millis(-7), Millis(5));
        let kept = |batch: &StoredBatch| {
            tail(&[*batch]).iter().next().map(|one| (one.max_timestamp.0, one.appended.0))
        };
        assert_eq!(kept(&batch), Some((-1, 5)));
        batch.max_timestamp = Millis(0);
        assert_eq!(kept(&batch), Some((0, -1)));
    }
}
