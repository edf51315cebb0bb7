//! A part from its first batch to its last, in large reads: for rewriting, compaction, and checking.

use crate::runs::error::RunError;
use crate::runs::part::{Cursor, PartView, Via, Window};
use crate::runs::read::PartBatch;
use ottla_layout::run::BatchHead;
use std::collections::VecDeque;

/// Bytes that are read at once.
const PIECE: u64 = 1 << 20;

/// Gives the batches of a part in order, each with its checksum checked.
pub struct PartScan {
    view: PartView,
    cursor: Cursor,
    window: Option<Window>,
    heads: VecDeque<(usize, BatchHead)>,
}

impl std::fmt::Debug for PartScan {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("PartScan").field("part", self.view.part()).finish_non_exhaustive()
    }
}

impl PartScan {
    pub(crate) fn new(view: PartView) -> PartScan {
        PartScan { cursor: view.begin(), view, window: None, heads: VecDeque::new() }
    }

    /// The next batch; nothing behind the last one.
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

    fn load(&mut self) -> Result<bool, RunError> {
        self.window = None;
        let window = self.view.window(&mut self.cursor, PIECE, Via::Blocks, |_| true)?;
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
