//! `ottla produce`: sends lines of standard input as records.

use super::failure::Failure;
use super::out::Out;
use super::{Connect, name_and_value};
use bytes::Bytes;
use clap::Args;
use clap::builder::PossibleValuesParser;
use ottla_client::{Compression, Producer, ProducerOptions, Record, RecordMetadata};
use serde_json::json;
use std::io::BufRead;
use tokio::sync::mpsc;

/// Lines that may wait to be sent before reading standard input pauses.
const LINES_AHEAD: usize = 10_000;
/// The most lines in one call of the producer.
const LINES_AT_ONCE: usize = 5_000;

/// Send lines from standard input, each as one record.
///
/// Every record is acknowledged by all replicas before the command ends, and retries do not duplicate records. With a
/// transactional id all lines are one transaction: it commits when the input ends, and aborts if the command fails.
#[derive(Args)]
pub(crate) struct Produce {
    #[command(flatten)]
    connect: Connect,
    /// Topic to send to; created if the broker creates topics automatically.
    topic: String,
    /// Key of every record. Equal keys go to the same partition and stay in order.
    #[arg(short, long, conflicts_with = "key_delimiter")]
    key: Option<String>,
    /// Split each line at the first DELIM: key before it, value after. A line without it has no key.
    #[arg(short = 'K', long, value_name = "DELIM", value_parser = not_empty)]
    key_delimiter: Option<String>,
    /// Send to this partition, instead of choosing by key.
    #[arg(short, long, value_name = "NUMBER")]
    partition: Option<i32>,
    /// A header for every record; may be repeated.
    #[arg(short = 'H', long, value_name = "NAME=VALUE", value_parser = name_and_value)]
    header: Vec<(String, String)>,
    /// Compress batches with this codec.
    #[arg(short = 'z', long, value_name = "CODEC", default_value = "none",
        value_parser = PossibleValuesParser::new(["none", "gzip", "snappy", "lz4", "zstd"]))]
    compression: String,
    /// Send everything in one transaction under this id; another producer with this id is fenced.
    #[arg(long, value_name = "ID")]
    transactional_id: Option<String>,
    /// Print partition and offset of every record.
    #[arg(short, long)]
    verbose: bool,
}

fn not_empty(text: &str) -> Result<String, String> {
    if text.is_empty() { Err("expected at least one character".to_owned()) } else { Ok(text.to_owned()) }
}

impl Produce {
    pub(super) async fn run(self, out: &mut Out) -> Result<(), Failure> {
        let client = self.connect.client().await?;
        let options = ProducerOptions {
            transactional_id: self.transactional_id.clone(),
            compression: Compression::from_name(&self.compression).unwrap_or_default(),
            ..Default::default()
        };
        let mut producer = Producer::start(client, options).await?;
        if self.transactional_id.is_none() {
            return self.send_all(&mut producer, out).await;
        }
        producer.begin().await?;
        let sent = tokio::select! {
            sent = self.send_all(&mut producer, out) => sent,
            _ = tokio::signal::ctrl_c() => Err(Failure::new("interrupted; the transaction was aborted")),
        };
        match sent {
            Ok(()) => Ok(producer.commit().await?),
            Err(failure) => {
                producer.abort().await?;
                Err(failure)
            }
        }
    }

    async fn send_all(&self, producer: &mut Producer, out: &mut Out) -> Result<(), Failure> {
        let mut lines = lines();
        let mut batch = Vec::new();
        while lines.recv_many(&mut batch, LINES_AT_ONCE).await > 0 {
            let records: Result<Vec<Record>, Failure> =
                batch.drain(..).map(|line| self.record(line?)).collect();
            for placed in producer.send(&self.topic, self.partition, records?).await? {
                self.print(placed, out)?;
            }
            out.flush()?;
        }
        Ok(())
    }

    fn record(&self, mut line: Bytes) -> Result<Record, Failure> {
        let mut key = self.key.clone().map(Bytes::from);
        if let Some(delimiter) = &self.key_delimiter {
            let delimiter = delimiter.as_bytes();
            if let Some(place) = line.windows(delimiter.len()).position(|window| window == delimiter) {
                key = Some(line.split_to(place));
                line = line.slice(delimiter.len()..);
            }
        }
        let header = |(name, value): &(String, String)| (name.clone(), Some(Bytes::from(value.clone())));
        Ok(Record {
            key,
            value: Some(line),
            headers: self.header.iter().map(header).collect(),
            timestamp: None,
        })
    }

    fn print(&self, placed: RecordMetadata, out: &mut Out) -> Result<(), Failure> {
        let RecordMetadata { partition, offset } = placed;
        if self.connect.is_json() {
            let topic = &self.topic;
            out.json_line(&json!({ "topic": topic, "partition": partition, "offset": offset }))?;
        } else if self.verbose {
            out.line(format!("partition {partition} offset {offset}"))?;
        }
        Ok(())
    }
}

/// Reads standard input on a thread of its own, line by line, without the line ends.
fn lines() -> mpsc::Receiver<Result<Bytes, Failure>> {
    let (sender, lines) = mpsc::channel(LINES_AHEAD);
    std::thread::spawn(move || {
        let mut input = std::io::stdin().lock();
        loop {
            let mut line = Vec::new();
            let read = match input.read_until(b'\n', &mut line) {
                Ok(0) => return,
                Ok(_) => Ok(()),
                Err(error) => Err(Failure::new(format!("cannot read standard input: {error}"))),
            };
            if line.last() == Some(&b'\n') {
                line.pop();
            }
            if line.last() == Some(&b'\r') {
                line.pop();
            }
            let ends = read.is_err();
            if sender.blocking_send(read.map(|()| Bytes::from(line))).is_err() || ends {
                return;
            }
        }
    });
    lines
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Parser)]
    struct Wrapped {
        #[command(flatten)]
        produce: Produce,
    }

    fn record(arguments: &[&str], line: &'static str) -> (Option<Bytes>, Option<Bytes>) {
        let arguments = ["produce", "t"].iter().chain(arguments);
        let produce = Wrapped::parse_from(arguments).produce;
        let record = produce.record(Bytes::from_static(line.as_bytes())).unwrap();
        (record.key, record.value)
    }

    #[test]
    fn keys_come_from_the_flag_or_from_the_line() {
        assert_eq!(record(&[], "a:b"), (None, Some("a:b".into())));
        assert_eq!(record(&["--key", "k"], "a:b"), (Some("k".into()), Some("a:b".into())));
        assert_eq!(record(&["-K", ":"], "a:b:c"), (Some("a".into()), Some("b:c".into())));
        assert_eq!(record(&["-K", "=>"], "a=>b"), (Some("a".into()), Some("b".into())));
        assert_eq!(record(&["-K", ":"], "ab"), (None, Some("ab".into())));
        assert_eq!(record(&["-K", ":"], ":b"), (Some("".into()), Some("b".into())));
    }

    #[test]
    fn wrong_flags_are_refused() {
        for wrong in [["--compression", "zip"], ["--header", "novalue"], ["-K", ""]] {
            let arguments = ["produce", "t"].iter().chain(&wrong);
            assert!(Wrapped::try_parse_from(arguments).is_err(), "{wrong:?}");
        }
    }
}
