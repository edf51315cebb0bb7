//! Makes the bytes of a request from the text of a script.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use ottla_wire::batch::{BatchBuilder, Header, NewRecord, seal};
use ottla_wire::codec::Compression;
use ottla_wire::tables::{MessageTable, StructTable, Type};
use serde_json::{Map, Value};
use std::collections::BTreeMap;

/// The values of a script while it is played on one broker.
#[derive(Clone, Debug)]
pub struct Scope {
    /// The prefix of every name that the script creates.
    pub prefix: String,
    /// Values: taken from answers, or given.
    pub values: BTreeMap<String, Value>,
    /// The time that the times of records count from, in milliseconds since 1970.
    pub time: i64,
}

impl Scope {
    /// The name of the script's own that it writes as `~name`.
    pub fn own(&self, name: &str) -> String {
        format!("{}-{name}", self.prefix)
    }

    /// The JSON with names, values and batches in their places.
    ///
    /// # Errors
    /// A value is not known, or a batch is not described as one.
    pub fn filled(&self, json: &Value) -> Result<Value, String> {
        match json {
            Value::String(text) => self.text(text),
            Value::Array(list) => list.iter().map(|one| self.filled(one)).collect(),
            Value::Object(object) => {
                if let Some(batch) = object.get("$batch") {
                    return Ok(STANDARD.encode(self.batches(&self.filled(batch)?)?).into());
                }
                if let Some(text) = object.get("$base64").and_then(Value::as_str) {
                    return Ok(STANDARD.encode(text).into());
                }
                if let Some(times) = object.get("$long").and_then(Value::as_u64) {
                    return Ok("x".repeat(times as usize).into());
                }
                let filled = object.iter().map(|(key, value)| Ok((key.clone(), self.filled(value)?)));
                Ok(Value::Object(filled.collect::<Result<Map<_, _>, String>>()?))
            }
            other => Ok(other.clone()),
        }
    }

    fn text(&self, text: &str) -> Result<Value, String> {
        if let Some(name) = text.strip_prefix('~') {
            return Ok(self.own(name).into());
        }
        let Some(name) = text.strip_prefix('$') else { return Ok(text.into()) };
        let at = name.find(['+', '-']).unwrap_or(name.len());
        let (name, step) = name.split_at(at);
        let value = self.values.get(name).ok_or_else(|| format!("nothing has given ${name} a value"))?;
        if step.is_empty() {
            return Ok(value.clone());
        }
        let step: i64 = step.parse().map_err(|_| format!("{text}: {step} is no number"))?;
        let value = value.as_i64().ok_or_else(|| format!("{text}: {value} is no number"))?;
        Ok((value + step).into())
    }

    /// One batch, or several behind one another.
    fn batches(&self, spec: &Value) -> Result<Vec<u8>, String> {
        match spec.get("all").and_then(Value::as_array) {
            None => self.batch(spec),
            Some(all) => Ok(all.iter().map(|one| self.batch(one)).collect::<Result<Vec<_>, _>>()?.concat()),
        }
    }

    fn batch(&self, spec: &Value) -> Result<Vec<u8>, String> {
        let number = |name: &str, default: i64| spec.get(name).and_then(Value::as_i64).unwrap_or(default);
        let flag = |name: &str| spec.get(name).and_then(Value::as_bool).unwrap_or(false);
        let codec = spec.get("codec").and_then(Value::as_str).unwrap_or("none");
        let codec = Compression::from_name(codec).ok_or_else(|| format!("there is no codec {codec}"))?;
        let mut builder = BatchBuilder::new(codec)
            .producer(number("pid", -1), number("epoch", -1) as i16, number("seq", -1) as i32)
            .base_offset(number("base", 0))
            .transactional(flag("txn"))
            .control(flag("control"));
        let plain;
        let records = match spec.as_array().or_else(|| spec.get("records").and_then(Value::as_array)) {
            Some(records) => records,
            None => {
                let count = number("count", 1);
                plain = (0..count).map(|n| Value::String(format!("r{n}"))).collect::<Vec<_>>();
                &plain
            }
        };
        for (at, record) in records.iter().enumerate() {
            self.push(&mut builder, record, number("time", 0) + at as i64);
        }
        let mut bytes = builder.build().map_err(|e| e.to_string())?.to_vec();
        patch(&mut bytes, spec)?;
        Ok(bytes)
    }

    /// A record is its value, or an object with `key`, `value`, `headers` and `time`.
    fn push(&self, builder: &mut BatchBuilder, record: &Value, time: i64) {
        let text = |name: &str| record.get(name).and_then(Value::as_str).map(str::as_bytes);
        let value = if record.is_object() { text("value") } else { record.as_str().map(str::as_bytes) };
        let time = record.get("time").and_then(Value::as_i64).unwrap_or(time);
        let headers = record.get("headers").and_then(Value::as_array);
        let headers: Vec<Header<'_>> = headers
            .into_iter()
            .flatten()
            .map(|pair| Header {
                key: pair[0].as_str().unwrap_or_default().as_bytes(),
                value: pair[1].as_str().map(str::as_bytes),
            })
            .collect();
        builder.push(&NewRecord { timestamp: self.time + time, key: text("key"), value, headers: &headers });
    }
}

/// Writes over bytes: `patch` is a list of places and bytes in hex. The checksum is made anew unless `unsealed` is
/// true.
fn patch(bytes: &mut [u8], spec: &Value) -> Result<(), String> {
    let Some(patches) = spec.get("patch").and_then(Value::as_array) else { return Ok(()) };
    for patch in patches {
        let at = patch[0].as_u64().unwrap_or_default() as usize;
        let hex = patch[1].as_str().unwrap_or_default();
        for (step, pair) in hex.as_bytes().chunks(2).enumerate() {
            let byte = std::str::from_utf8(pair).ok().and_then(|pair| u8::from_str_radix(pair, 16).ok());
            let place = bytes.get_mut(at + step).ok_or_else(|| format!("{patch} is behind the batch"))?;
            *place = byte.ok_or_else(|| format!("{hex} is not hex"))?;
        }
    }
    if spec.get("unsealed").is_some() {
        return Ok(());
    }
    let length = bytes.get(8..12).map(<[u8]>::to_vec);
    seal(bytes).map_err(|e| e.to_string())?;
    // A length that was written over on purpose stays.
    if let (Some(length), Some(place)) = (length, bytes.get_mut(8..12))
        && patches.iter().any(|patch| patch[0] == 8)
    {
        place.copy_from_slice(&length);
    }
    Ok(())
}

/// The message without the fields that the version does not have, so that one text does for all versions.
pub fn pruned(table: &MessageTable, version: i16, json: &Value) -> Value {
    structure(table, table.root, version, json)
}

fn structure(message: &MessageTable, table: &StructTable, version: i16, json: &Value) -> Value {
    let Value::Object(object) = json else { return json.clone() };
    let mut out = Map::new();
    for (key, value) in object {
        let field = table.fields.iter().find(|field| field.name.eq_ignore_ascii_case(key));
        match field {
            // A list may be given to fields of two structs, of which one has no such field.
            None if has(message.root, key) => {}
            None => drop(out.insert(key.clone(), value.clone())),
            Some(field) if field.versions.contains(version) || field.tagged.contains(version) => {
                drop(out.insert(key.clone(), inner(message, &field.ty, version, value)));
            }
            Some(_) => {}
        }
    }
    Value::Object(out)
}

/// Whether a struct has a field of that name, or one in it has.
fn has(table: &StructTable, key: &str) -> bool {
    table.fields.iter().any(|field| {
        field.name.eq_ignore_ascii_case(key)
            || match &field.ty {
                Type::Struct(inner) | Type::Array(Type::Struct(inner)) => has(inner, key),
                _ => false,
            }
    })
}

fn inner(message: &MessageTable, ty: &Type, version: i16, json: &Value) -> Value {
    match (ty, json) {
        (Type::Struct(table), json) => structure(message, table, version, json),
        (Type::Array(element), Value::Array(list)) => {
            list.iter().map(|one| inner(message, element, version, one)).collect()
        }
        _ => json.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn scope() -> Scope {
        Scope { prefix: "s-v1".to_owned(), values: BTreeMap::from([("n".to_owned(), json!(7))]), time: 1000 }
    }

    #[test]
    fn names_values_and_batches_take_their_places() {
        let filled = scope().filled(&json!({ "a": ["~t", "$n", "$n+2", "$n-8"], "b": { "$long": 3 } }));
        assert_eq!(filled, Ok(json!({ "a": ["s-v1-t", 7, 9, -1], "b": "xxx" })));
        assert!(scope().filled(&json!("$m")).is_err());
        let batch =
            scope().filled(&json!({ "$batch": { "records": ["a"], "pid": "$n", "epoch": 0, "seq": 0 } }));
        let bytes = STANDARD.decode(batch.unwrap().as_str().unwrap()).unwrap();
        let batch = ottla_wire::batch::Batch::only(&bytes.into()).unwrap();
        assert_eq!((batch.header().producer_id, batch.header().max_timestamp), (7, 1000));
        assert!(batch.check_crc().is_ok());
    }

    #[test]
    fn fields_of_other_versions_go() {
        let table = ottla_wire::tables::TableSet::built_in().message("ProduceRequest").unwrap();
        let json = json!({ "acks": 1, "topicData": [{ "name": "a", "topicId": "b", "partitionData": [] }] });
        assert_eq!(pruned(table, 9, &json)["topicData"], json!([{ "name": "a", "partitionData": [] }]));
        assert_eq!(pruned(table, 13, &json)["topicData"], json!([{ "topicId": "b", "partitionData": [] }]));
    }
}
