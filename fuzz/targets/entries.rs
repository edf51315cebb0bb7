//! Groups and entries of the log through the readers of replay and of explanations.

#![no_main]

use libfuzzer_sys::fuzz_target;
use ottla_layout::record::{decode, encode};
use ottla_layout::{GROUP_HEADER, GroupHeader, explain, open_group, seal_group};
use ottla_types::record::{PartitionRecord, LogRecord};

fuzz_target!(|data: &[u8]| {
    let _ = open_group(data);
    entry(data);
    let mut group = vec![0; GROUP_HEADER];
    group.extend_from_slice(data);
    for entries in 0..4 {
        let header = GroupHeader {
            log_id: 1,
            shard: 0,
            epoch: 1,
            sequence: 2,
            position: 4096,
            durable: 4096,
            payload: data.len() as u32,
            entries,
            previous: 3,
        };
        seal_group(&header, &mut group);
        if let Ok(opened) = open_group(&group) {
            let found: Vec<_> = opened.entries().collect();
            assert_eq!(found.iter().map(|entry| entry.bytes.len() + 4).sum::<usize>(), data.len());
            found.iter().for_each(|found| entry(found.bytes));
        }
    }
});

fn entry(bytes: &[u8]) {
    let (pieces, error) = explain::entry(bytes);
    let mut at = 0;
    for piece in pieces.iter().filter(|piece| piece.depth == 0) {
        assert_eq!(piece.at, at, "{pieces:?}");
        at += piece.size;
    }
    assert_eq!(at, bytes.len(), "{pieces:?}");
    match decode(bytes) {
        Err(why) => assert_eq!(error, Some(why)),
        Ok(decoded) => {
            assert_eq!(error, None);
            let mut record = decoded.record;
            if let (LogRecord::Partitions(PartitionRecord::BatchAppended(batch)), Some(payload)) = (&mut record, decoded.payload) {
                batch.payload = bytes[payload..].to_vec().into();
            }
            let mut again = Vec::new();
            let payload = encode(&record, &mut again);
            again.extend_from_slice(payload);
            assert_eq!(again, bytes, "{record:?}");
        }
    }
}
