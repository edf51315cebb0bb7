//! Links and paths in pages: what a page points to must exist, so that a renamed file does not leave a wrong map
//! behind.

use super::Finding;
use std::path::{Component, Path, PathBuf};

/// A word in backquotes that begins with one of these is the path of a file or folder of the repository.
const FOLDERS: [&str; 6] = ["crates/", "docs/", "e2e/", "fuzz/", "xtask/src/", "xtask/data/"];

pub(super) fn check(root: &Path, files: &[String]) -> Result<Vec<Finding>, String> {
    let mut findings = Vec::new();
    // Commands write the pages of evidence anew; their own checks say when they are out of date.
    let is_page = |file: &&String| file.ends_with(".md") && !file.starts_with("docs/evidence/");
    for file in files.iter().filter(is_page) {
        let text = std::fs::read_to_string(root.join(file)).map_err(|e| format!("{file}: {e}"))?;
        let folder = Path::new(file).parent().unwrap_or(Path::new(""));
        for (number, line) in (1..).zip(text.lines()) {
            let linked = links(line).map(|target| normal(&folder.join(target)));
            let named = paths(line).map(PathBuf::from);
            for path in linked.chain(named).filter(|path| !root.join(path).exists()) {
                let what = format!("points to {}, which does not exist", path.display());
                findings.push(Finding { place: format!("{file}:{number}"), what });
            }
        }
    }
    Ok(findings)
}

/// The targets of links to files, without their anchors.
fn links(line: &str) -> impl Iterator<Item = &str> {
    line.split("](").skip(1).filter_map(|rest| {
        let target = rest.split(')').next()?.split('#').next()?;
        let is_file = !target.is_empty() && !target.contains("://") && !target.starts_with('<');
        is_file.then_some(target)
    })
}

/// The paths in backquotes; patterns are none.
fn paths(line: &str) -> impl Iterator<Item = &str> {
    let is_path = |word: &&str| {
        FOLDERS.iter().any(|folder| word.starts_with(folder)) && !word.contains(['*', ' ', '{', '<'])
    };
    line.split('`').skip(1).step_by(2).filter(is_path)
}

/// The path without `.` and `..`.
fn normal(path: &Path) -> PathBuf {
    let mut normal = PathBuf::new();
    for part in path.components() {
        match part {
            Component::ParentDir => drop(normal.pop()),
            Component::CurDir => {}
            other => normal.push(other),
        }
    }
    normal
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_and_paths_are_found_and_urls_are_not() {
        let line = "[a](../x.md#part), [b](https://e.org/c.md), `crates/core`, `crates/*/src`, `docs.rs`";
        assert_eq!(links(line).collect::<Vec<_>>(), ["../x.md"]);
        assert_eq!(paths(line).collect::<Vec<_>>(), ["crates/core"]);
        assert_eq!(normal(Path::new("docs/guide/../x.md")), Path::new("docs/x.md"));
    }
}
