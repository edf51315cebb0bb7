//! Style budgets and arrows, checked: `cargo xtask tidy`. Lists of exceptions stand in xtask/tidy.toml and may only shrink.

mod arrows;
mod budgets;
mod links;
mod named;
mod text;

use serde::Deserialize;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// The lists of xtask/tidy.toml.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Lists {
    /// For each crate: the crates and libraries it may depend on (dev- and build-dependencies are free).
    arrows: BTreeMap<String, Vec<String>>,
    /// Crates of the pure ring: they forbid unsafe code and carry the pure lints.
    pure: Vec<String>,
    /// Files over 800 lines without tests, each with the reason.
    long_files: BTreeMap<String, String>,
    /// Functions over budget, as `file:function`, each with the reason.
    functions: BTreeMap<String, String>,
}

/// One thing that is not as it should be.
struct Finding {
    place: String,
    what: String,
}

/// Checks arrows, budgets and leftovers, prints each finding, and fails if there is any.
pub(crate) fn run() -> Result<(), String> {
    let root = root()?;
    let lists =
        std::fs::read_to_string(root.join("xtask/tidy.toml")).map_err(|e| format!("xtask/tidy.toml: {e}"))?;
    let lists: Lists = toml::from_str(&lists).map_err(|e| format!("xtask/tidy.toml: {e}"))?;
    let mut findings = arrows::check(&root, &lists)?;
    let files = tracked(&root)?;
    let (mut code, sizes) = budgets::check(&root, &files, &lists)?;
    findings.append(&mut code);
    findings.append(&mut text::check(&root, &files)?);
    findings.append(&mut named::check(&root, &files)?);
    findings.append(&mut links::check(&root, &files)?);
    for finding in &findings {
        println!("{}: {}", finding.place, finding.what);
    }
    println!("tidy: {sizes}; {} findings", findings.len());
    if findings.is_empty() { Ok(()) } else { Err("tidy has findings".to_owned()) }
}

fn root() -> Result<PathBuf, String> {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    here.parent().map(Path::to_path_buf).ok_or_else(|| "xtask has no parent folder".to_owned())
}

/// The files git knows, relative to the root, sorted.
fn tracked(root: &Path) -> Result<Vec<String>, String> {
    let output = std::process::Command::new("git")
        .args(["ls-files", "--cached", "--others", "--exclude-standard"])
        .current_dir(root)
        .output()
        .map_err(|e| format!("git ls-files: {e}"))?;
    let names = String::from_utf8_lossy(&output.stdout);
    let mut files: Vec<String> = names.lines().map(str::to_owned).collect();
    files.retain(|file| root.join(file).is_file());
    files.sort();
    Ok(files)
}
