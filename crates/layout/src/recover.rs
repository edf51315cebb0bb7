//! The rules of recovery: which group is next, where a log may be truncated, and what must not be truncated.
//!
//! ```text
//!        group n          group n+1 expected here, or at the start of the next segment
//!   ─┬───────────────┬──────────────────┬────────────────────
//!    │ valid         │ not valid: why?  │ … lookahead …
//!   ─┴───────────────┴──────────────────┴────────────────────
//! ```
//! The write of a group begins only after the group before it is durable, and it says up to where the log was durable
//! when it was written. So a later group that was written in this chain and calls the broken place durable proves
//! damage: the broker then refuses to start. Without such proof the broken group was the last one, torn by a crash: the
//! log is truncated before it.

use crate::geometry::Geometry;
use crate::group::{Group, GroupError, GroupHeader};
use crate::identity::Identity;

/// The last valid group of a chain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LastGroup {
    /// Its epoch.
    pub epoch: u32,
    /// Its sequence number.
    pub sequence: u64,
    /// Its checksum.
    pub checksum: u32,
    /// Everything before this position was durable when it was written.
    pub durable: u64,
    /// Position after it, padding included.
    pub end: u64,
}

/// Why the bytes at a place are not the next group.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ChainBreak {
    /// Not a group.
    #[error(transparent)]
    Group(#[from] GroupError),
    /// A group of another folder.
    #[error("the group belongs to another log ({0:016x})")]
    Foreign(u64),
    /// A group written for another place: left over from an earlier use of the file, or misdirected.
    #[error("the group was written for position {0}")]
    Elsewhere(u64),
    /// It would extend beyond the end of the segment.
    #[error("the group is longer than the rest of the segment")]
    TooLong,
    /// It does not continue the chain.
    #[error("group {found} of epoch {epoch} does not continue the chain")]
    Unchained {
        /// Its sequence number.
        found: u64,
        /// Its epoch.
        epoch: u32,
    },
}

impl ChainBreak {
    /// True if a crash cannot have caused it, so that it must be reported even at the end of the log.
    pub fn is_damage(&self) -> bool {
        matches!(self, ChainBreak::Group(GroupError::Entries | GroupError::NewerFormat(_)))
    }
}

/// Follows the chain of groups from the start of a segment.
#[derive(Clone, Debug)]
pub struct Chain {
    identity: Identity,
    first: u64,
    last: Option<LastGroup>,
}

impl Chain {
    /// A chain that begins with the first group of `segment`.
    pub fn from_segment(identity: Identity, segment: u64) -> Chain {
        Chain { identity, first: identity.geometry.first_group(segment), last: None }
    }

    /// A chain that continues with the group at `place`, to read a log after its damage.
    pub fn from_place(identity: Identity, place: u64) -> Chain {
        Chain { identity, first: place, last: None }
    }

    /// The last group that was accepted.
    pub fn last_group(&self) -> Option<LastGroup> {
        self.last
    }

    /// Position after the last accepted group, or where the first one should be.
    pub fn end(&self) -> u64 {
        self.last.map_or(self.first, |last| last.end)
    }

    /// The places where the next group may be, in the order to try them: after the last one, and at the start of the
    /// next segment, where it goes if it did not fit. The first group of all has one place only.
    pub fn places(&self) -> impl Iterator<Item = u64> + use<> {
        let geometry = self.identity.geometry;
        let here = geometry.place_for(self.end(), crate::BLOCK);
        let segment = geometry.segment_of(here);
        let next = (self.last.is_some() && here != geometry.first_group(segment))
            .then(|| geometry.first_group(segment + 1));
        std::iter::once(here).chain(next)
    }

    /// Checks whether a header found at `place` can be that of the next group, before its payload is read.
    pub fn check_header(&self, place: u64, header: &GroupHeader) -> Result<(), ChainBreak> {
        self.at_home(place, header)?;
        let chained = match self.last {
            Some(last) => {
                header.sequence == last.sequence + 1
                    && header.previous == last.checksum
                    && header.epoch >= last.epoch
                    && header.durable <= last.end
                    && header.durable >= last.durable
            }
            None if place == self.identity.geometry.first_group(0) => {
                header.sequence == 1 && header.previous == 0
            }
            None => header.sequence > 1,
        };
        if chained {
            Ok(())
        } else {
            Err(ChainBreak::Unchained { found: header.sequence, epoch: header.epoch })
        }
    }

    /// Takes a valid group as the next one.
    pub fn accept(&mut self, place: u64, group: &Group<'_>) -> Result<(), ChainBreak> {
        self.check_header(place, &group.header)?;
        self.last = Some(LastGroup {
            epoch: group.header.epoch,
            sequence: group.header.sequence,
            checksum: group.checksum,
            durable: group.header.durable,
            end: place + group.header.padded_len(),
        });
        Ok(())
    }

    /// True if a header found at `place` in the lookahead, once its checksum is seen to match, proves that the group
    /// which is missing after the last had been durable.
    pub fn proves_damage(&self, place: u64, header: &GroupHeader) -> bool {
        let later = match self.last {
            Some(last) => header.epoch >= last.epoch && header.sequence > last.sequence,
            None => true,
        };
        later && header.durable > self.end() && self.at_home(place, header).is_ok()
    }

    fn at_home(&self, place: u64, header: &GroupHeader) -> Result<(), ChainBreak> {
        let geometry: Geometry = self.identity.geometry;
        if !header.belongs_to(&self.identity) {
            return Err(ChainBreak::Foreign(header.log_id));
        }
        if header.position != place {
            return Err(ChainBreak::Elsewhere(header.position));
        }
        if place + header.padded_len() > geometry.end_of(geometry.segment_of(place)) {
            return Err(ChainBreak::TooLong);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{BLOCK, GROUP_HEADER, open_group, seal_group};

    fn identity() -> Identity {
        Identity { log_id: 5, shard: 0, geometry: Geometry::new(64 << 10).unwrap() }
    }

    fn header(sequence: u64, position: u64, durable: u64, previous: u32) -> GroupHeader {
        GroupHeader {
            log_id: 5,
            shard: 0,
            epoch: 1,
            sequence,
            position,
            durable,
            payload: 0,
            entries: 0,
            previous,
        }
    }

    fn accept(chain: &mut Chain, header: GroupHeader) -> Result<(), ChainBreak> {
        let mut bytes = vec![0; GROUP_HEADER];
        seal_group(&header, &mut bytes);
        chain.accept(header.position, &open_group(&bytes).unwrap())
    }

    /// A chain with one group at the start of segment 0.
    fn chain() -> Chain {
        let mut chain = Chain::from_segment(identity(), 0);
        assert_eq!(chain.places().collect::<Vec<_>>(), [BLOCK]);
        accept(&mut chain, header(1, BLOCK, BLOCK, 0)).unwrap();
        chain
    }

    #[test]
    fn the_next_group_lies_behind_or_in_the_next_segment() {
        let mut chain = chain();
        assert_eq!(chain.places().collect::<Vec<_>>(), [2 * BLOCK, (64 << 10) + BLOCK]);
        let sum = chain.last_group().unwrap().checksum;
        accept(&mut chain, header(2, (64 << 10) + BLOCK, 2 * BLOCK, sum)).unwrap();
        assert_eq!(chain.end(), (64 << 10) + 2 * BLOCK);
    }

    #[test]
    fn a_full_segment_leaves_one_place() {
        let mut chain = chain();
        let sum = chain.last_group().unwrap().checksum;
        accept(&mut chain, header(2, (64 << 10) - BLOCK, 2 * BLOCK, sum)).unwrap();
        assert_eq!(chain.places().collect::<Vec<_>>(), [(64 << 10) + BLOCK]);
    }

    #[test]
    fn strangers_are_told_apart() {
        let chain = chain();
        let sum = chain.last_group().unwrap().checksum;
        let good = header(2, 2 * BLOCK, 2 * BLOCK, sum);
        assert_eq!(chain.check_header(2 * BLOCK, &good), Ok(()));
        let unchained = |found| ChainBreak::Unchained { found, epoch: 1 };
        let cases = [
            (GroupHeader { log_id: 6, ..good }, ChainBreak::Foreign(6)),
            (GroupHeader { position: 3 * BLOCK, ..good }, ChainBreak::Elsewhere(3 * BLOCK)),
            (GroupHeader { payload: 64 << 10, ..good }, ChainBreak::TooLong),
            (GroupHeader { sequence: 3, ..good }, unchained(3)),
            (GroupHeader { previous: 1, ..good }, unchained(2)),
            (GroupHeader { epoch: 0, ..good }, ChainBreak::Unchained { found: 2, epoch: 0 }),
            (GroupHeader { durable: 3 * BLOCK, ..good }, unchained(2)),
        ];
        for (header, expected) in cases {
            assert_eq!(chain.check_header(2 * BLOCK, &header), Err(expected));
        }
    }

    #[test]
    fn only_a_later_group_that_calls_the_gap_durable_proves_damage() {
        let chain = chain();
        let later = header(3, 3 * BLOCK, 3 * BLOCK, 9);
        assert!(chain.proves_damage(3 * BLOCK, &later));
        assert!(
            !chain.proves_damage(3 * BLOCK, &GroupHeader { durable: 2 * BLOCK, ..later }),
            "written unsynced"
        );
        assert!(!chain.proves_damage(3 * BLOCK, &GroupHeader { epoch: 0, ..later }), "an abandoned last");
        assert!(!chain.proves_damage(4 * BLOCK, &later), "recycled or misplaced");
        assert!(!chain.proves_damage(3 * BLOCK, &GroupHeader { log_id: 1, ..later }), "another folder");
    }

    #[test]
    fn the_first_group_of_the_log_has_no_predecessor() {
        let chain = Chain::from_segment(identity(), 0);
        assert_eq!(chain.check_header(BLOCK, &header(1, BLOCK, BLOCK, 0)), Ok(()));
        assert!(chain.check_header(BLOCK, &header(2, BLOCK, BLOCK, 0)).is_err());
        let later = Chain::from_segment(identity(), 1);
        assert!(later.check_header((64 << 10) + BLOCK, &header(9, (64 << 10) + BLOCK, BLOCK, 3)).is_ok());
    }
}
