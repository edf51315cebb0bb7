//! Everything in a folder except its runs, in order: headers, entries, padding, damage.

use crate::{Damage, Location};
use bytes::Bytes;
use ottla_layout::explain::{self, FieldSpan};
use ottla_layout::record::{DecodeError, DecodedRecord, decode};
use ottla_layout::{Group, GroupHeader, Identity};
use ottla_store::OpenError;
use ottla_store::inspect::{Folder, LogItem, SnapshotItem};

/// Bytes of the length in front of an entry.
const LENGTH: usize = 4;

/// One part of a folder.
#[derive(Debug)]
pub enum Item {
    /// A header, whole.
    Header(Header),
    /// An entry of the log, or a row of a snapshot.
    Entry(Entry),
    /// Zeros that fill the last block of a group.
    Padding {
        /// Where they begin.
        location: Location,
        /// How many bytes.
        size: u64,
    },
    /// Damaged bytes; reading continues after them.
    Damage(Damage),
    /// The log ends.
    End(LogEnd),
}

/// A header.
#[derive(Debug)]
pub struct Header {
    /// Which header it is, with what its fields mean.
    pub kind: HeaderKind,
    /// Where it begins.
    pub location: Location,
    /// Its fields.
    pub fields: Vec<FieldSpan>,
    /// The bytes from its beginning, which may continue after it.
    pub bytes: Bytes,
}

/// Which header.
#[derive(Debug)]
pub enum HeaderKind {
    /// The identity of the log.
    Identity(Identity),
    /// The header of a snapshot.
    Snapshot {
        /// Position of the log at which the snapshot began.
        position: u64,
    },
    /// The header of a chunk of a snapshot.
    Chunk {
        /// Position of the log when the chunk was taken.
        position: u64,
        /// How many rows follow.
        rows: usize,
        /// Bytes of the chunk, its header included.
        size: usize,
    },
    /// The end of a snapshot.
    SnapshotEnd,
    /// The header of a segment.
    Segment {
        /// Bytes of its file.
        size: u64,
        /// The epoch in its header, unless that is damaged.
        epoch: Option<u32>,
    },
    /// The header of a group.
    Group(GroupHeader),
}

/// An entry of the log, or a row of a snapshot.
#[derive(Debug)]
pub struct Entry {
    /// True for a row of a snapshot.
    pub is_row: bool,
    /// Where its length is; its bytes follow the length.
    pub location: Location,
    /// Its bytes, without the length.
    pub bytes: Bytes,
    /// Its fields, as far as they can be read.
    pub fields: Vec<FieldSpan>,
    /// The record, or why it cannot be read. Then the entry is damaged.
    pub decoded: Result<DecodedRecord, DecodeError>,
}

/// The end of the log.
#[derive(Debug)]
pub struct LogEnd {
    /// Where the last group ends.
    pub location: Location,
    /// The same as a position of the log.
    pub position: u64,
    /// What is wrong with the torn group after it, if there is one: a crash interrupted its write, and it was never
    /// acknowledged.
    pub torn: Option<String>,
}

/// Calls `sink` with everything in a folder except its runs: the identity, the snapshots, oldest first, and the log.
///
/// # Errors
/// The medium fails, or what `sink` returns.
pub fn visit<E: From<OpenError>>(
    folder: &Folder,
    sink: &mut dyn FnMut(Item) -> Result<(), E>,
) -> Result<(), E> {
    let bytes = Bytes::from(folder.head("identity")?);
    sink(Item::Header(Header {
        kind: HeaderKind::Identity(folder.identity()),
        location: Location::new("identity", 0),
        fields: explain::identity(&bytes),
        bytes,
    }))?;
    for position in folder.snapshots() {
        snapshot(folder, position, sink)?;
    }
    folder.walk(&mut |found| log(folder, found, sink))
}

fn snapshot<E: From<OpenError>>(
    folder: &Folder,
    position: u64,
    sink: &mut dyn FnMut(Item) -> Result<(), E>,
) -> Result<(), E> {
    let name = Folder::snapshot_name(position);
    let mut version = 0;
    folder.snapshot(position, &mut |found| match found {
        SnapshotItem::Header { format, bytes } => {
            version = format;
            let bytes = Bytes::copy_from_slice(bytes);
            let (kind, location) = (HeaderKind::Snapshot { position }, Location::new(&name, 0));
            let fields = explain::snapshot_header(&bytes);
            sink(Item::Header(Header { kind, location, fields, bytes }))
        }
        SnapshotItem::Chunk { offset, bytes, position, entries } => {
            let bytes = Bytes::copy_from_slice(bytes);
            let kind = HeaderKind::Chunk { position, rows: entries.len(), size: bytes.len() };
            let fields = explain::chunk_header(version, &bytes);
            let location = Location::new(&name, offset);
            sink(Item::Header(Header { kind, location, fields, bytes: bytes.clone() }))?;
            for (at, row) in entries {
                let within = (at - offset) as usize;
                let location = Location::new(&name, at - LENGTH as u64);
                sink(entry(true, location, bytes.slice(within..within + row.len())))?;
            }
            Ok(())
        }
        SnapshotItem::End { offset, bytes } => {
            let bytes = Bytes::copy_from_slice(bytes);
            let fields = explain::chunk_header(version, &bytes);
            let (kind, location) = (HeaderKind::SnapshotEnd, Location::new(&name, offset));
            sink(Item::Header(Header { kind, location, fields, bytes }))
        }
        SnapshotItem::Damage { offset, reason } => {
            sink(Item::Damage(Damage::new(Location::new(&name, offset), reason)))
        }
    })
}

fn log<E: From<OpenError>>(
    folder: &Folder,
    found: LogItem<'_>,
    sink: &mut dyn FnMut(Item) -> Result<(), E>,
) -> Result<(), E> {
    let geometry = folder.identity().geometry;
    match found {
        LogItem::Segment { number, size, block, header } => {
            let bytes = Bytes::copy_from_slice(block);
            let fields = explain::segment_header(&bytes);
            let kind = HeaderKind::Segment { size, epoch: header.as_ref().ok().map(|header| header.epoch) };
            let location = Location::new(Folder::segment_name(number), 0);
            sink(Item::Header(Header { kind, location: location.clone(), fields, bytes }))?;
            header.map_or_else(|reason| sink(Item::Damage(Damage::new(location, reason))), |_| Ok(()))
        }
        LogItem::Group { bytes, group: found } => {
            group(Location::in_log(geometry, found.header.position), bytes, &found, sink)
        }
        LogItem::Damage(damage) => sink(Item::Damage(Damage::in_log(geometry, damage))),
        LogItem::End(end) => sink(Item::End(LogEnd {
            location: Location::in_log(geometry, end.position),
            position: end.position,
            torn: end.torn.map(|(_, reason)| reason),
        })),
    }
}

fn group<E>(
    location: Location,
    bytes: &[u8],
    group: &Group<'_>,
    sink: &mut dyn FnMut(Item) -> Result<(), E>,
) -> Result<(), E> {
    let Location { file, offset } = location.clone();
    let header = group.header;
    let bytes = Bytes::copy_from_slice(bytes);
    let (kind, fields) = (HeaderKind::Group(header), explain::group_header(&bytes));
    sink(Item::Header(Header { kind, location, fields, bytes: bytes.clone() }))?;
    for one in group.entries() {
        let within = (one.position - header.position) as usize;
        let body = bytes.slice(within + LENGTH..within + LENGTH + one.bytes.len());
        sink(entry(false, Location::new(&file, offset + within as u64), body))?;
    }
    let padding = (bytes.len() as u64).saturating_sub(header.len());
    if padding > 0 {
        sink(Item::Padding { location: Location::new(file, offset + header.len()), size: padding })?;
    }
    Ok(())
}

fn entry(is_row: bool, location: Location, bytes: Bytes) -> Item {
    let (fields, decoded) = (explain::entry(&bytes).0, decode(&bytes));
    Item::Entry(Entry { is_row, location, bytes, fields, decoded })
}
