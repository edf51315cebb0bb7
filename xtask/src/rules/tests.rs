//! The tests that name rules: found in the sources, run by `cargo test`, judged by what it prints.

use super::{Id, Kind};
use crate::process;
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Stdio;

/// A test that names rules.
#[derive(Debug)]
pub(super) struct Test {
    /// The rules and reports that its name begins with.
    pub(super) ids: Vec<Id>,
    pub(super) name: String,
    /// The folder of its crate.
    pub(super) crate_name: String,
    /// Its file, from the root.
    pub(super) path: String,
}

impl Test {
    /// What tells it from others.
    pub(super) fn key(&self) -> String {
        format!("{} {}", self.crate_name, self.name)
    }
}

/// What became of a test.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Outcome {
    Passed,
    Failed,
    NotRun,
}

impl std::fmt::Display for Outcome {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.pad(match self {
            Outcome::Passed => "ok",
            Outcome::Failed => "FAILED",
            Outcome::NotRun => "not run",
        })
    }
}

/// All tests in the sources of all crates, by file and line.
pub(super) fn gather(root: &Path) -> Result<Vec<Test>, String> {
    let mut files = Vec::new();
    sources(&root.join("crates"), &mut files)?;
    files.sort();
    let mut tests = Vec::new();
    for file in files {
        let text = fs::read_to_string(&file).map_err(|e| format!("{}: {e}", file.display()))?;
        let path = file.strip_prefix(root).unwrap_or(&file).to_string_lossy().into_owned();
        let crate_name = path.split('/').nth(1).unwrap_or_default().to_owned();
        let found = named(&text).into_iter();
        tests.extend(found.map(|(ids, name)| Test {
            ids,
            name,
            crate_name: crate_name.clone(),
            path: path.clone(),
        }));
    }
    Ok(tests)
}

fn sources(folder: &Path, files: &mut Vec<PathBuf>) -> Result<(), String> {
    let failed = |e: std::io::Error| format!("{}: {e}", folder.display());
    for entry in fs::read_dir(folder).map_err(failed)? {
        let path = entry.map_err(failed)?.path();
        if path.is_dir() && !path.ends_with("target") {
            sources(&path, files)?;
        } else if path.extension().is_some_and(|ending| ending == "rs") {
            files.push(path);
        }
    }
    Ok(())
}

/// The functions of a source that are tests and whose names begin with ids.
fn named(text: &str) -> Vec<(Vec<Id>, String)> {
    let mut is_test = false;
    let mut found = Vec::new();
    for line in text.lines().map(str::trim) {
        if line.starts_with("#[") {
            is_test |= line.contains("test]") || line.starts_with("#[tokio::test(");
            continue;
        }
        let rest = line.strip_prefix("async ").unwrap_or(line);
        if let Some((name, _)) = rest.strip_prefix("fn ").and_then(|rest| rest.split_once('(')) {
            let ids = ids(name);
            if is_test && !ids.is_empty() {
                found.push((ids, name.to_owned()));
            }
        }
        is_test &= line.starts_with("//");
    }
    found
}

/// The ids that a name begins with: `t_102_b_08_words` names T-102 and B-08.
fn ids(name: &str) -> Vec<Id> {
    let mut ids = Vec::new();
    let mut rest = name;
    loop {
        let kind = match rest.get(..2) {
            Some("t_") => Kind::Rule,
            Some("b_") => Kind::Report,
            Some("s_") => Kind::Security,
            _ => return ids,
        };
        let (digits, after) = rest[2..].split_once('_').unwrap_or((&rest[2..], ""));
        let Ok(number) = digits.parse() else { return ids };
        ids.push(Id { kind, number });
        rest = after;
    }
}

/// Runs them, one `cargo test` for each crate, and shows its output where something failed.
pub(super) fn run(tests: &[Test]) -> Result<BTreeMap<String, Outcome>, String> {
    let mut crates: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for test in tests {
        crates.entry(&test.crate_name).or_default().push(&test.name);
    }
    let mut outcomes = BTreeMap::new();
    for (crate_name, names) in crates {
        eprintln!("{} tests of {crate_name}", names.len());
        let package = package(crate_name)?;
        let words =
            ["cargo", "test", "--quiet", "--no-fail-fast", "--tests", "-p", &package, "--", "--format"];
        let words = words.into_iter().chain(["pretty"]).chain(names.iter().copied());
        let mut command = process::command(&process::root(), &words.collect::<Vec<_>>())?;
        let output = command.stderr(Stdio::inherit()).stdin(Stdio::null()).output();
        let output = output.map_err(|e| format!("cannot run the tests of {crate_name}: {e}"))?;
        let text = String::from_utf8_lossy(&output.stdout);
        if !output.status.success() {
            println!("{text}");
        }
        for (name, outcome) in results(&text) {
            let worst = outcomes.entry(format!("{crate_name} {name}")).or_insert(outcome);
            *worst = outcome.max(*worst);
        }
    }
    Ok(outcomes)
}

/// The package's name, from the manifest in its folder.
fn package(crate_name: &str) -> Result<String, String> {
    let path = process::root().join("crates").join(crate_name).join("Cargo.toml");
    let text = fs::read_to_string(&path).map_err(|e| format!("{}: {e}", path.display()))?;
    let manifest: toml::Table = text.parse().map_err(|e| format!("{}: {e}", path.display()))?;
    let name = manifest.get("package").and_then(|package| package.get("name")).and_then(|name| name.as_str());
    name.map(str::to_owned).ok_or_else(|| format!("{} has no package name", path.display()))
}

/// The tests in what `cargo test` printed, without their modules.
fn results(output: &str) -> Vec<(String, Outcome)> {
    let lines = output.lines().filter_map(|line| line.strip_prefix("test ")?.rsplit_once(" ... "));
    lines
        .map(|(path, result)| {
            let path = path.strip_suffix(" - should panic").unwrap_or(path);
            let name = path.rsplit("::").next().unwrap_or(path).to_owned();
            let outcome = match result {
                "ok" => Outcome::Passed,
                _ if result.starts_with("ignored") => Outcome::NotRun,
                _ => Outcome::Failed,
            };
            (name, outcome)
        })
        .collect()
}

#[cfg(test)]
mod unit {
    use super::*;

    #[test]
    fn a_name_begins_with_its_ids() {
        let shown = |name: &str| ids(name).iter().map(ToString::to_string).collect::<Vec<_>>();
        assert_eq!(shown("t_102_b_08_a_thing"), ["T-102", "B-08"]);
        assert_eq!(shown("t_009_x_t_10"), ["T-09"]);
        assert_eq!(shown("b_7"), ["B-07"]);
        assert!(shown("to_1").is_empty() && shown("t_x").is_empty() && shown("t").is_empty());
    }

    #[test]
    fn only_tests_count() {
        let text = "#[test]\n/// Words.\nfn t_1_a() {}\nfn t_2_b() {}\n    #[tokio::test]\n    async fn b_3_c() {}\n\
            #[test]\n#[expect(x, reason = \"y\")]\nfn t_4_d(n in 0..3) {\n#[test]\nfn other() {}\nfn t_5_e() {}\n\
            #[tokio::test(flavor = \"multi_thread\")]\nasync fn t_6_f() {}\n";
        let names: Vec<_> = named(text).into_iter().map(|(_, name)| name).collect();
        assert_eq!(names, ["t_1_a", "b_3_c", "t_4_d", "t_6_f"]);
    }

    #[test]
    fn results_are_read() {
        let text = "running 3 tests\ntest a::t_1_x ... ok\ntest t_2_y ... FAILED\ntest t_3_z ... ignored, why\n\
            test t_4_p - should panic ... ok\n\nfailures:\n";
        let expected = [
            ("t_1_x", Outcome::Passed),
            ("t_2_y", Outcome::Failed),
            ("t_3_z", Outcome::NotRun),
            ("t_4_p", Outcome::Passed),
        ];
        assert_eq!(results(text), expected.map(|(name, outcome)| (name.to_owned(), outcome)));
    }
}
