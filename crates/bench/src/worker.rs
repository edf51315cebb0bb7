//! The worker: cells from stdin, figures to stdout.

use crate::producer::{Producer, Took};
use std::io::{BufRead, Write};
use std::thread;
use std::time::{Duration, Instant};

/// Transactions of each producer before the clock starts.
const WARM_UP: u32 = 5;

/// One cell of the table.
struct Cell {
    broker: String,
    protocol: u8,
    producers: i32,
    records: usize,
    time: Duration,
}

/// What a producer hands back.
type WorkerResult = Result<(Producer, Vec<Took>), String>;

/// Reads cells until stdin ends.
pub(crate) fn run() -> Result<(), String> {
    let mut lines = std::io::stdin().lock().lines().map_while(Result::ok);
    while let Some(line) = lines.next() {
        let outcome = Cell::parse(&line).and_then(|cell| {
            let producers = cell.open()?;
            say("ready")?;
            lines.next().ok_or("stdin ended before go")?;
            cell.measure(producers)
        });
        match outcome {
            Ok(figures) => say(&figures)?,
            Err(why) => say(&format!("error {why}"))?,
        }
    }
    Ok(())
}

fn say(line: &str) -> Result<(), String> {
    writeln!(std::io::stdout().lock(), "{line}").map_err(|e| format!("stdout: {e}"))
}

impl Cell {
    fn parse(line: &str) -> Result<Cell, String> {
        let words: Vec<&str> = line.split_whitespace().collect();
        let ["cell", broker, protocol, producers, records, millis] = words[..] else {
            return Err(format!("not a cell: {line}"));
        };
        let bad = |e: std::num::ParseIntError| format!("{line}: {e}");
        Ok(Cell {
            broker: broker.to_owned(),
            protocol: protocol.parse().map_err(bad)?,
            producers: producers.parse().map_err(bad)?,
            records: records.parse().map_err(bad)?,
            time: Duration::from_millis(millis.parse().map_err(bad)?),
        })
    }

    /// Connects the producers and has each do a few transactions.
    fn open(&self) -> Result<Vec<Producer>, String> {
        let open = |number: i32| {
            let name = format!("bench-raw-{}-{number}", self.protocol);
            let mut producer = Producer::open(&self.broker, &name, self.protocol, number)?;
            for _ in 0..WARM_UP {
                producer.transact(self.records)?;
            }
            Ok(producer)
        };
        thread::scope(|scope| {
            let threads: Vec<_> =
                (0..self.producers).map(|number| scope.spawn(move || open(number))).collect();
            threads.into_iter().map(|thread| thread.join().map_err(|_| "a producer panicked")?).collect()
        })
    }

    /// Runs all producers for the time, checks what they committed, and says what it took.
    fn measure(&self, producers: Vec<Producer>) -> Result<String, String> {
        let begun = Instant::now();
        let until = begun + self.time;
        let work = |mut producer: Producer| {
            let mut took = Vec::new();
            while Instant::now() < until {
                took.push(producer.transact(self.records)?);
            }
            Ok((producer, took))
        };
        let (done, seconds) = thread::scope(|scope| {
            let threads: Vec<_> =
                producers.into_iter().map(|producer| scope.spawn(move || work(producer))).collect();
            let done: Vec<WorkerResult> = threads
                .into_iter()
                .map(|thread| thread.join().unwrap_or_else(|_| Err("a producer panicked".to_owned())))
                .collect();
            (done, begun.elapsed().as_secs_f64())
        });
        let mut figures = format!("done {seconds:.6}");
        let mut waits = Vec::new();
        for worked in done {
            let (producer, took) = worked?;
            waits.push(producer);
            for Took { whole, commit } in took {
                figures.push_str(&format!(" {},{}", whole.as_micros(), commit.as_micros()));
            }
        }
        waits.iter_mut().try_for_each(Producer::check)?;
        Ok(figures)
    }
}
