//! Prints the facts of a schema in one stable form.

use crate::model::{Default, Field, Schema, Versions};
use crate::uuid;
use std::fmt::Write;

/// Writes the facts of a schema in the schema language: one line per field, no comments and no `about`.
pub fn print(schema: &Schema) -> String {
    let mut lines = Vec::new();
    if let Some(key) = schema.api_key {
        lines.push(format!("\"apiKey\": {key}"));
    }
    lines.push(format!("\"type\": \"{}\"", schema.kind.name()));
    if !schema.listeners.is_empty() {
        let listeners: Vec<_> = schema.listeners.iter().map(|listener| quote(listener)).collect();
        lines.push(format!("\"listeners\": [{}]", listeners.join(", ")));
    }
    lines.push(format!("\"name\": {}", quote(&schema.name)));
    lines.push(format!("\"validVersions\": \"{}\"", schema.valid));
    if !schema.deprecated.is_empty() {
        lines.push(format!("\"deprecatedVersions\": \"{}\"", schema.deprecated));
    }
    if let Some(flexible) = schema.flexible {
        lines.push(format!("\"flexibleVersions\": \"{flexible}\""));
    }
    if schema.latest_version_unstable {
        lines.push("\"latestVersionUnstable\": true".to_owned());
    }
    if !schema.fields.is_empty() {
        lines.push(format!("\"fields\": {}", fields(&schema.fields, 1)));
    }
    if !schema.common_structs.is_empty() {
        let structs: Vec<_> = schema
            .common_structs
            .iter()
            .map(|spec| {
                let inner = fields(&spec.fields, 2);
                format!(
                    "    {{ \"name\": {}, \"versions\": \"{}\", \"fields\": {inner} }}",
                    quote(&spec.name),
                    spec.versions
                )
            })
            .collect();
        lines.push(format!("\"commonStructs\": [\n{}\n  ]", structs.join(",\n")));
    }
    format!("{{\n  {}\n}}\n", lines.join(",\n  "))
}

fn fields(fields: &[Field], depth: usize) -> String {
    let indent = "  ".repeat(depth);
    let rows: Vec<_> = fields.iter().map(|f| format!("{indent}  {{ {} }}", field(f, depth + 1))).collect();
    format!("[\n{}\n{indent}]", rows.join(",\n"))
}

fn field(field: &Field, depth: usize) -> String {
    let mut out = format!(
        "\"name\": {}, \"type\": \"{}\", \"versions\": \"{}\"",
        quote(&field.name),
        field.ty,
        field.versions
    );
    let mut add = |name: &str, value: String| {
        // Writing to a String cannot fail.
        let _ = write!(out, ", \"{name}\": {value}");
    };
    if let Some(tag) = field.tag {
        add("tag", tag.to_string());
        add("taggedVersions", range(field.tagged));
    }
    if !field.nullable.is_empty() {
        add("nullableVersions", range(field.nullable));
    }
    if let Some(flexible) = field.flexible {
        add("flexibleVersions", range(flexible));
    }
    if let Some(default) = &field.default {
        add("default", quote(&scalar(default)));
    }
    for (name, set) in
        [("ignorable", field.ignorable), ("mapKey", field.map_key), ("zeroCopy", field.zero_copy)]
    {
        if set {
            add(name, "true".to_owned());
        }
    }
    if let Some(entity) = &field.entity_type {
        add("entityType", quote(entity));
    }
    if !field.fields.is_empty() {
        add("fields", fields(&field.fields, depth));
    }
    out
}

fn range(versions: Versions) -> String {
    format!("\"{versions}\"")
}

fn scalar(default: &Default) -> String {
    match default {
        Default::Null => "null".to_owned(),
        Default::Bool(value) => value.to_string(),
        Default::Int(value) => value.to_string(),
        Default::Float(value) => value.to_string(),
        Default::Text(text) => text.clone(),
        Default::Uuid(bytes) => uuid::text(bytes),
        Default::Empty => String::new(),
    }
}

fn quote(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}
