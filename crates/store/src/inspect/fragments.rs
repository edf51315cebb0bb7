//! Fragments: entries that can be read out of damaged groups.

use super::Folder;
use crate::error::OpenError;
use ottla_layout::{BLOCK, GROUP_HEADER, peek_group};

pub(super) fn between(folder: &Folder, from: u64, to: u64) -> Result<Vec<(u64, Vec<u8>)>, OpenError> {
    let geometry = folder.identity().geometry;
    let mut found = Vec::new();
    for number in folder.segments() {
        let start = from.max(geometry.first_group(number));
        let end = to.min(geometry.end_of(number));
        if start >= end {
            continue;
        }
        let bytes = folder.read(start, usize::try_from(end - start).unwrap_or(usize::MAX))?;
        let mut place = 0;
        while place < bytes.len() {
            let at = start + place as u64;
            let group = bytes.get(place..).unwrap_or_default();
            // A group must have been at the first place, so its entries are read even if its header is damaged.
            let begins = peek_group(group).is_ok_and(|header| header.position == at) || place == 0;
            let read = if begins { entries(at, group, &mut found) } else { 0 };
            place += (read as u64).div_ceil(BLOCK).max(1) as usize * BLOCK as usize;
        }
    }
    Ok(found)
}

/// Collects the entries of a group by their length fields; returns the number of bytes read.
fn entries(at: u64, group: &[u8], found: &mut Vec<(u64, Vec<u8>)>) -> usize {
    let mut place = GROUP_HEADER;
    while let Some((len, rest)) = group.get(place..).and_then(<[u8]>::split_first_chunk) {
        let len = u32::from_le_bytes(*len) as usize;
        let Some(entry) = rest.get(..len).filter(|entry| entry.len() > 1) else { break };
        found.push((at + place as u64, entry.to_vec()));
        place += 4 + len;
    }
    place
}
