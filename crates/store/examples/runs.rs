//! Measures runs against the system calls they make, in turn: writing one, reading a part from start to end with a cold
//! and a warm page cache, scanning it.
//!
//! `cargo run --release -p ottla-store --example runs -- FOLDER`, FOLDER on the disk to be measured.

use ottla_store::{Callbacks, DiskMedium, Log, Medium, Options, PartEnd, ReadRange, Runs};
use ottla_types::record::RunPart;
use ottla_types::{Millis, Offset, TopicId, TopicPartition};
use std::error::Error;
use std::fs::{File, OpenOptions};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

const ROUNDS: usize = 5;
const TOTAL: usize = 512 << 20;
const PIECE: usize = 1 << 20;

type Outcome<T> = Result<T, Box<dyn Error>>;

/// A batch with the fields that runs read.
fn batch(base: i64, size: usize) -> Vec<u8> {
    let mut bytes = vec![base as u8; size];
    bytes[..8].copy_from_slice(&base.to_be_bytes());
    bytes[8..12].copy_from_slice(&(size as i32 - 12).to_be_bytes());
    bytes[16] = 2;
    bytes[23..27].copy_from_slice(&0i32.to_be_bytes());
    bytes[35..43].copy_from_slice(&base.to_be_bytes());
    let checksum = crc32c::crc32c(&bytes[21..]);
    bytes[17..21].copy_from_slice(&checksum.to_be_bytes());
    bytes
}

fn aligned(memory: &mut [u8]) -> &mut [u8] {
    let start = memory.as_ptr().align_offset(4096);
    &mut memory[start..start + PIECE]
}

/// Megabytes per second.
fn rate(begun: Instant) -> f64 {
    TOTAL as f64 / begun.elapsed().as_secs_f64() / 1e6
}

fn write(runs: &Runs, size: usize) -> Outcome<(RunPart, f64)> {
    let batches: Vec<Vec<u8>> = (0..(TOTAL / size) as i64).map(|base| batch(base, size)).collect();
    let begun = Instant::now();
    let mut writer = runs.writer(runs.next_number())?;
    writer.begin_part(TopicPartition { topic: TopicId::ZERO, partition: 0 }, Offset(0))?;
    for batch in &batches {
        writer.push(batch, Millis(0))?;
    }
    let last_offset = Offset(batches.len() as i64 - 1);
    let end = PartEnd { last_offset, clean: false, horizon: Millis(-1) };
    let part = writer.end_part(end)?.ok_or("no part")?;
    writer.finish()?;
    Ok((part, rate(begun)))
}

fn write_bare(medium: &dyn Medium) -> Outcome<f64> {
    let mut memory = vec![1; PIECE + 4096];
    let bytes = aligned(&mut memory);
    let begun = Instant::now();
    let file = medium.create("segment-bare")?;
    for piece in 0..TOTAL / PIECE {
        file.write_at(bytes, (piece * PIECE) as u64)?;
    }
    file.sync()?;
    let rate = rate(begun);
    medium.remove("segment-bare")?;
    Ok(rate)
}

fn read_bare(file: &File, memory: &mut [u8]) -> Outcome<f64> {
    let begun = Instant::now();
    for piece in 0..TOTAL / PIECE {
        file.read_at(aligned(memory), (piece * PIECE) as u64)?;
    }
    Ok(rate(begun))
}

fn read(runs: &Runs, part: &RunPart) -> Outcome<f64> {
    let begun = Instant::now();
    let mut from = Offset(0);
    loop {
        let wanted = ReadRange { from, to: Offset(i64::MAX), max_bytes: PIECE, first_whole: true };
        let slice = runs.read(part, wanted)?;
        from = slice.last.plus(1);
        if slice.complete {
            return Ok(rate(begun));
        }
    }
}

fn scan(runs: &Runs, part: &RunPart) -> Outcome<f64> {
    let begun = Instant::now();
    let mut scan = runs.scan(part)?;
    while scan.next_batch()?.is_some() {}
    Ok(rate(begun))
}

fn make_cold(file: &File) -> Outcome<()> {
    rustix::fs::fadvise(file, 0, None, rustix::fs::Advice::DontNeed)?;
    Ok(())
}

fn median(mut rates: Vec<f64>) -> f64 {
    rates.sort_unstable_by(f64::total_cmp);
    rates[rates.len() / 2]
}

fn measure(log: &Log, medium: &dyn Medium, folder: &Path, size: usize) -> Outcome<()> {
    let runs = log.runs();
    let mut rates: [Vec<f64>; 8] = Default::default();
    let mut memory = vec![0; PIECE + 4096];
    for round in 0..ROUNDS {
        rates[0].push(write_bare(medium)?);
        let (part, rate) = write(&runs, size)?;
        rates[1].push(rate);
        let path = folder.join(format!("run-{:012}", part.run));
        let plain = File::open(&path)?;
        let direct = OpenOptions::new()
            .read(true)
            .custom_flags(rustix::fs::OFlags::DIRECT.bits() as i32)
            .open(&path)?;
        rates[2].push(read_bare(&direct, &mut memory)?);
        rates[3].push(scan(&runs, &part)?);
        // The first read may use memory that the machine has to fetch from its host.
        for turn in [round, round + 1] {
            make_cold(&plain)?;
            match turn % 2 {
                0 => rates[4].push(read_bare(&plain, &mut memory)?),
                _ => rates[5].push(read(&runs, &part)?),
            }
        }
        read_bare(&plain, &mut memory)?;
        rates[6].push(read_bare(&plain, &mut memory)?);
        rates[7].push(read(&runs, &part)?);
        runs.remove(&[part.run]);
    }
    let [bare, written, direct, scanned, cold_bare, cold, warm_bare, warm] = rates.map(median);
    println!("batches of {size} B, MB/s:");
    println!("  write    bare {bare:>6.0}   run  {written:>6.0}   ratio {:.2}", written / bare);
    println!("  scan     bare {direct:>6.0}   part {scanned:>6.0}   ratio {:.2}", scanned / direct);
    println!("  cold     bare {cold_bare:>6.0}   part {cold:>6.0}   ratio {:.2}", cold / cold_bare);
    println!("           beside reads around the page cache:   ratio {:.2}", cold / direct);
    println!("  warm     bare {warm_bare:>6.0}   part {warm:>6.0}   ratio {:.2}", warm / warm_bare);
    Ok(())
}

fn main() -> Outcome<()> {
    let folder = std::env::args().nth(1).ok_or("say in which folder")?;
    let folder = Path::new(&folder).join("log");
    let medium = Arc::new(DiskMedium::open(&folder)?);
    let opened = Log::open(medium.clone(), Options::disk(), Callbacks::none(), &mut |_| {})?;
    println!("{}", medium.describe());
    for size in [200, 1000, 16_000, 1_000_000] {
        measure(&opened.log, medium.as_ref(), &folder, size)?;
    }
    opened.log.close()?;
    Ok(())
}
