//! Encodes JSON to bytes.

use super::{UNKNOWN_TAGS, is_compact, json_name};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use ottla_wire::tables::{Default, FieldTable, MessageTable, StructTable, Type};
use ottla_wire::{At, EncodeError, Uuid, Writer};
use serde_json::{Map, Value};
use std::fmt::Write;

/// JSON that cannot be encoded as the message: the path, and the problem.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{}{problem}", .path.is_empty().then(String::new).unwrap_or_else(|| format!("{path}: ")))]
pub struct JsonError {
    /// The path, such as `topics[2].partitions[0].partitionIndex`; empty for the whole.
    pub path: String,
    /// The problem.
    pub problem: String,
}

impl JsonError {
    pub(super) fn new(path: &str, problem: impl Into<String>) -> JsonError {
        JsonError { path: path.to_owned(), problem: problem.into() }
    }
}

type EncodeResult<T = ()> = Result<T, JsonError>;

/// Encodes a message without size field and header.
///
/// # Errors
/// The version is not valid, a field is unknown, a value does not fit its type, or the version lacks a field that has a
/// value and is not ignorable.
pub fn encode(table: &'static MessageTable, version: i16, json: &Value) -> Result<Bytes, JsonError> {
    if !table.versions.contains(version) {
        let problem = format!("{} has no version {version}, only {}", table.name, table.versions);
        return Err(JsonError::new("", problem));
    }
    let mut w = Writer::with_capacity(256);
    Encoder { table, version, path: String::new() }.structure(&mut w, table.root, json)?;
    Ok(w.into_bytes())
}

struct Encoder {
    table: &'static MessageTable,
    version: i16,
    path: String,
}

/// How a value is encoded.
#[derive(Clone, Copy)]
struct Encoding {
    compact: bool,
    nullable: bool,
    tagged: bool,
}

impl Encoder {
    fn error(&self, problem: impl Into<String>) -> JsonError {
        JsonError::new(&self.path, problem)
    }

    fn expected(&self, what: &str, found: &Value) -> JsonError {
        self.error(format!("{found} is not {what}"))
    }

    fn written(&self, outcome: Result<(), EncodeError>) -> EncodeResult {
        outcome.map_err(|why| self.error(why.problem().to_string()))
    }

    /// Runs `work` with a longer path.
    fn at<T>(&mut self, step: &str, work: impl FnOnce(&mut Encoder) -> EncodeResult<T>) -> EncodeResult<T> {
        let length = self.path.len();
        if length > 0 && !step.starts_with('[') {
            self.path.push('.');
        }
        self.path.push_str(step);
        let outcome = work(self);
        self.path.truncate(length);
        outcome
    }

    fn structure(&mut self, w: &mut Writer, table: &'static StructTable, json: &Value) -> EncodeResult {
        let Value::Object(object) = json else {
            return Err(self.expected(&format!("an object with the fields of {}", table.name), json));
        };
        self.check_names(table, object)?;
        let mut tagged = Vec::new();
        for field in table.fields {
            let name = json_name(field.name);
            let value = object.get(&name).or_else(|| object.get(field.name));
            if field.is_plain(self.version) {
                let form = Encoding {
                    compact: is_compact(self.table, field, self.version, false),
                    nullable: field.nullable.contains(self.version),
                    tagged: false,
                };
                self.at(&name, |inner| inner.field(w, field, value, form))?;
            } else if field.is_tagged(self.version) {
                tagged.extend(self.at(&name, |inner| inner.tagged(field, value))?);
            } else if let Some(value) = value
                && !field.ignorable
                && !is_default(field, value)
            {
                let versions = field.versions;
                let problem = format!("version {} has no such field, only {versions} have", self.version);
                return self.at(&name, |inner| Err(inner.error(problem)));
            }
        }
        let unknown = object.get(UNKNOWN_TAGS).map_or(Ok(Vec::new()), |list| self.unknown(table, list))?;
        self.section(w, tagged, unknown)
    }

    fn check_names(&self, table: &StructTable, object: &Map<String, Value>) -> EncodeResult {
        let known = |key: &str| table.fields.iter().any(|f| f.name == key || json_name(f.name) == key);
        match object.keys().find(|key| !key.starts_with('_') && !known(key)) {
            None => Ok(()),
            Some(key) => {
                let names: Vec<String> = table.fields.iter().map(|field| json_name(field.name)).collect();
                let names = names.join(", ");
                Err(self.error(format!("{} has no field {key:?}; its fields are: {names}", table.name)))
            }
        }
    }

    /// The bytes of a tagged field; none if it has its default.
    fn tagged(
        &mut self,
        field: &'static FieldTable,
        value: Option<&Value>,
    ) -> EncodeResult<Option<(u32, Bytes)>> {
        let (Some(value), Some(tag)) = (value.filter(|value| !is_default(field, value)), field.tag) else {
            return Ok(None);
        };
        let mut w = Writer::new();
        let nullable = field.nullable.contains(self.version);
        self.field(&mut w, field, Some(value), Encoding { compact: true, nullable, tagged: true })?;
        Ok(Some((tag, w.into_bytes())))
    }

    fn section(
        &mut self,
        w: &mut Writer,
        mut tagged: Vec<(u32, Bytes)>,
        unknown: Vec<(u32, Bytes)>,
    ) -> EncodeResult {
        if !self.table.flexible.contains(self.version) {
            let problem = format!("version {} has no tagged fields", self.version);
            return if unknown.is_empty() { Ok(()) } else { Err(self.error(problem)) };
        }
        tagged.extend(unknown);
        tagged.sort_by_key(|(tag, _)| *tag);
        if let Some(pair) = tagged.windows(2).find(|pair| pair[0].0 == pair[1].0) {
            return Err(self.error(format!("tag {} is there twice", pair[0].0)));
        }
        w.uvarint(tagged.len() as u32);
        for (tag, bytes) in tagged {
            w.uvarint(tag);
            w.uvarint(bytes.len() as u32);
            w.raw(&bytes);
        }
        Ok(())
    }

    /// The unknown tagged fields. A tag that the schema knows in any version is an error, because decoders would read
    /// it as the known field.
    fn unknown(&mut self, table: &StructTable, list: &Value) -> EncodeResult<Vec<(u32, Bytes)>> {
        self.at(UNKNOWN_TAGS, |inner| {
            let Value::Array(list) = list else { return Err(inner.expected("a list of tags", list)) };
            let one = |entry: &Value| {
                let tag = entry.get("tag").and_then(Value::as_u64).and_then(|tag| u32::try_from(tag).ok());
                let data =
                    entry.get("data").and_then(Value::as_str).and_then(|data| STANDARD.decode(data).ok());
                tag.zip(data.map(Bytes::from))
            };
            let what = "an entry like {\"tag\": 7, \"data\": \"<base64>\"}";
            let check = |entry: &Value| {
                let (tag, data) = one(entry).ok_or_else(|| inner.expected(what, entry))?;
                match table.fields.iter().find(|field| field.tag == Some(tag)) {
                    Some(field) => Err(inner.error(format!("tag {tag} is known: {}", json_name(field.name)))),
                    None => Ok((tag, data)),
                }
            };
            list.iter().map(check).collect()
        })
    }

    fn field(
        &mut self,
        w: &mut Writer,
        field: &'static FieldTable,
        json: Option<&Value>,
        form: Encoding,
    ) -> EncodeResult {
        let implied;
        let json = match json {
            Some(json) => json,
            None => {
                implied = default_value(field);
                &implied
            }
        };
        if json.is_null() && !matches!(field.ty, Type::Struct(_)) {
            if !form.nullable {
                return Err(self.error(format!("null is not allowed in version {}", self.version)));
            }
            match field.ty {
                Type::String => w.null_text(form.compact),
                _ => w.null(form.compact),
            }
            return Ok(());
        }
        match field.ty {
            Type::Struct(table) => self.optional_struct(w, table, json, form),
            Type::Array(element) => self.array(w, field, (*element, json), form),
            ty => self.value(w, field, (ty, json), form),
        }
    }

    fn optional_struct(
        &mut self,
        w: &mut Writer,
        table: &'static StructTable,
        json: &Value,
        form: Encoding,
    ) -> EncodeResult {
        if form.nullable {
            let present = !json.is_null();
            if form.tagged {
                w.tagged_marker(present)
            } else {
                w.marker(present)
            }
            if !present {
                return Ok(());
            }
        }
        self.structure(w, table, json)
    }

    fn array(
        &mut self,
        w: &mut Writer,
        field: &'static FieldTable,
        (ty, json): (Type, &Value),
        form: Encoding,
    ) -> EncodeResult {
        let Value::Array(elements) = json else { return Err(self.expected("a list", json)) };
        let at = At(self.table.name, field.name);
        let outcome = w.count(form.compact, elements.len(), &at);
        self.written(outcome)?;
        let mut step = String::new();
        for (index, element) in elements.iter().enumerate() {
            step.clear();
            let _ = write!(step, "[{index}]");
            self.at(&step, |inner| match ty {
                Type::Struct(table) => inner.structure(w, table, element),
                ty => inner.value(w, field, (ty, element), form),
            })?;
        }
        Ok(())
    }

    fn value(
        &mut self,
        w: &mut Writer,
        field: &'static FieldTable,
        (ty, json): (Type, &Value),
        form: Encoding,
    ) -> EncodeResult {
        let at = At(self.table.name, field.name);
        match ty {
            Type::Bool => w.bool(json.as_bool().ok_or_else(|| self.expected("true or false", json))?),
            Type::Int8 => w.i8(self.int(json, "int8")?),
            Type::Int16 => w.i16(self.int(json, "int16")?),
            Type::Uint16 => w.u16(self.int(json, "uint16")?),
            Type::Int32 => w.i32(self.int(json, "int32")?),
            Type::Uint32 => w.u32(self.int(json, "uint32")?),
            Type::Int64 => w.i64(self.int(json, "int64")?),
            Type::Float64 => w.f64(float(json).ok_or_else(|| self.expected("a number", json))?),
            Type::Uuid => {
                let id: Option<Uuid> = json.as_str().and_then(|text| text.parse().ok());
                w.uuid(id.ok_or_else(|| self.expected("an id of 22 characters of URL-safe base64", json))?);
            }
            Type::String => {
                let text = json.as_str().ok_or_else(|| self.expected("a string", json))?;
                let outcome = w.str(form.compact, text, &at);
                self.written(outcome)?;
            }
            Type::Bytes | Type::Records => {
                let bytes = json.as_str().and_then(|text| STANDARD.decode(text).ok());
                let bytes = bytes.ok_or_else(|| self.expected("base64 text", json))?;
                let outcome = w.bytes(form.compact, &bytes.into(), &at);
                self.written(outcome)?;
            }
            Type::Struct(_) | Type::Array(_) => return Err(self.error("arrays of arrays do not exist")),
        }
        Ok(())
    }

    fn int<T: TryFrom<i64>>(&self, json: &Value, name: &str) -> EncodeResult<T> {
        let Some(value) = json.as_i64() else {
            let what = format!("a whole number of {name}");
            return Err(self.expected(&what, json));
        };
        T::try_from(value).map_err(|_| self.error(format!("{value} does not fit {name}")))
    }
}

fn float(json: &Value) -> Option<f64> {
    match json.as_str() {
        Some("NaN") => Some(f64::NAN),
        Some("Infinity") => Some(f64::INFINITY),
        Some("-Infinity") => Some(f64::NEG_INFINITY),
        _ => json.as_f64(),
    }
}

/// The default of a field as JSON.
fn default_value(field: &FieldTable) -> Value {
    match field.default {
        Default::Null => Value::Null,
        Default::Bool(value) => value.into(),
        Default::Int(value) => value.into(),
        Default::Float(value) => value.into(),
        Default::Text(text) => text.into(),
        Default::Uuid(id) => id.to_string().into(),
        Default::Empty => match field.ty {
            Type::Struct(_) => Value::Object(Map::new()),
            Type::Array(_) => Value::Array(Vec::new()),
            _ => "".into(),
        },
    }
}

/// Whether a value is the field's default. The default of a struct has the default of each field.
pub(super) fn is_default(field: &FieldTable, json: &Value) -> bool {
    match (field.default, field.ty, json) {
        (Default::Empty, Type::Struct(table), Value::Object(object)) => {
            let unset = |inner: &FieldTable| {
                let value = object.get(&json_name(inner.name)).or_else(|| object.get(inner.name));
                value.is_none_or(|value| is_default(inner, value))
            };
            table.fields.iter().all(unset) && !object.contains_key(UNKNOWN_TAGS)
        }
        (Default::Float(value), _, json) => {
            float(json).is_some_and(|found| found.to_bits() == value.to_bits())
        }
        _ => *json == default_value(field),
    }
}
