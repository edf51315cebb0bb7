//! Decodes bytes to JSON.

use super::batches::explain_batches;
use super::encode::is_default;
use super::{UNKNOWN_TAGS, is_compact, json_name};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use ottla_wire::tables::{FieldTable, MessageTable, StructTable, Type};
use ottla_wire::{At, DecodeError, DecodeProblem, Reader};
use serde_json::{Map, Value, json};

/// What the JSON contains in addition to the message.
#[derive(Clone, Copy, Debug, Default)]
pub struct Options {
    /// Whether `_records`, next to `records`, has the decoded record batches.
    pub opened: bool,
}

/// Decodes a message without size field and header. The reader stops after its last byte.
///
/// # Errors
/// The bytes are not a valid message, or the version is not valid.
pub fn decode(
    table: &'static MessageTable,
    version: i16,
    r: &mut Reader,
    options: Options,
) -> Result<Value, DecodeError> {
    if !table.versions.contains(version) {
        let problem = DecodeProblem::Version { version, valid: table.versions };
        return Err(DecodeError::new(&At(table.name, ""), r.offset(), problem));
    }
    Decoder { table, version, options }.structure(r, table.root)
}

struct Decoder {
    table: &'static MessageTable,
    version: i16,
    options: Options,
}

type DecodeResult<T = Value> = Result<T, DecodeError>;

impl Decoder {
    fn structure(&self, r: &mut Reader, table: &'static StructTable) -> DecodeResult {
        let mut object = Map::new();
        for field in table.plain(self.version) {
            self.field(r, field, &mut object, false)?;
        }
        if self.table.flexible.contains(self.version) {
            self.section(r, table, &mut object)?;
        }
        Ok(Value::Object(object))
    }

    fn section(
        &self,
        r: &mut Reader,
        table: &'static StructTable,
        object: &mut Map<String, Value>,
    ) -> DecodeResult<()> {
        let at = At(self.table.name, "tagged fields");
        let mut tags = r.tags(&at)?;
        let mut unknown = Vec::new();
        while let Some(tag) = r.next_tag(&mut tags, &at)? {
            match table.fields.iter().find(|field| field.tag == Some(tag)) {
                Some(field) if field.is_tagged(self.version) => {
                    self.field(r, field, object, true)?;
                    // A default value need not have been encoded.
                    let name = json_name(field.name);
                    if object.get(&name).is_some_and(|value| is_default(field, value)) {
                        object.remove(&name);
                    }
                }
                Some(field) => {
                    let problem = DecodeProblem::TagVersion(self.version);
                    return Err(DecodeError::new(&At(self.table.name, field.name), r.offset(), problem));
                }
                None => unknown.push(json!({ "tag": tag, "data": STANDARD.encode(r.rest()) })),
            }
            r.end_tag(&mut tags, &at)?;
        }
        if !unknown.is_empty() {
            object.insert(UNKNOWN_TAGS.to_owned(), unknown.into());
        }
        Ok(())
    }

    fn field(
        &self,
        r: &mut Reader,
        field: &'static FieldTable,
        object: &mut Map<String, Value>,
        tagged: bool,
    ) -> DecodeResult<()> {
        let at = At(self.table.name, field.name);
        let compact = is_compact(self.table, field, self.version, tagged);
        let nullable = field.nullable.contains(self.version);
        let name = json_name(field.name);
        let value = match field.ty {
            Type::Struct(table) => {
                let present = match (nullable, tagged) {
                    (false, _) => true,
                    (true, false) => r.marker(&at)?,
                    (true, true) => r.tagged_marker(&at)?,
                };
                if present { self.structure(r, table)? } else { Value::Null }
            }
            Type::Array(element) => self.array(r, (field, *element), (compact, nullable))?,
            Type::String if nullable => {
                r.text_or_null(compact, &at)?.map_or(Value::Null, |text| text.as_str().into())
            }
            Type::Bytes if nullable => {
                r.bytes_or_null(compact, &at)?.map_or(Value::Null, |b| STANDARD.encode(b).into())
            }
            Type::Records => {
                let records =
                    if nullable { r.records_or_null(compact, &at)? } else { Some(r.records(compact, &at)?) };
                let bytes = records.map(|records| records.to_bytes());
                if let Some(bytes) = bytes.as_ref().filter(|_| self.options.opened) {
                    object.insert(format!("_{name}"), explain_batches(bytes));
                }
                bytes.map_or(Value::Null, |bytes| STANDARD.encode(bytes).into())
            }
            ty => self.value(r, (field, ty), compact)?,
        };
        object.insert(name, value);
        Ok(())
    }

    fn array(
        &self,
        r: &mut Reader,
        (field, ty): (&'static FieldTable, Type),
        (compact, nullable): (bool, bool),
    ) -> DecodeResult {
        let at = At(self.table.name, field.name);
        // Every element takes a byte or more, so the count is at most the number of bytes that remain.
        let count =
            if nullable { r.count_or_null(compact, 1, &at)? } else { Some(r.count(compact, 1, &at)?) };
        let Some(count) = count else { return Ok(Value::Null) };
        let mut elements = Vec::new();
        for _ in 0..count {
            elements.push(match ty {
                Type::Struct(table) => self.structure(r, table)?,
                ty => self.value(r, (field, ty), compact)?,
            });
        }
        Ok(Value::Array(elements))
    }

    fn value(&self, r: &mut Reader, (field, ty): (&'static FieldTable, Type), compact: bool) -> DecodeResult {
        let at = At(self.table.name, field.name);
        Ok(match ty {
            Type::Bool => r.bool(&at)?.into(),
            Type::Int8 => r.i8(&at)?.into(),
            Type::Int16 => r.i16(&at)?.into(),
            Type::Uint16 => r.u16(&at)?.into(),
            Type::Int32 => r.i32(&at)?.into(),
            Type::Uint32 => r.u32(&at)?.into(),
            Type::Int64 => r.i64(&at)?.into(),
            Type::Float64 => float(r.f64(&at)?),
            Type::Uuid => r.uuid(&at)?.to_string().into(),
            Type::String => r.text(compact, &at)?.as_str().into(),
            Type::Bytes => STANDARD.encode(r.bytes(compact, &at)?).into(),
            Type::Records => STANDARD.encode(r.records(compact, &at)?.to_bytes()).into(),
            Type::Struct(_) | Type::Array(_) => Value::Null,
        })
    }
}

/// JSON has no names for these values; the names are Java's.
fn float(value: f64) -> Value {
    match value {
        value if value.is_nan() => "NaN".into(),
        f64::INFINITY => "Infinity".into(),
        f64::NEG_INFINITY => "-Infinity".into(),
        value => value.into(),
    }
}
