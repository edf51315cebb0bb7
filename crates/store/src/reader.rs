//! Reads of batch bytes: from the groups in memory, else from the medium.

use crate::files::segment_name;
use crate::shared::Shared;
use crate::stats::LogStats;
use bytes::Bytes;
use ottla_types::LogPosition;
use std::io;
use std::sync::Arc;

/// Reads durable bytes of the log. Clones share everything.
#[derive(Clone)]
pub struct LogReader {
    shared: Arc<Shared>,
}

impl std::fmt::Debug for LogReader {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("LogReader").finish_non_exhaustive()
    }
}

impl LogReader {
    pub(crate) fn new(shared: Arc<Shared>) -> LogReader {
        LogReader { shared }
    }

    /// Whether the log has no threads of its own: its reads then belong on the caller's thread too.
    pub fn is_driven(&self) -> bool {
        !self.shared.options.threads
    }

    /// Bytes of the largest record that the log takes: half a segment.
    pub fn largest_record(&self) -> u64 {
        self.shared.geometry().largest_entry()
    }

    /// The end of what is durable.
    pub fn durable(&self) -> LogPosition {
        LogPosition(self.shared.durable())
    }

    /// The end of what was accepted.
    pub fn end(&self) -> LogPosition {
        LogPosition(self.shared.lock().end())
    }

    /// Bytes that can still be written to the medium, as far as known. Asks the system.
    pub fn free_space(&self) -> io::Result<u64> {
        self.shared.files.medium.free_space()
    }

    /// Figures since the log was opened.
    pub fn stats(&self) -> &LogStats {
        &self.shared.stats
    }

    /// The `len` bytes from `position` on, if they are in memory. Never blocks.
    pub fn recent(&self, position: LogPosition, len: usize) -> Option<Bytes> {
        self.shared.ring.get(position.0, len)
    }

    /// The `len` bytes from `position` on, inside one entry. Blocks while the medium reads, if they are not in memory.
    ///
    /// An error names the file: `NotFound` if the segment was freed, `UnexpectedEof` if it is shorter than the log. Bytes that
    /// are not durable yet are refused with `WouldBlock`.
    pub fn read(&self, position: LogPosition, len: usize) -> io::Result<Bytes> {
        if position.0.saturating_add(len as u64) > self.shared.durable() {
            let why = format!("position {} is not durable yet", position.0);
            return Err(io::Error::new(io::ErrorKind::WouldBlock, why));
        }
        match self.recent(position, len) {
            Some(bytes) => Ok(bytes),
            None => self.read_medium(position.0, len),
        }
    }

    fn read_medium(&self, position: u64, len: usize) -> io::Result<Bytes> {
        let geometry = self.shared.geometry();
        let number = geometry.segment_of(position);
        let offset = geometry.offset_of(position);
        let explain = |error: io::Error| {
            io::Error::new(error.kind(), format!("{} at offset {offset}: {error}", segment_name(number)))
        };
        let file = self.shared.files.segment(number).map_err(explain)?;
        let mut buffer = self.shared.pool.take(len);
        buffer.resize_for_read(len);
        let found = file.read_at(buffer.as_mut(), offset).map_err(explain)?;
        if found < len {
            return Err(explain(io::ErrorKind::UnexpectedEof.into()));
        }
        // A freed file may have a new use already: what was read is only good if the segment is still there.
        if !self.shared.files.is_live(number) {
            return Err(explain(io::Error::new(io::ErrorKind::NotFound, "the segment was freed")));
        }
        Ok(Bytes::from_owner(buffer))
    }
}
