//! The writer: one group at a time, one write and one sync each, no timer. What arrives during a sync is the next group.

use crate::error::LogFailure;
use crate::files::segment_name;
use crate::log_core::{LogCore, OpenGroup};
use crate::medium::MediumFile;
use ottla_layout::{GroupHeader, seal_group};
use std::io;
use std::sync::{MutexGuard, PoisonError};
use std::time::Instant;

/// The end of the chain as written.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ChainEnd {
    /// Epoch of this opening of the log.
    pub(crate) epoch: u32,
    /// Sequence number of the last group.
    pub(crate) sequence: u64,
    /// Its checksum.
    pub(crate) checksum: u32,
    /// Position behind it.
    pub(crate) end: u64,
    /// Everything before this was synced.
    pub(crate) synced: u64,
    /// Whether the last group had entries.
    pub(crate) had_entries: bool,
}

impl LogCore {
    /// The body of the writer thread.
    pub(crate) fn write_until_stopped(&self) {
        while let Some(group) = self.wait_for_group() {
            if let Err(failure) = self.write_group(group) {
                self.fail(failure);
                return;
            }
        }
    }

    /// Writes what waits; returns whether there was anything.
    pub(crate) fn write_pending(&self) -> bool {
        let Some(group) = self.lock().take_group() else {
            return false;
        };
        if let Err(failure) = self.write_group(group) {
            self.fail(failure);
        }
        true
    }

    fn wait_for_group(&self) -> Option<OpenGroup> {
        let mut state = self.lock();
        loop {
            if state.failed.is_some() {
                return None;
            }
            if let Some(group) = state.take_group() {
                return Some(group);
            }
            if state.stop {
                return None;
            }
            state.writer_waits = true;
            state = self.work.wait(state).unwrap_or_else(PoisonError::into_inner);
            state.writer_waits = false;
        }
    }

    /// Writes a group, makes it durable and tells the host.
    fn write_group(&self, group: OpenGroup) -> Result<(), LogFailure> {
        let end = self.append_group(group)?;
        self.set_durable(end);
        Ok(())
    }

    /// Writes a group and makes it durable; returns its end.
    pub(crate) fn append_group(&self, mut group: OpenGroup) -> Result<u64, LogFailure> {
        let mut written = self.written();
        let number = self.geometry().segment_of(group.position);
        let failure = |doing| move |error| failure(number, doing, error);
        let header = GroupHeader {
            log_id: self.files.identity.log_id,
            shard: self.files.identity.shard,
            epoch: written.epoch,
            sequence: written.sequence + 1,
            position: group.position,
            durable: written.synced,
            payload: (group.buffer.len() - ottla_layout::GROUP_HEADER) as u32,
            entries: group.entries,
            previous: written.checksum,
        };
        let checksum = seal_group(&header, group.buffer.as_mut());
        let used = group.buffer.len();
        group.buffer.pad();
        let end = group.position + group.buffer.len() as u64;
        self.wait_for_filler(group.position..end);

        let file = self.files.segment(number).map_err(failure("opening"))?;
        let offset = self.geometry().offset_of(group.position);
        file.write_at(group.buffer.as_ref(), offset).map_err(failure("writing"))?;
        if self.syncs() {
            self.timed_sync(&*file).map_err(failure("syncing"))?;
            written.synced = end;
        }
        self.stats.group_bytes.record(group.buffer.len() as u64);
        self.stats.group_records.record(u64::from(group.entries));
        written.sequence += 1;
        written.checksum = checksum;
        written.end = end;
        written.had_entries = group.entries > 0;
        drop(written);
        // Nobody reads padding.
        group.buffer.resize(used);
        self.recent.push(group.position, group.buffer);
        Ok(end)
    }

    pub(crate) fn written(&self) -> MutexGuard<'_, ChainEnd> {
        self.written.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Makes up for the syncs that [`crate::Durability::Os`] leaves out, up to `position` or what is written, whatever is less.
    /// The writer goes on meanwhile.
    pub(crate) fn sync_up_to(&self, position: u64) -> Result<(), LogFailure> {
        let (synced, end) = {
            let written = self.written();
            (written.synced, written.end.min(position))
        };
        if synced >= end {
            return Ok(());
        }
        let segment = |position| self.geometry().replay_segment(position);
        for number in segment(synced + 1)..=segment(end) {
            // One that is gone was synced before by whoever freed it.
            if let Err(failure) = self.sync_segment(number)
                && self.files.is_live(number)
            {
                return Err(failure);
            }
        }
        let mut written = self.written();
        written.synced = written.synced.max(end);
        Ok(())
    }

    pub(crate) fn sync_segment(&self, number: u64) -> Result<(), LogFailure> {
        let synced = self.files.segment(number).and_then(|file| self.timed_sync(&*file));
        synced.map_err(|error| failure(number, "syncing", error))
    }

    fn timed_sync(&self, file: &dyn MediumFile) -> io::Result<()> {
        let begun = Instant::now();
        let synced = file.sync();
        self.stats.syncs.record(u64::try_from(begun.elapsed().as_nanos()).unwrap_or(u64::MAX));
        synced
    }

    /// Waits until the filler is done with a range that the writer needs.
    fn wait_for_filler(&self, range: std::ops::Range<u64>) {
        let mut state = self.lock();
        while state.failed.is_none()
            && let Some(claim) = &state.claim
            && claim.start < range.end
            && range.start < claim.end
        {
            state = self.wait_for_progress(state);
        }
    }
}

pub(crate) fn failure(number: u64, doing: &'static str, error: io::Error) -> LogFailure {
    LogFailure { file: segment_name(number), doing, error: error.to_string() }
}
