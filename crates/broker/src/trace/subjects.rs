//! The names in a request, found with the tables of the wire protocol.

use bytes::Bytes;
use ottla_wire::explain::{self, Explanation, Kind, Options, Value};
use ottla_wire::tables::{StructTable, TableSet, Type};
use ottla_wire::{ApiKey, Uuid};

/// Names of each kind, at most.
const MOST: usize = 50;
/// Nodes of a request that are examined, at most.
const MOST_NODES: usize = 20_000;

fn options() -> Options {
    Options { records: false, nested: false, max_nodes: MOST_NODES, ..Options::default() }
}

/// The names in a request.
#[derive(Clone, Debug, Default)]
pub(crate) struct Subjects {
    pub(super) topics: Vec<String>,
    /// Ids of topics that the request names by id.
    pub(crate) topic_ids: Vec<Uuid>,
    pub(super) transactional_ids: Vec<String>,
    pub(super) groups: Vec<String>,
}

impl Subjects {
    /// The names in the body of a request. A part that cannot be decoded has none.
    pub(super) fn of(api: ApiKey, version: i16, body: &Bytes) -> Subjects {
        let mut subjects = Subjects::default();
        if let Some(table) = TableSet::built_in().api(api).and_then(|info| info.request) {
            subjects.visit(&explain::message(table, version, body, &options()), 0, table.root);
        }
        subjects
    }

    pub(super) fn has_no_topics(&self) -> bool {
        self.topics.is_empty() && self.topic_ids.is_empty()
    }

    /// Adds the names in the beginning of a response frame.
    pub(super) fn add_response(&mut self, api: ApiKey, version: i16, frame: &Bytes) {
        let set = TableSet::built_in();
        if let Some(table) = set.api(api).and_then(|info| info.response) {
            self.visit(&explain::response(set, api, version, frame, &options()), 0, table.root);
        }
    }

    fn visit(&mut self, explained: &Explanation, id: usize, table: &'static StructTable) {
        let parent = explained.nodes().get(id);
        for child in explained.children(id) {
            let Some(node) = explained.nodes().get(child) else { return };
            // An element of an array has the name of the array's field.
            let name = if node.index.is_some() { parent.map_or("", |parent| parent.name) } else { node.name };
            match (node.value, node.kind) {
                (Value::Text { .. }, _) => {
                    let field = table.fields.iter().find(|field| field.name == name);
                    if let Some(kind) = field.and_then(|field| field.entity_type) {
                        self.add(kind, &String::from_utf8_lossy(explained.content(node)));
                    }
                }
                (Value::Uuid, _) if matches!(name, "TopicId" | "TopicIds") => {
                    self.add_id(explained.bytes(node))
                }
                (_, Kind::Field(Type::Struct(inner))) => self.visit(explained, child, inner),
                _ => self.visit(explained, child, table),
            }
        }
    }

    fn add(&mut self, kind: &str, name: &str) {
        let names = match kind {
            "topicName" => &mut self.topics,
            "transactionalId" => &mut self.transactional_ids,
            "groupId" => &mut self.groups,
            _ => return,
        };
        if !name.is_empty() && names.len() < MOST && !names.iter().any(|known| known == name) {
            names.push(name.to_owned());
        }
    }

    fn add_id(&mut self, bytes: &[u8]) {
        let Ok(id) = <[u8; 16]>::try_from(bytes).map(Uuid) else { return };
        if !id.is_zero() && self.topic_ids.len() < MOST && !self.topic_ids.contains(&id) {
            self.topic_ids.push(id);
        }
    }
}
