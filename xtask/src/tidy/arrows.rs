//! Who may depend on whom, by `cargo metadata`.

use super::{Finding, Lists};
use serde_json::Value;
use std::path::Path;
use std::process::Command;

pub(super) fn check(root: &Path, lists: &Lists) -> Result<Vec<Finding>, String> {
    let output = Command::new(env!("CARGO"))
        .args(["metadata", "--no-deps", "--format-version=1"])
        .current_dir(root)
        .output()
        .map_err(|e| format!("cargo metadata: {e}"))?;
    let metadata: Value =
        serde_json::from_slice(&output.stdout).map_err(|e| format!("cargo metadata: {e}"))?;
    let mut findings = Vec::new();
    for package in metadata["packages"].as_array().into_iter().flatten() {
        check_package(package, lists, &mut findings);
    }
    for name in &lists.pure {
        check_pure(root, name, &mut findings);
    }
    Ok(findings)
}

fn check_package(package: &Value, lists: &Lists, findings: &mut Vec<Finding>) {
    let name = package["name"].as_str().unwrap_or_default();
    let place = format!("crate {name}");
    let Some(allowed) = lists.arrows.get(name) else {
        let what = "has no line under [arrows] in xtask/tidy.toml: say what it may depend on".to_owned();
        return findings.push(Finding { place, what });
    };
    for dependency in package["dependencies"].as_array().into_iter().flatten() {
        let to = dependency["name"].as_str().unwrap_or_default();
        if dependency["kind"].is_null() && !allowed.iter().any(|one| one == to || one == "*") {
            let what = format!("depends on {to}, which its line in xtask/tidy.toml does not allow");
            findings.push(Finding { place: place.clone(), what });
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
