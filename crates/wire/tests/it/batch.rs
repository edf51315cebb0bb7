//! Record batches: known bytes, round trips with every codec, and the errors of malformed ones.

use bytes::Bytes;
use ottla_wire::batch::{
    Batch, BatchBuilder, BatchError, BatchHeader, ControlRecord, EndMarker, Header, NewRecord, control_batch,
    patch_base_offset, patch_leader_epoch, seal, set_log_append_time, split, with_offset_and_epoch,
};
use ottla_wire::codec::Compression;

const CAP: usize = 1 << 20;

const HEADERS: [Header<'static>; 3] = [
    Header { key: b"trace", value: Some(b"1") },
    Header { key: b"trace", value: None },
    Header { key: b"", value: Some(b"") },
];

fn sample(compression: Compression) -> Result<Bytes, BatchError> {
    let mut builder = BatchBuilder::new(compression).producer(7, 1, 40).transactional(true);
    builder.push(&NewRecord { timestamp: 1_000, key: Some(b"k"), value: Some(b"v"), headers: &HEADERS });
    builder.push(&NewRecord { timestamp: 900, key: None, value: Some(&[b'x'; 300]), headers: &[] });
    builder.push(&NewRecord { timestamp: 1_000 + (1 << 40), key: Some(b""), value: None, headers: &[] });
    builder.build()
}

#[test]
fn the_empty_batch_has_the_known_checksum() {
    let mut zeros = vec![0; 61];
    zeros[16] = 2;
    seal(&mut zeros).unwrap();
    assert_eq!(zeros[8..12], [0, 0, 0, 49]);
    assert_eq!(zeros[17..21], [0x59, 0x5f, 0xb7, 0xdd]);
    let none = BatchBuilder::new(Compression::None).build().unwrap();
    let header = BatchHeader::parse(&none).unwrap();
    assert_eq!((header.last_offset_delta, header.record_count), (-1, 0));
    let mut known = none.to_vec();
    known[12..16].fill(0);
    assert_eq!(BatchHeader::parse(&known).unwrap().crc, 0x2ce6_4e55);
}

#[test]
fn a_batch_comes_back_whole_with_every_codec() {
    for compression in Compression::ALL {
        let bytes = sample(compression).unwrap();
        let batch = Batch::only(&bytes).unwrap();
        batch.validate_header().unwrap();
        batch.validate_records(CAP).unwrap();
        let header = batch.header();
        assert_eq!(header.compression().unwrap(), compression);
        assert_eq!((header.base_timestamp, header.max_timestamp), (1_000, 1_000 + (1 << 40)));
        assert!(header.is_transactional() && !header.is_control());
        assert_eq!(header.to_bytes(), bytes[..61]);
        let set = batch.records(CAP).unwrap();
        let records: Vec<_> = set.iter().map(Result::unwrap).collect();
        assert_eq!(records.len(), 3);
        assert_eq!((records[0].key, records[0].value), (Some(&b"k"[..]), Some(&b"v"[..])));
        assert_eq!(records[0].headers.clone().collect::<Vec<_>>(), HEADERS);
        assert_eq!((records[1].key, header.timestamp(records[1].timestamp_delta)), (None, 900));
        assert_eq!((records[2].key, records[2].value), (Some(&b""[..]), None));
        assert_eq!(records[2].offset_delta, 2);
    }
}

#[test]
fn t_120_a_marker_is_a_control_batch_of_one_record() {
    let marker = EndMarker { commit: true, producer_id: 9, producer_epoch: 3, coordinator_epoch: 5 };
    let bytes = control_batch(&marker, 77, 1234).unwrap();
    let batch = Batch::only(&bytes).unwrap();
    let header = batch.header();
    batch.check_crc().unwrap();
    assert_eq!(header.attributes, 0x30);
    assert_eq!((header.base_offset, header.last_offset_delta, header.record_count), (77, 0, 1));
    assert_eq!((header.base_timestamp, header.max_timestamp), (1234, 1234));
    assert_eq!((header.producer_id, header.producer_epoch, header.base_sequence), (9, 3, -1));
    // Length 16: attributes, two deltas, a key of 4 bytes, a value of 6, no headers.
    assert_eq!(bytes[61..], [32, 0, 0, 0, 8, 0, 0, 0, 1, 12, 0, 0, 0, 0, 0, 5, 0]);
    let set = batch.records(CAP).unwrap();
    let record = set.iter().next().unwrap().unwrap();
    assert_eq!(ControlRecord::of(&record), Some(ControlRecord::End { commit: true, coordinator_epoch: 5 }));
    assert_eq!(batch.validate_header(), Err(BatchError::Control));
}

#[test]
fn stamping_leaves_the_checksum_alone() {
    let bytes = sample(Compression::Lz4).unwrap();
    let [head, tail] = with_offset_and_epoch(&bytes, 1_000_000, 8);
    assert_eq!(tail.as_ptr(), bytes[16..].as_ptr());
    let mut patched = bytes.to_vec();
    patch_base_offset(&mut patched, 1_000_000);
    patch_leader_epoch(&mut patched, 8);
    assert_eq!(patched, [head, tail].concat());
    let batch = Batch::only(&patched.clone().into()).unwrap();
    batch.check_crc().unwrap();
    assert_eq!((batch.header().last_offset(), batch.header().partition_leader_epoch), (1_000_002, 8));
    set_log_append_time(&mut patched, 5);
    let batch = Batch::only(&patched.into()).unwrap();
    batch.check_crc().unwrap();
    assert!(batch.header().is_log_append_time());
    assert_eq!(batch.header().timestamp(-100), 5);
}

#[test]
fn a_records_field_splits_into_batches_and_a_cut_tail() {
    let one = sample(Compression::None).unwrap();
    let two = sample(Compression::Zstd).unwrap();
    let field = Bytes::from([&one[..], &two[..], &one[..100]].concat());
    let mut batches = split(&field);
    let found: Vec<_> = batches.by_ref().map(|batch| batch.unwrap().bytes().clone()).collect();
    assert_eq!(found, [one.clone(), two]);
    assert_eq!(batches.tail(), &one[..100]);
    let mut old = one.to_vec();
    old[16] = 1;
    assert_eq!(split(&old.into()).next().unwrap().unwrap_err(), BatchError::Magic(1));
}

#[test]
fn what_a_broker_refuses_says_why() {
    let good = sample(Compression::None).unwrap();
    let change = |at: usize, byte: u8| {
        let mut bytes = good.to_vec();
        bytes[at] = byte;
        seal(&mut bytes).unwrap();
        Batch::only(&bytes.into()).unwrap()
    };
    assert_eq!(change(60, 0).validate_header(), Err(BatchError::Count(0)));
    assert_eq!(change(60, 2).validate_header(), Err(BatchError::LastOffsetDelta { count: 2, delta: 2 }));
    assert_eq!(change(22, 5).validate_header(), Err(BatchError::UnknownCodec(5)));
    assert_eq!(change(53, 0xff).validate_header().unwrap_err().to_string().split(' ').next(), Some("a"));
    // One record more or less than there are: bytes missing, or bytes left.
    assert!(matches!(change(60, 4).validate_records(CAP), Err(BatchError::Record { record: 3, .. })));
    assert!(matches!(change(60, 2).validate_records(CAP), Err(BatchError::TrailingBytes(_))));
    let mut torn = good.to_vec();
    torn[70] ^= 1;
    assert!(matches!(Batch::only(&torn.into()).unwrap().check_crc(), Err(BatchError::Crc { .. })));
    // The offset delta of the first record.
    assert!(matches!(
        change(64, 2).validate_records(CAP),
        Err(BatchError::OffsetDelta { expected: 0, found: 1 })
    ));
    assert!(matches!(Batch::only(&good.slice(..60)), Err(BatchError::Short { .. })));
    assert!(matches!(Batch::only(&[&good[..], b"x"].concat().into()), Err(BatchError::TrailingBytes(1))));
}

#[test]
fn any_flipped_byte_is_survived() {
    for compression in Compression::ALL {
        let good = sample(compression).unwrap();
        for at in 0..good.len() {
            for flip in [1, 0x80, 0xff] {
                let mut bytes = good.to_vec();
                bytes[at] ^= flip;
                if let Ok(batch) = Batch::first(&bytes.into()) {
                    let _ = batch.validate_records(CAP);
                }
            }
        }
        for length in 0..good.len() {
            assert!(Batch::only(&good.slice(..length)).is_err());
        }
    }
}
