//! The rules of style and structure, checked: `cargo xtask tidy`. Allowed dependencies, banned words and the lists of
//! what is not mended yet stand in xtask/tidy.toml; those lists may only shrink.

mod budgets;
mod dependencies;
mod imports;
mod links;
mod modules;
mod named;
mod pending;
mod rust_text;
mod source;
mod text;
mod type_names;
mod width;
mod words;

use pending::Pending;
use serde::Deserialize;
use source::Source;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// Options of `cargo xtask tidy`.
#[derive(clap::Args)]
pub(crate) struct Options {
    /// Print the levels of the modules of one crate instead, with the references inside each circle
    #[arg(long, value_name = "CRATE")]
    modules: Option<String>,
    /// Fail also when a folder on a pending list passes its check
    #[arg(long)]
    strict: bool,
}

/// The content of xtask/tidy.toml.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Lists {
    /// The crates and libraries each crate may depend on. Dev- and build-dependencies are not restricted.
    dependencies: BTreeMap<String, Vec<String>>,
    /// Pure crates: they forbid unsafe code and carry the pure lints.
    pure: Vec<String>,
    /// Declared order of the modules of a crate, or of one of its modules (`crate::module`).
    layers: BTreeMap<String, Layers>,
    /// Banned words and phrases, each with its replacement.
    words: BTreeMap<String, String>,
    /// Names that no type may have.
    type_names: Vec<String>,
    /// For each check: the folders that do not pass yet.
    pending: Pending,
    /// Files over 800 lines without tests, each with the reason.
    long_files: BTreeMap<String, String>,
    /// Functions over budget, as `file:function`, each with the reason.
    functions: BTreeMap<String, String>,
}

/// The modules of one folder level, lowest first.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Layers {
    order: Vec<String>,
}

/// One violation of a rule.
#[derive(Debug, PartialEq)]
struct Finding {
    /// File and line, or a crate.
    place: String,
    /// The violation, and how to mend it where that is not obvious.
    what: String,
}

/// Runs every check, prints each finding, and fails if there is any.
pub(crate) fn run(options: &Options) -> Result<(), String> {
    let root = root()?;
    let lists =
        std::fs::read_to_string(root.join("xtask/tidy.toml")).map_err(|e| format!("xtask/tidy.toml: {e}"))?;
    let lists: Lists = toml::from_str(&lists).map_err(|e| format!("xtask/tidy.toml: {e}"))?;
    let files = tracked(&root)?;
    let sources = source::read_all(&root, &files)?;
    let packages = dependencies::packages(&root)?;
    if let Some(name) = &options.modules {
        let package = packages.iter().find(|package| package.name == *name || package.folder == *name);
        let package = package.ok_or_else(|| format!("no crate of the workspace is named {name}"))?;
        print!("{}", modules::describe(package, &sources));
        return Ok(());
    }
    let mut findings = dependencies::check(&root, &packages, &sources, &lists);
    let (mut code, sizes) = budgets::check(&sources, &lists);
    findings.append(&mut code);
    findings.append(&mut text::check(&root, &files)?);
    findings.append(&mut named::check(&root, &files)?);
    findings.append(&mut links::check(&root, &files)?);
    findings.append(&mut modules::check(&packages, &sources, &lists));
    findings.append(&mut width::check(&sources, &lists.pending));
    findings.append(&mut imports::check(&sources, &lists.pending));
    findings.append(&mut type_names::check(&sources, &lists));
    findings.append(&mut words::check(&root, &files, &sources, &lists)?);
    for finding in &findings {
        println!("{}: {}", finding.place, finding.what);
    }
    if !options.strict {
        findings.retain(|finding| !pending::is_stale_entry(finding));
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
