//! The shapes, each a list of cells: a load, and the sides it is measured on.

use super::sides::Side;

/// A shape of the benchmark; the letters are those of the project's list of shapes.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, clap::ValueEnum)]
pub(super) enum Shape {
    /// Records of 100 bytes in batches of 8 KiB.
    P1,
    /// Records of 1 KiB in batches of 16 KiB and 1 MiB, from 1, 3 and 50 producers; one record in a request.
    P2,
}

impl Shape {
    pub(super) const ALL: [Shape; 2] = [Shape::P1, Shape::P2];

    pub(super) fn title(self) -> &'static str {
        match self {
            Shape::P1 => "P1: records of 100 bytes, batches of 8 KiB, 6 partitions",
            Shape::P2 => "P2: records of 1 KiB",
        }
    }

    pub(super) fn cells(self) -> Vec<Cell> {
        match self {
            Shape::P1 => vec![
                Cell::produce("100 B, 1 producer", Load { partitions: 6, ..SMALL }, &PRODUCE),
                Cell::produce("100 B, 3 producers", Load { partitions: 6, producers: 3, ..SMALL }, &PRODUCE),
            ],
            Shape::P2 => p2(),
        }
    }
}

const SMALL: Load = Load { record: 100, batch: 8 << 10, ..Load::ONE };
const LARGE: Load = Load { batch: 1 << 20, in_flight: 4, ..Load::ONE };

/// Sides for what is produced: synced, from the page cache, and the limits of both.
const PRODUCE: [Side; 6] =
    [Side::Sink, Side::OttlaDisk, Side::KafkaFlush, Side::SinkDiscard, Side::OttlaOs, Side::KafkaCache];

fn p2() -> Vec<Cell> {
    let several = |load: Load, producers: u32| Load { partitions: producers, producers, ..load };
    let single = Load { batch: 1024, in_flight: 64, ..Load::ONE };
    vec![
        Cell::produce("1 MiB batches, 1 producer", LARGE, &PRODUCE),
        Cell::produce("1 MiB batches, 3 producers", several(LARGE, 3), &PRODUCE),
        Cell::produce("16 KiB batches, 1 producer", Load::ONE, &PRODUCE),
        Cell::produce("16 KiB batches, 3 producers", several(Load::ONE, 3), &PRODUCE),
        Cell::produce("16 KiB batches, 50 producers", several(Load::ONE, 50), &PRODUCE),
        Cell::produce("1 KiB requests, 64 in flight", single, &PRODUCE),
    ]
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
    /// Requests of a connection that wait for their answers.
    pub(super) in_flight: u32,
    pub(super) partitions: u32,
}

impl Load {
    /// One producer with Kafka's defaults: batches of 16 KiB, five in flight.
    const ONE: Load = Load { record: 1024, batch: 16 << 10, producers: 1, in_flight: 5, partitions: 1 };
}

/// What is measured.
#[derive(Clone)]
pub(super) enum Work {
    /// Produce as fast as answers allow.
    Produce(Load),
}

/// One line of a table.
#[derive(Clone)]
pub(super) struct Cell {
    pub(super) name: String,
    pub(super) work: Work,
    pub(super) sides: Vec<Side>,
}

impl Cell {
    fn produce(name: &str, load: Load, sides: &[Side]) -> Cell {
        Cell { name: name.to_owned(), work: Work::Produce(load), sides: sides.to_vec() }
    }
}
