//! What the judge of the pipeline needs, taken from the lines that the programs wrote.

use std::collections::BTreeMap;

use super::check::{History, Reading, Record};
use super::pipeline::{INPUT, OUTPUT};
use super::programs::{Event, parse};

/// Sorts the lines of a run.
pub(crate) fn history(text: &str) -> Result<History, String> {
    let mut sorted = Sorted::default();
    for line in text.lines() {
        let line = parse(line)?;
        sorted.add(&line.process, line.event);
    }
    Ok(sorted.finish())
}

#[derive(Default)]
struct Sorted {
    history: History,
    /// The partitions of the input to which values were written.
    places: BTreeMap<String, i32>,
    /// By topic and reader.
    readings: BTreeMap<(String, String), Reading>,
}

impl Sorted {
    fn add(&mut self, process: &str, event: Event) {
        match event {
            Event::Write { key, value } => {
                if let Some((INPUT, partition)) = place(&key) {
                    self.history.asked.insert(value.clone());
                    self.places.insert(value, partition);
                }
            }
            Event::Ack { value, offset } => {
                if let Some(&partition) = self.places.get(&value) {
                    self.history.acked.push(Record { partition, offset, value });
                }
            }
            Event::Read { key, offset, value } => {
                let Some((topic, partition)) = place(&key) else { return };
                let record = Record { partition, offset, value };
                if process.contains(READS) {
                    self.reading(topic, process).records.push(record);
                } else if topic == INPUT {
                    self.history.seen.push(record);
                }
            }
            Event::Ends { key, high, stable } => {
                let Some((topic, partition)) = place(&key) else { return };
                self.reading(topic, process).ends.insert(partition, (high, stable));
            }
            // Workers tell these too while they are at it; the last one counts, which is asked for when all is over.
            Event::Committed { key, offset } => {
                if let Some((INPUT, partition)) = place(&key) {
                    self.history.committed.insert(partition, offset.unwrap_or(0));
                }
            }
            _ => {}
        }
    }

    fn reading(&mut self, topic: &str, process: &str) -> &mut Reading {
        let name = (topic.to_owned(), process.to_owned());
        self.readings
            .entry(name)
            .or_insert_with(|| Reading { reader: process.to_owned(), ..Reading::default() })
    }

    fn finish(mut self) -> History {
        for ((topic, _), reading) in self.readings {
            match topic.as_str() {
                INPUT => self.history.input.push(reading),
                OUTPUT => self.history.output.push(reading),
                _ => {}
            }
        }
        self.history
    }
}

/// What the processes are called that read a topic in the end: `CLIENT reads TOPIC`.
const READS: &str = " reads ";

/// The topic and the partition of a key.
fn place(key: &str) -> Option<(&str, i32)> {
    let (topic, partition) = key.rsplit_once('/')?;
    Some((topic, partition.parse().ok()?))
}
