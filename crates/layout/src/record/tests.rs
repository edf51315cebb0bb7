//! Tests of properties that records of every kind have.

use super::generators::entry_of;
use super::*;
use proptest::collection::vec;
use proptest::prelude::*;

pub(crate) fn any_record() -> impl Strategy<Value = LogRecord> {
    prop_oneof![
        access::tests::any_record(),
        catalog::tests::any_record(),
        partition::tests::any_record(),
        transaction::tests::any_record(),
        group::tests::any_record(),
        offsets::tests::any_record(),
        restored::tests::any_record(),
    ]
}

proptest! {
    #[test]
    fn every_cut_is_an_error(record in any_record()) {
        let entry = entry_of(&record);
        for len in 0..entry.len() {
            prop_assert!(decode(&entry[..len]).is_err(), "cut at {}", len);
        }
    }

    #[test]
    fn a_byte_too_many_is_an_error(record in any_record()) {
        let mut entry = entry_of(&record);
        entry.push(0);
        let error = decode(&entry).unwrap_err();
        prop_assert_eq!(error, DecodeError::Trailing { at: entry.len() - 1 });
    }

    #[test]
    fn damage_never_panics(record in any_record(), at in any::<prop::sample::Index>(), byte in any::<u8>()) {
        let mut entry = entry_of(&record);
        let at = at.index(entry.len());
        entry[at] = byte;
        let _ = decode(&entry);
    }

    #[test]
    fn garbage_never_panics(entry in vec(any::<u8>(), 0..300)) {
        let _ = decode(&entry);
    }
}

#[test]
fn tags_are_distinct_and_in_order() {
    assert!(KINDS.windows(2).all(|pair| pair[0].0 < pair[1].0));
    assert_eq!(KINDS.len(), 32);
}

#[test]
fn an_unknown_kind_or_version_says_which() {
    assert_eq!(decode(&[200, 0]).unwrap_err(), DecodeError::Unknown { kind: 200, version: 0 });
    assert_eq!(decode(&[1, 9]).unwrap_err(), DecodeError::Unknown { kind: 1, version: 9 });
    assert_eq!(decode(&[]).unwrap_err(), DecodeError::Short { at: 0 });
}

#[test]
fn a_huge_count_is_refused_before_anything_is_allocated() {
    let mut entry = vec![6, 0];
    entry.extend(u32::MAX.to_le_bytes());
    assert_eq!(decode(&entry).unwrap_err(), DecodeError::Short { at: 2 });
}
