//! Dependencies of crates: each is allowed in xtask/tidy.toml, each allowed one exists, and each one is used. A crate
//! that must not know another has a line in xtask/tidy.toml that leaves it out.

use super::{Finding, Lists, Source};
use proc_macro2::{TokenStream, TokenTree};
use serde_json::Value;
use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;

/// Stands for every dependency, in the line of a crate on top.
const ANY: &str = "*";

/// A crate of the workspace.
pub(super) struct Package {
    /// Its name for Cargo.
    pub(super) name: String,
    /// Its folder, relative to the root.
    pub(super) folder: String,
    /// The packages it depends on outside tests and build scripts.
    dependencies: Vec<String>,
}

#[cfg(test)]
impl Package {
    pub(super) fn for_test(name: &str, folder: &str) -> Self {
        Self { name: name.to_owned(), folder: folder.to_owned(), dependencies: Vec::new() }
    }
}

/// The crates of the workspace, by `cargo metadata`.
pub(super) fn packages(root: &Path) -> Result<Vec<Package>, String> {
    let output = Command::new(env!("CARGO"))
        .args(["metadata", "--no-deps", "--format-version=1"])
        .current_dir(root)
        .output()
        .map_err(|e| format!("cargo metadata: {e}"))?;
    let metadata: Value =
        serde_json::from_slice(&output.stdout).map_err(|e| format!("cargo metadata: {e}"))?;
    let packages = metadata["packages"].as_array().into_iter().flatten();
    Ok(packages.map(|package| read_package(root, package)).collect())
}

fn read_package(root: &Path, package: &Value) -> Package {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let manifest = text(&package["manifest_path"]);
    let folder = Path::new(&manifest).parent().unwrap_or(root);
    let folder = folder.strip_prefix(root).unwrap_or(folder).to_string_lossy().into_owned();
    let dependencies = package["dependencies"].as_array().into_iter().flatten();
    let dependencies = dependencies.filter(|one| one["kind"].is_null()).map(|one| text(&one["name"]));
    Package { name: text(&package["name"]), folder, dependencies: dependencies.collect() }
}

/// Checks the dependencies of each crate, and what pure crates declare.
pub(super) fn check(root: &Path, packages: &[Package], sources: &[Source], lists: &Lists) -> Vec<Finding> {
    let mut findings = Vec::new();
    for package in packages {
        let place = format!("crate {}", package.name);
        let named = names_in(package, sources);
        let problems = match lists.dependencies.get(&package.name) {
            Some(allowed) => judge(allowed, &package.dependencies, &named),
            None => vec!["has no line under [dependencies] in xtask/tidy.toml".to_owned()],
        };
        findings.extend(problems.into_iter().map(|what| Finding { place: place.clone(), what }));
    }
    for name in lists.dependencies.keys().filter(|name| packages.iter().all(|one| one.name != **name)) {
        let what = format!("{name} is no crate of the workspace");
        findings.push(Finding { place: "xtask/tidy.toml: [dependencies]".to_owned(), what });
    }
    for name in &lists.pure {
        check_pure(root, name, &mut findings);
    }
    findings
}

/// The problems of one crate: `named` are the identifiers in its code.
fn judge(allowed: &[String], dependencies: &[String], named: &BTreeSet<String>) -> Vec<String> {
    let mut problems = Vec::new();
    for name in dependencies {
        if !allowed.iter().any(|one| one == name || one == ANY) {
            problems.push(format!("depends on {name}, which its line in xtask/tidy.toml does not allow"));
        }
        if !named.contains(&name.replace('-', "_")) {
            problems.push(format!("depends on {name} and never names it"));
        }
    }
    for name in allowed.iter().filter(|name| *name != ANY && !dependencies.contains(name)) {
        problems.push(format!("does not depend on {name}, which its line in xtask/tidy.toml allows"));
    }
    problems
}

/// All identifiers in the code of a crate, tests inside its files included.
fn names_in(package: &Package, sources: &[Source]) -> BTreeSet<String> {
    let folder = format!("{}/src/", package.folder);
    let mut names = BTreeSet::new();
    for source in sources.iter().filter(|source| source.file.starts_with(&folder)) {
        if let Ok(tokens) = source.text.parse::<TokenStream>() {
            gather(tokens, &mut names);
        }
    }
    names
}

fn gather(tokens: TokenStream, names: &mut BTreeSet<String>) {
    for token in tokens {
        match token {
            TokenTree::Ident(name) => drop(names.insert(name.to_string())),
            TokenTree::Group(group) => gather(group.stream(), names),
            TokenTree::Punct(_) | TokenTree::Literal(_) => {}
        }
    }
}

/// A pure crate forbids unsafe code and links to the pure lints.
fn check_pure(root: &Path, name: &str, findings: &mut Vec<Finding>) {
    let folder = root.join("crates").join(name);
    let place = format!("crates/{name}");
    let opening = std::fs::read_to_string(folder.join("src/lib.rs")).unwrap_or_default();
    if !opening.contains("#![forbid(unsafe_code)]") {
        let what = "is pure, so src/lib.rs must say #![forbid(unsafe_code)]".to_owned();
        findings.push(Finding { place: place.clone(), what });
    }
    let lints = std::fs::read_link(folder.join("clippy.toml")).unwrap_or_default();
    if lints != Path::new("../pure-clippy.toml") {
        let what = "is pure, so clippy.toml must be a link to ../pure-clippy.toml".to_owned();
        findings.push(Finding { place, what });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn strings(names: &[&str]) -> Vec<String> {
        names.iter().map(|&name| name.to_owned()).collect()
    }

    #[test]
    fn each_dependency_is_allowed_and_named_and_each_allowance_used() {
        let named: BTreeSet<String> = strings(&["bytes", "ottla_wire"]).into_iter().collect();
        let judge = |allowed, dependencies| judge(&strings(allowed), &strings(dependencies), &named);
        assert!(judge(&["bytes", "ottla-wire"], &["bytes", "ottla-wire"]).is_empty());
        assert!(judge(&["*"], &["bytes"]).is_empty());
        assert_eq!(
            judge(&[], &["bytes"])[0],
            "depends on bytes, which its line in xtask/tidy.toml does not allow"
        );
        assert_eq!(judge(&["serde"], &["serde"])[0], "depends on serde and never names it");
        assert_eq!(
            judge(&["bytes"], &[])[0],
            "does not depend on bytes, which its line in xtask/tidy.toml allows"
        );
    }

    #[test]
    fn names_in_comments_and_strings_do_not_count() {
        let mut names = BTreeSet::new();
        gather("/// serde\nfn f() { g(\"serde\", h::i!(bytes)); }".parse().unwrap(), &mut names);
        assert!(names.contains("bytes"));
        assert!(!names.contains("serde"));
    }
}
