//! Measures the log against the system calls it makes, in one run: append until durable, compared with write and
//! fdatasync.
//!
//! `cargo run --release -p ottla-store --example append -- FOLDER [durability]`, FOLDER on the disk to be measured.
//! With `durability` it only compares the log with a sync for each group to one that leaves syncs to the operating
//! system.

use bytes::Bytes;
use ottla_store::{Callbacks, DiskMedium, Durability, Log, Medium, MediumFile, Options};
use ottla_types::record::{BatchAppended, LogRecord, PartitionRecord};
use ottla_types::{
    BatchSummary, LogPosition, Millis, Offset, ProducerEpoch, ProducerId, TimestampType, TopicId,
    TopicPartition,
};
use std::error::Error;
use std::path::Path;
use std::sync::{Arc, mpsc};
use std::time::{Duration, Instant};

const ROUNDS: usize = 1000;
const IN_FLIGHT: u64 = 4;

type Outcome<T> = Result<T, Box<dyn Error>>;

fn batch(size: usize) -> LogRecord {
    LogRecord::Partitions(PartitionRecord::BatchAppended(BatchAppended {
        partition: TopicPartition { topic: TopicId::ZERO, partition: 0 },
        base_offset: Offset(0),
        leader_epoch: 0,
        at: Millis(0),
        summary: BatchSummary {
            size: size as u32,
            last_offset_delta: 0,
            record_count: 1,
            base_timestamp: Millis(0),
            max_timestamp: Millis(0),
            timestamp_type: TimestampType::CreateTime,
            producer_id: ProducerId::NONE,
            producer_epoch: ProducerEpoch::NONE,
            base_sequence: -1,
            transactional: false,
            control: false,
        },
        payload: Bytes::from(vec![7; size]),
    }))
}

fn show(what: &str, times: &mut [Duration]) -> f64 {
    times.sort_unstable();
    let at = |percent: usize| times[times.len() * percent / 100].as_secs_f64() * 1e6;
    println!("{what:<40} p50 {:>7.0} us   p99 {:>7.0} us", at(50), at(99));
    at(50)
}

/// System calls and appends in turn, so that other load on the machine affects both equally.
struct Pair<'a> {
    file: &'a dyn MediumFile,
    log: &'a mut Log,
    durable: &'a mpsc::Receiver<LogPosition>,
}

impl Pair<'_> {
    fn measure(&mut self, size: usize) -> Outcome<()> {
        let record = batch(size);
        let padded = (size + 200).next_multiple_of(4096);
        let memory = vec![1; padded + 4096];
        let start = memory.as_ptr().align_offset(4096);
        let mut bare = Vec::new();
        let mut logged = Vec::new();
        for round in 0..ROUNDS {
            let begun = Instant::now();
            self.file.write_at(&memory[start..start + padded], (round * padded) as u64 % (96 << 20))?;
            self.file.sync()?;
            bare.push(begun.elapsed());
            let begun = Instant::now();
            self.append(&record)?;
            logged.push(begun.elapsed());
        }
        let bare = show(&format!("write + fdatasync, {size} B"), &mut bare);
        let logged = show(&format!("append until durable, {size} B"), &mut logged);
        println!("{:>62}", format!("ratio {:.2}", logged / bare));
        Ok(())
    }

    fn append(&mut self, record: &LogRecord) -> Outcome<()> {
        let place = self.log.append(record)?;
        self.log.kick();
        while self.durable.recv()? < place.end {}
        Ok(())
    }
}

/// As `open`, with syncs left to the operating system.
fn open_unsynced(folder: &Path) -> Outcome<(Log, mpsc::Receiver<LogPosition>)> {
    let medium = DiskMedium::open(folder)?.through_page_cache();
    open_on(medium, Options { durability: Durability::Os, zero_fill: false, ..Options::disk() })
}

fn open(folder: &Path) -> Outcome<(Log, mpsc::Receiver<LogPosition>)> {
    open_on(DiskMedium::open(folder)?, Options::disk())
}

fn open_on(medium: DiskMedium, options: Options) -> Outcome<(Log, mpsc::Receiver<LogPosition>)> {
    let (sender, receiver) = mpsc::channel();
    let callbacks = Callbacks {
        on_durable: Box::new(move |position| {
            let _ = sender.send(position);
        }),
        on_failure: Box::new(|failure| eprintln!("{failure}")),
    };
    let opened = Log::open(Arc::new(medium), options, callbacks, &mut |_| {})?;
    Ok((opened.log, receiver))
}

/// Bytes per second with a few appends in flight.
fn throughput(
    log: &mut Log,
    durable: &mpsc::Receiver<LogPosition>,
    size: usize,
    total: usize,
) -> Outcome<f64> {
    let record = batch(size);
    let begun = Instant::now();
    let mut reached = log.durable();
    let limit = IN_FLIGHT * size as u64;
    for _ in 0..total / size {
        while log.end().0 - reached.0 > limit {
            reached = durable.recv()?;
        }
        log.append(&record)?;
        log.kick();
    }
    log.flush()?;
    while durable.try_recv().is_ok() {}
    Ok(total as f64 / begun.elapsed().as_secs_f64() / 1e6)
}

fn bare_throughput(file: &dyn MediumFile, size: usize, total: usize) -> Outcome<f64> {
    let memory = vec![1; size + 4096];
    let start = memory.as_ptr().align_offset(4096);
    let begun = Instant::now();
    for round in 0..total / size {
        file.write_at(&memory[start..start + size], (round * size) as u64 % (96 << 20))?;
        file.sync()?;
    }
    Ok(total as f64 / begun.elapsed().as_secs_f64() / 1e6)
}

fn zero_filled(folder: &Path) -> Outcome<Arc<dyn MediumFile>> {
    let medium = DiskMedium::open(folder)?;
    println!("{}", medium.describe());
    let file = medium.create("segment-bare")?;
    let memory = vec![0; (1 << 20) + 4096];
    let start = memory.as_ptr().align_offset(4096);
    for piece in 0..128 {
        file.write_at(&memory[start..start + (1 << 20)], piece << 20)?;
    }
    file.sync()?;
    Ok(file)
}

/// Throughput with syncs left to the operating system, by throughput with a sync for each group: in turn, the median of
/// five.
fn compare_durability(folder: &Path) -> Outcome<()> {
    const SIZE: usize = 1 << 20;
    let (mut log, durable) = open(&folder.join("log"))?;
    let (mut unsynced, unsynced_durable) = open_unsynced(&folder.join("unsynced"))?;
    let mut ratios = Vec::new();
    for _ in 0..5 {
        let synced = throughput(&mut log, &durable, SIZE, 1 << 28)?;
        let os = throughput(&mut unsynced, &unsynced_durable, SIZE, 1 << 28)?;
        println!("{SIZE} B: synced {synced:.0} MB/s, left to the system {os:.0} MB/s");
        ratios.push(os / synced);
    }
    ratios.sort_unstable_by(f64::total_cmp);
    println!("ratio {:.2}", ratios[2]);
    log.close()?;
    Ok(unsynced.close()?)
}

fn main() -> Outcome<()> {
    let folder = std::env::args().nth(1).ok_or("say in which folder")?;
    let folder = Path::new(&folder);
    if std::env::args().nth(2).is_some_and(|what| what == "durability") {
        return compare_durability(folder);
    }
    let file = zero_filled(&folder.join("bare"))?;
    let begun = Instant::now();
    let (mut log, durable) = open(&folder.join("log"))?;
    let opened = begun.elapsed();
    let mut pair = Pair { file: file.as_ref(), log: &mut log, durable: &durable };
    pair.append(&batch(100))?;
    println!("new folder: open {opened:.1?}, first record durable {:.1?}", begun.elapsed());
    for size in [100, 4000, 64 << 10, 1 << 20] {
        pair.measure(size)?;
    }
    for size in [16 << 10, 1 << 20] {
        let raw = bare_throughput(file.as_ref(), 1 << 20, 1 << 30)?;
        let own = throughput(&mut log, &durable, size, 1 << 30)?;
        println!(
            "{size} B, {IN_FLIGHT} in flight: {own:.0} MB/s; bare 1 MiB writes {raw:.0} MB/s; ratio {:.2}",
            own / raw
        );
    }
    log.close()?;
    let begun = Instant::now();
    let (log, _durable) = open(&folder.join("log"))?;
    println!("open again with {}: {:.1?}", log.describe(), begun.elapsed());
    Ok(())
}
