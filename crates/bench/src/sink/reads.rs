//! The answer to Fetch: always the same mebibyte of batches, from memory or read from a file each time.

use super::disk::direct;
use crate::load::template::{self, BatchShape, Template};
use bytes::{BufMut, Bytes, BytesMut};
use ottla_wire::messages::FetchResponse;
use ottla_wire::messages::fetch_response::{FetchableTopicResponse, PartitionData};
use ottla_wire::{Text, frame};
use std::fs::File;
use std::os::unix::fs::FileExt;

const VERSION: i16 = 12;
/// Of records in each answer.
const SIZE: usize = 1 << 20;
const BATCH: usize = 16 << 10;
/// A file holds so many answers; larger than any cache of the processor.
const ANSWERS: u64 = 256;

enum From {
    Memory(Bytes),
    File(File),
}

pub(super) struct Reads {
    from: From,
    /// An answer up to the records and from behind them.
    head: Bytes,
    tail: Bytes,
    next: u64,
    /// Memory that answers are read into, used again when they have left.
    spare: Vec<BytesMut>,
    lent: Vec<Bytes>,
}

impl Reads {
    /// Makes what is read: `memory`, `file` for one that stays in the page cache, `cold` for one that is read past it.
    pub(super) fn open(kind: &str, folder: &str) -> Result<Reads, String> {
        let told = |e: std::io::Error| format!("null sink in {folder}: {e}");
        let block = block();
        let (head, tail) = around(&block)?;
        let path = format!("{folder}/sink.data");
        let from = match kind {
            "memory" => From::Memory(block.into()),
            "file" | "cold" => {
                let file = File::create(&path).map_err(told)?;
                for number in 0..ANSWERS {
                    file.write_all_at(&block, number * SIZE as u64).map_err(told)?;
                }
                file.sync_all().map_err(told)?;
                From::File(if kind == "file" { File::open(&path) } else { direct(&path) }.map_err(told)?)
            }
            other => return Err(format!("{other} is none of memory, file, cold")),
        };
        Ok(Reads { from, head, tail, next: 0, spare: Vec::new(), lent: Vec::new() })
    }

    /// The pieces of an answer.
    pub(super) fn answer(&mut self, correlation: i32) -> std::io::Result<[Bytes; 3]> {
        let mut head = BytesMut::from(&self.head[..]);
        if let Some(place) = head.get_mut(4..8) {
            place.copy_from_slice(&correlation.to_be_bytes());
        }
        let records = match &self.from {
            From::Memory(block) => block.clone(),
            From::File(_) => self.read()?,
        };
        Ok([head.freeze(), records, self.tail.clone()])
    }

    fn read(&mut self) -> std::io::Result<Bytes> {
        let From::File(file) = &self.from else { return Ok(Bytes::new()) };
        self.lent = std::mem::take(&mut self.lent)
            .into_iter()
            .filter_map(|lent| match lent.try_into_mut() {
                Ok(back) => {
                    self.spare.push(back);
                    None
                }
                Err(lent) => Some(lent),
            })
            .collect();
        let mut memory = self.spare.pop().unwrap_or_else(aligned);
        file.read_exact_at(&mut memory, self.next * SIZE as u64)?;
        self.next = (self.next + 1) % ANSWERS;
        let records = memory.freeze();
        self.lent.push(records.clone());
        Ok(records)
    }
}

/// Memory for an answer that begins at a block of the disk.
fn aligned() -> BytesMut {
    const BLOCK: usize = 4096;
    let mut memory = BytesMut::with_capacity(SIZE + 2 * BLOCK);
    let start = memory.as_ptr().align_offset(BLOCK);
    memory.put_bytes(0, start + SIZE);
    memory.split_off(start)
}

/// Whole batches of 1 KiB records, and as much of one more as is left.
fn block() -> Vec<u8> {
    let request = Template::new("", 1, &BatchShape::fill(1024, BATCH), -1);
    let mut request = request;
    request.set(0, 0, 0);
    let batch =
        template::batches(request.bytes()).and_then(|found| found.first().map(|batch| batch.to_vec()));
    let batch = batch.unwrap_or_default();
    batch.iter().copied().cycle().take(SIZE).collect()
}

/// An answer's bytes in front of the records and behind them.
fn around(records: &[u8]) -> Result<(Bytes, Bytes), String> {
    let row = PartitionData {
        high_watermark: i64::MAX,
        last_stable_offset: i64::MAX,
        records: Some(Bytes::copy_from_slice(records).into()),
        ..Default::default()
    };
    let topic = FetchableTopicResponse {
        topic: Text::from_static("load"),
        partitions: vec![row],
        ..Default::default()
    };
    let answer = FetchResponse { responses: vec![topic], ..Default::default() };
    let whole = frame::response(0, &answer, VERSION).map_err(|e| e.to_string())?.to_bytes();
    let place = whole.windows(64).position(|part| records.starts_with(part));
    let place = place.ok_or("an answer without its records")?;
    Ok((whole.slice(..place), whole.slice(place + records.len()..)))
}
