//! Record sets: split, checked, decompressed with a cap, walked, and built again.

#![no_main]

use bytes::Bytes;
use libfuzzer_sys::fuzz_target;
use ottla_wire::batch::{Batch, BatchBuilder, Header, NewRecord, seal, split};
use ottla_wire::codec::{Compression, decompress};

/// The most bytes a batch may decompress to.
const CAP: usize = 1 << 20;

fuzz_target!(|data: &[u8]| {
    let bytes = Bytes::copy_from_slice(data);
    let mut batches = split(&bytes);
    let mut whole = 0;
    for batch in batches.by_ref() {
        let Ok(batch) = batch else { break };
        whole += batch.bytes().len();
        judge(&batch);
    }
    assert!(whole + batches.tail().len() <= data.len());
    if let Some((codec, packed)) = data.split_first() {
        let codec = Compression::from_number(codec % 5).unwrap_or_default();
        assert!(decompress(codec, packed, CAP).map_or(0, |plain| plain.len()) <= CAP);
    }
});

fn judge(batch: &Batch) {
    let _ = (batch.validate_header(), batch.validate_records(CAP));
    let mut sealed = batch.bytes().to_vec();
    if seal(&mut sealed).is_ok() {
        let sealed = Batch::only(&Bytes::from(sealed)).unwrap();
        assert_eq!(sealed.check_crc(), Ok(()));
    }
    let Ok(set) = batch.records(CAP) else { return };
    let Ok(records) = set.iter().collect::<Result<Vec<_>, _>>() else { return };
    let mut builder = BatchBuilder::new(batch.header().compression().unwrap());
    for record in &records {
        let headers: Vec<Header<'_>> = record.headers.clone().collect();
        builder.push(&NewRecord {
            timestamp: record.timestamp_delta,
            key: record.key,
            value: record.value,
            headers: &headers,
        });
    }
    let again = Batch::only(&builder.build().unwrap()).unwrap();
    let set = again.records(2 * CAP).unwrap();
    assert_eq!(set.iter().count(), records.len());
    for (record, before) in set.iter().zip(&records) {
        let record = record.unwrap();
        assert_eq!((record.key, record.value), (before.key, before.value));
        assert!(record.headers.eq(before.headers.clone()));
    }
}
