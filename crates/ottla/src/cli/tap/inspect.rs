//! Inspects frames for what their line shows: errors, topics, faults.

use ottla::tap::RelayedFrame;
use ottla_wire::explain::{self, Explanation, Options, Value};
use ottla_wire::tables::{StructTable, TableSet, Type};
use ottla_wire::{ApiKey, Uuid};
use std::collections::{BTreeMap, BTreeSet};

/// The most names of topics that are remembered by their ids.
const MAX_TOPIC_NAMES: usize = 100_000;

/// What was found in a frame.
#[derive(Debug, Default)]
pub(in crate::cli) struct Inspection {
    /// Error codes other than 0, and how often.
    pub(in crate::cli) errors: BTreeMap<i16, usize>,
    /// Topics that the frame names, or whose ids it has if an earlier frame had name and id.
    pub(in crate::cli) topics: BTreeSet<String>,
    /// Faults in the bytes.
    pub(in crate::cli) faults: Vec<String>,
    /// The whole frame as a tree, if requested.
    pub(in crate::cli) tree: Option<String>,
}

/// True if a frame can have names and ids of topics, by which later frames with ids alone are understood.
pub(in crate::cli) fn names_topics(frame: &RelayedFrame) -> bool {
    let key = frame.head.as_ref().map(|head| head.key);
    let tells =
        [ApiKey::METADATA, ApiKey::CREATE_TOPICS, ApiKey::DESCRIBE_TOPIC_PARTITIONS].map(Some).contains(&key);
    tells && !frame.is_request
}

/// Inspects frames one by one, and remembers names of topics.
pub(in crate::cli) struct Inspector {
    tables: &'static TableSet,
    options: Options,
    tree: bool,
    /// By message, the fields that hold names of topics.
    fields: BTreeMap<(ApiKey, bool), BTreeSet<&'static str>>,
}

impl Inspector {
    pub(in crate::cli) fn new(tables: &'static TableSet, tree: bool) -> Inspector {
        // A line shows nothing of records.
        let options = Options { records: tree, nested: tree, ..Options::default() };
        Inspector { tables, options, tree, fields: BTreeMap::new() }
    }

    pub(in crate::cli) fn inspect(&mut self, frame: &RelayedFrame) -> Inspection {
        let is_whole = frame.bytes.len() == frame.size;
        let Some(head) = frame.head.as_ref().filter(|_| is_whole) else { return Inspection::default() };
        let set = self.tables;
        let explained = if frame.is_request {
            explain::request(set, &frame.bytes, &self.options)
        } else {
            explain::response(set, head.key, head.version, &frame.bytes, &self.options)
        };
        let mut inspection = Inspection {
            faults: explained.faults().iter().map(ToString::to_string).collect(),
            tree: self.tree.then(|| explained.tree()),
            ..Inspection::default()
        };
        for node in explained.nodes() {
            if let Value::Error(code) = node.value
                && code != 0
            {
                *inspection.errors.entry(code).or_default() += 1;
            }
        }
        self.topics(&explained, head.key, frame.is_request, &mut inspection);
        inspection
    }

    /// Collects topics, and remembers name and id of a topic that are in one struct.
    fn topics(
        &mut self,
        explained: &Explanation,
        key: ApiKey,
        is_request: bool,
        inspection: &mut Inspection,
    ) {
        let fields = self
            .fields
            .entry((key, is_request))
            .or_insert_with(|| topic_fields(self.tables, key, is_request));
        let names = &mut self.options.topics;
        let mut last: Option<(u8, String)> = None;
        for node in explained.nodes() {
            match node.value {
                Value::Text { .. } if fields.contains(node.name) => {
                    let name = String::from_utf8_lossy(explained.content(node)).into_owned();
                    last = Some((node.depth, name.clone()));
                    inspection.topics.insert(name);
                }
                Value::Uuid if node.name == "TopicId" => {
                    let id = Uuid(explained.bytes(node).try_into().unwrap_or_default());
                    match &last {
                        // The name is directly before the id, in the same struct.
                        Some((depth, name)) if *depth == node.depth => {
                            if !is_request && id != Uuid::default() && names.len() < MAX_TOPIC_NAMES {
                                names.insert(id, name.clone());
                            }
                        }
                        _ => inspection.topics.extend(names.get(&id).cloned()),
                    }
                    last = None;
                }
                _ => {}
            }
        }
    }
}

/// The fields of a message that hold names of topics.
fn topic_fields(tables: &TableSet, key: ApiKey, is_request: bool) -> BTreeSet<&'static str> {
    let message = tables.api(key).and_then(|info| if is_request { info.request } else { info.response });
    let mut found = BTreeSet::new();
    if let Some(message) = message {
        walk(message.root, &mut found);
    }
    found
}

fn walk(table: &StructTable, found: &mut BTreeSet<&'static str>) {
    for field in table.fields {
        if field.entity_type == Some("topicName") {
            found.insert(field.name);
        }
        let mut ty = &field.ty;
        while let Type::Array(inner) = ty {
            ty = inner;
        }
        if let Type::Struct(inner) = ty {
            walk(inner, found);
        }
    }
}
