//! Opens a log: identity, newest snapshot, replay, cut of a torn tail, and an opening group of a new epoch.
//!
//! What was recovery is made durable again before anything is served: it may have been read from a cache that a power
//! failure would empty. Everything behind the position that the last group itself calls durable, which is one group unless
//! syncs are left to the system, is written once more with the same bytes and synced.

use crate::buffer::Pool;
use crate::error::{LogFailure, OpenError};
use crate::files::{Files, IDENTITY, Listing, segment_name, snapshot_name, temporary};
use crate::log::{EntryRange, Log};
use crate::log_core::{LogCore, OpenGroup, State};
use crate::medium::Medium;
use crate::options::{Callbacks, Options};
use crate::scan::{Window, Windows};
use crate::snapshot::{DamagedSnapshot, Pieces, SnapshotSearch, find_newest};
use crate::writer::ChainEnd;
use ottla_layout::record::decode;
use ottla_layout::recover::{Chain, ChainBreak, LastGroup};
use ottla_layout::{
    BLOCK, GROUP_HEADER, Geometry, GroupError, GroupHeader, IDENTITY_LEN, Identity, SegmentHeader,
    open_group, peek_group,
};
use ottla_types::LogPosition;
use ottla_types::record::LogRecord;
use std::io;
use std::sync::Arc;

/// A record on its way back into the state.
#[derive(Clone, Debug, PartialEq)]
pub enum ReplayItem {
    /// A row of the snapshot. The rows of a piece come before the first record of the log that is not in it.
    Snapshot(LogRecord),
    /// A record of the log, with its place. The payload of a batch is empty: it is where [`EntryRange::payload`] says.
    Entry(EntryRange, LogRecord),
}

/// What is left of a damaged log, in its order.
#[derive(Debug)]
pub enum SalvageItem {
    /// Something whole.
    Replayed(ReplayItem),
    /// Groups between these positions are missing or damaged.
    Damage {
        /// Position behind the last whole group, or that of the snapshot.
        from: u64,
        /// Position of the next whole group.
        to: u64,
    },
    /// An entry of a whole group that this program cannot read.
    Unreadable(OpenError),
}

/// An open log and how it was found.
#[derive(Debug)]
pub struct OpenLog {
    /// The log.
    pub log: Log,
    /// How it was found.
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
    /// Position behind what was recovery.
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
    /// Opens the log on `medium`, makes it if the medium is empty, and gives every record to `replay`, rows of the snapshot
    /// first. After an error the state that `replay` built is worthless.
    pub fn open(
        medium: Arc<dyn Medium>,
        options: Options,
        callbacks: Callbacks,
        replay: &mut dyn FnMut(ReplayItem),
    ) -> Result<OpenLog, OpenError> {
        let folder = medium.describe();
        let listing = Listing::of(medium.list().map_err(OpenError::medium(&folder, "listing"))?);
        for name in &listing.temporary {
            medium.remove(name).map_err(OpenError::medium(name, "removing"))?;
        }
        let identity = identity(medium.as_ref(), &options, &listing)?;
        let Recovery { mut scan, skipped, recovery } =
            recover(medium, identity, &listing, options.threads, replay)?;
        scan.make_durable()?;
        let damaged: Vec<u64> = skipped.iter().map(|skipped| skipped.position).collect();
        let whole = listing.snapshots.iter().rev().filter(|position| !damaged.contains(position));
        let state = State { snapshots: whole.copied().collect(), damaged, ..State::default() };
        let log = begin(scan, options, callbacks, state)?;
        Ok(OpenLog { log, recovery })
    }
}

/// A log that was read to its end.
struct Recovery {
    scan: Scan,
    skipped: Vec<DamagedSnapshot>,
    recovery: RecoveryReport,
}

/// Reads the newest snapshot and the log behind it. Changes nothing.
fn recover(
    medium: Arc<dyn Medium>,
    identity: Identity,
    listing: &Listing,
    threads: bool,
    replay: &mut dyn FnMut(ReplayItem),
) -> Result<Recovery, OpenError> {
    let positions = listing.snapshots.iter().copied();
    let SnapshotSearch { newest, skipped } = find_newest(medium.as_ref(), &identity, positions)?;
    let snapshot = newest.as_ref().map(|pieces| pieces.first);
    let first = identity.geometry.replay_segment(snapshot.unwrap_or(0));
    check_first(listing, first, &skipped)?;

    let mut scan = Scan::new(Files::new(medium, identity, listing), first, newest, threads);
    let reason = scan.replay(replay)?;
    let torn = scan.judge_end(reason)?;
    let recovery = RecoveryReport {
        snapshot: snapshot.map(LogPosition),
        skipped: skipped
            .iter()
            .map(|skipped| (snapshot_name(skipped.position), skipped.reason.clone()))
            .collect(),
        records: scan.records,
        torn,
        end: LogPosition(scan.chain.end()),
        epoch: scan.chain.last_group().map_or(1, |tail| tail.epoch + 1),
    };
    Ok(Recovery { scan, skipped, recovery })
}

/// What opening the log would find. Changes nothing.
pub(crate) fn look(
    medium: Arc<dyn Medium>,
    identity: Identity,
    listing: &Listing,
    replay: &mut dyn FnMut(ReplayItem),
) -> Result<RecoveryReport, OpenError> {
    recover(medium, identity, listing, false, replay).map(|recovery| recovery.recovery)
}

/// Reads the newest whole snapshot and the log behind it, past what is damaged: everything that is left goes to `see`, in the
/// order of the log. Changes nothing.
pub(crate) fn replay_past(
    medium: Arc<dyn Medium>,
    identity: Identity,
    listing: &Listing,
    see: &mut dyn FnMut(SalvageItem),
) -> Result<(), OpenError> {
    let positions = listing.snapshots.iter().copied();
    let SnapshotSearch { newest, .. } = find_newest(medium.as_ref(), &identity, positions)?;
    let (floor, proven) = newest.as_ref().map_or((0, 0), |pieces| (pieces.first, pieces.last));
    let first = identity.geometry.replay_segment(floor);
    let mut scan = Scan::new(Files::new(medium, identity, listing), first, newest, false);
    scan.unread = Some(Vec::new());
    loop {
        scan.replay(&mut |replayed| see(SalvageItem::Replayed(replayed)))?;
        for error in scan.unread.iter_mut().flat_map(|unread| unread.drain(..)) {
            see(SalvageItem::Unreadable(error));
        }
        let from = scan.chain.end();
        let Some((to, _)) = scan.find_proof(from)? else { break };
        // What lies before the snapshot is in it.
        if to > floor {
            see(SalvageItem::Damage { from: from.max(floor), to });
        }
        scan.chain = Chain::from_place(identity, to);
    }
    let end = scan.chain.end().max(floor);
    if end < proven {
        see(SalvageItem::Damage { from: end, to: proven });
    }
    restore(&mut scan.pieces, u64::MAX, &mut |row| see(SalvageItem::Replayed(row)))
}

/// Reads the identity, or makes one for an empty folder.
fn identity(medium: &dyn Medium, options: &Options, listing: &Listing) -> Result<Identity, OpenError> {
    if !listing.identity {
        return new_identity(medium, options, listing);
    }
    read_identity(medium, options.shard)
}

/// Reads the identity of a folder that should be that of `shard`.
pub(crate) fn read_identity(medium: &dyn Medium, shard: u16) -> Result<Identity, OpenError> {
    let file = medium.open(IDENTITY).map_err(OpenError::medium(IDENTITY, "opening"))?;
    let mut bytes = [0; IDENTITY_LEN + 1];
    let found = file.read_at(&mut bytes, 0).map_err(OpenError::medium(IDENTITY, "reading"))?;
    let identity = Identity::decode(&bytes[..found])
        .map_err(|source| OpenError::Identity { file: IDENTITY.to_owned(), source })?;
    if identity.shard != shard {
        return Err(OpenError::Shard { file: IDENTITY.to_owned(), found: identity.shard, wanted: shard });
    }
    Ok(identity)
}

fn new_identity(medium: &dyn Medium, options: &Options, listing: &Listing) -> Result<Identity, OpenError> {
    if !listing.segments.is_empty() || !listing.snapshots.is_empty() || !listing.runs.is_empty() {
        return Err(OpenError::Missing {
            file: IDENTITY.to_owned(),
            why: "the folder holds data, and only the identity says how to read it".to_owned(),
        });
    }
    let log_id = options.log_id.map_or_else(random, Ok);
    let identity = Identity {
        log_id: log_id.map_err(OpenError::medium(IDENTITY, "choosing a random number for"))?,
        shard: options.shard,
        geometry: Geometry::new(options.segment_size)?,
    };
    let write = || {
        let name = temporary(IDENTITY);
        let file = medium.create(&name)?;
        file.write_at(&identity.encode(), 0)?;
        file.sync()?;
        // The name becomes durable with that of the first segment, before anything is accepted.
        medium.rename(&name, IDENTITY)
    };
    write().map_err(OpenError::medium(IDENTITY, "writing"))?;
    Ok(identity)
}

fn random() -> io::Result<u64> {
    getrandom::u64().map_err(|error| io::Error::other(error.to_string()))
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

/// Why the chain ends: what was found at the place of the next group, nearest first.
type ChainBreaks = Vec<(u64, ChainBreak)>;

/// A scan of the log from the first segment that is replayed.
struct Scan {
    files: Files,
    chain: Chain,
    /// The snapshot, as far as it is not restored.
    pieces: Option<Pieces>,
    /// Entries before it are in the snapshot.
    floor: u64,
    /// The log must reach up to here.
    proven: u64,
    first: u64,
    windows: Windows,
    records: u64,
    /// For whoever reads past damage: entries that cannot be read, instead of an error.
    unread: Option<Vec<OpenError>>,
}

impl Scan {
    fn new(files: Files, first: u64, pieces: Option<Pieces>, threads: bool) -> Scan {
        let chain = Chain::from_segment(files.identity, first);
        let (floor, proven, size) =
            pieces.as_ref().map_or((0, 0, 0), |pieces| (pieces.first, pieces.last, pieces.size));
        files.set_snapshot_size(size);
        let windows = Windows::new(threads);
        Scan { files, chain, pieces, floor, proven, first, windows, records: 0, unread: None }
    }

    fn geometry(&self) -> Geometry {
        self.files.identity.geometry
    }

    /// Replays group after group, with the pieces of the snapshot at their places; returns why the chain ends.
    fn replay(&mut self, replay: &mut dyn FnMut(ReplayItem)) -> Result<ChainBreaks, OpenError> {
        loop {
            let mut breaks = ChainBreaks::new();
            let mut found = false;
            for place in self.chain.places() {
                match self.replay_group(place, replay)? {
                    Ok(()) => {
                        found = true;
                        break;
                    }
                    Err(reason) => breaks.push((place, reason)),
                }
            }
            if !found {
                let end = self.chain.end();
                restore(&mut self.pieces, end, replay)?;
                return Ok(breaks);
            }
        }
    }

    /// Replays the group at `place` if it is the next one.
    fn replay_group(
        &mut self,
        place: u64,
        replay: &mut dyn FnMut(ReplayItem),
    ) -> Result<Result<(), ChainBreak>, OpenError> {
        let header = match peek_group(self.bytes(place, GROUP_HEADER)?) {
            Ok(header) => header,
            Err(error) => return Ok(Err(error.into())),
        };
        if let Err(reason) = self.chain.judge(place, &header) {
            return Ok(Err(reason));
        }
        let geometry = self.geometry();
        if geometry.first_group(geometry.segment_of(place)) == place {
            self.check_segment(geometry.segment_of(place), place, &header)?;
        }
        let bytes = self.windows.bytes(&self.files, place, header.len() as usize)?;
        let group = match open_group(bytes) {
            Ok(group) => group,
            Err(error) => return Ok(Err(error.into())),
        };
        if let Err(reason) = self.chain.accept(place, &group) {
            return Ok(Err(reason));
        }
        for entry in group.entries().filter(|entry| entry.position >= self.floor) {
            restore(&mut self.pieces, entry.position, replay)?;
            let offset = geometry.offset_of(entry.position);
            let decoded = decode(entry.bytes).map_err(|source| OpenError::Record {
                file: segment_name(geometry.segment_of(place)),
                offset,
                source,
            });
            let decoded = match (decoded, &mut self.unread) {
                (Ok(decoded), _) => decoded,
                (Err(error), None) => return Err(error),
                (Err(error), Some(unread)) => {
                    unread.push(error);
                    continue;
                }
            };
            let place = EntryRange {
                position: LogPosition(entry.position),
                payload: decoded.payload.map(|at| LogPosition(entry.body() + at as u64)),
                end: LogPosition(entry.end()),
            };
            self.records += 1;
            replay(ReplayItem::Entry(place, decoded.record));
        }
        Ok(Ok(()))
    }

    /// A segment with a group that belongs to the log must have its header.
    fn check_segment(&mut self, number: u64, place: u64, header: &GroupHeader) -> Result<(), OpenError> {
        // Only a whole group counts: a torn one proves nothing.
        if self.unread.is_some() || open_group(self.bytes(place, header.len() as usize)?).is_err() {
            return Ok(());
        }
        let identity = self.files.identity;
        let start = self.geometry().start_of(number);
        match SegmentHeader::check(self.bytes(start, BLOCK as usize)?, &identity, number) {
            Ok(_) => Ok(()),
            Err(error) => {
                Err(OpenError::Damaged { file: segment_name(number), offset: 0, what: error.to_string() })
            }
        }
    }

    fn bytes(&mut self, place: u64, len: usize) -> Result<&[u8], OpenError> {
        self.windows.bytes(&self.files, place, len)
    }

    /// Decides whether the end of the chain is the end of the log.
    fn judge_end(&mut self, breaks: ChainBreaks) -> Result<Option<TornGroup>, OpenError> {
        let end = self.chain.end();
        if let Some((place, reason)) = breaks.iter().find(|(_, reason)| reason.is_damage()) {
            return Err(self.damaged(*place, reason.to_string()));
        }
        let found = |place: u64| breaks.iter().find(|(at, _)| *at == place).map(|(_, reason)| *reason);
        let place = self.likely_place(&breaks);
        let reason = found(place).unwrap_or(ChainBreak::Group(GroupError::NoGroup));
        if end < self.proven {
            let what = format!("{reason}, but a snapshot shows that the log went on");
            return Err(self.damaged(place, what));
        }
        if let Some((proof, header)) = self.find_proof(end)? {
            let number = self.geometry().segment_of(proof);
            let what = format!(
                "{reason}, but group {} at offset {} of {} shows that a group here was durable",
                header.sequence,
                self.geometry().offset_of(proof),
                segment_name(number),
            );
            return Err(self.damaged(place, what));
        }
        let is_torn = matches!(reason, ChainBreak::Group(GroupError::Checksum | GroupError::Short));
        Ok(is_torn.then(|| TornGroup {
            file: segment_name(self.geometry().segment_of(place)),
            offset: self.geometry().offset_of(place),
            reason: reason.to_string(),
        }))
    }

    /// The place where the next group was most likely written: the one with something that looks like it.
    fn likely_place(&self, breaks: &ChainBreaks) -> u64 {
        let looks_right = |reason: &ChainBreak| {
            matches!(reason, ChainBreak::Group(GroupError::Checksum | GroupError::Short))
        };
        let likely = breaks.iter().find(|(_, reason)| looks_right(reason)).or(breaks.first());
        likely.map_or(self.chain.end(), |(place, _)| *place)
    }

    fn damaged(&self, place: u64, what: String) -> OpenError {
        OpenError::Damaged {
            file: segment_name(self.geometry().segment_of(place)),
            offset: self.geometry().offset_of(place),
            what,
        }
    }

    /// Looks through the rest of the segment and every later one for a group that proves damage.
    fn find_proof(&mut self, end: u64) -> Result<Option<(u64, GroupHeader)>, OpenError> {
        let geometry = self.geometry();
        let first = geometry.replay_segment(end);
        for number in self.files.segments().into_iter().filter(|number| *number >= first) {
            let mut place = end.max(geometry.first_group(number));
            while place < geometry.end_of(number) {
                let head = self.bytes(place, GROUP_HEADER)?;
                if head.is_empty() {
                    break;
                }
                if let Ok(header) = peek_group(head)
                    && self.chain.proves_damage(place, &header)
                    && open_group(self.bytes(place, header.len() as usize)?).is_ok()
                {
                    return Ok(Some((place, header)));
                }
                place += BLOCK;
            }
        }
        Ok(None)
    }

    /// Writes again what may be in a cache only.
    fn make_durable(&mut self) -> Result<(), OpenError> {
        let Some(tail) = self.chain.last_group() else {
            return Ok(());
        };
        let geometry = self.geometry();
        let mut place = tail.durable.max(geometry.first_group(self.first));
        while place < tail.end {
            let number = geometry.segment_of(place);
            let end = tail.end.min(geometry.end_of(number));
            self.rewrite(number, place, end)?;
            place = geometry.first_group(number + 1);
        }
        Ok(())
    }

    fn rewrite(&mut self, number: u64, from: u64, to: u64) -> Result<(), OpenError> {
        const PIECE: u64 = 1 << 20;
        let name = segment_name(number);
        let file = self.files.segment(number).map_err(OpenError::medium(&name, "opening"))?;
        let mut window = Window::over(Arc::clone(&file), Pool::new(0), false);
        let mut offset = self.geometry().offset_of(from);
        let end = offset + (to - from);
        while offset < end {
            let len = PIECE.min(end - offset) as usize;
            let bytes = window.at(offset, len).map_err(OpenError::medium(&name, "reading"))?;
            file.write_at(bytes, offset).map_err(OpenError::medium(&name, "writing"))?;
            offset += len as u64;
        }
        file.sync().map_err(OpenError::medium(&name, "syncing"))
    }
}

/// Restores the pieces of the snapshot whose place is not behind `position`.
fn restore(
    pieces: &mut Option<Pieces>,
    position: u64,
    replay: &mut dyn FnMut(ReplayItem),
) -> Result<(), OpenError> {
    match pieces {
        Some(some) if some.due().is_some_and(|due| due <= position) => {
            some.give(position, &mut |row| replay(ReplayItem::Snapshot(row)))
        }
        _ => Ok(()),
    }
}

/// Writes the opening group and starts the log.
fn begin(scan: Scan, options: Options, callbacks: Callbacks, mut state: State) -> Result<Log, OpenError> {
    let geometry = scan.geometry();
    let tail = scan.chain.last_group();
    let end = scan.chain.end();
    let written = ChainEnd {
        epoch: tail.map_or(1, |tail: LastGroup| tail.epoch + 1),
        sequence: tail.map_or(0, |tail| tail.sequence),
        checksum: tail.map_or(0, |tail| tail.checksum),
        end,
        synced: end,
        had_entries: true,
    };
    let files = scan.files;
    let place = geometry.place_for(end, BLOCK);
    let number = geometry.segment_of(place);
    let in_use = tail.is_some() && geometry.replay_segment(end) == number;
    files.set_aside_from(if in_use { number + 1 } else { number });
    if !in_use {
        let name = segment_name(number);
        files.prepare(number, written.epoch).map_err(OpenError::medium(&name, "preparing"))?;
    }
    for surplus in files.leftover().into_iter().filter(|leftover| *leftover > number + 1) {
        let name = segment_name(surplus);
        files.retire(surplus).map_err(OpenError::medium(&name, "setting aside"))?;
    }
    state.prepared = number;
    let shared = LogCore::new(options, callbacks, files, written, state);
    let group = OpenGroup::at(place, shared.pool.take(BLOCK as usize));
    let end = shared.append_group(group).and_then(|end| {
        if !shared.syncs() {
            shared.sync_segment(number)?;
            shared.written().synced = end;
        }
        Ok(end)
    });
    let end = end.map_err(|failure: LogFailure| OpenError::Medium {
        file: failure.file,
        doing: failure.doing,
        source: io::Error::other(failure.error),
    })?;
    shared.begin_at(end);
    Log::start(shared).map_err(OpenError::medium("the log", "starting a thread for"))
}
