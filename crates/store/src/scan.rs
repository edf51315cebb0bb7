//! Reads a segment from front to back in large aligned pieces.

use crate::buffer::{Buffer, Pool};
use crate::medium::MediumFile;
use std::io;
use std::sync::Arc;

/// Bytes that are read at once.
const PIECE: usize = 1 << 20;

/// A window over a file that moves forward.
pub(crate) struct Window {
    file: Arc<dyn MediumFile>,
    start: u64,
    buffer: Buffer,
}

impl Window {
    pub(crate) fn over(file: Arc<dyn MediumFile>) -> Window {
        Window { file, start: 0, buffer: Pool::new(0).take(0) }
    }

    /// The `len` bytes at `offset`, a multiple of a block; fewer where the file ends.
    pub(crate) fn at(&mut self, offset: u64, len: usize) -> io::Result<&[u8]> {
        let end = offset + len as u64;
        if offset < self.start || end > self.start + self.buffer.len() as u64 {
            self.move_to(offset, len)?;
        }
        let from = (offset - self.start) as usize;
        let bytes = self.buffer.as_ref();
        Ok(&bytes[from.min(bytes.len())..(from + len).min(bytes.len())])
    }

    fn move_to(&mut self, offset: u64, len: usize) -> io::Result<()> {
        let left = usize::try_from(self.file.size()?.saturating_sub(offset)).unwrap_or(usize::MAX);
        let want = ottla_layout::align_up(len.max(PIECE).min(left) as u64) as usize;
        self.start = offset;
        self.buffer.resize_for_read(want);
        let found = self.file.read_at(self.buffer.as_mut(), offset);
        self.buffer.resize_for_read(*found.as_ref().unwrap_or(&0));
        found.map(drop)
    }
}
