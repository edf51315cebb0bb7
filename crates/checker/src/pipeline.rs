//! The judge of a pipeline that copies each record of an input topic to an output topic exactly once, in transactions.
//! It compares what the programs wrote and read with the output that exactly one copy of each record gives.

use crate::violation::{Violation, violation};
use std::collections::{BTreeMap, BTreeSet};

/// A record at its place in a topic.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Record {
    /// Number of the partition.
    pub partition: i32,
    /// Offset in the partition.
    pub offset: i64,
    /// Value as text.
    pub value: String,
}

/// The records that one read_committed reader saw of a topic, from the first offset to the last stable one.
#[derive(Clone, Default)]
pub struct TopicRead {
    /// Name of the reader.
    pub reader: String,
    /// The records that it delivered.
    pub records: Vec<Record>,
    /// Of each partition, its high watermark and its last stable offset.
    pub ends: BTreeMap<i32, (i64, i64)>,
}

/// The observations of a run, collected after its end.
#[derive(Clone, Default)]
pub struct History {
    /// Input values that producers sent, acknowledged or not.
    pub sent: BTreeSet<String>,
    /// Input records that were acknowledged.
    pub acked: Vec<Record>,
    /// Input records as workers read them during the run.
    pub seen: Vec<Record>,
    /// The input topic, by different readers.
    pub input: Vec<TopicRead>,
    /// The output topic, by different readers. A value is `PARTITION OFFSET VALUE ATTEMPT`: the input record it was
    /// made from, and something that makes it unique.
    pub output: Vec<TopicRead>,
    /// The group's committed offsets on the input topic.
    pub committed: BTreeMap<i32, i64>,
}

/// Judges a history. An empty list means that every record was copied exactly once.
pub fn judge(history: &History) -> Vec<Violation> {
    let mut found = Vec::new();
    one_value_per_offset(history, &mut found);
    for (topic, readings) in [("input", &history.input), ("output", &history.output)] {
        readers_agree(topic, readings, &mut found);
        nothing_open(topic, readings, &mut found);
    }
    input_is_what_was_sent(history, &mut found);
    output_is_exactly_the_input(history, &mut found);
    output_is_in_order(history, &mut found);
    offsets_are_at_the_end(history, &mut found);
    found
}

fn one_value_per_offset(history: &History, found: &mut Vec<Violation>) {
    let all = |readings: &[TopicRead]| readings.iter().flat_map(|r| r.records.clone()).collect::<Vec<_>>();
    let input = [history.acked.clone(), history.seen.clone(), all(&history.input)].concat();
    for (topic, records) in [("input", input), ("output", all(&history.output))] {
        let mut values: BTreeMap<(i32, i64), String> = BTreeMap::new();
        for record in records {
            let place = (record.partition, record.offset);
            let first = values.entry(place).or_insert_with(|| record.value.clone());
            if *first != record.value {
                let what = format!("{topic} {place:?} is {first:?} and {:?}", record.value);
                found.push(violation("inconsistent-offsets", what));
            }
        }
    }
}

fn readers_agree(topic: &str, readings: &[TopicRead], found: &mut Vec<Violation>) {
    let Some((first, others)) = readings.split_first() else {
        return;
    };
    let set = |reading: &TopicRead| reading.records.iter().cloned().collect::<BTreeSet<_>>();
    let mine = set(first);
    for other in others {
        for record in mine.symmetric_difference(&set(other)) {
            let what = format!("{topic}: only one of {} and {} saw {record:?}", first.reader, other.reader);
            found.push(violation("readers-disagree", what));
        }
    }
}

fn nothing_open(topic: &str, readings: &[TopicRead], found: &mut Vec<Violation>) {
    for reading in readings {
        for (partition, (high, stable)) in &reading.ends {
            if high != stable {
                let what = format!("{topic} {partition} is stable up to {stable} only, of {high}");
                found.push(violation("open-transaction", what));
            }
        }
    }
}

/// The first reader's records; the others saw the same or were reported.
fn records(readings: &[TopicRead]) -> &[Record] {
    readings.first().map_or(&[], |reading| &reading.records)
}

fn input_is_what_was_sent(history: &History, found: &mut Vec<Violation>) {
    let mut places: BTreeMap<&str, (i32, i64)> = BTreeMap::new();
    for record in records(&history.input) {
        let place = (record.partition, record.offset);
        if let Some(before) = places.insert(&record.value, place) {
            let what = format!("{:?} is at {before:?} and at {place:?}", record.value);
            found.push(violation("duplicate-input", what));
        }
        if !history.sent.contains(&record.value) {
            found.push(violation("foreign-input", format!("{record:?} was never sent")));
        }
    }
    for (class, known) in [("lost-input", &history.acked), ("phantom-input", &history.seen)] {
        let there = |r: &Record| places.get(r.value.as_str()) == Some(&(r.partition, r.offset));
        for record in known.iter().filter(|r| !there(r)) {
            found.push(violation(class, format!("{record:?} is not there any more")));
        }
    }
}

/// The input place and value that an output value names.
fn origin(value: &str) -> Option<Record> {
    let mut parts = value.split(' ');
    let partition = parts.next()?.parse().ok()?;
    let offset = parts.next()?.parse().ok()?;
    Some(Record { partition, offset, value: parts.next()?.to_owned() })
}

fn output_is_exactly_the_input(history: &History, found: &mut Vec<Violation>) {
    let mut times: BTreeMap<&Record, u32> = records(&history.input).iter().map(|r| (r, 0)).collect();
    for record in records(&history.output) {
        let from = origin(&record.value);
        match from.as_ref().and_then(|from| times.get_mut(from)) {
            Some(count) => *count += 1,
            None => found.push(violation("foreign", format!("{record:?} was made from no input record"))),
        }
    }
    for (record, count) in times {
        match count {
            0 => found.push(violation("lost", format!("{record:?} is not in the output"))),
            1 => {}
            _ => found.push(violation("duplicate", format!("{record:?} is {count} times in the output"))),
        }
    }
}

/// Within one output partition the records of one input partition keep their order: a later transaction starts where
/// the one before ended.
fn output_is_in_order(history: &History, found: &mut Vec<Violation>) {
    let mut sorted: Vec<&Record> = records(&history.output).iter().collect();
    sorted.sort_by_key(|r| (r.partition, r.offset));
    let mut last: BTreeMap<(i32, i32), i64> = BTreeMap::new();
    for record in sorted {
        let Some(from) = origin(&record.value) else {
            continue;
        };
        let before = last.insert((record.partition, from.partition), from.offset);
        if before.is_some_and(|before| before > from.offset) {
            found.push(violation("reordered", format!("{record:?} comes after one from offset {before:?}")));
        }
    }
}

fn offsets_are_at_the_end(history: &History, found: &mut Vec<Violation>) {
    let ends = history.input.first().map(|reading| &reading.ends);
    for (partition, (end, _)) in ends.into_iter().flatten() {
        let committed = history.committed.get(partition).copied().unwrap_or(0);
        if committed != *end {
            let what = format!("partition {partition} is committed at {committed}, the input ends at {end}");
            found.push(violation("wrong-committed-offset", what));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(partition: i32, offset: i64, value: &str) -> Record {
        Record { partition, offset, value: value.to_owned() }
    }

    /// Two partitions with two values each, moved once.
    fn good() -> History {
        let input = vec![record(0, 0, "v0"), record(1, 0, "v1"), record(0, 1, "v2"), record(1, 1, "v3")];
        let output = vec![
            record(0, 0, "0 0 v0 x"),
            record(0, 1, "1 0 v1 x"),
            record(1, 0, "0 1 v2 x"),
            record(1, 4, "1 1 v3 x"),
        ];
        let reading = |reader: &str, records: &[Record], end: i64| TopicRead {
            reader: reader.to_owned(),
            records: records.to_vec(),
            ends: BTreeMap::from([(0, (end, end)), (1, (end, end))]),
        };
        History {
            sent: input.iter().map(|r| r.value.clone()).collect(),
            acked: input.clone(),
            seen: input[..3].to_vec(),
            input: vec![reading("a", &input, 2), reading("b", &input, 2)],
            output: vec![reading("a", &output, 6), reading("b", &output, 6)],
            committed: BTreeMap::from([(0, 2), (1, 2)]),
        }
    }

    /// The classes found after a good history was spoilt.
    fn spoilt(spoil: impl Fn(&mut History)) -> Vec<&'static str> {
        let mut history = good();
        spoil(&mut history);
        judge(&history).into_iter().map(|f| f.class).collect()
    }

    fn both(readings: &mut [TopicRead], change: impl Fn(&mut Vec<Record>)) {
        readings.iter_mut().for_each(|reading| change(&mut reading.records));
    }

    #[test]
    fn a_good_history_passes() {
        assert_eq!(judge(&good()), []);
    }

    #[test]
    fn a_duplicate_is_found() {
        let found = spoilt(|h| both(&mut h.output, |records| records.push(record(0, 5, "1 1 v3 x"))));
        assert_eq!(found, ["duplicate"]);
    }

    #[test]
    fn a_lost_record_is_found() {
        assert_eq!(spoilt(|h| both(&mut h.output, |records| drop(records.remove(1)))), ["lost"]);
    }

    #[test]
    fn a_foreign_value_is_found() {
        let made_up = |h: &mut History| both(&mut h.output, |records| records.push(record(0, 5, "0 7 v9 x")));
        assert_eq!(spoilt(made_up), ["foreign"]);
        let swapped =
            |h: &mut History| both(&mut h.output, |records| records[0].value = "0 0 v1 x".to_owned());
        assert_eq!(spoilt(swapped), ["foreign", "lost"]);
        let garbage = |h: &mut History| both(&mut h.output, |records| records.push(record(0, 5, "hello")));
        assert_eq!(spoilt(garbage), ["foreign"]);
    }

    #[test]
    fn a_wrong_committed_offset_is_found() {
        for wrong in [vec![(0, 2), (1, 1)], vec![(0, 3), (1, 2)], vec![(1, 2)]] {
            let found = spoilt(|h| h.committed = wrong.iter().copied().collect());
            assert_eq!(found, ["wrong-committed-offset"]);
        }
    }

    #[test]
    fn an_offset_with_two_values_is_found() {
        assert_eq!(spoilt(|h| h.seen.push(record(0, 0, "v2"))), ["inconsistent-offsets", "phantom-input"]);
        let by_the_second = spoilt(|h| h.output[1].records[0].value = "1 0 v1 x".to_owned());
        assert!(by_the_second.contains(&"inconsistent-offsets"));
    }

    #[test]
    fn a_reader_that_misses_a_record_is_found() {
        assert_eq!(spoilt(|h| drop(h.output[1].records.pop())), ["readers-disagree"]);
        assert_eq!(spoilt(|h| drop(h.input[1].records.pop())), ["readers-disagree"]);
    }

    #[test]
    fn an_open_transaction_is_found() {
        assert_eq!(spoilt(|h| h.output[0].ends.extend([(1, (6, 4))])), ["open-transaction"]);
    }

    #[test]
    fn a_spoilt_input_is_found() {
        assert_eq!(spoilt(|h| h.acked.push(record(0, 2, "v4"))), ["lost-input"]);
        assert_eq!(spoilt(|h| h.seen.push(record(0, 2, "v4"))), ["phantom-input"]);
        assert_eq!(spoilt(|h| h.sent.retain(|v| v != "v3")), ["foreign-input"]);
        let twice = spoilt(|h| both(&mut h.input, |records| records.push(record(0, 2, "v0"))));
        assert!(twice.contains(&"duplicate-input"), "{twice:?}");
    }

    #[test]
    fn an_output_out_of_order_is_found() {
        let found = spoilt(|h| both(&mut h.output, |records| records[2] = record(0, -1, "0 1 v2 x")));
        assert_eq!(found, ["reordered"]);
    }
}
