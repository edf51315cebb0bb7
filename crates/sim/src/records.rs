//! Batches for Produce, and the records that a consumer takes from a Fetch response.

use crate::ledger::Row;
use crate::place::{ConsumedRecord, Place};
use crate::random::Random;
use crate::world::World;
use bytes::Bytes;
use ottla_checker::Value;
use ottla_wire::batch::{BatchBuilder, NewRecord, split};
use ottla_wire::codec::Compression;
use ottla_wire::messages::fetch_response::PartitionData;
use std::collections::{BTreeSet, VecDeque};

/// The timestamps of records, earlier than any clock of the broker.
const TIMESTAMP: i64 = 1_699_900_000_000;
/// A limit above the size of any batch.
const LARGEST: usize = 1 << 20;

/// The producer of a batch.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sender {
    pub(crate) id: i64,
    pub(crate) epoch: i16,
    pub(crate) transactional: bool,
}

/// A value to be sent.
#[derive(Clone, Debug)]
pub(crate) struct Fresh {
    pub(crate) name: String,
    pub(crate) value: Value,
    /// Its row in a table; without one it has a key of its own.
    pub(crate) row: Option<Row>,
}

impl World {
    /// Values that were never written.
    pub(crate) fn fresh_values(&self, count: u64) -> Vec<Fresh> {
        let fresh = (0..count).map(|_| {
            let name = format!("v{}", self.fresh());
            let value = self.history().value(&name);
            Fresh { name, value, row: None }
        });
        fresh.collect()
    }
}

/// A batch of those values. It is empty only if the codec fails, which it does not.
pub(crate) fn batch(sender: Sender, sequence: i32, values: &[Fresh], random: &mut Random) -> Bytes {
    let codec = random.pick(&[Compression::None, Compression::None, Compression::None, Compression::Lz4]);
    let mut builder = BatchBuilder::new(codec)
        .producer(sender.id, sender.epoch, sequence)
        .transactional(sender.transactional);
    let filler = [b'.'; 700];
    for fresh in values {
        if let Some(row) = &fresh.row {
            let value = (!row.tombstone).then_some(fresh.name.as_bytes());
            let key = Some(row.key.as_bytes());
            builder.push(&NewRecord { timestamp: TIMESTAMP, key, value, headers: &[] });
            continue;
        }
        let size = if random.per_mille(100) { random.within(0..700) } else { random.within(0..20) };
        builder.push(&NewRecord {
            timestamp: TIMESTAMP,
            key: Some(fresh.name.as_bytes()),
            value: Some(&filler[..size as usize]),
            headers: &[],
        });
    }
    builder.build().unwrap_or_default()
}

/// One partition of a Fetch response as a consumer reads it: the records, and the next offset.
pub(crate) struct PartitionResult {
    pub(crate) given: Vec<ConsumedRecord>,
    pub(crate) next: i64,
}

/// Reads an answer from `from` on, as consumers do: without markers, and without what was aborted if `committed`.
///
/// # Errors
/// What is wrong with the bytes.
pub(crate) fn take(
    place: Place,
    data: &PartitionData,
    from: i64,
    committed: bool,
) -> Result<PartitionResult, String> {
    let mut taken = PartitionResult { given: Vec::new(), next: from };
    let Some(records) = &data.records else { return Ok(taken) };
    let aborted = data.aborted_transactions.iter().flatten();
    let mut aborted: Vec<(i64, i64)> = aborted.map(|one| (one.first_offset, one.producer_id)).collect();
    aborted.sort_unstable();
    let (mut upcoming, mut aborting) = (VecDeque::from(aborted), BTreeSet::new());
    for batch in split(&records.to_bytes()) {
        let batch = batch.map_err(|error| error.to_string())?;
        batch.check_crc().map_err(|error| error.to_string())?;
        let header = batch.header();
        let last = header.base_offset + i64::from(header.last_offset_delta);
        while let Some((_, producer)) = upcoming.pop_front_if(|next| next.0 <= last) {
            aborting.insert(producer);
        }
        let set = batch.records(LARGEST).map_err(|error| error.to_string())?;
        let hidden = committed && header.is_transactional() && aborting.contains(&header.producer_id);
        for record in set.iter() {
            let record = record.map_err(|error| error.to_string())?;
            let offset = header.base_offset + i64::from(record.offset_delta);
            if header.is_control() {
                if !commits(record.key) {
                    aborting.remove(&header.producer_id);
                }
            } else if offset >= taken.next && !hidden {
                let name = String::from_utf8_lossy(record.key.unwrap_or_default()).into_owned();
                let value = record.value.map(|value| set.body().slice_ref(value));
                taken.given.push(ConsumedRecord { place, offset, name, value });
            }
        }
        taken.next = taken.next.max(last + 1);
    }
    Ok(taken)
}

fn commits(key: Option<&[u8]>) -> bool {
    // Version and type, two bytes each: 1 is a commit.
    key.and_then(|key| key.get(2..4)) == Some(&[0, 1])
}
