//! The directory of a part: an index of its batches with an entry about every 4 KiB. Pages of entries in order; each
//! page can be checked and searched alone.
//!
//! An entry stands for a **stretch**: the batches from its place to that of the next entry. The first stretch begins
//! with the part; a new one begins with the first batch that lies 4096 bytes or more after the last one's beginning.

use crate::read::{array, put, u32_at};
use crate::run::batch::{BatchHead, Batches, HeadSum};
use crate::run::file::RunId;
use ottla_types::{Millis, Offset};

const MAGIC: &[u8; 4] = b"OTDR";
const HEADER: usize = 32;
const ENTRY: usize = 28;
/// Bytes of a page.
pub const PAGE: usize = 4096;
/// Entries of a full page.
pub const PAGE_ENTRIES: usize = (PAGE - HEADER) / ENTRY;
/// A stretch ends with the first batch that reaches this many bytes.
pub const STRETCH: u64 = 4096;
/// A part of at most this many bytes has one page, cut to its length, and its data and directory are read at once.
pub const SMALL_PART: u64 = 64 << 10;

/// One stretch of a part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stretch {
    /// Base offset of its first batch.
    pub base_offset: Offset,
    /// Base offset of the next stretch; after the last batch for the last one of a part.
    pub next_offset: Offset,
    /// Where it begins in the file.
    pub place: u64,
    /// Where it ends in the file.
    pub end: u64,
    /// The largest timestamp from the beginning of the part to the end of this stretch, -1 for none.
    pub max_timestamp: Millis,
    /// Checksum of the heads of its batches, one after the other.
    pub heads: u32,
}

/// A page that cannot be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PageFault {
    /// Cut short, damaged, or from another place.
    #[error("the checksum of the directory page does not match")]
    Checksum,
    /// The checksum matches, but the content is invalid.
    #[error("the entries of the directory page make no sense")]
    Entries,
}

/// A page that was checked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DirectoryPage {
    bytes: Box<[u8]>,
    entries: usize,
}

impl DirectoryPage {
    /// Checks that `bytes` begin with page `index` of a directory, found at `place` of the run `id`.
    pub fn check(id: &RunId, place: u64, index: u32, bytes: &[u8]) -> Result<DirectoryPage, PageFault> {
        let entries = u32_at(bytes, 12).ok_or(PageFault::Checksum)? as usize;
        let len = HEADER + entries.min(PAGE_ENTRIES + 1) * ENTRY;
        let bytes = bytes.get(..len).filter(|_| len <= PAGE).ok_or(PageFault::Checksum)?;
        let right = u32_at(bytes, 0) == Some(checksum(id, place, bytes))
            && bytes.get(4..8) == Some(MAGIC.as_slice())
            && u32_at(bytes, 8) == Some(index);
        if !right {
            return Err(PageFault::Checksum);
        }
        let page = DirectoryPage { bytes: bytes.into(), entries };
        let in_order = |stretch: Stretch| {
            stretch.place < stretch.end && stretch.base_offset < stretch.next_offset && stretch.place > 0
        };
        let sound = entries > 0 && page.stretches().all(in_order);
        if sound { Ok(page) } else { Err(PageFault::Entries) }
    }

    /// Number of stretches in the page: at least one.
    pub fn count(&self) -> usize {
        self.entries
    }

    /// Base offset of the first stretch that is not in this page or an earlier one; after the last batch in the last
    /// page.
    pub fn next_offset(&self) -> Offset {
        Offset(self.number(24))
    }

    /// Place after the last stretch.
    pub fn end(&self) -> u64 {
        self.number(16) as u64
    }

    /// The largest timestamp from the beginning of the part to the end of the page.
    pub fn max_timestamp(&self) -> Millis {
        Millis(self.number(HEADER + self.entries.saturating_sub(1) * ENTRY + 16))
    }

    /// The stretch number `index` of the page.
    pub fn stretch(&self, index: usize) -> Option<Stretch> {
        let at = HEADER + index * ENTRY;
        let last = index + 1 >= self.entries;
        (index < self.entries).then(|| Stretch {
            base_offset: Offset(self.number(at)),
            next_offset: if last { self.next_offset() } else { Offset(self.number(at + ENTRY)) },
            place: self.number(at + 8) as u64,
            end: if last { self.end() } else { self.number(at + ENTRY + 8) as u64 },
            max_timestamp: Millis(self.number(at + 16)),
            heads: u32_at(&self.bytes, at + 24).unwrap_or(0),
        })
    }

    /// All stretches in order.
    pub fn stretches(&self) -> impl Iterator<Item = Stretch> + '_ {
        (0..self.entries).filter_map(|index| self.stretch(index))
    }

    /// Number of the first stretch that `wanted` holds for, if it holds for all that follow one it holds for.
    pub fn first(&self, wanted: impl Fn(&Stretch) -> bool) -> Option<usize> {
        let (mut low, mut high) = (0, self.entries);
        while low < high {
            let middle = usize::midpoint(low, high);
            if self.stretch(middle).is_some_and(|stretch| wanted(&stretch)) {
                high = middle;
            } else {
                low = middle + 1;
            }
        }
        (low < self.entries).then_some(low)
    }

    fn number(&self, at: usize) -> i64 {
        array(&self.bytes, at).map_or(0, i64::from_le_bytes)
    }
}

/// The checksum covers the run and the place, so that a page of another run or place is not taken for this one.
fn checksum(id: &RunId, place: u64, page: &[u8]) -> u32 {
    let mut seed = [0; 24];
    put(&mut seed, 0, &id.log_id.to_le_bytes());
    put(&mut seed, 8, &id.run.to_le_bytes());
    put(&mut seed, 16, &place.to_le_bytes());
    crc32c::crc32c_append(crc32c::crc32c(&seed), page.get(4..).unwrap_or_default())
}

/// Builds the directory of one part while its batches are written.
#[derive(Debug, Default)]
pub struct DirectoryWriter {
    /// Whole pages without their headers' checksums.
    pages: Vec<u8>,
    /// Entries in the last page.
    entries: usize,
    open: Option<Stretch>,
    heads: HeadSum,
}

impl DirectoryWriter {
    /// Adds a batch with this `head` and these `bytes`, written at `place`. Batches are added in order and without
    /// gaps.
    pub fn push(&mut self, place: u64, head: &BatchHead, bytes: &[u8]) {
        let begins = self.open.as_ref().is_none_or(|open| place - open.place >= STRETCH);
        if begins {
            self.close(place, head.base_offset);
        }
        let before = self.open.as_ref().map_or(Millis::NONE, |open| open.max_timestamp);
        let open = self.open.get_or_insert(Stretch {
            base_offset: head.base_offset,
            next_offset: head.base_offset,
            place,
            end: place,
            max_timestamp: before,
            heads: 0,
        });
        if begins {
            *open = Stretch { base_offset: head.base_offset, place, ..*open };
            self.heads = HeadSum::default();
        }
        open.end = place + head.size as u64;
        open.next_offset = head.last_offset.plus(1);
        open.max_timestamp = open.max_timestamp.max(head.max_timestamp);
        self.heads.push(bytes);
    }

    /// Bytes of memory that the directory takes.
    pub fn held(&self) -> usize {
        self.pages.len()
    }

    /// Writes the entry of the open stretch, which ends at `end`.
    fn close(&mut self, end: u64, next_offset: Offset) {
        let Some(stretch) = self.open else {
            return;
        };
        if self.pages.is_empty() || self.entries == PAGE_ENTRIES {
            self.pages.resize(self.pages.len() + PAGE, 0);
            self.entries = 0;
        }
        let start = self.pages.len() - PAGE;
        let page = self.pages.get_mut(start..).unwrap_or_default();
        let at = HEADER + self.entries * ENTRY;
        self.entries += 1;
        put(page, 4, MAGIC);
        put(page, 8, &((start / PAGE) as u32).to_le_bytes());
        put(page, 12, &(self.entries as u32).to_le_bytes());
        put(page, 16, &end.to_le_bytes());
        put(page, 24, &next_offset.0.to_le_bytes());
        put(page, at, &stretch.base_offset.0.to_le_bytes());
        put(page, at + 8, &stretch.place.to_le_bytes());
        put(page, at + 16, &stretch.max_timestamp.0.to_le_bytes());
        put(page, at + 24, &self.heads.checksum().to_le_bytes());
    }

    /// The finished directory, to be written at `place` of the run `id`, and its number of pages: none for a small
    /// part, whose only page is cut to its length.
    pub fn finish(mut self, id: &RunId, place: u64, small: bool) -> (Vec<u8>, u32) {
        if let Some(open) = self.open {
            self.close(open.end, open.next_offset);
        }
        for (index, page) in self.pages.chunks_exact_mut(PAGE).enumerate() {
            let entries = u32_at(page, 12).unwrap_or(0) as usize;
            let used = page.get(..HEADER + entries * ENTRY).unwrap_or_default();
            let checksum = checksum(id, place + (index * PAGE) as u64, used);
            put(page, 0, &checksum.to_le_bytes());
        }
        let pages = (self.pages.len() / PAGE) as u32;
        if small && pages == 1 {
            self.pages.truncate(HEADER + self.entries * ENTRY);
            return (self.pages, 0);
        }
        (self.pages, pages)
    }
}

/// The most bytes that the page of a small part takes.
pub const SMALL_DIRECTORY: usize = HEADER + (SMALL_PART / STRETCH) as usize * ENTRY;

/// Checks the bytes of a stretch against its entry, and passes its batches to `sink`: where each begins in `bytes`, and
/// its head. An error holds the offset in `bytes` and the fault.
pub fn walk_stretch(
    stretch: &Stretch,
    bytes: &[u8],
    mut sink: impl FnMut(usize, &BatchHead),
) -> Result<(), (usize, String)> {
    let mut heads = HeadSum::default();
    let mut next = stretch.base_offset;
    for found in Batches::of(bytes) {
        let (at, head, batch) = found.map_err(|(at, fault)| (at, fault.to_string()))?;
        let starts_right = if at == 0 { head.base_offset == next } else { head.base_offset >= next };
        if !starts_right {
            return Err((at, format!("a batch begins at offset {}, not {}", head.base_offset.0, next.0)));
        }
        next = head.last_offset.plus(1);
        heads.push(batch);
        sink(at, &head);
    }
    if bytes.len() as u64 != stretch.end - stretch.place || next > stretch.next_offset {
        return Err((0, "the batches do not fill what the directory says".to_owned()));
    }
    if heads.checksum() != stretch.heads {
        return Err((0, "the heads of the batches do not match their checksum in the directory".to_owned()));
    }
    Ok(())
}
