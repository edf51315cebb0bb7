//! Produce requests that were encoded once: to send one, only what differs from the last is written into its bytes.

use crc32c::{crc32c, crc32c_combine};
use ottla_wire::batch::{BatchBuilder, HEADER_SIZE, NewRecord};
use ottla_wire::codec::Compression;

/// The version of Produce that is sent: the last that names topics.
pub(crate) const VERSION: i16 = 11;
const CLIENT: &str = "bench";
const CORRELATION_AT: usize = 8;
/// Places in a batch.
const CRC_AT: usize = 17;
const CRC_FROM: usize = 21;
const PRODUCER_AT: usize = 43;
const SEQUENCE_AT: usize = 53;
/// From this size on the checksum of what stays the same is not computed again.
const COMBINE: usize = 16 << 10;

/// One batch, as all are.
pub(crate) struct BatchShape {
    pub(crate) record: usize,
    pub(crate) records: usize,
}

impl BatchShape {
    /// As many records of that size as fit into a batch, at least one.
    pub(crate) fn fill(record: usize, batch: usize) -> BatchShape {
        let mut shape = BatchShape { record, records: 1 };
        let one = shape.build().len();
        shape.records = 2;
        // Later records need a byte or two more to say how far they are from the first.
        let each = shape.build().len() - one + 1;
        shape.records = 1 + batch.saturating_sub(one) / each.max(1);
        shape
    }

    fn build(&self) -> Vec<u8> {
        let mut noise = Noise(0x9e37_79b9_7f4a_7c15);
        let mut builder = BatchBuilder::new(Compression::None).producer(0, 0, 0);
        let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
        let timestamp = now.map_or(0, |now| now.as_millis() as i64);
        for _ in 0..self.records {
            // Half of a record is noise and half is not, as in OpenMessaging's benchmark.
            let mut value = vec![b'x'; self.record];
            let (half, _) = value.split_at_mut(self.record / 2);
            half.iter_mut().for_each(|byte| *byte = noise.next() as u8);
            builder.push(&NewRecord { timestamp, key: None, value: Some(&value), headers: &[] });
        }
        // No batch of a benchmark is too large for its length field.
        builder.build().unwrap_or_default().to_vec()
    }
}

struct Noise(u64);

impl Noise {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 >> 32
    }
}

/// Where the parts of one partition lie.
struct Place {
    index: usize,
    batch: usize,
}

/// A request with a batch for each of some partitions of one topic.
pub(crate) struct Template {
    bytes: Vec<u8>,
    places: Vec<Place>,
    batch: usize,
    /// The checksum of a batch from behind its header.
    rest: u32,
}

impl Template {
    /// A request for `partitions` partitions at a time, of the topic.
    pub(crate) fn new(topic: &str, partitions: usize, shape: &BatchShape, acks: i16) -> Template {
        let batch = shape.build();
        let mut bytes = Vec::with_capacity(partitions * (batch.len() + 16) + 64);
        bytes.extend([0; 4]);
        bytes.extend(0i16.to_be_bytes());
        bytes.extend(VERSION.to_be_bytes());
        bytes.extend(0i32.to_be_bytes());
        bytes.extend((CLIENT.len() as i16).to_be_bytes());
        bytes.extend(CLIENT.as_bytes());
        // No tagged fields; no transactional id.
        bytes.extend([0, 0]);
        bytes.extend(acks.to_be_bytes());
        bytes.extend(30_000i32.to_be_bytes());
        put_count(&mut bytes, 1);
        put_count(&mut bytes, topic.len());
        bytes.extend(topic.as_bytes());
        put_count(&mut bytes, partitions);
        let mut places = Vec::new();
        for _ in 0..partitions {
            let index = bytes.len();
            bytes.extend([0; 4]);
            put_count(&mut bytes, batch.len());
            places.push(Place { index, batch: bytes.len() });
            bytes.extend(&batch);
            bytes.push(0);
        }
        bytes.extend([0, 0]);
        let size = bytes.len() as u32 - 4;
        bytes[..4].copy_from_slice(&size.to_be_bytes());
        let rest = crc32c(batch.get(HEADER_SIZE..).unwrap_or_default());
        Template { bytes, places, batch: batch.len(), rest }
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Bytes of all batches.
    pub(crate) fn batches(&self) -> usize {
        self.places.len() * self.batch
    }

    pub(crate) fn partitions(&self) -> usize {
        self.places.len()
    }

    pub(crate) fn set_correlation(&mut self, correlation: i32) {
        self.put(CORRELATION_AT, &correlation.to_be_bytes());
    }

    /// Writes who sends into every batch. Sequences come with [`Template::set`].
    pub(crate) fn set_producer(&mut self, id: i64, epoch: i16) {
        for number in 0..self.places.len() {
            let at = self.places[number].batch + PRODUCER_AT;
            self.put(at, &id.to_be_bytes());
            self.put(at + 8, &epoch.to_be_bytes());
        }
    }

    /// Makes the batch with that number one for a partition, with its first sequence number.
    pub(crate) fn set(&mut self, number: usize, partition: i32, sequence: i32) {
        let Place { index, batch } = self.places[number];
        self.put(index, &partition.to_be_bytes());
        self.put(batch + SEQUENCE_AT, &sequence.to_be_bytes());
        let crc = if self.batch < COMBINE {
            crc32c(&self.bytes[batch + CRC_FROM..batch + self.batch])
        } else {
            let front = crc32c(&self.bytes[batch + CRC_FROM..batch + HEADER_SIZE]);
            crc32c_combine(front, self.rest, self.batch - HEADER_SIZE)
        };
        self.put(batch + CRC_AT, &crc.to_be_bytes());
    }

    fn put(&mut self, at: usize, bytes: &[u8]) {
        self.bytes[at..at + bytes.len()].copy_from_slice(bytes);
    }
}

/// A count or length as the protocol's flexible versions write it: one more, seven bits at a time.
fn put_count(bytes: &mut Vec<u8>, count: usize) {
    let mut left = count + 1;
    while left > 127 {
        bytes.push(left as u8 | 128);
        left >>= 7;
    }
    bytes.push(left as u8);
}

/// The batches of such a request, found without the rest being looked at closely; none when it is not understood.
pub(crate) fn batches(frame: &[u8]) -> Option<Vec<&[u8]>> {
    let client = usize::from(u16::from_be_bytes(*frame.get(12..)?.first_chunk()?));
    // Tags and transactional id are one byte each, then acks and timeout.
    let mut rest = frame.get(14 + client + 1 + 1 + 2 + 4..)?;
    let mut found = Vec::new();
    for _ in 0..count(&mut rest)? {
        let name = count(&mut rest)?;
        rest = rest.get(name..)?;
        for _ in 0..count(&mut rest)? {
            rest = rest.get(4..)?;
            let length = count(&mut rest)?;
            found.push(rest.get(..length)?);
            rest = rest.get(length + 1..)?;
        }
        rest = rest.get(1..)?;
    }
    Some(found)
}

fn count(bytes: &mut &[u8]) -> Option<usize> {
    let mut value = 0;
    for shift in (0..35).step_by(7) {
        let (byte, rest) = bytes.split_first()?;
        *bytes = rest;
        value |= usize::from(byte & 127) << shift;
        if byte & 128 == 0 {
            return value.checked_sub(1);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use bytes::Bytes;
    use ottla_wire::batch::Batch;
    use ottla_wire::messages::ProduceRequest;
    use ottla_wire::{Message, frame};

    #[test]
    fn a_template_is_a_request_with_whole_batches() {
        for (record, size) in [(100, 400), (1024, 1 << 20)] {
            let shape = BatchShape::fill(record, size);
            let mut template = Template::new("load", 2, &shape, -1);
            template.set_correlation(7);
            template.set_producer(5, 1);
            template.set(0, 3, 40);
            template.set(1, 9, 80);
            let whole = Bytes::copy_from_slice(template.bytes());
            let (header, mut body) = frame::read_request_header(&whole.slice(4..)).unwrap();
            assert_eq!((header.api_version, header.correlation_id), (VERSION, 7));
            let request = ProduceRequest::decode(&mut body, VERSION).unwrap();
            assert_eq!((request.acks, &*request.topic_data[0].name), (-1, "load"));
            let rows = &request.topic_data[0].partition_data;
            let found = batches(&whole).unwrap();
            assert_eq!((rows.len(), found.len()), (2, 2));
            for (row, (partition, sequence)) in [(3, 40), (9, 80)].into_iter().enumerate() {
                assert_eq!(rows[row].index, partition);
                let batch = Batch::only(&Bytes::copy_from_slice(found[row])).unwrap();
                batch.validate_header().unwrap();
                batch.validate_records(1 << 24).unwrap();
                let header = batch.header();
                let fields = (header.producer_id, header.producer_epoch, header.base_sequence);
                assert_eq!(fields, (5, 1, sequence));
                assert_eq!(header.record_count as usize, shape.records);
                assert!(batch.bytes().len() <= size.max(record + 100));
            }
        }
    }

    #[test]
    fn batches_of_garbage_are_none() {
        assert!(batches(&[0; 10]).is_none());
        assert!(batches(&[255; 100]).is_none());
    }
}
