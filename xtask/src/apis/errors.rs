//! Which error codes the broker's answer to an API may carry: those that its file names, and the files that it takes
//! from.

use crate::process;
use ottla_wire::ErrorCode;
use std::collections::BTreeSet;
use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};

/// One line for each API: its name, a tab, the names of the codes by ascending number.
pub(super) fn gather<'a>(apis: impl Iterator<Item = &'a str> + Clone) -> Result<String, String> {
    let folder = process::root().join("crates/broker/src/api");
    let own: BTreeSet<String> = apis.clone().map(snake).collect();
    let mut out = String::new();
    for api in apis {
        let mut search = Search { folder: &folder, own: &own, seen: BTreeSet::new(), names: BTreeSet::new() };
        search.module(&snake(api))?;
        let known = ErrorCode::all().filter(|code| !code.is_none() && search.names.contains(code.name()));
        let names: Vec<&str> = known.map(ErrorCode::name).collect();
        let _ = writeln!(out, "{api}\t{}", names.join(" "));
    }
    Ok(out)
}

struct Search<'a> {
    folder: &'a Path,
    /// The files of the APIs themselves.
    own: &'a BTreeSet<String>,
    seen: BTreeSet<String>,
    names: BTreeSet<String>,
}

impl Search<'_> {
    /// A module of the folder: its file, and the files of its own folder.
    fn module(&mut self, name: &str) -> Result<(), String> {
        let file = self.folder.join(format!("{name}.rs"));
        if !file.is_file() || !self.seen.insert(name.to_owned()) {
            return Ok(());
        }
        let mut files = vec![file];
        if let Ok(inner) = fs::read_dir(self.folder.join(name)) {
            files.extend(inner.filter_map(|entry| Some(entry.ok()?.path())));
        }
        files.retain(|path: &PathBuf| path.file_name().is_some_and(|name| name != "tests.rs"));
        for path in files {
            let text = fs::read_to_string(&path).map_err(|why| format!("{}: {why}", path.display()))?;
            self.file(&text)?;
        }
        Ok(())
    }

    fn file(&mut self, text: &str) -> Result<(), String> {
        let text = text.split("#[cfg(test)]").next().unwrap_or_default();
        let code = text.lines().filter(|line| !line.trim_start().starts_with("//"));
        // What the file takes from its neighbours, other APIs among them; the dispatch itself is no neighbour.
        let taken = text.split("use super::").skip(1).filter_map(|rest| rest.split(';').next());
        for word in taken.flat_map(idents).chain(words(text, " super::")).chain(words(text, "(super::")) {
            self.module(word)?;
        }
        for word in code.clone().flat_map(paths) {
            if !self.own.contains(word) && word != "tests" {
                self.module(word)?;
            }
        }
        self.names.extend(code.flat_map(|line| words(line, "ErrorCode::")).map(str::to_owned));
        Ok(())
    }
}

/// The words of a text.
fn idents(text: &str) -> impl Iterator<Item = &str> {
    text.split(|c: char| !c.is_ascii_alphanumeric() && c != '_')
}

/// The words of a text that a `::` follows: modules among them, but no variables.
fn paths(text: &str) -> impl Iterator<Item = &str> {
    let ends = text.match_indices("::").map(|(at, _)| &text[..at]);
    ends.map(|before| {
        before.rsplit(|c: char| !c.is_ascii_alphanumeric() && c != '_').next().unwrap_or_default()
    })
}

/// The words that stand behind every `mark`.
fn words<'a>(text: &'a str, mark: &'a str) -> impl Iterator<Item = &'a str> {
    text.split(mark).skip(1).map(|rest| {
        let end = rest.find(|c: char| !c.is_ascii_alphanumeric() && c != '_').unwrap_or(rest.len());
        &rest[..end]
    })
}

/// The name of an API's file: `TxnOffsetCommit` is in `txn_offset_commit`.
fn snake(name: &str) -> String {
    let mut out = String::new();
    for c in name.chars() {
        if c.is_ascii_uppercase() && !out.is_empty() {
            out.push('_');
        }
        out.push(c.to_ascii_lowercase());
    }
    out
}
