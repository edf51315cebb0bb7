//! The second half of `cargo xtask bench start`: how soon a broker answers after a start, and what it then has in memory, with no
//! data, with 10,000 partitions, and after `kill -9` with a full tail of the log, beside a raw scan of the same segments.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;
use std::time::{Duration, Instant};

use super::{peers, probe, spread};
use crate::process::{self, Guard};

/// Topics with 1000 partitions each.
const TOPICS: usize = 10;
/// Bytes of batches in the log: a little less than the bound of the tail. They stay there, for the bound is set to twice that.
const TAIL: u64 = 500 << 20;
const TAIL_BOUND: &str = "ottla.tail.max.bytes=1073741824";
/// Bytes that the raw scan reads at once.
const PIECE: usize = 1 << 20;
const ALIGN: usize = 4096;

/// A start: milliseconds from exec to the first answer, MiB that are resident a second later.
struct Sample {
    answer_ms: f64,
    idle_mib: f64,
}

/// Measures, and gives the table.
pub(super) fn run(runs: usize) -> Result<String, String> {
    let fresh = repeat(runs, || begin(&peers::fresh("start-fresh")?, &[]).map(|(_, sample)| sample))?;
    let folder = peers::fresh("start-partitions")?;
    prepare(&folder, |broker| (0..TOPICS).try_for_each(|topic| probe::create_topic(broker, topic, 1000)))?;
    let partitions = repeat(runs, || killed(&folder, &[]))?;
    let folder = peers::fresh("start-tail")?;
    prepare(&folder, fill)?;
    let mut scans = Vec::new();
    let tail = repeat(runs, || {
        scans.push(scan(&folder)?);
        killed(&folder, &["--set", TAIL_BOUND])
    })?;
    fs::remove_dir_all(&folder).map_err(|e| format!("{}: {e}", folder.display()))?;
    table(fresh, partitions, tail, scans)
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
    let idle_mib = super::start::resident(broker.id())?;
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
    let broker = Guard::start(&mut peers::ottla(port, &["--data", &data, "--set", TAIL_BOUND])?)?;
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

fn table(
    fresh: Vec<Sample>,
    partitions: Vec<Sample>,
    tail: Vec<Sample>,
    scans: Vec<f64>,
) -> Result<String, String> {
    let mut text = "| start | exec to first answer, ms | idle memory, MiB | beside the raw scan |\n\
                    | --- | ---: | ---: | ---: |\n"
        .to_owned();
    let ratios = tail.iter().zip(&scans).map(|(sample, scan)| sample.answer_ms / scan).collect();
    let ratio = spread(ratios).map(|(ratio, least, most)| format!("{ratio:.2} [{least:.2} - {most:.2}]"));
    let rows = [
        ("no data", fresh, String::new()),
        ("10,000 partitions, after kill -9", partitions, String::new()),
        ("500 MiB of tail, after kill -9", tail, ratio.unwrap_or_default()),
    ];
    for (name, samples, ratio) in rows {
        let times = spread(samples.iter().map(|sample| sample.answer_ms).collect());
        let memory = spread(samples.iter().map(|sample| sample.idle_mib).collect());
        let (Some((time, fastest, slowest)), Some((memory, ..))) = (times, memory) else { continue };
        text.push_str(&format!(
            "| {name} | {time:.1} [{fastest:.1} - {slowest:.1}] | {memory:.1} | {ratio} |\n"
        ));
    }
    let (scan, least, most) = spread(scans).ok_or("no scans")?;
    text.push_str(&format!("| raw scan of those segments | {scan:.1} [{least:.1} - {most:.1}] | | 1 |\n"));
    Ok(text)
}
