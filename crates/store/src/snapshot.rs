//! Snapshots of the state: written piece by piece while the log continues, read back before they are published. Two are
//! kept.
//!
//! ```text
//!   begin(position) ──▶ piece(position) … ──▶ finish: wait until durable, seal, read back, publish, delete old ones
//!   dropped before it is finished: nothing remains
//! ```

mod read;

pub(crate) use read::{DamagedSnapshot, SnapshotPieces, SnapshotSearch, find_newest};

use crate::blob::{BlobWriter, Existing};
use crate::error::SnapshotFailure;
use crate::log_core::LogCore;
use crate::names::snapshot_name;
use ottla_layout::record::encode;
use ottla_layout::snapshot::{ChunkWriter, SNAPSHOT_FORMAT, SnapshotHeader};
use ottla_types::LogPosition;
use ottla_types::record::LogRecord;
use read::{SnapshotFault, check_snapshot};
use std::io;
use std::sync::Arc;

/// Snapshots that are kept: the newest, and the one before in case the newest is damaged.
const KEPT: usize = 2;
/// The next snapshot may be this many times as large as the last one: that much space is kept free for it.
pub(crate) const NEXT_SIZES: u64 = 2;

/// Writes snapshots of the state, from any thread, one at a time.
#[derive(Clone)]
pub struct Snapshotter {
    core: Arc<LogCore>,
}

impl std::fmt::Debug for Snapshotter {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Snapshotter").finish_non_exhaustive()
    }
}

impl Snapshotter {
    pub(crate) fn new(core: Arc<LogCore>) -> Snapshotter {
        Snapshotter { core }
    }

    /// Begins a snapshot that is replayed from `position`: [`crate::Log::end`] at the time when its first piece is
    /// taken from the state. An error, now or later, leaves the older snapshots as they are.
    pub fn begin(&self, position: LogPosition) -> Result<SnapshotWriter, SnapshotFailure> {
        if let Some(failure) = &self.core.lock().failed {
            return Err(SnapshotFailure::Ended(failure.clone()));
        }
        let position = position.0;
        let name = snapshot_name(position);
        let identity = self.core.identity;
        let format = SNAPSHOT_FORMAT;
        let header = SnapshotHeader { format, log_id: identity.log_id, shard: identity.shard, position };
        let created = self.core.blobs.create(&name);
        let blob = created.map_err(|source| SnapshotFailure::Medium { file: name.clone(), source })?;
        let mut writer = SnapshotWriter {
            snapshotter: self.clone(),
            name,
            blob,
            chunks: ChunkWriter::new(position),
            position,
            last: position,
            size: 0,
            entry: Vec::new(),
        };
        writer.write(&header.encode())?;
        Ok(writer)
    }

    /// Writes the snapshot of the state at `position` in one piece.
    pub fn write(
        &self,
        position: LogPosition,
        records: &mut dyn Iterator<Item = LogRecord>,
    ) -> Result<(), SnapshotFailure> {
        let mut writer = self.begin(position)?;
        writer.piece(position, records)?;
        writer.finish().map(drop)
    }

    fn wait_until_durable(&self, wanted: u64) -> Result<(), SnapshotFailure> {
        let mut state = self.core.lock();
        loop {
            if let Some(failure) = &state.failed {
                return Err(SnapshotFailure::Ended(failure.clone()));
            }
            let durable = self.core.durable();
            if durable >= wanted {
                break;
            }
            if !self.core.options.threads {
                return Err(SnapshotFailure::NotDurable { durable, wanted });
            }
            state = self.core.wait_for_progress(state);
        }
        drop(state);
        // After a power failure, the log must reach the position of the snapshot.
        self.core.store.sync(wanted).map_err(|failure| {
            self.core.fail(failure.clone());
            SnapshotFailure::Ended(failure)
        })
    }

    fn delete_old(&self, position: u64) -> Result<(), SnapshotFailure> {
        let old = {
            let mut state = self.core.lock();
            state.snapshots.retain(|kept| *kept != position);
            state.snapshots.push(position);
            state.snapshots.sort_unstable_by(|a, b| b.cmp(a));
            let keep = KEPT.min(state.snapshots.len());
            let mut old = state.snapshots.split_off(keep);
            old.extend(state.damaged.drain(..).filter(|damaged| *damaged != position));
            old
        };
        for position in old {
            let file = snapshot_name(position);
            let removed = self.core.blobs.delete(&file);
            removed.map_err(|source| SnapshotFailure::Medium { file, source })?;
        }
        Ok(())
    }
}

/// A snapshot that is being written piece by piece. If it is dropped before it is finished, nothing remains of it.
pub struct SnapshotWriter {
    snapshotter: Snapshotter,
    name: String,
    blob: Box<dyn BlobWriter>,
    chunks: ChunkWriter,
    position: u64,
    /// The position of the last piece.
    last: u64,
    size: u64,
    entry: Vec<u8>,
}

impl std::fmt::Debug for SnapshotWriter {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SnapshotWriter").field("name", &self.name).finish_non_exhaustive()
    }
}

impl SnapshotWriter {
    /// Writes the next piece: rows as they were when the log ended at `position`.
    pub fn piece(
        &mut self,
        position: LogPosition,
        records: &mut dyn Iterator<Item = LogRecord>,
    ) -> Result<(), SnapshotFailure> {
        let position = position.0;
        self.last = position;
        if let Some(chunk) = self.chunks.advance(position) {
            self.write(&chunk)?;
        }
        for record in records {
            self.entry.clear();
            let payload = encode(&record, &mut self.entry);
            self.entry.extend(payload);
            if let Some(chunk) = self.chunks.push(&self.entry) {
                self.write(&chunk)?;
            }
        }
        Ok(())
    }

    /// Ends the snapshot: waits until the log is durable up to the last piece, makes the snapshot durable, reads it
    /// back, and publishes it. A log without threads must be driven there first: until then this fails with
    /// [`SnapshotFailure::NotDurable`], and the call can be repeated. Returns the size in bytes.
    pub fn finish(&mut self) -> Result<u64, SnapshotFailure> {
        self.snapshotter.wait_until_durable(self.last)?;
        self.complete()?;
        self.blob.publish(Existing::Replace).map_err(|source| self.failure(source))?;
        self.snapshotter.delete_old(self.position)?;
        Ok(self.size)
    }

    fn complete(&mut self) -> Result<(), SnapshotFailure> {
        let end = std::mem::replace(&mut self.chunks, ChunkWriter::new(self.position)).finish();
        self.write(&end)?;
        let blob = self.blob.seal().map_err(|source| self.failure(source))?;
        let core = &self.snapshotter.core;
        core.store.keep_free(NEXT_SIZES * self.size);
        match check_snapshot(blob, &core.identity) {
            Ok(_) => Ok(()),
            Err(SnapshotFault::Medium(source)) => Err(self.failure(source)),
            Err(fault) => {
                Err(SnapshotFailure::Unreadable { file: self.name.clone(), why: fault.to_string() })
            }
        }
    }

    fn write(&mut self, bytes: &[u8]) -> Result<(), SnapshotFailure> {
        self.blob.append(bytes).map_err(|source| self.failure(source))?;
        self.size += bytes.len() as u64;
        Ok(())
    }

    fn failure(&self, source: io::Error) -> SnapshotFailure {
        SnapshotFailure::Medium { file: self.name.clone(), source }
    }
}
