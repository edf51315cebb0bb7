//! Folders that do not pass a check yet. A folder that passes must leave the list, so each list can only shrink.

use super::Finding;
use serde::Deserialize;

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

/// Drops the findings of folders on the list `name`, and reports each folder on it that has none.
pub(super) fn settle(name: &str, pending: &[String], findings: Vec<(String, Finding)>) -> Vec<Finding> {
    let passes = |folder: &&String| !findings.iter().any(|(unit, _)| unit == *folder);
    let mut kept: Vec<Finding> = pending
        .iter()
        .filter(passes)
        .map(|folder| Finding {
            place: format!("xtask/tidy.toml: pending.{name}"),
            what: format!("{folder} passes this check: take it off the list"),
        })
        .collect();
    kept.extend(findings.into_iter().filter(|(unit, _)| !pending.contains(unit)).map(|(_, finding)| finding));
    kept
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pending_folder_is_spared_until_it_passes() {
        let finding = |place: &str| Finding { place: place.to_owned(), what: String::new() };
        let found = || vec![("crates/a".to_owned(), finding("a")), ("crates/b".to_owned(), finding("b"))];
        assert_eq!(settle("words", &["crates/a".to_owned()], found()), [finding("b")]);
        let stale = settle("words", &["crates/c".to_owned()], Vec::new());
        assert_eq!(stale.len(), 1);
        assert!(stale[0].what.starts_with("crates/c passes"), "{stale:?}");
    }
}
