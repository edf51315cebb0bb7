//! The history for the judge of the pipeline, from the lines that the programs wrote.

use super::pipeline::{INPUT, OUTPUT};
use super::programs::{Event, parse};
use ottla_checker::pipeline::{History, Record, TopicRead};
use std::collections::BTreeMap;

/// Collects the lines of a run.
pub(crate) fn history(text: &str) -> Result<History, String> {
    let mut collector = Collector::default();
    for line in text.lines() {
        let line = parse(line)?;
        collector.add(&line.process, line.event);
    }
    Ok(collector.finish())
}

#[derive(Default)]
struct Collector {
    history: History,
    /// The partitions of the input to which values were written.
    places: BTreeMap<String, i32>,
    /// By topic and reader.
    readings: BTreeMap<(String, String), TopicRead>,
}

impl Collector {
    fn add(&mut self, process: &str, event: Event) {
        match event {
            Event::Write { key, value } => {
                if let Some((INPUT, partition)) = place(&key) {
                    self.history.sent.insert(value.clone());
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
            // Workers report these during the run too. The last one counts, which is requested after the end.
            Event::Committed { key, offset } => {
                if let Some((INPUT, partition)) = place(&key) {
                    self.history.committed.insert(partition, offset.unwrap_or(0));
                }
            }
            _ => {}
        }
    }

    fn reading(&mut self, topic: &str, process: &str) -> &mut TopicRead {
        let name = (topic.to_owned(), process.to_owned());
        self.readings
            .entry(name)
            .or_insert_with(|| TopicRead { reader: process.to_owned(), ..TopicRead::default() })
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

/// Part of the names of the processes that read a topic after the end: `CLIENT reads TOPIC`.
const READS: &str = " reads ";

/// The topic and the partition of a key.
fn place(key: &str) -> Option<(&str, i32)> {
    let (topic, partition) = key.rsplit_once('/')?;
    Some((topic, partition.parse().ok()?))
}
