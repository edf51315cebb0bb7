//! Opens a log: identity, newest snapshot, replay, cut of a torn tail, and an opening group of a new epoch.
//!
//! ```text
//!   listing ─▶ identity ─▶ newest whole snapshot ─▶ groups after it, in order ──▶ why does the chain end?
//!                                                                                   │ damage ─▶ refuse, change nothing
//!                                                                                   ▼ end, or a torn group
//!                              opening group of a new epoch ◀─ make durable again ◀─┘
//! ```
//! What was recovered is made durable again before anything is served: it may have been read from a cache that a power
//! failure would empty. Everything after the position that the last group itself calls durable, which is one group
//! unless syncs are left to the system, is written once more with the same bytes and synced.

mod identity;
mod scan;

pub(crate) use identity::read_identity;

use crate::blob::{BlobStore, FileBlobs};
use crate::error::{LogFailure, OpenError};
use crate::log::{EntryRange, Log};
use crate::log_core::{GroupChain, LogCore, OpenGroup, State, Storage};
use crate::medium::Medium;
use crate::names::{Listing, segment_name, snapshot_name};
use crate::options::{Callbacks, Options};
use crate::read_ahead::ReadAhead;
use crate::runs::RunFiles;
use crate::segments::{SegmentFiles, SegmentStore};
use crate::snapshot::{DamagedSnapshot, SnapshotSearch, find_newest};
use crate::stats::LogStats;
use ottla_layout::recover::{Chain, LastGroup};
use ottla_layout::{BLOCK, GROUP_HEADER, Identity};
use ottla_types::LogPosition;
use ottla_types::record::LogRecord;
use scan::{Scan, restore};
use std::io;
use std::sync::Arc;

/// A record that recovery passes to the caller to rebuild the state.
#[derive(Clone, Debug, PartialEq)]
pub enum ReplayItem {
    /// A row of the snapshot. The rows of a piece come before the first record of the log that is not in it.
    Snapshot(LogRecord),
    /// A record of the log, with its place. The payload of a batch is empty: it is at [`EntryRange::payload`].
    Entry(EntryRange, LogRecord),
}

/// An item of what can be read of a damaged log, in the order of the log.
#[derive(Debug)]
pub enum SalvageItem {
    /// A record, whole.
    Replayed(ReplayItem),
    /// Groups between these positions are missing or damaged.
    Damage {
        /// Position after the last whole group, or that of the snapshot.
        from: u64,
        /// Position of the next whole group.
        to: u64,
    },
    /// An entry of a whole group that this program cannot read.
    Unreadable(OpenError),
}

/// An open log, and what its recovery did.
#[derive(Debug)]
pub struct OpenLog {
    /// The log.
    pub log: Log,
    /// What the recovery did.
    pub recovery: RecoveryReport,
}

/// What a recovery did.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RecoveryReport {
    /// Position of the snapshot that was used.
    pub snapshot: Option<LogPosition>,
    /// Damaged snapshots that were not used: file and reason.
    pub skipped: Vec<(String, String)>,
    /// Records replayed from the log.
    pub records: u64,
    /// The torn group at the end that was cut off, if there was one.
    pub torn: Option<TornGroup>,
    /// Position after the last recovered group.
    pub end: LogPosition,
    /// Counts the times the folder was opened.
    pub epoch: u32,
}

/// A torn group that was cut off: a crash interrupted its write, it was never acknowledged.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TornGroup {
    /// The file.
    pub file: String,
    /// Where in the file.
    pub offset: u64,
    /// What was found there.
    pub reason: String,
}

impl Log {
    /// Opens the log on `medium`, makes it if the medium is empty, and passes every record to `replay`, rows of the
    /// snapshot first. After an error, discard the state that `replay` built.
    pub fn open(
        medium: Arc<dyn Medium>,
        options: Options,
        callbacks: Callbacks,
        replay: &mut dyn FnMut(ReplayItem),
    ) -> Result<OpenLog, OpenError> {
        let blobs = FileBlobs::new(Arc::clone(&medium));
        let listing = list(medium.as_ref(), &blobs)?;
        for name in &listing.temporary {
            medium.remove(name).map_err(OpenError::medium(name, "removing"))?;
        }
        let identity = identity::read_or_make(medium.as_ref(), &options, &listing)?;
        let Recovery { mut scan, skipped, recovery } =
            recover(medium, identity, &listing, options.threads, replay)?;
        scan.make_durable()?;
        let damaged: Vec<u64> = skipped.iter().map(|skipped| skipped.position).collect();
        let whole = listing.snapshots.iter().rev().filter(|position| !damaged.contains(position));
        let state = State::with_snapshots(whole.copied().collect(), damaged);
        let log = begin(scan, &listing, (options, callbacks), state)?;
        Ok(OpenLog { log, recovery })
    }
}

/// Lists the files of a log: segments and the identity from the medium, snapshots and runs from the blob store.
pub(crate) fn list(medium: &dyn Medium, blobs: &dyn BlobStore) -> Result<Listing, OpenError> {
    let folder = medium.describe();
    let failed = || OpenError::medium(&folder, "listing");
    let files = Listing::of(medium.list().map_err(failed())?);
    let blobs = Listing::of(blobs.list().map_err(failed())?);
    Ok(Listing { snapshots: blobs.snapshots, runs: blobs.runs, ..files })
}

/// A log that was read to its end.
struct Recovery {
    scan: Scan,
    skipped: Vec<DamagedSnapshot>,
    recovery: RecoveryReport,
}

/// Reads the newest snapshot and the log after it. Changes nothing.
fn recover(
    medium: Arc<dyn Medium>,
    identity: Identity,
    listing: &Listing,
    threads: bool,
    replay: &mut dyn FnMut(ReplayItem),
) -> Result<Recovery, OpenError> {
    let positions = listing.snapshots.iter().copied();
    let SnapshotSearch { newest, skipped } =
        find_newest(&FileBlobs::new(Arc::clone(&medium)), &identity, positions)?;
    let snapshot = newest.as_ref().map(|pieces| pieces.first);
    let first = identity.geometry.replay_segment(snapshot.unwrap_or(0));
    check_first(listing, first, &skipped)?;

    let mut scan = Scan::new(SegmentFiles::new(medium, identity, listing), first, newest, threads);
    let reason = scan.replay(replay)?;
    let torn = scan.check_end(reason)?;
    let recovery = RecoveryReport {
        snapshot: snapshot.map(LogPosition),
        skipped: skipped
            .iter()
            .map(|skipped| (snapshot_name(skipped.position), skipped.reason.clone()))
            .collect(),
        records: scan.records,
        torn,
        end: LogPosition(scan.chain.end()),
        epoch: scan.chain.last_group().map_or(1, |last| last.epoch + 1),
    };
    Ok(Recovery { scan, skipped, recovery })
}

/// Reads the log as opening it would, without changing anything.
pub(crate) fn dry_run(
    medium: Arc<dyn Medium>,
    identity: Identity,
    listing: &Listing,
    replay: &mut dyn FnMut(ReplayItem),
) -> Result<RecoveryReport, OpenError> {
    recover(medium, identity, listing, false, replay).map(|recovery| recovery.recovery)
}

/// Reads the newest intact snapshot and the log after it, and skips damage. Passes everything that can be read to
/// `visit`, in log order. Changes nothing.
pub(crate) fn replay_past_damage(
    medium: Arc<dyn Medium>,
    identity: Identity,
    listing: &Listing,
    visit: &mut dyn FnMut(SalvageItem),
) -> Result<(), OpenError> {
    let positions = listing.snapshots.iter().copied();
    let SnapshotSearch { newest, .. } =
        find_newest(&FileBlobs::new(Arc::clone(&medium)), &identity, positions)?;
    let (floor, proven) = newest.as_ref().map_or((0, 0), |pieces| (pieces.first, pieces.last));
    let first = identity.geometry.replay_segment(floor);
    let mut scan = Scan::new(SegmentFiles::new(medium, identity, listing), first, newest, false);
    scan.unread = Some(Vec::new());
    loop {
        scan.replay(&mut |replayed| visit(SalvageItem::Replayed(replayed)))?;
        for error in scan.unread.iter_mut().flat_map(|unread| unread.drain(..)) {
            visit(SalvageItem::Unreadable(error));
        }
        let from = scan.chain.end();
        let Some((to, _)) = scan.find_proof(from)? else { break };
        // Damage before the snapshot loses nothing: the snapshot has the effect of those records.
        if to > floor {
            visit(SalvageItem::Damage { from: from.max(floor), to });
        }
        scan.chain = Chain::from_place(identity, to);
    }
    let end = scan.chain.end().max(floor);
    if end < proven {
        visit(SalvageItem::Damage { from: end, to: proven });
    }
    restore(&mut scan.pieces, u64::MAX, &mut |row| visit(SalvageItem::Replayed(row)))
}

/// The segment that replay begins with must be there, unless nothing was ever written.
fn check_first(listing: &Listing, first: u64, skipped: &[DamagedSnapshot]) -> Result<(), OpenError> {
    let nothing = listing.segments.is_empty() && listing.snapshots.is_empty();
    if nothing || listing.segments.contains(&first) {
        return Ok(());
    }
    let file = segment_name(first);
    if let Some(newest) = skipped.first() {
        return Err(OpenError::Snapshot {
            file: snapshot_name(newest.position),
            reason: newest.reason.clone(),
            needed: file,
        });
    }
    let why = match listing.snapshots.last() {
        Some(_) => "the newest snapshot is replayed from it",
        None => "there is no snapshot, and the log begins there",
    };
    Err(OpenError::Missing { file, why: why.to_owned() })
}

/// Writes the opening group and starts the log.
fn begin(
    scan: Scan,
    listing: &Listing,
    (options, callbacks): (Options, Callbacks),
    state: State,
) -> Result<Log, OpenError> {
    let geometry = scan.geometry();
    let last = scan.chain.last_group();
    let end = scan.chain.end();
    let epoch = last.map_or(1, |last: LastGroup| last.epoch + 1);
    let position = geometry.place_for(end, BLOCK);
    let number = geometry.segment_of(position);
    let in_use = last.is_some() && geometry.replay_segment(end) == number;
    prepare_segment(&scan.files, number, in_use, epoch)?;

    let identity = scan.files.identity;
    let blobs: Arc<dyn BlobStore> = Arc::new(FileBlobs::new(Arc::clone(&scan.files.medium)));
    let stats = Arc::new(LogStats::new());
    let read_ahead = Arc::new(ReadAhead::new(geometry.segment_size()));
    let runs = RunFiles::new(Arc::clone(&blobs), identity, Arc::clone(&read_ahead), &listing.runs);
    let groups = SegmentStore::new(scan.files, &options, Arc::clone(&stats), epoch, (end, number));
    let storage = Storage { groups: Arc::new(groups), blobs, runs: Arc::new(runs), read_ahead };
    let chain = GroupChain {
        epoch,
        sequence: last.map_or(0, |last| last.sequence),
        checksum: last.map_or(0, |last| last.checksum),
        had_entries: true,
    };
    let core = LogCore::new((options, callbacks), (identity, stats), storage, (chain, end), state);
    let slot = core.store.slot(end, GROUP_HEADER);
    let group = OpenGroup::begin(slot, core.pool.take(BLOCK as usize));
    let end = core.store_opening_group(group).map_err(|failure: LogFailure| OpenError::Medium {
        file: failure.file,
        doing: failure.doing,
        source: io::Error::other(failure.error),
    })?;
    core.begin_at(end);
    Log::start(Arc::new(core)).map_err(OpenError::medium("the log", "starting a thread for"))
}

/// Puts the segment of the opening group into use, unless the log ends in it, and takes those after it out of use.
fn prepare_segment(files: &SegmentFiles, number: u64, in_use: bool, epoch: u32) -> Result<(), OpenError> {
    files.set_aside_from(if in_use { number + 1 } else { number });
    if !in_use {
        let name = segment_name(number);
        files.prepare(number, epoch).map_err(OpenError::medium(&name, "preparing"))?;
    }
    for surplus in files.leftover().into_iter().filter(|leftover| *leftover > number + 1) {
        let name = segment_name(surplus);
        files.retire(surplus).map_err(OpenError::medium(&name, "setting aside"))?;
    }
    Ok(())
}
