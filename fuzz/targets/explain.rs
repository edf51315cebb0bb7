//! Any bytes explained, as any API and version: every byte is covered once, and the typed codec agrees.

#![no_main]

use bytes::Bytes;
use libfuzzer_sys::fuzz_target;
use ottla_fuzz::{Typed, check_cover, choose, recode};
use ottla_wire::ApiKey;
use ottla_wire::explain::{self, Explanation, Note, Options};
use ottla_wire::tables::TableSet;

fuzz_target!(|data: &[u8]| {
    let set = TableSet::built_in();
    let options = Options { cap: 1 << 20, max_nodes: 1 << 14, ..Options::default() };
    if let Some(([mode, high, low, version], rest)) = data.split_first_chunk() {
        let rest = Bytes::copy_from_slice(rest);
        let explained = match mode % 2 {
            0 => explain::request(set, &rest, &options),
            _ => {
                let key = ApiKey(i16::from_be_bytes([*high, *low]));
                explain::response(set, key, i16::from(*version as i8), &rest, &options)
            }
        };
        shown(&explained);
    }
    if let Some((table, version, body)) = choose(data) {
        let body = Bytes::copy_from_slice(body);
        shown(&explain::message(table, version, &body, &options));
        let closed = Options { records: false, nested: false, ..options };
        if let Some(typed) = recode(table, version, &body) {
            agree(&explain::message(table, version, &body, &closed), &typed);
        }
    }
});

/// It covers the bytes, and every way to print it ends.
fn shown(explained: &Explanation) {
    check_cover(explained);
    if explained.nodes().len() < 1000 {
        let _ = (explained.tree(), ottla_microscope::page_json::tree(explained));
    }
}

/// Explaining finds a fault or a breach of the rules where the typed codec refuses, and none where it accepts.
fn agree(explained: &Explanation, typed: &Typed) {
    check_cover(explained);
    if explained.is_cut() {
        return;
    }
    let strict = |note| matches!(note, Note::NotUtf8 | Note::TagOrder);
    let breach = explained.nodes().iter().any(|node| node.note.is_some_and(strict));
    match typed {
        Err(why) => assert!(breach || !explained.faults().is_empty(), "{why}\n{}", explained.tree()),
        Ok((left, _)) => {
            assert!(!breach, "{}", explained.tree());
            assert_eq!(explained.faults().is_empty(), *left == 0, "{left} left\n{}", explained.tree());
        }
    }
}
