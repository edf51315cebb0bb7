//! `cargo xtask sim --planted`: bugs are planted in a copy of the sources, and the simulator must find each within a
//! minute. That is how the simulator earns its trust. The bugs are in crates/sim/planted/bugs.toml; the product never
//! contains them.

use crate::process;
use serde::Deserialize;
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

/// Where the bugs are listed.
const LIST: &str = "crates/sim/planted/bugs.toml";
/// The environment variable that wakes a bug.
const SWITCH: &str = "OTTLA_PLANTED";
/// The crate that every other one can ask, and what it is given.
const ASKED: &str = "crates/types/src/lib.rs";
const ASK: &str = r#"
/// Whether the planted bug of this name is awake.
pub fn planted(name: &str) -> bool {
    static AWAKE: std::sync::OnceLock<Option<String>> = std::sync::OnceLock::new();
    AWAKE.get_or_init(|| std::env::var("OTTLA_PLANTED").ok()).as_deref() == Some(name)
}
"#;

#[derive(Deserialize)]
struct List {
    bug: Vec<Bug>,
}

/// A bug that the simulator must find.
#[derive(Deserialize)]
struct Bug {
    name: String,
    says: String,
    change: Vec<Change>,
}

/// A text of a file, and what is there instead; `{planted}` in it asks whether the bug is awake.
#[derive(Deserialize)]
struct Change {
    file: String,
    find: String,
    put: String,
}

/// What the simulator said about a bug.
struct Outcome {
    /// The first seed that failed, if one did, and what was found in it.
    caught: Option<(u64, String)>,
    seconds: f64,
}

/// Plants all bugs, builds once, and lets the simulator look for each for so long; `only` names some of them.
///
/// # Errors
/// A text is not found exactly once, the build fails, a bug is not found, or something is found that was not planted.
pub(crate) fn run(only: &[String], minutes: f64) -> Result<(), String> {
    let root = process::root();
    let list = fs::read_to_string(root.join(LIST)).map_err(|e| format!("{LIST}: {e}"))?;
    let list: List = toml::from_str(&list).map_err(|e| format!("{LIST}: {e}"))?;
    if let Some(name) = only.iter().find(|name| !list.bug.iter().any(|bug| bug.name == **name)) {
        return Err(format!("{LIST} has no bug named {name}"));
    }
    let program = build(&root, &plant(&root, &list.bug)?)?;
    let mut table = "| planted bug | seeds | seconds | found as |\n| --- | --- | --- | --- |\n".to_owned();
    println!("{}", table.trim_end());
    let (mut missed, mut most) = (Vec::new(), 0);
    for bug in list.bug.iter().filter(|bug| only.is_empty() || only.contains(&bug.name)) {
        let outcome = look(&program, Some(&bug.name), None, minutes)?;
        let row = row(bug, &outcome);
        println!("{row}");
        let _ = writeln!(table, "{row}");
        match outcome.caught {
            Some((seed, _)) => most = most.max(seed + 1),
            None => missed.push(bug.name.as_str()),
        }
    }
    let none = look(&program, None, Some(most), minutes * 10.0)?;
    if let Some((seed, found)) = none.caught {
        return Err(format!("without any planted bug awake, seed {seed} fails: {found}"));
    }
    println!("without a bug: {most} seeds, nothing found, {:.0} s", none.seconds);
    let file = root.join("target/planted/table.md");
    fs::write(&file, table).map_err(|e| format!("{}: {e}", file.display()))?;
    if missed.is_empty() {
        Ok(())
    } else {
        Err(format!("not found within {minutes} min: {}", missed.join(", ")))
    }
}

fn row(bug: &Bug, outcome: &Outcome) -> String {
    let (seeds, found) = match &outcome.caught {
        Some((seed, found)) => ((seed + 1).to_string(), found.as_str()),
        None => ("-".to_owned(), "**not found**"),
    };
    format!("| `{}`: {} | {seeds} | {:.1} | {found} |", bug.name, bug.says, outcome.seconds)
}

/// Copies the sources to a folder below target/ with all bugs in them; returns the folder.
fn plant(root: &Path, bugs: &[Bug]) -> Result<PathBuf, String> {
    let copy = root.join("target/planted/sources");
    let mut changed = planted_files(root, bugs)?;
    for name in sources(root)? {
        let text = match changed.remove(&name) {
            Some(text) => text.into_bytes(),
            None => match fs::read(root.join(&name)) {
                Ok(bytes) => bytes,
                // A link to a file or folder elsewhere, or one that was removed: nothing to compile.
                Err(_) => continue,
            },
        };
        let place = copy.join(&name);
        // What is the same keeps its time, so that it is not built again.
        if fs::read(&place).is_ok_and(|there| there == text) {
            continue;
        }
        let fail = |e: std::io::Error| format!("{}: {e}", place.display());
        fs::create_dir_all(place.parent().unwrap_or(&copy)).map_err(fail)?;
        fs::write(&place, text).map_err(fail)?;
    }
    Ok(copy)
}

/// The texts of the files that have bugs in them.
fn planted_files(root: &Path, bugs: &[Bug]) -> Result<BTreeMap<String, String>, String> {
    let mut files = BTreeMap::new();
    let read = |name: &str| fs::read_to_string(root.join(name)).map_err(|e| format!("{name}: {e}"));
    files.insert(ASKED.to_owned(), format!("{}{ASK}", read(ASKED)?));
    for bug in bugs {
        for Change { file, find, put } in &bug.change {
            if !files.contains_key(file) {
                files.insert(file.clone(), read(file)?);
            }
            let Some(text) = files.get_mut(file) else { continue };
            let times = text.matches(find.as_str()).count();
            if times != 1 {
                return Err(format!(
                    "{LIST}: the text of {} is in {file} {times} times, not once; plant it anew:\n{find}",
                    bug.name
                ));
            }
            let ask = format!("ottla_types::planted(\"{}\")", bug.name);
            *text = text.replacen(find.as_str(), &put.replace("{planted}", &ask), 1);
        }
    }
    Ok(files)
}

/// The files of the workspace that git knows or would take.
fn sources(root: &Path) -> Result<Vec<String>, String> {
    let words = [
        "ls-files",
        "--cached",
        "--others",
        "--exclude-standard",
        "--",
        "Cargo.*",
        "crates",
        "schemas",
        "xtask",
    ];
    let output = Command::new("git").args(words).current_dir(root).output();
    let output = output.map_err(|e| format!("cannot run git ls-files: {e}"))?;
    if !output.status.success() {
        return Err(format!("git ls-files: {}", String::from_utf8_lossy(&output.stderr)));
    }
    let mut names: Vec<String> = String::from_utf8_lossy(&output.stdout).lines().map(str::to_owned).collect();
    names.sort();
    names.dedup();
    Ok(names)
}

fn build(root: &Path, copy: &Path) -> Result<PathBuf, String> {
    let target = root.join("target/planted/build");
    let status = Command::new("cargo")
        .args(["build", "--quiet", "--release", "--package", "ottla-sim"])
        .current_dir(copy)
        .env("CARGO_TARGET_DIR", &target)
        .env("CARGO_INCREMENTAL", "0")
        .env("CARGO_PROFILE_RELEASE_OPT_LEVEL", "1")
        .env("CARGO_PROFILE_RELEASE_LTO", "off")
        .env("CARGO_PROFILE_RELEASE_CODEGEN_UNITS", "16")
        .status()
        .map_err(|e| format!("cannot run cargo: {e}"))?;
    match status.success() {
        true => Ok(target.join("release/ottla-sim")),
        false => Err(format!("the sources with the bugs planted, in {}, do not build", copy.display())),
    }
}

/// Lets the simulator look, with a bug awake, until a seed fails, so many seeds are done, or the time is over.
fn look(program: &Path, bug: Option<&str>, seeds: Option<u64>, minutes: f64) -> Result<Outcome, String> {
    let begun = Instant::now();
    let log = program.with_file_name("planted.log");
    let fail = |e: std::io::Error| format!("{}: {e}", program.display());
    let mut command = Command::new(program);
    command.args([
        "--once",
        "--seeds",
        &seeds.unwrap_or(u64::MAX).to_string(),
        "--minutes",
        &minutes.to_string(),
    ]);
    command.env_remove(SWITCH).stdout(fs::File::create(&log).map_err(fail)?);
    if let Some(bug) = bug {
        command.env(SWITCH, bug);
    }
    let mut child = command.spawn().map_err(fail)?;
    let longest = Duration::from_secs_f64(minutes * 60.0 + 30.0);
    let mut ended = None;
    while ended.is_none() && begun.elapsed() < longest {
        std::thread::sleep(Duration::from_millis(50));
        ended = child.try_wait().map_err(fail)?;
    }
    if ended.is_none() {
        // A seed that hangs.
        child.kill().and_then(|()| child.wait()).map_err(fail)?;
    }
    let seconds = begun.elapsed().as_secs_f64();
    let text = fs::read_to_string(&log).map_err(fail)?;
    let caught = failed_seed(&text);
    if caught.is_none() && ended.is_some_and(|status| !status.success()) {
        return Err(format!("the simulator ended without a seed that failed; see {}", log.display()));
    }
    Ok(Outcome { caught, seconds })
}

/// The seed that failed and its first finding.
fn failed_seed(text: &str) -> Option<(u64, String)> {
    let mut lines = text.lines();
    let seed = loop {
        let words: Vec<&str> = lines.next()?.split_whitespace().collect();
        if let ["seed", seed, "fails;", ..] = words[..] {
            break seed.parse().ok()?;
        }
    };
    let finding = lines.next().unwrap_or_default().trim();
    Some((seed, finding.chars().take(100).collect()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failed_seed_is_told_with_its_first_finding() {
        let text = "seed 17 fails; again: cargo run\n  duplicate: v1 of x\n  lost-write: y\n18 seeds\n";
        assert_eq!(failed_seed(text), Some((17, "duplicate: v1 of x".to_owned())));
        assert_eq!(failed_seed("100 seeds, each twice, in 3 s; 0 failed\n"), None);
    }

    /// The product has moved on if a text is gone.
    #[test]
    fn every_bug_can_still_be_planted() {
        let root = process::root();
        let list: List = toml::from_str(&fs::read_to_string(root.join(LIST)).unwrap()).unwrap();
        assert!(list.bug.len() >= 15);
        planted_files(&root, &list.bug).unwrap();
    }
}
