//! `cargo xtask count`: counts the instructions of the hot paths and compares them with a committed list. valgrind
//! counts them, so the result does not depend on the load of the machine.

use crate::process;
use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

/// The relative difference from the committed count that a path may have.
const TOLERANCE: f64 = 0.03;
/// The time after which a case is stopped.
const LIMIT: Duration = Duration::from_secs(120);
const FILE: &str = "crates/broker/examples/count/instructions.txt";

/// What to count.
#[derive(clap::Args)]
pub(crate) struct Options {
    /// Accept the counts: write them to the list
    #[arg(long)]
    bless: bool,
    /// Only cases whose name contains this text
    case: Option<String>,
}

/// Counts, compares, and fails if a path takes more or fewer instructions than the committed list says.
pub(crate) fn run(options: &Options) -> Result<(), String> {
    process::install_package("valgrind")?;
    let root = process::root();
    process::run(
        &root,
        &["cargo", "build", "--release", "--quiet", "-p", "ottla-broker", "--example", "count"],
    )?;
    let mut list = read(&std::fs::read_to_string(root.join(FILE)).unwrap_or_default())?;
    let mut moved = Vec::new();
    println!("{:<24} {:>12} {:>12}", "path", "committed", "now");
    for (case, most) in cases()? {
        if options.case.as_ref().is_some_and(|text| !case.contains(text)) {
            continue;
        }
        let now = measure(&case, most)?;
        let before = list.insert(case.clone(), now);
        let share = before.map(|before| now as f64 / before as f64 - 1.0);
        let shown = share.map_or("new".to_owned(), |share| format!("{:+.1} %", 100.0 * share));
        println!("{case:<24} {:>12} {now:>12}  {shown}", before.unwrap_or(0));
        if share.is_none_or(|share| share.abs() > TOLERANCE) {
            moved.push(format!("{case} ({shown})"));
        }
    }
    if options.bless {
        let path = root.join(FILE);
        return std::fs::write(&path, text(&list)).map_err(|e| format!("{}: {e}", path.display()));
    }
    if moved.is_empty() {
        return Ok(());
    }
    let moved = moved.join(", ");
    Err(format!(
        "instructions moved by more than {} %: {moved}. If that is wanted, say why in the commit and accept it: cargo xtask count --bless",
        100.0 * TOLERANCE
    ))
}

fn program() -> PathBuf {
    process::built("release/examples/count")
}

/// The cases, and the most repetitions of each.
fn cases() -> Result<Vec<(String, u64)>, String> {
    let output = process::capture(&mut Command::new(program()), LIMIT)?;
    let pair = |line: &str| {
        let (name, most) = line.split_once(' ')?;
        Some((name.to_owned(), most.parse().ok()?))
    };
    let cases: Option<Vec<_>> = output.stdout.lines().map(pair).collect();
    cases.filter(|cases| !cases.is_empty()).ok_or_else(|| format!("no cases: {}", output.stderr))
}

/// Instructions of one repetition: a long run minus a short one, so that neither start nor preparation counts.
fn measure(case: &str, most: u64) -> Result<u64, String> {
    let few = most / 3;
    let (long, short) = (instructions(case, most)?, instructions(case, few)?);
    Ok(long.saturating_sub(short) / (most - few))
}

fn instructions(case: &str, times: u64) -> Result<u64, String> {
    let mut command = Command::new("valgrind");
    command.args(["--tool=callgrind", "--callgrind-out-file=/dev/null"]);
    command.arg(program()).args([case, &times.to_string()]);
    let output = process::capture(&mut command, LIMIT)?;
    if !output.status.is_some_and(|status| status.success()) {
        return Err(format!("{case} under valgrind: {}", output.stderr));
    }
    collected(&output.stderr).ok_or_else(|| format!("{case}: valgrind said no count: {}", output.stderr))
}

/// The number in valgrind's last line, `==PID== Collected : N`.
fn collected(said: &str) -> Option<u64> {
    let line = said.lines().find(|line| line.contains("Collected :"))?;
    line.rsplit(' ').next()?.parse().ok()
}

fn read(text: &str) -> Result<BTreeMap<String, u64>, String> {
    let pair = |line: &str| {
        let (name, count) = line.split_once(' ').ok_or_else(|| format!("{FILE}: {line}"))?;
        Ok((name.to_owned(), count.trim().parse().map_err(|_| format!("{FILE}: {line}"))?))
    };
    text.lines().filter(|line| !line.starts_with('#')).map(pair).collect()
}

fn text(list: &BTreeMap<String, u64>) -> String {
    let mut text =
        "# Instructions of the hot paths, one time each; written by cargo xtask count --bless.\n".to_owned();
    for (case, count) in list {
        let _ = writeln!(text, "{case} {count}");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_list_reads_what_it_writes_and_valgrind_is_understood() {
        let list: BTreeMap<String, u64> = [("one".to_owned(), 7), ("two".to_owned(), 1_000_000)].into();
        assert_eq!(read(&text(&list)).unwrap(), list);
        assert!(read("nonsense\n").is_err());
        let said = "==9== Callgrind\n==9== Events    : Ir\n==9== Collected : 123456\n==9== \n";
        assert_eq!(collected(said), Some(123_456));
        assert_eq!(collected("==9== nothing"), None);
    }
}
