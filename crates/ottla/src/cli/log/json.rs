//! Entries as JSON.

use super::line::{CAP, children, siblings, topic_id};
use crate::cli::format;
use bytes::Bytes;
use ottla_layout::explain::{FieldSpan, FieldValue};
use ottla_salvage::TopicNames;
use ottla_wire::batch::Batch;
use serde_json::{Map, Value, json};

/// The fields of an entry, without kind and version.
pub(super) fn fields(pieces: &[FieldSpan], bytes: &Bytes, names: &TopicNames) -> Value {
    let fields = siblings(pieces, 2, 0).into_iter().map(|id| field(pieces, id, bytes, names));
    Value::Object(fields.collect())
}

fn field(pieces: &[FieldSpan], id: usize, bytes: &Bytes, names: &TopicNames) -> (String, Value) {
    let name = pieces.get(id).map_or("", |piece| piece.name);
    (name.to_owned(), value(pieces, id, bytes, names))
}

fn value(pieces: &[FieldSpan], id: usize, bytes: &Bytes, names: &TopicNames) -> Value {
    let Some(piece) = pieces.get(id) else { return Value::Null };
    let below = children(pieces, id);
    let all = |ids: &[usize]| ids.iter().map(|id| value(pieces, *id, bytes, names)).collect::<Vec<_>>();
    match (piece.word, below.as_slice()) {
        ("list", [_count, elements @ ..]) => all(elements).into(),
        ("if any", [_present]) => Value::Null,
        ("if any", [_present, found]) => value(pieces, *found, bytes, names),
        ("pair" | "triple", parts) => all(parts).into(),
        ("record batch", _) => batch(&own(piece, bytes)),
        ("TopicPartition", [topic, partition]) => {
            let mut fields = Map::from_iter([*topic, *partition].map(|id| field(pieces, id, bytes, names)));
            if let Some(FieldValue::Topic(id)) = pieces.get(*topic).map(|piece| &piece.value) {
                fields.insert("name".to_owned(), names.topic(*id).into());
            }
            fields.into()
        }
        (_, []) => said(piece, &own(piece, bytes)),
        (_, parts) => Value::Object(parts.iter().map(|id| field(pieces, *id, bytes, names)).collect()),
    }
}

fn own(piece: &FieldSpan, bytes: &Bytes) -> Bytes {
    bytes.slice(piece.at.min(bytes.len())..(piece.at + piece.size).min(bytes.len()))
}

fn said(piece: &FieldSpan, own: &[u8]) -> Value {
    match &piece.value {
        FieldValue::Nothing => Value::Null,
        FieldValue::Number(number) => {
            i64::try_from(*number).map_or_else(|_| number.to_string().into(), Value::from)
        }
        FieldValue::Named(_, name) => (*name).into(),
        FieldValue::Bool(value) => (*value).into(),
        FieldValue::Time(millis) => (*millis).into(),
        FieldValue::Hex(value) => format!("{value:0width$x}", width = 2 * piece.size).into(),
        FieldValue::Text(text) => text.clone().into(),
        FieldValue::Bytes(length) => {
            format::bytes(Some(own.get(own.len().saturating_sub(*length)..).unwrap_or_default()))
        }
        FieldValue::Elements(count) => (*count).into(),
        FieldValue::Topic(id) => topic_id(*id).into(),
    }
}

/// A batch with its records, or with the reason why they cannot be read.
fn batch(bytes: &Bytes) -> Value {
    let batch = match Batch::only(bytes) {
        Ok(batch) => batch,
        Err(error) => return json!({ "fault": error.to_string() }),
    };
    let header = *batch.header();
    let mut shown = Map::new();
    shown.insert("base_offset".to_owned(), header.base_offset.into());
    shown.insert("attributes".to_owned(), header.attributes.into());
    shown.insert("crc".to_owned(), format!("{:08x}", header.crc).into());
    if let Err(error) = batch.check_crc() {
        shown.insert("fault".to_owned(), error.to_string().into());
    }
    match batch.records(CAP) {
        Err(error) => {
            shown.insert("fault".to_owned(), error.to_string().into());
        }
        Ok(set) => {
            let records = set.iter().map(|record| match record {
                Ok(record) => json!({
                    "offset": header.base_offset + i64::from(record.offset_delta),
                    "timestamp": header.timestamp(record.timestamp_delta),
                    "key": format::bytes(record.key),
                    "value": format::bytes(record.value),
                    "headers": record.headers.clone()
                        .map(|one| json!([String::from_utf8_lossy(one.key), format::bytes(one.value)]))
                        .collect::<Vec<_>>(),
                }),
                Err(error) => json!({ "fault": error.to_string() }),
            });
            shown.insert("records".to_owned(), records.collect::<Vec<_>>().into());
        }
    }
    shown.into()
}
