//! The agreement of all readers of a key's log: one value at an offset, one offset for a value.

use super::Findings;
use crate::finding::{Class, Finding};
use crate::view::View;

/// One offset of a key holds two values.
pub(super) fn inconsistent_offsets(view: &View<'_>) -> Vec<Finding> {
    let mut findings = Findings::new(Class::InconsistentOffsets, view);
    for pair in view.places.windows(2) {
        let [one, two] = pair else { continue };
        if (one.key, one.offset) == (two.key, two.offset) && one.value != two.value {
            let text = format!(
                "{} offset {} is {} to {} and {} to {}",
                findings.key(one.key),
                one.offset,
                findings.value(one.value),
                findings.op(one.op),
                findings.value(two.value),
                findings.op(two.op),
            );
            findings.add(text, &[one.op, two.op], &[one.value, two.value], &[(one.key, one.offset)]);
        }
    }
    findings.found
}

/// One value is at two offsets of a key.
pub(super) fn duplicate(view: &View<'_>) -> Vec<Finding> {
    let mut findings = Findings::new(Class::Duplicate, view);
    let mut places = view.places.clone();
    places.sort_unstable_by_key(|place| (place.key, place.value, place.offset));
    for pair in places.windows(2) {
        let [one, two] = pair else { continue };
        if (one.key, one.value) == (two.key, two.value) {
            let text = format!(
                "{} of {} is at offset {} to {} and at {} to {}",
                findings.value(one.value),
                findings.key(one.key),
                one.offset,
                findings.op(one.op),
                two.offset,
                findings.op(two.op),
            );
            let places = [(one.key, one.offset), (two.key, two.offset)];
            findings.add(text, &[one.op, two.op], &[one.value], &places);
        }
    }
    findings.found
}
