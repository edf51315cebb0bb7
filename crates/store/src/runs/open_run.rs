//! A run that is open for reading.

use crate::blob::Blob;
use crate::names::run_name;
use crate::runs::error::RunError;
use ottla_layout::run::{RunFooter, RunId};
use std::io;
use std::sync::Arc;

/// An open run whose header and footer were checked.
#[derive(Clone)]
pub(crate) struct OpenRun {
    pub(crate) id: RunId,
    pub(crate) blob: Arc<dyn Blob>,
    pub(crate) footer: RunFooter,
    /// Reads that would have to wait fail with `WouldBlock`.
    pub(crate) non_blocking: bool,
}

impl OpenRun {
    pub(crate) fn name(&self) -> String {
        run_name(self.id.run)
    }

    pub(crate) fn damaged(&self, offset: u64, what: impl ToString) -> RunError {
        RunError::Damaged { file: self.name(), offset, what: what.to_string() }
    }

    /// Fills `buf` from `offset`.
    pub(crate) fn fill(&self, buf: &mut [u8], offset: u64) -> Result<(), RunError> {
        let found = match self.non_blocking {
            false => self.blob.read_at(buf, offset),
            true if self.blob.try_read_at(buf, offset) => Ok(buf.len()),
            true => Err(io::ErrorKind::WouldBlock.into()),
        };
        let found = found.map_err(|source| RunError::Medium { file: self.name(), offset, source })?;
        if found == buf.len() {
            return Ok(());
        }
        Err(self.damaged(offset + found as u64, "the file ends here"))
    }
}
