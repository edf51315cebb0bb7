//! Reads the groups of a log in the order of the chain, passes their records to a replay, and decides why the chain
//! ends.

use crate::buffer::Pool;
use crate::error::OpenError;
use crate::log::EntryRange;
use crate::names::segment_name;
use crate::recovery::{ReplayItem, TornGroup};
use crate::segments::{FileWindow, SegmentFiles, SegmentReader};
use crate::snapshot::{NEXT_SIZES, SnapshotPieces};
use ottla_layout::record::decode;
use ottla_layout::recover::{Chain, ChainBreak};
use ottla_layout::{
    BLOCK, GROUP_HEADER, Geometry, GroupError, GroupHeader, SegmentHeader, open_group, peek_group,
};
use ottla_types::LogPosition;
use std::sync::Arc;

/// Why the chain ends: what was found at the places where the next group may be, nearest first.
pub(super) type ChainBreaks = Vec<(u64, ChainBreak)>;

/// A scan of the log from the first segment that is replayed.
pub(super) struct Scan {
    pub(super) files: SegmentFiles,
    pub(super) chain: Chain,
    /// The pieces of the snapshot that are not restored yet.
    pub(super) pieces: Option<SnapshotPieces>,
    /// Entries before it are in the snapshot.
    floor: u64,
    /// The log must reach up to here.
    proven: u64,
    first: u64,
    reader: SegmentReader,
    pub(super) records: u64,
    /// To read past damage: entries that cannot be read are collected here instead of ending the scan.
    pub(super) unread: Option<Vec<OpenError>>,
}

impl Scan {
    pub(super) fn new(
        files: SegmentFiles,
        first: u64,
        pieces: Option<SnapshotPieces>,
        threads: bool,
    ) -> Scan {
        let chain = Chain::from_segment(files.identity, first);
        let (floor, proven, size) =
            pieces.as_ref().map_or((0, 0, 0), |pieces| (pieces.first, pieces.last, pieces.size));
        files.keep_free(NEXT_SIZES * size);
        let reader = SegmentReader::new(threads);
        Scan { files, chain, pieces, floor, proven, first, reader, records: 0, unread: None }
    }

    pub(super) fn geometry(&self) -> Geometry {
        self.files.identity.geometry
    }

    /// Replays group after group, with the pieces of the snapshot at their places; returns why the chain ends.
    pub(super) fn replay(&mut self, replay: &mut dyn FnMut(ReplayItem)) -> Result<ChainBreaks, OpenError> {
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
        if let Err(reason) = self.chain.check_header(place, &header) {
            return Ok(Err(reason));
        }
        let geometry = self.geometry();
        if geometry.first_group(geometry.segment_of(place)) == place {
            self.check_segment(geometry.segment_of(place), place, &header)?;
        }
        let bytes = self.reader.bytes(&self.files, place, header.len() as usize)?;
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
        self.reader.bytes(&self.files, place, len)
    }

    /// Decides whether the end of the chain is the end of the log.
    pub(super) fn check_end(&mut self, breaks: ChainBreaks) -> Result<Option<TornGroup>, OpenError> {
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

    /// Searches the rest of the segment and every later one for a group that proves damage.
    pub(super) fn find_proof(&mut self, end: u64) -> Result<Option<(u64, GroupHeader)>, OpenError> {
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

    /// Rewrites and syncs the groups that may be in a cache only.
    pub(super) fn make_durable(&mut self) -> Result<(), OpenError> {
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
        let mut window = FileWindow::over(Arc::clone(&file), Pool::new(0), false);
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

/// Restores the pieces of the snapshot whose place is not after `position`.
pub(super) fn restore(
    pieces: &mut Option<SnapshotPieces>,
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
