//! Writes snapshots, reads them back, keeps two.

use crate::error::{OpenError, SnapshotFailure};
use crate::files::{snapshot_name, temporary};
use crate::medium::{Medium, MediumFile};
use crate::shared::Shared;
use ottla_layout::Identity;
use ottla_layout::record::{Decoded, decode, encode};
use ottla_layout::snapshot::{
    CHUNK_HEADER, ChunkReader, ChunkStep, ChunkWriter, SNAPSHOT_HEADER, SnapshotError, SnapshotHeader,
};
use ottla_types::LogPosition;
use ottla_types::record::LogRecord;
use std::io;
use std::sync::Arc;

/// Snapshots that are kept: the newest, and the one before in case the newest is damaged.
const KEPT: usize = 2;

/// Writes snapshots of the state, from any thread, one at a time.
#[derive(Clone)]
pub struct Snapshotter {
    shared: Arc<Shared>,
}

impl std::fmt::Debug for Snapshotter {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Snapshotter").finish_non_exhaustive()
    }
}

impl Snapshotter {
    pub(crate) fn new(shared: Arc<Shared>) -> Snapshotter {
        Snapshotter { shared }
    }

    /// Writes the snapshot of the state at `position`: [`crate::Log::end`] at the time when `records` was taken from the
    /// state. Waits until the log is durable up to there; a log without threads must be driven there first.
    ///
    /// The file is written under a temporary name, synced, read back, and renamed. An error leaves the older snapshots.
    pub fn write(
        &self,
        position: LogPosition,
        records: &mut dyn Iterator<Item = LogRecord>,
    ) -> Result<(), SnapshotFailure> {
        let position = position.0;
        self.wait_until_durable(position)?;
        let name = snapshot_name(position);
        let medium = &self.shared.files.medium;
        let written = self.write_file(&temporary(&name), position, records);
        if let Err(failure) = written {
            // Without space there may be no second try for this name: leave nothing behind.
            let _ = medium.remove(&temporary(&name));
            return Err(failure);
        }
        let explain = |source| SnapshotFailure::Medium { file: name.clone(), source };
        medium.rename(&temporary(&name), &name).map_err(explain)?;
        medium.sync_names().map_err(explain)?;
        self.forget_old(position)
    }

    fn wait_until_durable(&self, wanted: u64) -> Result<(), SnapshotFailure> {
        let mut state = self.shared.lock();
        loop {
            if let Some(failure) = &state.failed {
                return Err(SnapshotFailure::Ended(failure.clone()));
            }
            let durable = self.shared.durable();
            if durable >= wanted {
                break;
            }
            if !self.shared.options.threads {
                return Err(SnapshotFailure::NotDurable { durable, wanted });
            }
            state = self.shared.wait_for_progress(state);
        }
        drop(state);
        if self.shared.syncs() {
            return Ok(());
        }
        // A snapshot must not outlive the log that it belongs to.
        let number = self.shared.geometry().replay_segment(wanted);
        self.shared.sync_segment(number).map_err(|failure| {
            self.shared.fail(failure.clone());
            SnapshotFailure::Ended(failure)
        })
    }

    fn write_file(
        &self,
        name: &str,
        position: u64,
        records: &mut dyn Iterator<Item = LogRecord>,
    ) -> Result<(), SnapshotFailure> {
        let explain = |source| SnapshotFailure::Medium { file: name.to_owned(), source };
        let identity = self.shared.files.identity;
        let file = self.shared.files.medium.create(name).map_err(explain)?;
        let header = SnapshotHeader { log_id: identity.log_id, shard: identity.shard, position };
        let mut out = Output { file: file.as_ref(), at: 0 };
        out.write(&header.encode()).map_err(explain)?;
        let mut chunks = ChunkWriter::new(position);
        let mut entry = Vec::new();
        for record in records {
            entry.clear();
            let payload = encode(&record, &mut entry);
            entry.extend(payload);
            if let Some(chunk) = chunks.push(&entry) {
                out.write(&chunk).map_err(explain)?;
            }
        }
        out.write(&chunks.finish()).map_err(explain)?;
        file.sync().map_err(explain)?;
        self.shared.files.set_snapshot_size(out.at);
        let back = read_snapshot(file.as_ref(), &identity, &mut |entry| checked(entry).map(drop));
        match back {
            Ok(_) => Ok(()),
            Err(Unusable::Medium(source)) => Err(explain(source)),
            Err(why) => Err(SnapshotFailure::Unreadable { file: name.to_owned(), why: why.to_string() }),
        }
    }

    fn forget_old(&self, position: u64) -> Result<(), SnapshotFailure> {
        let old = {
            let mut state = self.shared.lock();
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
            let removed = self.shared.files.medium.remove(&file);
            removed.map_err(|source| SnapshotFailure::Medium { file, source })?;
        }
        Ok(())
    }
}

struct Output<'a> {
    file: &'a dyn MediumFile,
    at: u64,
}

impl Output<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.file.write_at(bytes, self.at)?;
        self.at += bytes.len() as u64;
        Ok(())
    }
}

/// Why a snapshot cannot be used.
pub(crate) enum Unusable {
    Medium(io::Error),
    Damaged { offset: u64, error: SnapshotError },
    Entry { offset: u64, error: String },
}

impl std::fmt::Display for Unusable {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Unusable::Medium(error) => error.fmt(f),
            Unusable::Damaged { offset, error } => write!(f, "offset {offset}: {error}"),
            Unusable::Entry { offset, error } => write!(f, "chunk at offset {offset}: {error}"),
        }
    }
}

/// Reads a snapshot, giving every entry to `sink`, and returns the position from which to replay.
pub(crate) fn read_snapshot(
    file: &dyn MediumFile,
    identity: &Identity,
    sink: &mut dyn FnMut(&[u8]) -> Result<(), String>,
) -> Result<u64, Unusable> {
    let mut head = [0; SNAPSHOT_HEADER];
    let damaged = |offset| move |error| Unusable::Damaged { offset, error };
    fill(file, &mut head, 0, SnapshotError::Header)?;
    let header = SnapshotHeader::check(&head, identity).map_err(damaged(0))?;
    let mut at = SNAPSHOT_HEADER as u64;
    let mut chunks = ChunkReader::new(header.position);
    let mut chunk = Vec::new();
    loop {
        let short = SnapshotError::Chunk(chunks.index());
        let mut head = [0; CHUNK_HEADER];
        fill(file, &mut head, at, short.clone())?;
        let ChunkStep::Payload(len) = chunks.step(&head).map_err(damaged(at))? else {
            return Ok(header.position);
        };
        let end = at + (CHUNK_HEADER + len) as u64;
        if file.size().map_err(Unusable::Medium)? < end {
            return Err(damaged(at)(short));
        }
        chunk.resize(CHUNK_HEADER + len, 0);
        fill(file, &mut chunk, at, short)?;
        for entry in chunks.entries(&chunk).map_err(damaged(at))? {
            sink(entry).map_err(|error| Unusable::Entry { offset: at, error })?;
        }
        at = end;
    }
}

fn fill(file: &dyn MediumFile, buf: &mut [u8], offset: u64, short: SnapshotError) -> Result<(), Unusable> {
    let found = file.read_at(buf, offset).map_err(Unusable::Medium)?;
    if found == buf.len() { Ok(()) } else { Err(Unusable::Damaged { offset, error: short }) }
}

/// A snapshot that was left out because it is damaged.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Skipped {
    pub(crate) position: u64,
    pub(crate) reason: String,
}

/// What was found of snapshots.
#[derive(Debug, Default)]
pub(crate) struct Found {
    /// Position and size of the newest that is whole.
    pub(crate) newest: Option<(u64, u64)>,
    pub(crate) skipped: Vec<Skipped>,
}

/// Finds the newest snapshot that is whole, and gives its records to `sink`.
pub(crate) fn load_newest(
    medium: &dyn Medium,
    identity: &Identity,
    positions: impl DoubleEndedIterator<Item = u64>,
    sink: &mut dyn FnMut(LogRecord),
) -> Result<Found, OpenError> {
    let mut found = Found::default();
    for position in positions.rev() {
        let name = snapshot_name(position);
        let file = medium.open(&name).map_err(OpenError::medium(&name, "opening"))?;
        // Everything is checked before the first record is applied: a state cannot be taken back.
        match read_snapshot(file.as_ref(), identity, &mut |entry| checked(entry).map(drop)) {
            Ok(other) if other == position => {}
            Ok(other) => {
                let reason = format!("it is the snapshot of position {other}");
                found.skipped.push(Skipped { position, reason });
                continue;
            }
            Err(why) => {
                found.skipped.push(Skipped { position, reason: why.to_string() });
                continue;
            }
        }
        let mut apply = |entry: &[u8]| checked(entry).map(|decoded| sink(decoded.record));
        return match read_snapshot(file.as_ref(), identity, &mut apply) {
            Ok(_) => {
                let size = file.size().map_err(OpenError::medium(&name, "measuring"))?;
                Ok(Found { newest: Some((position, size)), ..found })
            }
            Err(why) => Err(OpenError::Damaged { file: name, offset: 0, what: why.to_string() }),
        };
    }
    Ok(found)
}

fn checked(entry: &[u8]) -> Result<Decoded, String> {
    decode(entry).map_err(|error| error.to_string())
}
