//! The groups of every segment in log order, and the damage between them.

use crate::error::OpenError;
use crate::names::segment_name;
use crate::segments::{SegmentFiles, SegmentReader};
use ottla_layout::recover::{Chain, ChainBreak};
use ottla_layout::{
    BLOCK, GROUP_HEADER, Group, GroupError, GroupHeader, SegmentHeader, open_group, peek_group,
};

/// An item of a log, in log order.
#[derive(Debug)]
pub enum LogItem<'a> {
    /// A segment begins.
    Segment {
        /// Its number.
        number: u64,
        /// Bytes of its file.
        size: u64,
        /// Its first block.
        block: &'a [u8],
        /// The header in it, or what is wrong with it.
        header: Result<SegmentHeader, String>,
    },
    /// A whole group of the log.
    Group {
        /// All its bytes, padding included.
        bytes: &'a [u8],
        /// What it holds.
        group: Group<'a>,
    },
    /// Groups are missing or damaged.
    Damage(Damage),
    /// The log ends.
    End(LogEnd),
}

/// A place where the chain of groups is broken, although the log does not end there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Damage {
    /// Position of the place itself.
    pub at: u64,
    /// What was found there instead of a group.
    pub reason: String,
    /// Position after the last group before it.
    pub from: u64,
    /// Position of the first whole group after it; none if there is none.
    pub to: Option<u64>,
    /// How many groups are missing, if the groups around the place show it.
    pub groups: Option<u64>,
}

/// Where the log ends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogEnd {
    /// Position after the last group.
    pub position: u64,
    /// Position of a torn group after it, and what it looks like: a crash interrupted its write, it was never
    /// acknowledged.
    pub torn: Option<(u64, String)>,
}

pub(super) fn walk<E: From<OpenError>>(
    files: &SegmentFiles,
    replay_segment: u64,
    visit: &mut dyn FnMut(LogItem<'_>) -> Result<(), E>,
) -> Result<(), E> {
    let segments = files.segments();
    let first = segments.first().copied().unwrap_or(0);
    let chain = Chain::from_segment(files.identity, first);
    let mut walk =
        Walk { files, reader: SegmentReader::new(false), chain, segments, entered: None, replay_segment };
    loop {
        let mut breaks = Vec::new();
        let mut found = None;
        for place in walk.chain.places() {
            match walk.check_group(place)? {
                Ok(len) => {
                    found = Some((place, len));
                    break;
                }
                Err(reason) => breaks.push((place, reason)),
            }
        }
        if let Some((place, len)) = found {
            walk.group(place, len, visit)?;
            continue;
        }
        match walk.behind(&breaks)? {
            Next::Freed(segment) => walk.chain = Chain::from_segment(files.identity, segment),
            Next::Damage(damage) => {
                let to = damage.to;
                walk.enter(damage.at, visit)?;
                visit(LogItem::Damage(damage))?;
                let Some(to) = to else { return Ok(()) };
                walk.chain = Chain::from_place(files.identity, to);
            }
            Next::End(end) => {
                walk.enter(end.position.saturating_sub(1), visit)?;
                return visit(LogItem::End(end));
            }
        }
    }
}

/// What follows where the chain breaks.
enum Next {
    /// Segments that were freed, and then this one.
    Freed(u64),
    Damage(Damage),
    End(LogEnd),
}

struct Walk<'f> {
    files: &'f SegmentFiles,
    reader: SegmentReader,
    chain: Chain,
    segments: Vec<u64>,
    /// The last segment that was passed to the visitor.
    entered: Option<u64>,
    replay_segment: u64,
}

type ChainBreaks = [(u64, ChainBreak)];

impl Walk<'_> {
    fn bytes(&mut self, place: u64, len: u64) -> Result<&[u8], OpenError> {
        let len = usize::try_from(len).unwrap_or(usize::MAX);
        self.reader.bytes(self.files, place, len)
    }

    /// The padded length of the next group, if it is at `place`.
    fn check_group(&mut self, place: u64) -> Result<Result<u64, ChainBreak>, OpenError> {
        let header = match peek_group(self.bytes(place, GROUP_HEADER as u64)?) {
            Ok(header) => header,
            Err(error) => return Ok(Err(error.into())),
        };
        if let Err(reason) = self.chain.check_header(place, &header) {
            return Ok(Err(reason));
        }
        Ok(match open_group(self.bytes(place, header.len())?) {
            Ok(_) => Ok(header.padded_len()),
            Err(error) => Err(error.into()),
        })
    }

    /// Passes the group at `place`, which was checked already, to `visit`.
    fn group<E: From<OpenError>>(
        &mut self,
        place: u64,
        len: u64,
        visit: &mut dyn FnMut(LogItem<'_>) -> Result<(), E>,
    ) -> Result<(), E> {
        self.enter(place, visit)?;
        let mut chain = self.chain.clone();
        let bytes = self.bytes(place, len)?;
        if let Ok(group) = open_group(bytes)
            && chain.accept(place, &group).is_ok()
        {
            visit(LogItem::Group { bytes, group })?;
        }
        self.chain = chain;
        Ok(())
    }

    /// Passes the segments up to the one that holds a position to `visit`.
    fn enter<E: From<OpenError>>(
        &mut self,
        position: u64,
        visit: &mut dyn FnMut(LogItem<'_>) -> Result<(), E>,
    ) -> Result<(), E> {
        let geometry = self.files.identity.geometry;
        let last = geometry.segment_of(position);
        let new = |number: &u64| *number <= last && self.entered.is_none_or(|entered| *number > entered);
        let numbers: Vec<u64> = self.segments.iter().copied().filter(new).collect();
        for number in numbers {
            self.entered = Some(number);
            let name = segment_name(number);
            let file = self.files.segment(number).map_err(OpenError::medium(&name, "opening"))?;
            let size = file.size().map_err(OpenError::medium(&name, "measuring"))?;
            let identity = self.files.identity;
            let block = self.bytes(geometry.start_of(number), BLOCK)?;
            let header = SegmentHeader::check(block, &identity, number).map_err(|error| error.to_string());
            visit(LogItem::Segment { number, size, block, header })?;
        }
        Ok(())
    }

    fn behind(&mut self, breaks: &ChainBreaks) -> Result<Next, OpenError> {
        let geometry = self.files.identity.geometry;
        let from = self.chain.end();
        let segment = geometry.replay_segment(from);
        let is_damage = breaks.iter().any(|(_, reason)| reason.is_damage());
        if !is_damage && let Some(next) = self.freed_behind(segment, from)? {
            return Ok(Next::Freed(next));
        }
        let proof = self.find_proof(from, u64::MAX)?;
        if let Some((to, header)) = proof {
            let (at, reason) = self.damaged_place(breaks, to)?;
            let before = self.chain.last_group().map(|tail| tail.sequence);
            let groups = before.map(|before| header.sequence.saturating_sub(before + 1));
            return Ok(Next::Damage(Damage { at, reason, from, to: Some(to), groups }));
        }
        if let Some((at, reason)) = breaks.iter().find(|(_, reason)| reason.is_damage()) {
            let reason = reason.to_string();
            return Ok(Next::Damage(Damage { at: *at, reason, from, to: None, groups: None }));
        }
        let torn = breaks.iter().find(|(_, reason)| looks_torn(reason));
        let torn = torn.map(|(at, reason)| (*at, reason.to_string()));
        Ok(Next::End(LogEnd { position: from, torn }))
    }

    /// The next segment after freed ones: `segment` is whole up to `from`, and the one after it is not needed by
    /// replay.
    fn freed_behind(&mut self, segment: u64, from: u64) -> Result<Option<u64>, OpenError> {
        let behind = segment + 1;
        if self.files.is_live(behind) || behind >= self.replay_segment {
            return Ok(None);
        }
        let geometry = self.files.identity.geometry;
        if self.find_proof(from, geometry.end_of(segment))?.is_some() {
            return Ok(None);
        }
        Ok(self.segments.iter().copied().find(|number| *number > segment))
    }

    /// The first group from `from` on, below `end`, that proves that the log continued.
    fn find_proof(&mut self, from: u64, end: u64) -> Result<Option<(u64, GroupHeader)>, OpenError> {
        let geometry = self.files.identity.geometry;
        let first = geometry.replay_segment(from);
        for number in self.segments.clone().into_iter().filter(|number| *number >= first) {
            let mut place = from.max(geometry.first_group(number));
            while place < geometry.end_of(number).min(end) {
                let head = self.bytes(place, GROUP_HEADER as u64)?;
                if head.is_empty() {
                    break;
                }
                if let Ok(header) = peek_group(head)
                    && self.chain.proves_damage(place, &header)
                    && open_group(self.bytes(place, header.len())?).is_ok()
                {
                    return Ok(Some((place, header)));
                }
                place += BLOCK;
            }
        }
        Ok(None)
    }

    /// The damaged place and the reason, given that the group at `proof` proves damage.
    fn damaged_place(&mut self, breaks: &ChainBreaks, proof: u64) -> Result<(u64, String), OpenError> {
        let geometry = self.files.identity.geometry;
        let here = breaks.first().map_or(self.chain.end(), |(at, _)| *at);
        let Some((next, reason)) = breaks.iter().find(|(at, _)| *at > here) else {
            return Ok((here, self.describe(breaks, here)));
        };
        // A group may lie at either place. If the one in the next segment is the proof, it is whole, and the other is
        // damaged.
        if proof == *next || geometry.segment_of(proof) == geometry.segment_of(here) {
            return Ok((here, self.describe(breaks, here)));
        }
        let torn_here = breaks.iter().any(|(at, reason)| *at == here && looks_torn(reason));
        if torn_here && !looks_torn(reason) {
            return Ok((here, self.describe(breaks, here)));
        }
        Ok((*next, self.describe(breaks, *next)))
    }

    fn describe(&self, breaks: &ChainBreaks, at: u64) -> String {
        if !self.files.is_live(self.files.identity.geometry.segment_of(at)) {
            return "the file is missing".to_owned();
        }
        let found = breaks.iter().find(|(place, _)| *place == at);
        found.map_or(GroupError::NoGroup.to_string(), |(_, reason)| reason.to_string())
    }
}

/// True for a group whose bytes differ from those that were written, as after a torn write.
fn looks_torn(reason: &ChainBreak) -> bool {
    matches!(reason, ChainBreak::Group(GroupError::Checksum | GroupError::Short))
}
