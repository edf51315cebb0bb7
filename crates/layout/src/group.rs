//! A group: the entries that one write and one sync make durable. Groups are chained by sequence number and checksum.
//!
//! ```text
//!   header (64 bytes): checksum, magic, position, sequence, durable, checksum before │ length, entry │ … │ padding
//!
//!   state, as recovery sees it:
//!     whole and next in the chain ─▶ replayed
//!     torn, and nothing after calls it durable ─▶ cut: a crash interrupted the write, it was never acknowledged
//!     torn, and a later group calls it durable ─▶ damage: the log is refused
//! ```

use crate::geometry::align_up;
use crate::identity::Identity;
use crate::read::{put, u16_at, u32_at, u64_at};

const MAGIC: &[u8; 4] = b"OTGR";

/// Version of the group header.
pub const GROUP_FORMAT: u16 = 0;
/// Bytes of a group's header.
pub const GROUP_HEADER: usize = 64;
/// Size at which a group is closed, unless a single entry is larger.
pub const GROUP_CAP: usize = 2 << 20;

/// The header of a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GroupHeader {
    /// The folder's random number.
    pub log_id: u64,
    /// The shard.
    pub shard: u16,
    /// Counts the openings of the folder. Distinguishes the group from stale groups of an abandoned tail.
    pub epoch: u32,
    /// Counts the groups of the log from 1.
    pub sequence: u64,
    /// Position of the group. Distinguishes it from stale groups in a recycled file, and from misplaced writes.
    pub position: u64,
    /// Everything before this position was durable when the group was written.
    pub durable: u64,
    /// Bytes of the entries, without padding.
    pub payload: u32,
    /// Number of entries.
    pub entries: u32,
    /// Checksum of the group before, 0 for the first.
    pub previous: u32,
}

impl GroupHeader {
    /// Bytes of header and entries, without padding.
    pub fn len(&self) -> u64 {
        GROUP_HEADER as u64 + u64::from(self.payload)
    }

    /// True for a group without entries.
    pub fn is_empty(&self) -> bool {
        self.payload == 0
    }

    /// Bytes of the group on the medium, padding included.
    pub fn padded_len(&self) -> u64 {
        align_up(self.len())
    }

    /// True if the group belongs to this folder.
    pub fn belongs_to(&self, identity: &Identity) -> bool {
        self.log_id == identity.log_id && self.shard == identity.shard
    }
}

/// Bytes that are not a whole, undamaged group.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum GroupError {
    /// No group begins here.
    #[error("no group begins here")]
    NoGroup,
    /// Cut short, or its length is wrong.
    #[error("the group is cut short")]
    Short,
    /// Damaged or torn.
    #[error("the checksum of the group does not match")]
    Checksum,
    /// Written by a newer version.
    #[error("group format {0} is newer than this program knows: use the version that wrote it")]
    NewerFormat(u16),
    /// The checksum matches, but the entries do not fill the group exactly.
    #[error("the entries of the group do not add up")]
    Entries,
}

/// Writes the header into the first 64 bytes of `group`, which holds the entries after it and no padding, and returns
/// the checksum that the next group chains to.
pub fn seal_group(header: &GroupHeader, group: &mut [u8]) -> u32 {
    debug_assert_eq!(header.len(), group.len() as u64);
    put(group, 4, MAGIC);
    put(group, 8, &GROUP_FORMAT.to_le_bytes());
    put(group, 10, &header.shard.to_le_bytes());
    put(group, 12, &header.epoch.to_le_bytes());
    put(group, 16, &header.log_id.to_le_bytes());
    put(group, 24, &header.sequence.to_le_bytes());
    put(group, 32, &header.position.to_le_bytes());
    put(group, 40, &header.durable.to_le_bytes());
    put(group, 48, &header.payload.to_le_bytes());
    put(group, 52, &header.entries.to_le_bytes());
    put(group, 56, &header.previous.to_le_bytes());
    put(group, 60, &[0; 4]);
    let checksum = crc32c::crc32c(group.get(4..).unwrap_or_default());
    put(group, 0, &checksum.to_le_bytes());
    checksum
}

/// Reads the header at the start of `bytes` without checking anything but its magic and format: enough to know how many
/// bytes [`open_group`] wants.
pub fn peek_group(bytes: &[u8]) -> Result<GroupHeader, GroupError> {
    if bytes.get(4..8) != Some(MAGIC.as_slice()) {
        return Err(GroupError::NoGroup);
    }
    let format = u16_at(bytes, 8).ok_or(GroupError::Short)?;
    if format != GROUP_FORMAT {
        return Err(GroupError::NewerFormat(format));
    }
    let read = || {
        Some(GroupHeader {
            shard: u16_at(bytes, 10)?,
            epoch: u32_at(bytes, 12)?,
            log_id: u64_at(bytes, 16)?,
            sequence: u64_at(bytes, 24)?,
            position: u64_at(bytes, 32)?,
            durable: u64_at(bytes, 40)?,
            payload: u32_at(bytes, 48)?,
            entries: u32_at(bytes, 52)?,
            previous: u32_at(bytes, 56)?,
        })
    };
    let header = read().ok_or(GroupError::Short)?;
    if u32_at(bytes, 60).is_none() { Err(GroupError::Short) } else { Ok(header) }
}

/// A group whose checksum matched.
#[derive(Clone, Debug)]
pub struct Group<'a> {
    /// Its header.
    pub header: GroupHeader,
    /// Its checksum.
    pub checksum: u32,
    payload: &'a [u8],
}

/// One entry of a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry<'a> {
    /// Position of the entry in the log: of its length field.
    pub position: u64,
    /// The entry's bytes.
    pub bytes: &'a [u8],
}

impl Entry<'_> {
    /// Position of the entry's first byte after the length field.
    pub fn body(&self) -> u64 {
        self.position + 4
    }

    /// Position just after the entry.
    pub fn end(&self) -> u64 {
        self.body() + self.bytes.len() as u64
    }
}

/// Checks the group at the start of `bytes`; bytes after it are ignored.
pub fn open_group(bytes: &[u8]) -> Result<Group<'_>, GroupError> {
    let header = peek_group(bytes)?;
    let group =
        usize::try_from(header.len()).ok().and_then(|len| bytes.get(..len)).ok_or(GroupError::Short)?;
    let checksum = u32_at(group, 0).ok_or(GroupError::Short)?;
    if crc32c::crc32c(&group[4..]) != checksum || u32_at(group, 60) != Some(0) {
        return Err(GroupError::Checksum);
    }
    let group = Group { header, checksum, payload: &group[GROUP_HEADER..] };
    if group.entries().count() != header.entries as usize || group.walked() != group.payload.len() {
        return Err(GroupError::Entries);
    }
    Ok(group)
}

impl<'a> Group<'a> {
    /// The entries in order.
    pub fn entries(&self) -> impl Iterator<Item = Entry<'a>> + use<'a> {
        let payload = self.payload;
        let base = self.header.position + GROUP_HEADER as u64;
        let mut at = 0;
        std::iter::from_fn(move || {
            let len = u32_at(payload, at)? as usize;
            let bytes = payload.get(at + 4..(at + 4).checked_add(len)?)?;
            let position = base + at as u64;
            at += 4 + len;
            Some(Entry { position, bytes })
        })
    }

    fn walked(&self) -> usize {
        self.entries().map(|entry| entry.bytes.len() + 4).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn header(entries: u32, payload: u32) -> GroupHeader {
        GroupHeader {
            log_id: 0xfeed,
            shard: 2,
            epoch: 7,
            sequence: 41,
            position: 3 << 20,
            durable: 2 << 20,
            payload,
            entries,
            previous: 0xabcd,
        }
    }

    fn group_of(entries: &[Vec<u8>]) -> (GroupHeader, Vec<u8>) {
        let mut bytes = vec![0; GROUP_HEADER];
        for entry in entries {
            bytes.extend((entry.len() as u32).to_le_bytes());
            bytes.extend(entry);
        }
        let header = header(entries.len() as u32, (bytes.len() - GROUP_HEADER) as u32);
        seal_group(&header, &mut bytes);
        (header, bytes)
    }

    proptest! {
        #[test]
        fn entries_come_back_with_their_positions(entries in proptest::collection::vec(proptest::collection::vec(any::<u8>(), 0..50), 0..20)) {
            let (header, mut bytes) = group_of(&entries);
            bytes.extend([0x5a; 100]);
            let group = open_group(&bytes).unwrap();
            prop_assert_eq!(group.header, header);
            let found: Vec<Entry<'_>> = group.entries().collect();
            prop_assert_eq!(found.len(), entries.len());
            for (entry, expected) in found.iter().zip(&entries) {
                prop_assert_eq!(entry.bytes, expected.as_slice());
                let at = (entry.body() - header.position) as usize;
                prop_assert_eq!(&bytes[at..at + expected.len()], expected.as_slice());
            }
        }

        #[test]
        fn garbage_is_an_error(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            prop_assert!(open_group(&bytes).is_err());
        }
    }

    #[test]
    fn any_flipped_bit_is_noticed() {
        let (_, bytes) = group_of(&[vec![1, 2, 3], vec![], vec![9; 40]]);
        for bit in 0..bytes.len() * 8 {
            let mut damaged = bytes.clone();
            damaged[bit / 8] ^= 1 << (bit % 8);
            assert!(open_group(&damaged).is_err(), "bit {bit}");
        }
    }

    #[test]
    fn a_lying_entry_count_or_length_is_an_error_although_the_checksum_matches() {
        let mut bytes = vec![0; GROUP_HEADER];
        bytes.extend(8u32.to_le_bytes());
        bytes.extend([1, 2, 3]);
        seal_group(&header(1, 7), &mut bytes);
        assert_eq!(open_group(&bytes).unwrap_err(), GroupError::Entries);
        bytes.truncate(GROUP_HEADER);
        seal_group(&header(1, 0), &mut bytes);
        assert_eq!(open_group(&bytes).unwrap_err(), GroupError::Entries);
    }
}
