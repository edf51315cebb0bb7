//! The second half of `cargo xtask bench start`: how soon a broker answers after a start, and what it then has in
//! memory, with no data, with 10,000 partitions, and after `kill -9` with a full tail of the log, beside a raw scan of
//! the same segments.

use super::goal::{self, Bound, Goal};
use super::{Spread, peers, probe, spread, spread_of};
use crate::process::{self, Guard};
use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;
use std::time::{Duration, Instant};

/// Topics with 1000 partitions each.
const TOPICS: usize = 10;
/// Bytes of batches in the log: a little less than the bound of the tail. They stay there, for the bound is set to
/// twice that, and a start reads all of it, for there is no snapshot.
const TAIL: u64 = 500 << 20;
const FULL_TAIL: [&str; 4] =
    ["--set", "ottla.tail.max.bytes=1073741824", "--set", "ottla.snapshot.bytes=1073741824"];
/// Bytes that the raw scan reads at once.
const PIECE: usize = 1 << 20;
const ALIGN: usize = 4096;

/// A start: milliseconds from exec to the first answer, MiB that are resident a second later.
struct Sample {
    answer_ms: f64,
    idle_mib: f64,
}

/// Measures; returns the table of starts and the table of goals.
pub(super) fn run(runs: usize) -> Result<(String, String), String> {
    let fresh = repeat(runs, || begin(&peers::fresh("start-fresh")?, &[]).map(|(_, sample)| sample))?;
    let folder = peers::fresh("start-partitions")?;
    prepare(&folder, |broker| (0..TOPICS).try_for_each(|topic| probe::create_topic(broker, topic, 1000)))?;
    let partitions = repeat(runs, || killed(&folder, &[]))?;
    let folder = peers::fresh("start-tail")?;
    prepare(&folder, fill)?;
    let mut scans = Vec::new();
    let tail = repeat(runs, || {
        scans.push(scan(&folder)?);
        killed(&folder, &FULL_TAIL)
    })?;
    fs::remove_dir_all(&folder).map_err(|e| format!("{}: {e}", folder.display()))?;
    let starts = Starts { fresh, partitions, tail, scans };
    Ok((starts.text(), starts.goals()))
}

fn repeat(runs: usize, mut one: impl FnMut() -> Result<Sample, String>) -> Result<Vec<Sample>, String> {
    (0..runs).map(|_| one()).collect()
}

/// Starts a broker on the folder and waits for its first answer.
fn begin(folder: &Path, more: &[&str]) -> Result<(Guard, Sample), String> {
    let port = process::free_port()?;
    let data = folder.display().to_string();
    let mut command = peers::ottla(port, &[&["--data", data.as_str()], more].concat())?;
    let begun = Instant::now();
    let broker = Guard::start(&mut command)?;
    probe::first_answer(process::local(port), begun + Duration::from_secs(60))?;
    let answer_ms = begun.elapsed().as_secs_f64() * 1e3;
    std::thread::sleep(Duration::from_secs(1));
    let idle_mib = peers::resident(broker.id())?;
    Ok((broker, Sample { answer_ms, idle_mib }))
}

/// The same, and ends it with `kill -9`.
fn killed(folder: &Path, more: &[&str]) -> Result<Sample, String> {
    let (broker, sample) = begin(folder, more)?;
    broker.kill();
    Ok(sample)
}

/// Lets a broker have its data, and ends it with `kill -9`.
fn prepare(
    folder: &Path,
    work: impl FnOnce(std::net::SocketAddr) -> Result<(), String>,
) -> Result<(), String> {
    let port = process::free_port()?;
    let data = folder.display().to_string();
    let broker =
        Guard::start(&mut peers::ottla(port, &[&["--data", data.as_str()], &FULL_TAIL[..]].concat())?)?;
    let address = process::local(port);
    probe::first_answer(address, Instant::now() + Duration::from_secs(60))?;
    work(address)?;
    broker.kill();
    Ok(())
}

fn fill(broker: std::net::SocketAddr) -> Result<(), String> {
    probe::create_topic(broker, 0, 16)?;
    probe::fill(broker, 16, TAIL)
}

/// Milliseconds to read all segments from front to back, past the page cache, and nothing else.
fn scan(folder: &Path) -> Result<f64, String> {
    let told = |e: io::Error| format!("scan of {}: {e}", folder.display());
    let mut memory = vec![0; PIECE + ALIGN];
    let start = memory.as_ptr().align_offset(ALIGN).min(ALIGN);
    let piece = &mut memory[start..start + PIECE];
    let begun = Instant::now();
    for entry in fs::read_dir(folder).map_err(told)? {
        let path = entry.map_err(told)?.path();
        if path.file_name().is_some_and(|name| name.to_string_lossy().starts_with("segment-")) {
            read(&path, piece).map_err(told)?;
        }
    }
    Ok(begun.elapsed().as_secs_f64() * 1e3)
}

fn read(path: &Path, piece: &mut [u8]) -> io::Result<()> {
    let flags = rustix::fs::OFlags::DIRECT.bits() as i32;
    let file: File = OpenOptions::new().read(true).custom_flags(flags).open(path)?;
    let mut at = 0;
    loop {
        match file.read_at(piece, at)? {
            0 => return Ok(()),
            found => at += found as u64,
        }
    }
}

/// The kinds of starts, each with its samples.
struct Starts {
    fresh: Vec<Sample>,
    partitions: Vec<Sample>,
    tail: Vec<Sample>,
    /// Milliseconds of a raw scan before each start with a tail.
    scans: Vec<f64>,
}

impl Starts {
    /// A start by the raw scan before it.
    fn by_scan(&self) -> Option<Spread> {
        spread(self.tail.iter().zip(&self.scans).map(|(sample, scan)| sample.answer_ms / scan).collect())
    }

    fn text(&self) -> String {
        let mut text = "| start | exec to first answer, ms | idle memory, MiB | by the raw scan |\n\
                        | --- | ---: | ---: | ---: |\n"
            .to_owned();
        for (name, samples, ratio) in [
            ("no data", &self.fresh, None),
            ("10,000 partitions, after kill -9", &self.partitions, None),
            ("500 MiB of tail, after kill -9", &self.tail, self.by_scan()),
        ] {
            let ratio = ratio.map_or(String::new(), |ratio| spread_of(Some(ratio), 2));
            let (time, memory) = (spread_of(answers(samples), 1), spread_of(memory(samples), 1));
            text.push_str(&format!("| {name} | {time} | {memory} | {ratio} |\n"));
        }
        let scan = spread_of(spread(self.scans.clone()), 1);
        text + &format!("| raw scan of those segments | {scan} | | 1 |\n")
    }

    fn goals(&self) -> String {
        let goal = |name, what: &str, most, value| Goal {
            name,
            what: what.to_owned(),
            bound: Bound::AtMost(most),
            value,
        };
        goal::table(&[
            goal("G6", "exec to first answer, ms", 20.0, answers(&self.fresh)),
            goal("G6", "idle memory, MiB", 10.0, memory(&self.fresh)),
            goal(
                "G6",
                "exec to first answer with 10,000 partitions, after kill -9, ms",
                300.0,
                answers(&self.partitions),
            ),
            goal("G6", "idle memory with 10,000 partitions, MiB", 150.0, memory(&self.partitions)),
            goal(
                "G7",
                "exec to first answer after kill -9 with a full tail, by a raw scan",
                1.5,
                self.by_scan(),
            ),
        ])
    }
}

fn answers(samples: &[Sample]) -> Option<Spread> {
    spread(samples.iter().map(|sample| sample.answer_ms).collect())
}

fn memory(samples: &[Sample]) -> Option<Spread> {
    spread(samples.iter().map(|sample| sample.idle_mib).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_start_is_held_against_the_scan_before_it() {
        let samples =
            |times: &[f64]| times.iter().map(|time| Sample { answer_ms: *time, idle_mib: 12.0 }).collect();
        let starts = Starts {
            fresh: samples(&[8.0]),
            partitions: samples(&[30.0]),
            tail: samples(&[300.0, 800.0, 400.0]),
            scans: vec![300.0, 400.0, 500.0],
        };
        assert_eq!(starts.by_scan(), Some((1.0, 0.8, 2.0)));
        assert!(starts.goals().ends_with("| at most 1.5 | 1.00 [0.80 - 2.00] | met |\n"));
        assert!(
            starts.goals().contains("idle memory, MiB | at most 10 | 12.00 [12.00 - 12.00] | **missed** |")
        );
        assert!(
            starts.text().contains("| 400.0 [300.0 - 800.0] | 12.0 [12.0 - 12.0] | 1.00 [0.80 - 2.00] |")
        );
    }
}
