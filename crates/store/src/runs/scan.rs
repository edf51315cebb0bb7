//! A part from its first batch to its last, in large reads: for rewriting, compaction, and checking.

use crate::runs::error::RunError;
use crate::runs::part::{Cursor, PartView, ReadPath, StretchWindow};
use crate::runs::read::PartBatch;
use ottla_layout::run::BatchHead;
use std::collections::VecDeque;

/// Bytes that are read at once.
const PIECE: u64 = 1 << 20;
/// Stretches that are read one by one after a fault: more than are read at once.
const CAREFUL: usize = 300;

/// Returns the batches of a part in order, each with its checksum checked.
pub struct PartScan {
    view: PartView,
    cursor: Cursor,
    window: Option<StretchWindow>,
    heads: VecDeque<(usize, BatchHead)>,
    /// Stretches that are read one by one, because something in them is damaged.
    careful: usize,
}

impl std::fmt::Debug for PartScan {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("PartScan").field("part", self.view.part()).finish_non_exhaustive()
    }
}

impl PartScan {
    pub(crate) fn new(view: PartView) -> PartScan {
        PartScan { cursor: view.begin(), view, window: None, heads: VecDeque::new(), careful: 0 }
    }

    /// The next batch; none after the last one. After an error the scan continues after the damage.
    pub fn next_batch(&mut self) -> Result<Option<PartBatch>, RunError> {
        if self.heads.is_empty() && !self.load()? {
            return Ok(None);
        }
        let (Some(window), Some((at, head))) = (&self.window, self.heads.pop_front()) else {
            return Ok(None);
        };
        let batch = PartBatch::of(window, at, &head);
        if head.matches(&batch.bytes) {
            return Ok(Some(batch));
        }
        let place = window.stretches.first().map_or(0, |first| first.place) + at as u64;
        Err(self.view.damaged(place, "the checksum of a batch does not match"))
    }

    /// Reads the next window; false after the last one.
    fn load(&mut self) -> Result<bool, RunError> {
        self.window = None;
        loop {
            let before = self.cursor.clone();
            let piece = if self.careful > 0 { 0 } else { PIECE };
            self.careful = self.careful.saturating_sub(1);
            match self.load_piece(piece) {
                Err(RunError::Freed { file }) => {
                    self.view.end(&mut self.cursor);
                    return Err(RunError::Freed { file });
                }
                Err(_) if piece > 0 => {
                    self.cursor = before;
                    self.careful = CAREFUL;
                }
                Err(error) => {
                    self.view.skip_if_at(&mut self.cursor, &before);
                    return Err(error);
                }
                Ok(found) => return Ok(found),
            }
        }
    }

    fn load_piece(&mut self, max_bytes: u64) -> Result<bool, RunError> {
        self.heads.clear();
        let window = self.view.window(&mut self.cursor, max_bytes, ReadPath::Direct, |_| true)?;
        let Some(window) = window else {
            return Ok(false);
        };
        let heads = &mut self.heads;
        self.view.walk(&window, |at, head| {
            heads.push_back((at, *head));
            true
        })?;
        self.window = Some(window);
        Ok(true)
    }
}
