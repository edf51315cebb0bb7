//! Bodies of every message and version, and whole request frames, through the typed codec.

#![no_main]

use bytes::Bytes;
use libfuzzer_sys::fuzz_target;
use ottla_fuzz::{choose, recode};
use ottla_wire::tables::TableSet;
use ottla_wire::{Reader, frame};

fuzz_target!(|data: &[u8]| {
    if let Some((table, version, body)) = choose(data) {
        let body = Bytes::copy_from_slice(body);
        if let Some(Ok((left, canonical))) = recode(table, version, &body) {
            // Over-long numbers and tagged defaults are longer than they need be; nothing is ever shorter.
            assert!(canonical.len() <= body.len() - left, "{} {version}", table.name);
        }
    }
    let content = Bytes::copy_from_slice(data);
    if let Ok((header, mut r)) = frame::read_request_header(&content) {
        let info = TableSet::built_in().api(header.api_key).unwrap();
        if let Some(table) = info.request.filter(|table| table.versions.contains(header.api_version)) {
            let _ = recode(table, header.api_version, &r.rest());
        }
        let _ = frame::read_response_header(&content, header.api_key, header.api_version);
    }
    assert_eq!(Reader::new(content).remaining(), data.len());
});
