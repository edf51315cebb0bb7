//! Folders that do not pass a check yet. A folder that passes must leave the list, so each list can only shrink.

use super::Finding;
use serde::Deserialize;

/// Where the lists stand; a finding there is about a folder that passes.
const PLACE: &str = "xtask/tidy.toml: pending.";

/// The folders that each check spares.
#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Pending {
    /// Modules of one folder level that refer to each other in a circle.
    pub(super) circles: Vec<String>,
    /// Comment lines over 120 columns.
    pub(super) comment_width: Vec<String>,
    /// Imports in more than one block.
    pub(super) import_blocks: Vec<String>,
    /// Modules kept in a `mod.rs`.
    pub(super) mod_files: Vec<String>,
    /// Banned words.
    pub(super) words: Vec<String>,
    /// Banned names of types.
    pub(super) type_names: Vec<String>,
}

/// Drops the findings of folders on the list `name`, and adds one for each folder on it that passes.
pub(super) fn settle(name: &str, pending: &[String], findings: Vec<(String, Finding)>) -> Vec<Finding> {
    let stale = passing(pending, &findings).into_iter().map(|folder| Finding {
        place: format!("{PLACE}{name}"),
        what: format!("{folder} passes this check: take it off the list"),
    });
    let mut kept: Vec<Finding> = stale.collect();
    kept.extend(findings.into_iter().filter(|(unit, _)| !pending.contains(unit)).map(|(_, finding)| finding));
    kept
}

/// Whether a finding is only about a folder that passes. It counts with --strict, as .ci/quick runs it.
pub(super) fn is_stale_entry(finding: &Finding) -> bool {
    finding.place.starts_with(PLACE)
}

/// The folders on a list that have no findings.
fn passing<'a>(pending: &'a [String], findings: &[(String, Finding)]) -> Vec<&'a str> {
    let passes = |folder: &&String| !findings.iter().any(|(unit, _)| unit == *folder);
    pending.iter().filter(passes).map(String::as_str).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pending_folder_is_spared_until_it_passes() {
        let finding = |place: &str| Finding { place: place.to_owned(), what: String::new() };
        let found = || vec![("crates/a".to_owned(), finding("a")), ("crates/b".to_owned(), finding("b"))];
        assert_eq!(settle("words", &["crates/a".to_owned()], found()), [finding("b")]);
        let stale = settle("words", &["crates/a".to_owned(), "crates/c".to_owned()], found());
        assert_eq!(stale[0].what, "crates/c passes this check: take it off the list");
        assert_eq!(stale.iter().map(is_stale_entry).collect::<Vec<_>>(), [true, false]);
    }
}
