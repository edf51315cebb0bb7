//! Parses schemas as strictly as Kafka's own parser. Every error names its place.

use crate::check::check;
use crate::error::{SchemaError, error};
use crate::json::strip_comments;
use crate::model::{Default, Field, FieldType, Kind, Schema, StructSpec, Versions};
use crate::uuid;
use serde_json::{Map, Value};

/// Parses one schema file.
///
/// # Errors
/// The text is not JSON, an attribute is unknown or malformed, or a rule of the language is violated.
pub fn parse(text: &str) -> Result<Schema, SchemaError> {
    let value: Value = match serde_json::from_str(&strip_comments(text)) {
        Ok(value) => value,
        Err(why) => return error("schema", format!("not JSON: {why}")),
    };
    let mut attributes = Attributes::of("schema", &value)?;
    let Some(name) = attributes.text("name")? else { return error("schema", "has no name") };
    attributes.place = name.clone();
    let schema = message(attributes, name)?;
    check(&schema)?;
    Ok(schema)
}

fn message(mut a: Attributes, name: String) -> Result<Schema, SchemaError> {
    let kind = a.text("type")?.unwrap_or_default();
    let Some((kind, _)) = Kind::ALL.iter().find(|(_, name)| *name == kind) else {
        return error(&a.place, format!("unknown message type '{kind}'"));
    };
    let Some(valid) = a.versions("validVersions")? else { return error(&a.place, "has no validVersions") };
    let api_key = match a.text("apiKey")? {
        Some(text) => {
            Some(text.parse().or_else(|_| error(&a.place, format!("apiKey '{text}' is no int16")))?)
        }
        None => None,
    };
    let mut listeners = Vec::new();
    for value in a.list("listeners") {
        match value {
            Value::String(text) => listeners.push(text),
            other => return error(&a.place, format!("listener {other} is no string")),
        }
    }
    let schema = Schema {
        api_key,
        kind: *kind,
        listeners,
        valid,
        deprecated: a.versions("deprecatedVersions")?.unwrap_or(Versions::NONE),
        flexible: a.versions("flexibleVersions")?,
        latest_version_unstable: a.flag("latestVersionUnstable")?,
        fields: fields(&name, a.list("fields"))?,
        common_structs: common_structs(&name, a.list("commonStructs"))?,
        name,
    };
    a.finish()?;
    Ok(schema)
}

fn common_structs(place: &str, values: Vec<Value>) -> Result<Vec<StructSpec>, SchemaError> {
    let mut specs = Vec::new();
    for value in values {
        let mut a = Attributes::of(place, &value)?;
        let Some(name) = a.text("name")? else { return error(place, "a common struct has no name") };
        a.place = format!("{place}.{name}");
        let Some(versions) = a.versions("versions")? else { return error(&a.place, "has no versions") };
        let inner = a.list("fields");
        specs.push(StructSpec { fields: fields(&a.place, inner)?, name, versions });
        a.finish()?;
    }
    Ok(specs)
}

fn fields(place: &str, values: Vec<Value>) -> Result<Vec<Field>, SchemaError> {
    values.iter().map(|value| field(place, value)).collect()
}

fn field(place: &str, value: &Value) -> Result<Field, SchemaError> {
    let mut a = Attributes::of(place, value)?;
    let Some(name) = a.text("name")? else { return error(place, "a field has no name") };
    a.place = format!("{place}.{name}");
    let text = a.text("type")?.unwrap_or_default();
    let Some(ty) = FieldType::parse(&text) else { return error(&a.place, format!("unknown type '{text}'")) };
    let tagged = a.versions("taggedVersions")?;
    let tag = match a.text("tag")? {
        Some(text) => Some(text.parse().or_else(|_| error(&a.place, format!("tag '{text}' is no number")))?),
        None => None,
    };
    let Some(versions) = a.versions("versions")?.or(tagged) else {
        return error(&a.place, "has neither versions nor taggedVersions");
    };
    let default = match a.take("default") {
        Some(value) => Some(default(&a.place, &ty, &value)?),
        None => None,
    };
    let inner = a.list("fields");
    let field = Field {
        fields: fields(&a.place, inner)?,
        name,
        ty,
        versions,
        nullable: a.versions("nullableVersions")?.unwrap_or(Versions::NONE),
        default,
        ignorable: a.flag("ignorable")?,
        map_key: a.flag("mapKey")?,
        tag,
        tagged: tagged.unwrap_or(Versions::NONE),
        flexible: a.versions("flexibleVersions")?,
        zero_copy: a.flag("zeroCopy")?,
        entity_type: a.text("entityType")?,
        about: a.text("about")?,
    };
    a.finish()?;
    Ok(field)
}

fn default(place: &str, ty: &FieldType, value: &Value) -> Result<Default, SchemaError> {
    let text = match value {
        Value::Null => "null".to_owned(),
        Value::String(text) => text.clone(),
        Value::Bool(_) | Value::Number(_) => value.to_string(),
        _ => return error(place, "a default must be a scalar"),
    };
    if text == "null" && ty.can_be_null() {
        return Ok(Default::Null);
    }
    let parsed = match ty {
        FieldType::Bool => match text.to_ascii_lowercase().as_str() {
            "true" => Some(Default::Bool(true)),
            "false" => Some(Default::Bool(false)),
            _ => None,
        },
        FieldType::Int8 => whole(&text, i64::from(i8::MIN), i64::from(i8::MAX)),
        FieldType::Int16 => whole(&text, i64::from(i16::MIN), i64::from(i16::MAX)),
        FieldType::Uint16 => whole(&text, 0, i64::from(u16::MAX)),
        FieldType::Int32 => whole(&text, i64::from(i32::MIN), i64::from(i32::MAX)),
        FieldType::Uint32 => whole(&text, 0, i64::from(u32::MAX)),
        FieldType::Int64 => whole(&text, i64::MIN, i64::MAX),
        FieldType::Float64 => text.parse().ok().map(Default::Float),
        FieldType::String => Some(Default::Text(text.clone())),
        FieldType::Uuid => uuid::parse(&text).map(Default::Uuid),
        _ => text.is_empty().then_some(Default::Empty),
    };
    match parsed {
        Some(parsed) => Ok(parsed),
        None => error(place, format!("'{text}' is no default for {ty}")),
    }
}

/// Decimal or sign-less hexadecimal; a leading zero is refused, because Kafka's parser reads it as octal.
fn whole(text: &str, min: i64, max: i64) -> Option<Default> {
    let digits = text.strip_prefix('-').unwrap_or(text);
    let number = if let Some(hex) = text.strip_prefix("0x") {
        i64::from_str_radix(hex, 16).ok()?
    } else if digits.len() > 1 && digits.starts_with('0') {
        return None;
    } else {
        text.parse().ok()?
    };
    (min <= number && number <= max).then_some(Default::Int(number))
}

/// The attributes of a JSON object. Those that remain at the end are unknown.
struct Attributes {
    place: String,
    left: Map<String, Value>,
}

impl Attributes {
    fn of(place: &str, value: &Value) -> Result<Attributes, SchemaError> {
        match value {
            Value::Object(map) => Ok(Attributes { place: place.to_owned(), left: map.clone() }),
            other => error(place, format!("{other} is no object")),
        }
    }

    fn take(&mut self, name: &str) -> Option<Value> {
        self.left.remove(name)
    }

    /// A scalar as text: Kafka's parser accepts numbers and booleans in place of strings.
    fn text(&mut self, name: &str) -> Result<Option<String>, SchemaError> {
        match self.take(name) {
            None | Some(Value::Null) => Ok(None),
            Some(Value::String(text)) => Ok(Some(text)),
            Some(value @ (Value::Number(_) | Value::Bool(_))) => Ok(Some(value.to_string())),
            Some(other) => error(&self.place, format!("{name} cannot be {other}")),
        }
    }

    fn flag(&mut self, name: &str) -> Result<bool, SchemaError> {
        match self.text(name)?.as_deref() {
            None | Some("false") => Ok(false),
            Some("true") => Ok(true),
            Some(other) => error(&self.place, format!("{name} cannot be '{other}'")),
        }
    }

    fn versions(&mut self, name: &str) -> Result<Option<Versions>, SchemaError> {
        let Some(text) = self.text(name)? else { return Ok(None) };
        if text.trim().is_empty() {
            return Ok(None);
        }
        match Versions::parse(&text) {
            Some(versions) => Ok(Some(versions)),
            None => error(&self.place, format!("{name} '{text}' is no range of versions")),
        }
    }

    /// A list. Like Kafka's parser, it accepts a single value as a list of one.
    fn list(&mut self, name: &str) -> Vec<Value> {
        match self.take(name) {
            None | Some(Value::Null) => Vec::new(),
            Some(Value::Array(values)) => values,
            Some(one) => vec![one],
        }
    }

    fn finish(self) -> Result<(), SchemaError> {
        match self.left.keys().next() {
            None => Ok(()),
            Some(name) => error(&self.place, format!("unknown attribute '{name}'")),
        }
    }
}
