//! `cargo xtask bench txn`: transactions per second and how long they take, Ottla beside Apache Kafka, in rounds that
//! interleave. All brokers stay up through the run; each cell of the table is measured on one after the other, seconds
//! apart, so that a slow minute of the machine affects all of them.

use brokers::{Running, Side};
use figures::{Figures, Sample};
use std::time::{Duration, Instant};
use workers::{Client, Worker};

pub(super) mod brokers;
mod figures;
mod report;
pub(super) mod workers;

/// How much to measure.
#[derive(clap::Args)]
pub(crate) struct Options {
    /// Rounds; each measures every cell on every broker once.
    #[arg(long, default_value_t = 3)]
    rounds: usize,
    /// Milliseconds that a cell is measured for in a round.
    #[arg(long, default_value_t = 700)]
    millis: u64,
    /// One round of 300 ms: a look, not a result.
    #[arg(long, conflicts_with_all = ["rounds", "millis"])]
    quick: bool,
    /// Measure the programs below target as they are, without building them.
    #[arg(long)]
    no_build: bool,
    /// Write the figures to docs/evidence/benchmarks.md.
    #[arg(long)]
    docs: bool,
    /// Only these clients.
    #[arg(long, value_enum, value_delimiter = ',')]
    clients: Vec<Client>,
    /// Only these brokers.
    #[arg(long, value_enum, value_delimiter = ',')]
    brokers: Vec<Side>,
    /// Only these numbers of producers.
    #[arg(long, value_delimiter = ',', default_values_t = [1, 16])]
    producers: Vec<u32>,
    /// Only these numbers of records.
    #[arg(long, value_delimiter = ',', default_values_t = [1, 10, 750])]
    records: Vec<u32>,
}

/// What is measured on a broker.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
struct Cell {
    client: Client,
    /// Version of the transaction protocol.
    version: u8,
    producers: u32,
    records: u32,
}

impl Cell {
    /// kfake is measured only where its own figures are known: one producer with librdkafka. The null broker accepts
    /// raw frames only.
    fn is_for(self, side: Side) -> bool {
        match side {
            Side::Null => self.client == Client::Raw,
            Side::KfakeSync | Side::KfakeMemory => self.client == Client::Librdkafka && self.producers == 1,
            _ => true,
        }
    }
}

pub(super) fn run(options: &Options) -> Result<(), String> {
    let started = Instant::now();
    let (rounds, millis) = if options.quick { (1, 300) } else { (options.rounds, options.millis) };
    let cells = options.cells();
    let sides: Vec<Side> = Side::ALL.into_iter().filter(|side| options.wants(*side, &cells)).collect();
    if !options.no_build {
        brokers::prepare(&sides)?;
    }
    let mut clients = Clients::prepare(&cells)?;
    let brokers = sides.iter().map(|side| Running::start(*side)).collect::<Result<Vec<_>, _>>()?;
    let prepared = started.elapsed();
    clients.warm_up(&brokers);
    let mut figures = Figures::default();
    for round in 0..rounds {
        for cell in &cells {
            clients.measure(*cell, &brokers, (round, millis), &mut figures);
        }
        eprintln!("bench: round {} of {rounds} done after {} s", round + 1, started.elapsed().as_secs());
    }
    let text =
        report::text(&figures, &report::Run { rounds, millis, sides, prepared, whole: started.elapsed() });
    println!("{text}");
    if options.docs { super::page::write(report::TITLE, &text) } else { Ok(()) }
}

impl Options {
    fn cells(&self) -> Vec<Cell> {
        let mut cells = Vec::new();
        for (client, version) in
            [(Client::Raw, 2), (Client::Raw, 1), (Client::Java, 2), (Client::Librdkafka, 1)]
        {
            if !self.clients.is_empty() && !self.clients.contains(&client) {
                continue;
            }
            for producers in &self.producers {
                let cell = |records: &u32| Cell { client, version, producers: *producers, records: *records };
                cells.extend(self.records.iter().map(cell));
            }
        }
        cells
    }

    fn wants(&self, side: Side, cells: &[Cell]) -> bool {
        let named = self.brokers.is_empty() || self.brokers.contains(&side);
        named && cells.iter().any(|cell| cell.is_for(side))
    }
}

/// The client programs, started when they are needed and anew after a failure.
struct Clients(Vec<(Client, Worker)>);

impl Clients {
    fn prepare(cells: &[Cell]) -> Result<Clients, String> {
        let mut clients: Vec<Client> = cells.iter().map(|cell| cell.client).collect();
        // Raw frames also create the topics and warm the brokers up.
        clients.push(Client::Raw);
        clients.sort();
        clients.dedup();
        clients
            .into_iter()
            .map(|client| Ok((client, Worker::start(client)?)))
            .collect::<Result<_, _>>()
            .map(Clients)
    }

    /// Gives Java's compiler, in brokers and client, time to do its work.
    fn warm_up(&mut self, brokers: &[Running]) {
        let mut nowhere = Figures::default();
        for broker in brokers.iter().filter(|broker| broker.side.is_java()) {
            for version in [1, 2] {
                let cell = Cell { client: Client::Raw, version, producers: 16, records: 10 };
                self.measure(cell, std::slice::from_ref(broker), (0, 4000), &mut nowhere);
            }
        }
        let clients: Vec<Client> = self.0.iter().map(|(client, _)| *client).collect();
        for client in clients {
            let version = if client == Client::Java { 2 } else { 1 };
            let cell = Cell { client, version, producers: 1, records: 10 };
            self.measure(cell, brokers, (0, 1500), &mut nowhere);
        }
    }

    /// Measures a cell on each broker that it is for, beginning with another one in each round.
    fn measure<B: std::borrow::Borrow<Running>>(
        &mut self,
        cell: Cell,
        brokers: &[B],
        (round, millis): (usize, u64),
        figures: &mut Figures,
    ) {
        let Some((_, worker)) = self.0.iter_mut().find(|(client, _)| *client == cell.client) else { return };
        let turned = brokers.iter().cycle().skip(round % brokers.len().max(1)).take(brokers.len());
        for broker in turned.map(std::borrow::Borrow::borrow) {
            if !cell.is_for(broker.side) {
                continue;
            }
            match sample(worker, cell, broker, millis) {
                Ok(sample) => figures.add(cell, broker.side, round, sample),
                Err(why) => {
                    eprintln!("bench: {}, {cell:?}: {why}", broker.side.title());
                    figures.failed(cell, broker.side);
                    if let Ok(fresh) = Worker::start(cell.client) {
                        *worker = fresh;
                    }
                }
            }
        }
    }
}

/// One measurement: set up, then the time between `go` and `done`, with the CPU time of both ends.
fn sample(worker: &mut Worker, cell: Cell, broker: &Running, millis: u64) -> Result<Sample, String> {
    let patience = Duration::from_millis(millis) + Duration::from_secs(40);
    let Cell { version, producers, records, .. } = cell;
    worker.say(&format!("cell {} {version} {producers} {records} {millis}", broker.address))?;
    worker.hear("ready", patience)?;
    let before = (broker.cpu()?, worker.cpu()?);
    worker.say("go")?;
    let done = worker.hear("done ", patience)?;
    let after = (broker.cpu()?, worker.cpu()?);
    Sample::read(&done, after.0.saturating_sub(before.0), after.1.saturating_sub(before.1))
}
