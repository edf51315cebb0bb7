//! Small input that claims to need much memory: the allocated memory stays within a multiple of the input and of the
//! cap.

use crate::hostile::peak_of;
use bytes::Bytes;
use ottla_wire::batch::{BatchBuilder, HEADER_SIZE, NewRecord, seal, split};
use ottla_wire::codec::{Compression, compress, decompress};
use ottla_wire::explain::{self, Options};
use ottla_wire::messages::{ApiVersionsRequest, ProduceRequest, produce_request};
use ottla_wire::tables::TableSet;
use ottla_wire::{Message, Reader, Records, Writer};

/// An ApiVersions request of empty strings with that many unknown tagged fields of no bytes.
fn tagged(count: u32) -> Bytes {
    let mut w = Writer::new();
    w.raw(&[1, 1]);
    w.uvarint(count);
    for tag in 0..count {
        w.uvarint(tag);
        w.uvarint(0);
    }
    w.into_bytes()
}

#[test]
fn a_crowd_of_tags_is_bounded() {
    let bytes = tagged(20_000);
    let (peak, message) = peak_of(|| ApiVersionsRequest::decode(&mut Reader::new(bytes.clone()), 3).unwrap());
    assert_eq!(message.unknown_tags.len(), 20_000);
    assert!(peak <= 40 * bytes.len(), "{peak} for {}", bytes.len());
}

#[test]
fn a_false_count_of_tags_allocates_nothing() {
    for count in [[0xff, 0xff, 0xff, 0xff, 0x07], [0xff, 0xff, 0xff, 0xff, 0x0f]] {
        let bytes = Bytes::from([&[1, 1][..], &count, &[0; 30]].concat());
        let (peak, outcome) = peak_of(|| ApiVersionsRequest::decode(&mut Reader::new(bytes), 3));
        assert!(outcome.is_err());
        assert!(peak < 200, "{peak}");
    }
}

/// A mebibyte of zeros in less than a hundredth of that, whatever the codec.
fn zeros(codec: Compression) -> Vec<u8> {
    compress(codec, &vec![0; 1 << 20]).unwrap_or_default()
}

#[test]
fn decompression_stays_within_the_cap() {
    for codec in Compression::ALL.into_iter().skip(1) {
        let packed = zeros(codec);
        let cap = 100_000;
        let (peak, outcome) = peak_of(|| decompress(codec, &packed, cap));
        assert!(outcome.is_err(), "{codec:?}");
        // The output twice while it grows, and the tables and blocks of a decoder.
        assert!(peak <= 3 * cap + 400_000, "{codec:?}: {peak} for {}", packed.len());
    }
}

/// A batch whose records are that blob, and whose header claims that many.
fn batch(codec: Compression, packed: &[u8], count: i32) -> Bytes {
    let mut batch = BatchBuilder::new(codec).build().unwrap_or_default().to_vec();
    batch.truncate(HEADER_SIZE);
    batch.extend_from_slice(packed);
    batch[57..61].copy_from_slice(&count.to_be_bytes());
    assert_eq!(seal(&mut batch), Ok(()));
    batch.into()
}

#[test]
fn a_false_count_of_records_or_headers_allocates_nothing() {
    let mut builder = BatchBuilder::new(Compression::None);
    builder.push(&NewRecord::default());
    let mut record = builder.build().unwrap()[HEADER_SIZE..].to_vec();
    // The count of headers, the last byte, becomes the largest possible count.
    record.pop();
    record.extend_from_slice(&[0xfe, 0xff, 0xff, 0xff, 0x0f]);
    record[0] += 8;
    let records = batch(Compression::None, &record, i32::MAX);
    let (peak, outcome) = peak_of(|| {
        let batch = split(&records).next().unwrap().unwrap();
        (batch.validate_header().is_err(), batch.validate_records(1 << 20).is_err())
    });
    assert_eq!(outcome, (true, true));
    assert!(peak < 1000, "{peak}");
}

/// A Produce request with this many partitions, each with that batch.
fn produce(records: &Bytes, partitions: i32) -> Bytes {
    let partition = |index| produce_request::PartitionProduceData {
        index,
        records: Some(Records::from(records.clone())),
        ..Default::default()
    };
    let topic = produce_request::TopicProduceData {
        partition_data: (0..partitions).map(partition).collect(),
        ..Default::default()
    };
    ProduceRequest { topic_data: vec![topic], ..Default::default() }.to_bytes(12).unwrap_or_default()
}

#[test]
fn explaining_bombs_stays_within_the_cap_in_all() {
    let table = TableSet::built_in().message("ProduceRequest").unwrap();
    let options = Options { cap: 300_000, ..Options::default() };
    for codec in Compression::ALL.into_iter().skip(1) {
        let bytes = produce(&batch(codec, &zeros(codec), i32::MAX), 40);
        let (peak, explained) = peak_of(|| explain::message(table, 12, &bytes, &options));
        assert!(!explained.faults().is_empty(), "{codec:?}");
        let allowed = 3 * options.cap + 400_000 + 64 * bytes.len();
        assert!(peak <= allowed, "{codec:?}: {peak} of {allowed} for {}", bytes.len());
    }
}

#[test]
fn explaining_a_crowd_is_bounded_by_bytes_and_by_nodes() {
    let bytes = tagged(20_000);
    let table = TableSet::built_in().message("ApiVersionsRequest").unwrap();
    let (peak, explained) = peak_of(|| explain::message(table, 3, &bytes, &Options::default()));
    assert!(explained.nodes().len() >= 20_000);
    assert!(peak <= 400 * bytes.len(), "{peak} for {}", bytes.len());
    let few = Options { max_nodes: 100, ..Options::default() };
    let (peak, explained) = peak_of(|| explain::message(table, 3, &bytes, &few));
    assert!(explained.is_cut());
    assert!(peak <= 100_000, "{peak} for {} nodes", explained.nodes().len());
}
