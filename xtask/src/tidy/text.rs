//! Leftovers and things that belong to one machine.

use super::Finding;
use std::path::Path;

/// Words that mark unfinished work; split so that this file does not find itself.
const LEFTOVERS: &[&str] =
    &[concat!("todo", "!("), concat!("unimpl", "emented!("), concat!("FIX", "ME"), concat!("dbg", "!(")];
/// Starts of paths that exist on one machine only.
const MACHINE_PATHS: &[&str] = &[concat!("/ro", "ot/"), concat!("/ho", "me/"), concat!("/wo", "rk/")];

pub(super) fn check(root: &Path, files: &[String]) -> Result<Vec<Finding>, String> {
    let mut findings = Vec::new();
    for file in files.iter().filter(|file| !file.ends_with(".lock") && !file.ends_with("LICENSE")) {
        let bytes = std::fs::read(root.join(file)).map_err(|e| format!("{file}: {e}"))?;
        let Ok(text) = String::from_utf8(bytes) else { continue };
        for (number, line) in (1..).zip(text.lines()) {
            let place = || format!("{file}:{number}");
            if let Some(word) = LEFTOVERS.iter().find(|word| line.contains(**word)) {
                findings.push(Finding { place: place(), what: format!("leftover: {word}") });
            }
            if let Some(path) = MACHINE_PATHS.iter().find(|path| line.contains(**path)) {
                findings.push(Finding { place: place(), what: format!("a path of one machine: {path}") });
            }
        }
    }
    Ok(findings)
}
