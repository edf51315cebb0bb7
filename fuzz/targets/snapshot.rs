//! The reader of snapshots: rows that are written, and files that were changed since.

#![no_main]

use libfuzzer_sys::fuzz_target;
use ottla_layout::snapshot::{ChunkWriter, SNAPSHOT_FORMAT, SnapshotHeader};
use ottla_layout::{Geometry, Identity};
use ottla_store::inspect::{Folder, SnapshotItem};
use ottla_store::{Medium, MemoryMedium, OpenError};
use std::sync::Arc;

const POSITION: u64 = 77;

fuzz_target!(|data: &[u8]| {
    let Some((changes, rows)) = data.split_first_chunk::<8>() else { return };
    let rows: Vec<&[u8]> = rows.split(|byte| *byte == b'\n').collect();
    let header = SnapshotHeader { format: SNAPSHOT_FORMAT, log_id: 5, shard: 0, position: POSITION };
    let mut file = header.encode().to_vec();
    let mut chunks = ChunkWriter::new(POSITION);
    for row in &rows {
        file.extend(chunks.push(row).unwrap_or_default());
    }
    file.extend(chunks.finish());
    assert_eq!(read(&file), (rows.iter().map(|row| row.to_vec()).collect(), true));
    let whole = read(&file).0;
    let [high, low, bit, cut, more @ ..] = *changes;
    let at = usize::from(u16::from_be_bytes([high, low])) % file.len();
    file[at] ^= bit;
    if cut & 1 == 1 {
        file.truncate(file.len().saturating_sub(usize::from(cut >> 1)));
    } else {
        file.extend_from_slice(&more[..usize::from(cut >> 1) % 5]);
    }
    let (found, ended) = read(&file);
    // Chunks in front of a fault are good, and nothing is ever made up.
    assert!(whole.starts_with(&found), "{found:?}");
    assert!(!ended || found == whole);
    // Raw bytes as a file.
    read(data);
});

/// The rows up to the first fault, and whether the end was there.
fn read(file: &[u8]) -> (Vec<Vec<u8>>, bool) {
    let identity = Identity { log_id: 5, shard: 0, geometry: Geometry::new(64 << 10).unwrap() };
    let medium = MemoryMedium::new();
    medium.create("identity").unwrap().write_at(&identity.encode(), 0).unwrap();
    medium.create(&Folder::snapshot_name(POSITION)).unwrap().write_at(file, 0).unwrap();
    let folder = Folder::open(Arc::new(medium)).unwrap();
    let (mut rows, mut ended) = (Vec::new(), false);
    let walked = folder.snapshot::<OpenError>(POSITION, &mut |found| {
        match found {
            SnapshotItem::Chunk { entries, .. } => {
                rows.extend(entries.into_iter().map(|(_, entry)| entry.to_vec()));
            }
            SnapshotItem::End { .. } => ended = true,
            SnapshotItem::Header { .. } | SnapshotItem::Damage { .. } => {}
        }
        Ok(())
    });
    walked.unwrap();
    (rows, ended)
}
