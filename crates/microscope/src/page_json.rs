//! Pages and trees as JSON, for programs.

use crate::diff::{Change, default};
use crate::input::hex;
use crate::page::{FieldRow, Page, Side, direction_name, fields, flexible};
use ottla_wire::explain::{Explanation, Fault};
use ottla_wire::tables::MessageTable;
use serde_json::{Map, Value, json};

/// A page: its facts, and the request and the response with bytes, tree, fields and schema.
pub fn page(page: &Page) -> Value {
    let api = page.api;
    json!({
        "key": api.key.0,
        "name": api.name,
        "version": page.version,
        "flexible_versions": flexible(api.request_flexible),
        "request_versions": api.request_versions.to_string(),
        "response_versions": api.response_versions.to_string(),
        "latest_version_unstable": api.latest_version_unstable,
        "listeners": api.listeners,
        "request": page.request.as_ref().map(side),
        "response": page.response.as_ref().map(side),
    })
}

fn side(side: &Side) -> Value {
    json!({
        "message": side.message.name,
        "about": side.message.about,
        "version": side.version,
        "header_version": side.header_version,
        "size": side.size(),
        "bytes": hex(side.explained.source(0)),
        "tree": tree(&side.explained),
        "fields": field_rows(side.message, side.version),
        "schema": side.schema,
    })
}

/// The fields of a message at one version, in the order of the schema.
pub fn field_rows(message: &MessageTable, version: i16) -> Vec<Value> {
    let row = |row: &FieldRow| {
        let field = row.field;
        json!({
            "depth": row.depth,
            "name": field.name,
            "type": field.ty.to_string(),
            "versions": field.versions.to_string(),
            "nullable": field.nullable.contains(version),
            "tag": field.tag.filter(|_| field.is_tagged(version)),
            "default": default(field),
            "entity_type": field.entity_type,
            "about": field.about,
        })
    };
    fields(message, version).iter().map(row).collect()
}

/// A tree of nodes with their children. The values of a node are those of the columns of the text tree.
pub fn tree(explained: &Explanation) -> Value {
    // Children come after their parents, so a backward pass builds children first.
    let mut done: Vec<Option<Value>> = vec![None; explained.nodes().len()];
    for id in (0..done.len()).rev() {
        let children: Vec<Value> =
            explained.children(id).filter_map(|child| done.get_mut(child)?.take()).collect();
        let value = node(explained, id, children);
        if let Some(place) = done.get_mut(id) {
            *place = Some(value);
        }
    }
    done.first_mut().and_then(Option::take).unwrap_or_default()
}

fn node(explained: &Explanation, id: usize, children: Vec<Value>) -> Value {
    let mut out = Map::new();
    let Some(node) = explained.nodes().get(id) else { return Value::Null };
    out.insert("name".to_owned(), node.name.into());
    if let Some(index) = node.index {
        out.insert("index".to_owned(), index.into());
    }
    let texts = [
        ("type", explained.type_text(id)),
        ("value", explained.value_text(id)),
        ("about", explained.about_text(id).into_owned()),
        ("note", node.note.map_or_else(String::new, |note| note.text().to_owned())),
    ];
    for (name, text) in texts.into_iter().filter(|(_, text)| !text.is_empty()) {
        out.insert(name.to_owned(), text.into());
    }
    if node.source > 0 {
        out.insert("source".to_owned(), node.source.into());
    }
    out.insert("at".to_owned(), node.at.into());
    out.insert("size".to_owned(), node.size.into());
    out.insert("region".to_owned(), node.region.name().into());
    if !children.is_empty() {
        out.insert("children".to_owned(), children.into());
    }
    Value::Object(out)
}

/// The differences between two versions.
pub fn changes(changes: &[Change]) -> Value {
    let row = |change: &Change| {
        json!({
            "side": direction_name(change.direction).to_ascii_lowercase(),
            "field": if change.field.is_empty() { Value::Null } else { change.field.as_str().into() },
            "change": change.what,
        })
    };
    changes.iter().map(row).collect()
}

/// A fault: its position, and the expected and found values.
pub fn fault(fault: &Fault) -> Value {
    json!({
        "source": fault.source,
        "at": fault.at,
        "message": fault.message,
        "field": fault.field,
        "problem": fault.problem.to_string(),
    })
}
