//! The shapes, each a list of cells: a load, and the sides it is measured on.

use super::sides::Side;

/// A shape of the benchmark; the letters are those of the project's list of shapes. P8 is `bench txn`, P10 `bench
/// start`.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, clap::ValueEnum)]
pub(super) enum Shape {
    /// Records of 100 bytes in batches of 8 KiB.
    P1,
    /// Records of 1 KiB in batches of 16 KiB and 1 MiB, from 1, 3 and 50 producers; one record in a request.
    P2,
    /// One request after the other, and a tenth of what Kafka can do.
    Quiet,
    /// 100 partitions, four producers and four consumers, rate after rate.
    P3,
    /// Batches of a few records for many partitions in each request.
    P4,
    /// 10,000 partitions of which one in fifty is written to, beside 10.
    P5,
    /// Producing while a backlog is read, while what is produced is rewritten, while snapshots are written.
    P6,
    /// One record after the other, from the producer to a consumer that waits.
    P7,
    /// Fetching what was just written, what is cached, and what is on the disk.
    Fetch,
    /// Kafka's own tools and librdkafka.
    Clients,
    /// A steady rate while retention deletes.
    P9,
}

impl Shape {
    pub(super) const ALL: [Shape; 11] = [
        Shape::P1,
        Shape::P2,
        Shape::Quiet,
        Shape::P3,
        Shape::P4,
        Shape::P5,
        Shape::P6,
        Shape::P7,
        Shape::Fetch,
        Shape::Clients,
        Shape::P9,
    ];

    pub(super) fn title(self) -> &'static str {
        match self {
            Shape::P1 => "P1: records of 100 bytes in batches of 8 KiB, 6 partitions",
            Shape::P2 => "P2: records of 1 KiB",
            Shape::Quiet => "An unloaded broker, and a tenth of the rate",
            Shape::P3 => "P3: 100 partitions, 4 producers and 4 consumers, at fixed rates",
            Shape::P4 => "P4: records with keys, over many partitions",
            Shape::P5 => "P5: 10,000 partitions, 2 % of them active, compared with 10 partitions",
            Shape::P6 => "P6: produce during other work",
            Shape::P7 => "P7: end to end, one record at a time",
            Shape::Fetch => "Fetch",
            Shape::Clients => "Kafka's tools and librdkafka",
            Shape::P9 => "P9: a steady rate while retention deletes",
        }
    }

    /// Rounds of this shape when so many are asked for: what takes long gets fewer.
    pub(super) fn rounds(self, asked: usize) -> usize {
        match self {
            Shape::P9 => asked.min(1),
            Shape::P5 | Shape::Clients => asked.min(2),
            // Each is a pair, with and without, and p99 needs many.
            Shape::P6 => asked * 2,
            _ => asked,
        }
    }

    pub(super) fn cells(self) -> Vec<Cell> {
        let one = |name: &str, work: Work, sides: &[Side]| Cell::new(name, work, sides);
        match self {
            Shape::P1 => vec![
                one(SMALL_RECORDS, Work::Produce(Load { partitions: 6, ..SMALL }), &PRODUCE),
                one(
                    "100 B, 3 producers",
                    Work::Produce(Load { partitions: 6, producers: 3, ..SMALL }),
                    &PRODUCE,
                ),
            ],
            Shape::P2 => p2(),
            Shape::Quiet => quiet(),
            Shape::P3 => RATES.iter().map(|rate| one(&rate_name(*rate), ladder(*rate), &PRODUCE)).collect(),
            Shape::P4 => vec![
                one("keys, 100 partitions, 25 in each request", Work::Produce(keyed(100, 25)), &PRODUCE),
                one("keys, 1,000 partitions, 50 in each request", Work::Produce(keyed(1000, 50)), &PRODUCE),
            ],
            Shape::P5 => p5(),
            Shape::P6 => p6(),
            Shape::P7 => vec![one("end to end", Work::Single, &PAIRS)],
            Shape::Fetch => fetch(),
            Shape::Clients => clients(),
            Shape::P9 => vec![one(RETENTION, Work::Retention, &[Side::OttlaDisk, Side::KafkaCache])],
        }
    }
}

// The names of cells that goals speak of.
pub(super) const SMALL_RECORDS: &str = "100 B, 1 producer";
pub(super) const LARGE_BATCHES: &str = "1 MiB batches, 1 producer";
pub(super) const BATCHES: &str = "16 KiB batches, 1 producer";
pub(super) const SINGLES: &str = "1 KiB requests, 64 in flight";
pub(super) const UNLOADED: &str = "1 KiB, one request at a time";
pub(super) const TENTH_SYNCED: &str = "a tenth of Kafka's rate, synced";
pub(super) const TENTH_CACHED: &str = "a tenth of Kafka's rate, page cache";
pub(super) const MANY: &str = "1 KiB to 200 of 10,000 partitions";
pub(super) const FEW: &str = "1 KiB to 10 partitions";
pub(super) const ALONE: &str = "a third of the limit, nothing else";
pub(super) const BACKLOG: &str = "a third of the limit, a backlog is read";
pub(super) const REWRITTEN: &str = "a third of the limit, all is rewritten";
pub(super) const SNAPSHOTS: &str = "a third of the limit, snapshots all the time";
pub(super) const TAIL: &str = "fetch what was just written";
pub(super) const WARM: &str = "fetch 256 MiB again and again";
pub(super) const COLD: &str = "fetch 512 MiB from the disk";
pub(super) const RETENTION: &str = "50 MiB a second, 64 MiB kept";

/// Millions of bytes of batches that a second brings, for the plots.
pub(super) const RATES: [u32; 8] = [1, 4, 16, 32, 64, 128, 256, 512];

pub(super) fn rate_name(rate: u32) -> String {
    format!("{rate} MB/s")
}

const SMALL: Load = Load { record: 100, batch: 8 << 10, ..Load::ONE };
const LARGE: Load = Load { batch: 1 << 20, in_flight: 4, ..Load::ONE };
/// A paced client does not wait for answers: what is in flight is what a slow broker lets pile up.
const PACED: Load = Load { in_flight: 1000, ..Load::ONE };
const REQUEST: Load = Load { batch: 1024, in_flight: 1, ..Load::ONE };

/// Sides for what is produced: synced, from the page cache, and the limits of both.
const PRODUCE: [Side; 6] =
    [Side::Sink, Side::OttlaDisk, Side::KafkaFlush, Side::SinkDiscard, Side::OttlaOs, Side::KafkaCache];
const PAIRS: [Side; 4] = [Side::OttlaDisk, Side::KafkaFlush, Side::OttlaOs, Side::KafkaCache];

fn p2() -> Vec<Cell> {
    let several = |load: Load, producers: u32| Load { partitions: producers, producers, ..load };
    [
        (LARGE_BATCHES, LARGE),
        ("1 MiB batches, 3 producers", several(LARGE, 3)),
        (BATCHES, Load::ONE),
        ("16 KiB batches, 3 producers", several(Load::ONE, 3)),
        ("16 KiB batches, 50 producers", several(Load::ONE, 50)),
        (SINGLES, Load { in_flight: 64, ..REQUEST }),
    ]
    .into_iter()
    .map(|(name, load)| Cell::new(name, Work::Produce(load), &PRODUCE))
    .collect()
}

fn quiet() -> Vec<Cell> {
    let tenth = |side| Work::Paced { load: PACED, rate: Rate::part(10, BATCHES_AGAIN, side), consumers: 0 };
    vec![
        Cell::new(UNLOADED, Work::Produce(REQUEST), &PRODUCE),
        Cell::new(BATCHES_AGAIN, Work::Produce(Load::ONE), &PAIRS),
        Cell::new(TENTH_SYNCED, tenth(Side::KafkaFlush), &[Side::OttlaDisk, Side::KafkaFlush]),
        Cell::new(TENTH_CACHED, tenth(Side::KafkaCache), &[Side::OttlaOs, Side::KafkaCache]),
    ]
}

/// What a tenth is taken of.
const BATCHES_AGAIN: &str = "16 KiB batches, full speed";

fn ladder(rate: u32) -> Work {
    let load = Load { producers: 4, partitions: 100, in_flight: 1000, ..Load::ONE };
    Work::Paced { load, rate: Rate::Megabytes(rate), consumers: 4 }
}

fn keyed(partitions: u32, each: u32) -> Load {
    Load { record: 100, batch: 1024, producers: 4, partitions, each, ..Load::ONE }
}

fn p5() -> Vec<Cell> {
    let sides = [Side::OttlaDisk, Side::OttlaOs, Side::KafkaCache];
    let load = Load { producers: 4, in_flight: 16, ..REQUEST };
    let many = Load { partitions: 10_000, active: 200, ..load };
    vec![
        Cell::new(MANY, Work::Produce(many), &sides),
        Cell::new(FEW, Work::Produce(Load { partitions: 10, ..load }), &sides),
    ]
}

/// The rate is the same for all, those that do something else beside included.
fn p6() -> Vec<Cell> {
    const LIMIT: &str = "16 KiB batches, the limit";
    let rate = Rate::part(3, LIMIT, Side::Sink);
    let paced = Work::Paced { load: PACED, rate, consumers: 0 };
    let all = [Side::Sink, Side::OttlaDisk, Side::OttlaOs, Side::KafkaCache];
    vec![
        Cell::new(LIMIT, Work::Produce(Load::ONE), &[Side::Sink]),
        Cell::new(ALONE, paced.clone(), &all),
        Cell::new(BACKLOG, Work::Backlog { load: PACED, rate }, &all),
        Cell::new(REWRITTEN, paced.clone(), &[Side::OttlaRewrites]),
        Cell::new(SNAPSHOTS, paced, &[Side::OttlaSnapshots]),
    ]
}

fn fetch() -> Vec<Cell> {
    let brokers = |limit| [limit, Side::OttlaDisk, Side::KafkaCache];
    let work = |preload: u64, cold| Work::Fetch { preload: preload << 20, cold };
    vec![
        Cell::new(TAIL, work(8, false), &brokers(Side::Sink)),
        Cell::new(WARM, work(256, false), &brokers(Side::SinkFile)),
        Cell::new(COLD, work(512, true), &brokers(Side::SinkCold)),
    ]
}

fn clients() -> Vec<Cell> {
    let mut cells = Vec::new();
    for client in [Client::Java, Client::Librdkafka] {
        for record in [1024, 100] {
            let name = format!("{}: produce {record} B", client.title());
            cells.push(Cell::new(&name, Work::ProduceWith { client, record }, &PAIRS));
        }
        let name = format!("{}: consume 1 KiB", client.title());
        cells.push(Cell::new(&name, Work::ConsumeWith { client }, &[Side::OttlaDisk, Side::KafkaCache]));
    }
    cells
}

/// What a producer program sends.
#[derive(Clone, Copy)]
pub(super) struct Load {
    /// Bytes of a record's value.
    pub(super) record: u32,
    /// Bytes that a batch has at most, if one record is not larger.
    pub(super) batch: u32,
    /// Connections, each with a producer id of its own.
    pub(super) producers: u32,
    /// Requests of a connection that wait for their answers, at most.
    pub(super) in_flight: u32,
    pub(super) partitions: u32,
    /// Of which so many are written to; 0: all.
    pub(super) active: u32,
    /// Partitions that one request writes to.
    pub(super) each: u32,
}

impl Load {
    /// One producer with Kafka's defaults: batches of 16 KiB, five in flight.
    pub(super) const ONE: Load =
        Load { record: 1024, batch: 16 << 10, producers: 1, in_flight: 5, partitions: 1, active: 0, each: 1 };
}

/// How fast.
#[derive(Clone, Copy)]
pub(super) enum Rate {
    /// 10^6 bytes of batches a second.
    Megabytes(u32),
    /// Requests a second: one in so many of what that side did in that cell so far.
    PartOf { parts: u32, cell: &'static str, side: Side },
}

impl Rate {
    fn part(parts: u32, cell: &'static str, side: Side) -> Rate {
        Rate::PartOf { parts, cell, side }
    }
}

/// A stock client.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Client {
    /// Kafka's perf tools, with Kafka's own client.
    Java,
    Librdkafka,
}

impl Client {
    pub(super) fn title(self) -> &'static str {
        match self {
            Client::Java => "Kafka's tools 4.4.0",
            Client::Librdkafka => "librdkafka 2.16.0",
        }
    }
}

/// What is measured.
#[derive(Clone)]
pub(super) enum Work {
    /// Produce as fast as answers allow.
    Produce(Load),
    /// Produce at a rate, whatever the answers, with consumers that follow.
    Paced { load: Load, rate: Rate, consumers: u32 },
    /// Fetch so many bytes that were produced before, out of the page cache or off the disk.
    Fetch { preload: u64, cold: bool },
    /// Produce at a rate while a backlog is read off the disk, as fast as that goes.
    Backlog { load: Load, rate: Rate },
    /// One record after the other, from the producer to the consumer.
    Single,
    /// Produce at a rate for a long time, with retention that deletes.
    Retention,
    /// Produce with a stock client.
    ProduceWith { client: Client, record: u32 },
    /// Consume with a stock client.
    ConsumeWith { client: Client },
}

/// One line of a table.
#[derive(Clone)]
pub(super) struct Cell {
    pub(super) name: String,
    pub(super) work: Work,
    pub(super) sides: Vec<Side>,
}

impl Cell {
    fn new(name: &str, work: Work, sides: &[Side]) -> Cell {
        Cell { name: name.to_owned(), work, sides: sides.to_vec() }
    }

    /// Milliseconds of the load before the clock starts: longer where each partition has a first request, which costs
    /// more.
    pub(super) fn warm(&self) -> u64 {
        match self.work {
            Work::Produce(Load { partitions, .. }) if partitions >= 100 => 1000,
            Work::Backlog { .. } => 500,
            _ => 300,
        }
    }
}
