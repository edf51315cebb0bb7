//! Reads the intact batches of a damaged part.

use crate::buffer::Pool;
use crate::runs::error::RunError;
use crate::runs::files::RunFiles;
use crate::runs::part::{PartView, ReadPath};
use crate::runs::read::PartBatch;
use bytes::Bytes;
use ottla_layout::run::{Batches, Stretch, walk_stretch};
use ottla_types::Offset;
use ottla_types::record::RunPart;
use std::ops::Range;
use std::sync::Arc;

/// Offsets, first and last, in which batches are lost.
pub(crate) type LostOffsets = (Offset, Offset);

type Sink<'a> = &'a mut dyn FnMut(PartBatch) -> Result<(), RunError>;

/// Reads a part and skips damage. Where the directory is intact, a batch is accepted if its checksum matches and the
/// directory confirms the heads of its stretch. Where the directory is damaged, batches are accepted if valid batches
/// fill the whole gap. Accepted batches go to `sink`, in order.
pub(crate) fn salvage_part(
    files: &Arc<RunFiles>,
    pool: &Arc<Pool>,
    part: &RunPart,
    sink: Sink<'_>,
) -> Result<Vec<LostOffsets>, RunError> {
    let view = match PartView::open_unchecked(files, pool, part) {
        Ok(view) => view,
        Err(RunError::Freed { .. }) => return Ok(vec![(part.base_offset, part.last_offset)]),
        Err(error) => return Err(error),
    };
    let mut salvage = PartSalvage { view, sink, lost: Vec::new(), place: part.data, next: part.base_offset };
    for page in 0..part.pages {
        let Ok(page) = salvage.view.page(page, true) else { continue };
        for stretch in page.stretches() {
            if stretch.place > salvage.place {
                salvage.gap(stretch.place, stretch.base_offset)?;
            }
            salvage.stretch(&stretch)?;
        }
    }
    let end = part.data + part.bytes;
    if salvage.place < end {
        salvage.gap(end, part.last_offset.plus(1))?;
    }
    Ok(salvage.lost)
}

struct PartSalvage<'a> {
    view: PartView,
    sink: Sink<'a>,
    lost: Vec<LostOffsets>,
    /// Everything before it has been handled.
    place: u64,
    /// No later batch begins before this offset.
    next: Offset,
}

impl PartSalvage<'_> {
    fn lose(&mut self, to: Offset) {
        if self.next < to {
            self.lost.push((self.next, Offset(to.0 - 1)));
        }
    }

    fn bytes(&self, range: Range<u64>) -> Option<Bytes> {
        self.view.read(range, ReadPath::Direct).ok()
    }

    /// Bytes that no readable directory page covers, up to `place`, where offset `to` follows: either all of them are
    /// valid batches, or none is accepted.
    fn gap(&mut self, place: u64, to: Offset) -> Result<(), RunError> {
        let bytes = self.bytes(self.place..place).unwrap_or_default();
        let mut found = Vec::new();
        let mut next = self.next;
        let whole = Batches::of(&bytes).all(|batch| match batch {
            Ok((at, head, raw)) if head.matches(raw) && head.base_offset >= next && head.last_offset < to => {
                next = head.last_offset.plus(1);
                found.push(PartBatch {
                    base_offset: head.base_offset,
                    last_offset: head.last_offset,
                    max_timestamp: head.max_timestamp,
                    bytes: bytes.slice(at..at + head.size),
                });
                true
            }
            _ => false,
        });
        if whole && !bytes.is_empty() {
            found.into_iter().try_for_each(|batch| (self.sink)(batch))?;
        } else {
            self.lose(to);
        }
        (self.place, self.next) = (place, to);
        Ok(())
    }

    fn stretch(&mut self, stretch: &Stretch) -> Result<(), RunError> {
        let bytes = self.bytes(stretch.place..stretch.end).unwrap_or_default();
        let mut heads = Vec::new();
        if walk_stretch(stretch, &bytes, |at, head| heads.push((at, *head))).is_err() {
            self.next = stretch.base_offset;
            self.lose(stretch.next_offset);
        } else {
            for (at, head) in heads {
                let batch = bytes.slice(at..at + head.size);
                if head.matches(&batch) {
                    let (base_offset, last_offset) = (head.base_offset, head.last_offset);
                    let max_timestamp = head.max_timestamp;
                    (self.sink)(PartBatch { base_offset, last_offset, max_timestamp, bytes: batch })?;
                } else {
                    self.lost.push((head.base_offset, head.last_offset));
                }
            }
        }
        (self.place, self.next) = (stretch.end, stretch.next_offset);
        Ok(())
    }
}
