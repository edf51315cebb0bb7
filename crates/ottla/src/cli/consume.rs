//! `ottla consume`: prints records.

use super::Connect;
use super::failure::Failure;
use super::format::{self, Pattern};
use super::out::Out;
use clap::{Args, ValueEnum};
use ottla_client::{
    Client, ConsumedRecord, Consumer, GroupConsumer, GroupOffset, GroupOptions, Isolation, Start,
};
use std::io::{self, IsTerminal};
use std::time::Duration;

/// How long one fetch waits for records.
const WAIT: Duration = Duration::from_millis(500);

/// Print the records of a topic, from the beginning, and then new records as they arrive.
///
/// Ends with Ctrl-C, after --count records, or with --exit-at-end at the end of the topic. A terminal gets control
/// characters of records escaped; a pipe or file gets the bytes as they are.
#[derive(Args)]
pub(crate) struct Consume {
    #[command(flatten)]
    connect: Connect,
    /// Topic to read.
    topic: String,
    /// Where to start: beginning, end, or an offset. With --group it applies only where the group has no committed
    /// offset.
    #[arg(long, value_name = "PLACE", default_value = "beginning", value_parser = start_at)]
    from: StartAt,
    /// Read this partition only.
    #[arg(short, long, value_name = "NUMBER", conflicts_with = "group")]
    partition: Option<i32>,
    /// Read as a member of this consumer group: partitions are shared with the other members, offsets are committed as
    /// records are printed.
    #[arg(short, long, value_name = "GROUP")]
    group: Option<String>,
    /// Which records of transactions to print.
    #[arg(short, long, value_enum, value_name = "LEVEL", default_value_t = IsolationLevel::ReadCommitted)]
    isolation: IsolationLevel,
    /// End after N records.
    #[arg(short, long, value_name = "N")]
    count: Option<usize>,
    /// End when all partitions are read to their end.
    #[arg(short, long)]
    exit_at_end: bool,
    /// Print each record by this pattern: %t topic, %p partition, %o offset, %k key, %s value, %h headers, %T
    /// timestamp; \n, \t and \xNN as usual.
    #[arg(short, long, value_name = "PATTERN", default_value = format::DEFAULT)]
    format: Pattern,
}

/// Isolation level.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
#[value(rename_all = "snake_case")]
enum IsolationLevel {
    /// Records of committed transactions, and records outside of transactions.
    ReadCommitted,
    /// All records, those of open and aborted transactions too.
    ReadUncommitted,
}

/// Where to start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum StartAt {
    Beginning,
    End,
    Offset(i64),
}

fn start_at(text: &str) -> Result<StartAt, String> {
    match text {
        "beginning" | "earliest" => Ok(StartAt::Beginning),
        "end" | "latest" => Ok(StartAt::End),
        _ => match text.parse() {
            Ok(offset) if offset >= 0 => Ok(StartAt::Offset(offset)),
            _ => Err("expected beginning, end, or an offset from 0 on".to_owned()),
        },
    }
}

impl StartAt {
    fn start(self) -> Start {
        if self == StartAt::End { Start::Latest } else { Start::Earliest }
    }
}

/// A consumer without or with a group.
enum Reader {
    Alone(Consumer),
    Member(GroupConsumer),
}

impl Consume {
    pub(super) async fn run(self, out: &mut Out) -> Result<(), Failure> {
        let client = self.connect.client().await?;
        let mut reader = match &self.group {
            Some(group) => self.member(&client, group)?,
            None => self.alone(&client).await?,
        };
        let read = tokio::select! {
            read = self.read(&mut reader, out) => read,
            _ = tokio::signal::ctrl_c() => Ok(()),
        };
        out.flush()?;
        if let Reader::Member(member) = reader {
            member.leave().await?;
        }
        read
    }

    fn isolation(&self) -> Isolation {
        match self.isolation {
            IsolationLevel::ReadCommitted => Isolation::ReadCommitted,
            IsolationLevel::ReadUncommitted => Isolation::ReadUncommitted,
        }
    }

    fn member(&self, client: &Client, group: &str) -> Result<Reader, Failure> {
        if let StartAt::Offset(_) = self.from {
            return Err(Failure::new("a group cannot start from an offset given here")
                .remedy("Set it with `ottla group reset`, or start from beginning or end."));
        }
        let options = GroupOptions {
            start: self.from.start(),
            isolation: self.isolation(),
            ..GroupOptions::new(group, &[&self.topic])
        };
        Ok(Reader::Member(GroupConsumer::new(client, options)))
    }

    async fn alone(&self, client: &Client) -> Result<Reader, Failure> {
        let topic = client.topic(&self.topic, false).await?;
        let partitions: Vec<i32> = match self.partition {
            Some(partition) => vec![partition],
            None => topic.partitions.keys().copied().collect(),
        };
        partitions.iter().try_for_each(|partition| topic.leader(*partition).map(drop))?;
        let mut consumer = Consumer::new(client, self.isolation());
        if let StartAt::Offset(offset) = self.from {
            partitions.iter().for_each(|partition| consumer.assign(&self.topic, *partition, offset));
            return Ok(Reader::Alone(consumer));
        }
        let start = self.from.start();
        for (partition, place) in
            client.list_offsets(&self.topic, &partitions, start, self.isolation()).await?
        {
            consumer.assign(&self.topic, partition, place.offset);
        }
        Ok(Reader::Alone(consumer))
    }

    async fn read(&self, reader: &mut Reader, out: &mut Out) -> Result<(), Failure> {
        let mut left = self.count.unwrap_or(usize::MAX);
        while left > 0 {
            let records = match reader {
                Reader::Alone(consumer) => consumer.poll(WAIT).await?,
                Reader::Member(member) => member.poll(WAIT).await?,
            };
            let shown = &records[..records.len().min(left)];
            for record in shown {
                self.print(record, out)?;
            }
            out.flush()?;
            left -= shown.len();
            let at_end = match reader {
                Reader::Alone(consumer) => consumer.at_end(),
                Reader::Member(member) => {
                    if shown.len() == records.len() {
                        member.commit().await?;
                    } else {
                        member.commit_at(&behind(shown)).await?;
                    }
                    member.at_end()
                }
            };
            if self.exit_at_end && at_end {
                break;
            }
        }
        Ok(())
    }

    fn print(&self, record: &ConsumedRecord, out: &mut Out) -> Result<(), Failure> {
        if self.connect.is_json() {
            return Ok(out.json_line(&format::json(record))?);
        }
        // A terminal acts on control characters; a program that reads a pipe gets the bytes as they are.
        Ok(out.raw(&self.format.print(record, io::stdout().is_terminal()))?)
    }
}

/// The offsets after these records, one for each partition.
fn behind(records: &[ConsumedRecord]) -> Vec<GroupOffset> {
    let mut offsets: Vec<GroupOffset> = Vec::new();
    for record in records {
        let next = record.offset + 1;
        match offsets.iter_mut().find(|offset| offset.partition == record.partition) {
            Some(offset) => offset.offset = next,
            None => offsets.push(GroupOffset {
                topic: record.topic.to_string(),
                partition: record.partition,
                offset: next,
            }),
        }
    }
    offsets
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Parser)]
    struct Wrapped {
        #[command(flatten)]
        consume: Consume,
    }

    fn parse(arguments: &[&str]) -> Result<Consume, clap::Error> {
        let arguments = ["consume", "t"].iter().chain(arguments);
        Wrapped::try_parse_from(arguments).map(|wrapped| wrapped.consume)
    }

    #[test]
    fn a_start_is_a_name_or_an_offset() {
        assert_eq!(start_at("beginning"), Ok(StartAt::Beginning));
        assert_eq!(start_at("latest"), Ok(StartAt::End));
        assert_eq!(start_at("17"), Ok(StartAt::Offset(17)));
        assert!(start_at("-1").is_err());
        assert!(start_at("middle").is_err());
    }

    #[test]
    fn flags_are_read_and_contradictions_refused() {
        let consume = parse(&["-e", "-c", "5", "-f", "%k", "--isolation", "read_uncommitted"]).unwrap();
        assert!(consume.exit_at_end && consume.isolation == IsolationLevel::ReadUncommitted);
        assert_eq!(consume.count, Some(5));
        assert!(parse(&["--group", "g", "--partition", "1"]).is_err());
        assert!(parse(&["--format", "%z"]).is_err());
        assert!(parse(&["--isolation", "serializable"]).is_err());
    }

    #[test]
    fn only_what_was_printed_is_committed() {
        let record = |partition, offset| ConsumedRecord {
            topic: "t".into(),
            partition,
            offset,
            timestamp: -1,
            key: None,
            value: None,
            headers: Vec::new(),
        };
        let offsets = behind(&[record(0, 4), record(1, 9), record(0, 5)]);
        let offsets: Vec<(i32, i64)> = offsets.iter().map(|o| (o.partition, o.offset)).collect();
        assert_eq!(offsets, [(0, 6), (1, 10)]);
    }
}
