//! Record batches as JSON, for reading only.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use ottla_wire::batch::{self, Batch, BatchError, ControlRecord, Record};
use serde_json::{Value, json};

/// The most decompressed bytes of a batch.
const MAX_DECOMPRESSED: usize = 64 << 20;

/// The batches of a records field. A batch that cannot be read has the reason in `error` and is the last one.
pub(super) fn explain_batches(records: &Bytes) -> Value {
    batch::split(records).map(|batch| batch.map_or_else(error, |batch| one(&batch))).collect()
}

fn error(why: BatchError) -> Value {
    json!({ "error": why.to_string() })
}

fn one(batch: &Batch) -> Value {
    let header = batch.header();
    let mut json = json!({
        "baseOffset": header.base_offset,
        "lastOffset": header.last_offset(),
        "partitionLeaderEpoch": header.partition_leader_epoch,
        "crc": format!("{:08x}", header.crc),
        "compression": header.compression().map_or("undefined", |codec| codec.name()),
        "timestampType": if header.is_log_append_time() { "logAppendTime" } else { "createTime" },
        "isTransactional": header.is_transactional(),
        "isControl": header.is_control(),
        "maxTimestamp": header.max_timestamp,
        "producerId": header.producer_id,
        "producerEpoch": header.producer_epoch,
        "baseSequence": header.base_sequence,
    });
    if let Err(why) = batch.check_crc() {
        json["error"] = why.to_string().into();
    }
    match batch.records(MAX_DECOMPRESSED) {
        Ok(set) => {
            let records = set.iter().map(|record| record.map_or_else(error, |record| line(batch, &record)));
            json["records"] = records.collect();
        }
        Err(why) => json["error"] = why.to_string().into(),
    }
    json
}

fn line(batch: &Batch, record: &Record<'_>) -> Value {
    let header = batch.header();
    let mut json = json!({
        "offset": header.base_offset.saturating_add(record.offset_delta.into()),
        "timestamp": header.timestamp(record.timestamp_delta),
        "key": bytes(record.key),
        "value": bytes(record.value),
    });
    if header.is_control() {
        json["control"] = match ControlRecord::of(record) {
            Some(ControlRecord::End { commit: true, .. }) => "commit".into(),
            Some(ControlRecord::End { commit: false, .. }) => "abort".into(),
            Some(ControlRecord::Other(kind)) => kind.into(),
            None => Value::Null,
        };
    }
    if record.headers.len() > 0 {
        let headers = record.headers.clone();
        json["headers"] =
            headers.map(|h| json!({ "key": bytes(Some(h.key)), "value": bytes(h.value) })).collect();
    }
    json
}

/// UTF-8 as a string, other bytes as an object with base64.
fn bytes(bytes: Option<&[u8]>) -> Value {
    match bytes.map(|bytes| (bytes, std::str::from_utf8(bytes))) {
        None => Value::Null,
        Some((_, Ok(text))) => text.into(),
        Some((bytes, Err(_))) => json!({ "base64": STANDARD.encode(bytes) }),
    }
}
