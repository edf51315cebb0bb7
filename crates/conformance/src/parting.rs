//! Differences that only random histories show: Kafka's answers are adjusted where the page of differences says so, and
//! a history ends where the two brokers hold other data from then on.

use crate::player::{Exchange, at_path};
use ottla_wire::ErrorCode;
use serde_json::Value;
use std::collections::BTreeSet;

/// Adjusts Kafka's answers in a history to the listed differences.
pub fn adjust(kafka: &mut [Exchange], ottla: &[Exchange]) {
    let mut log_starts = BTreeSet::new();
    for (theirs, ours) in kafka.iter_mut().zip(ottla) {
        match ours.api.as_str() {
            "DeleteRecords" => {
                log_starts.extend(at_path(&ours.answer, "topics.0.partitions.0.lowWatermark").as_i64());
            }
            "Fetch" => {
                adjust_last_stable(&mut theirs.answer, &ours.answer, &log_starts);
                adjust_aborted(&mut theirs.answer, &ours.answer);
                adjust_markers(&mut theirs.answer);
            }
            _ => {}
        }
    }
}

/// The partition of a Fetch response in a history, which has one.
const PARTITION: &str = "/responses/0/partitions/0";

/// In Kafka the last stable offset may lie below the start of the log after DeleteRecords.
fn adjust_last_stable(kafka: &mut Value, ottla: &Value, log_starts: &BTreeSet<i64>) {
    let path = format!("{PARTITION}/lastStableOffset");
    let (Some(theirs), Some(ours)) = (kafka.pointer_mut(&path), ottla.pointer(&path)) else { return };
    if let (Some(below), Some(start)) = (theirs.as_i64(), ours.as_i64())
        && below < start
        && log_starts.contains(&start)
    {
        *theirs = ours.clone();
    }
}

/// Kafka may list aborted transactions that begin after the returned records.
fn adjust_aborted(kafka: &mut Value, ottla: &Value) {
    let path = format!("{PARTITION}/abortedTransactions");
    let records = ottla.pointer(&format!("{PARTITION}/_records")).and_then(Value::as_array);
    let last = records.into_iter().flatten().filter_map(|batch| batch["lastOffset"].as_i64()).max();
    let Some(Value::Array(ours)) = ottla.pointer(&path) else { return };
    if let Some(Value::Array(theirs)) = kafka.pointer_mut(&path) {
        let begins_later = |one: &Value| one["firstOffset"].as_i64() > last;
        theirs.retain(|one| ours.contains(one) || !begins_later(one));
    }
}

/// In a topic with LogAppendTime Kafka's markers say that their time is of the append. Those of Ottla do not.
fn adjust_markers(kafka: &mut Value) {
    let batches = kafka.pointer_mut(&format!("{PARTITION}/_records")).and_then(Value::as_array_mut);
    for batch in batches.into_iter().flatten().filter(|batch| batch["isControl"] == true) {
        batch["timestampType"] = "createTime".into();
    }
}

/// Where the brokers hold other data from then on, because one accepts a batch that the other refuses: Kafka remembers
/// the sequence number of a batch that it refused, and it accepts batches with a producer id and a negative epoch.
pub fn parting(kafka: &[Exchange], ottla: &[Exchange]) -> Option<usize> {
    let code = |one: &Exchange| {
        let path = "responses.0.partitionResponses.0.errorCode";
        (one.api == "Produce").then(|| at_path(&one.answer, path).as_i64()).flatten()
    };
    let out_of_order = Some(i64::from(ErrorCode::OUT_OF_ORDER_SEQUENCE_NUMBER.0));
    let epoch = Some(i64::from(ErrorCode::INVALID_PRODUCER_EPOCH.0));
    let invalid = Some(i64::from(ErrorCode::INVALID_RECORD.0));
    let listed = [(out_of_order, Some(0)), (Some(0), out_of_order), (Some(0), epoch), (invalid, epoch)];
    let mut both = kafka.iter().zip(ottla).map(|(left, right)| (code(left), code(right)));
    both.position(|pair| listed.contains(&pair))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn exchange(api: &str, answer: Value) -> Exchange {
        let (at, api) = ("random-1-1:1".to_owned(), api.to_owned());
        Exchange { at, api, version: 5, asked: 0, answer, again: Vec::new() }
    }

    fn deleted(low_watermark: i64) -> Exchange {
        exchange(
            "DeleteRecords",
            json!({ "topics": [{ "partitions": [{ "lowWatermark": low_watermark }] }] }),
        )
    }

    fn fetched(last_stable: i64, aborted: &[i64]) -> Exchange {
        let aborted: Vec<Value> = aborted.iter().map(|first| json!({ "firstOffset": first })).collect();
        let partition = json!({ "lastStableOffset": last_stable, "abortedTransactions": aborted,
            "_records": [{ "lastOffset": 5 }] });
        exchange("Fetch", json!({ "responses": [{ "partitions": [partition] }] }))
    }

    fn produced(code: i64) -> Exchange {
        let answer = json!({ "responses": [{ "partitionResponses": [{ "errorCode": code }] }] });
        exchange("Produce", answer)
    }

    #[test]
    fn only_a_last_stable_offset_below_the_start_of_the_log_is_adjusted() {
        let ottla = [deleted(7), fetched(7, &[])];
        let mut kafka = [deleted(7), fetched(3, &[])];
        adjust(&mut kafka, &ottla);
        assert_eq!(kafka[1], ottla[1]);
        let mut kafka = [deleted(7), fetched(8, &[])];
        adjust(&mut kafka, &ottla);
        assert_ne!(kafka[1], ottla[1], "above");
        let mut kafka = [fetched(3, &[])];
        adjust(&mut kafka, &[fetched(7, &[])]);
        assert_ne!(kafka[0], ottla[1], "nothing was deleted");
    }

    #[test]
    fn only_aborted_transactions_after_the_records_are_left_out() {
        let mut kafka = [fetched(9, &[6, 0])];
        adjust(&mut kafka, &[fetched(9, &[0])]);
        assert_eq!(kafka[0], fetched(9, &[0]));
        let mut kafka = [fetched(9, &[5, 0])];
        adjust(&mut kafka, &[fetched(9, &[0])]);
        assert_eq!(kafka[0], fetched(9, &[5, 0]), "it begins within the records");
    }

    #[test]
    fn only_markers_may_have_another_timestamp_type() {
        let fetched = |control: bool, timestamps: &str| {
            let batch = json!({ "isControl": control, "timestampType": timestamps });
            exchange("Fetch", json!({ "responses": [{ "partitions": [{ "_records": [batch] }] }] }))
        };
        for control in [true, false] {
            let (mut kafka, ottla) = ([fetched(control, "logAppendTime")], [fetched(control, "createTime")]);
            adjust(&mut kafka, &ottla);
            assert_eq!(kafka == ottla, control);
        }
    }

    #[test]
    fn the_brokers_part_where_one_accepts_and_one_refuses() {
        let zero = [produced(0), produced(0)];
        assert_eq!(parting(&zero, &zero), None);
        assert_eq!(parting(&zero, &[produced(0), produced(45)]), Some(1));
        assert_eq!(parting(&[produced(45), produced(0)], &zero), Some(0));
        assert_eq!(parting(&zero, &[produced(47), produced(0)]), Some(0));
        assert_eq!(parting(&[produced(87)], &[produced(47)]), Some(0));
        assert_eq!(parting(&zero, &[produced(0), produced(87)]), None, "not listed");
    }
}
