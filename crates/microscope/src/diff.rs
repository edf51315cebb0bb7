//! The differences between two versions of a message.

use crate::page::struct_in;
use ottla_wire::ApiInfo;
use ottla_wire::smallest_frame_of;
use ottla_wire::tables::{Default, Direction, FieldTable, MessageTable, StructTable, Type};

/// A difference between two versions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    /// Whether the request or the response differs.
    pub direction: Direction,
    /// The field, as a path; empty for the message as a whole.
    pub field: String,
    /// The difference in words.
    pub what: String,
}

/// The differences of the request and the response of an API from one version to another, in the order of the schemas.
pub fn diff(api: &ApiInfo, from: i16, to: i16) -> Vec<Change> {
    let mut changes = Vec::new();
    for (direction, table) in [(Direction::Request, api.request), (Direction::Response, api.response)] {
        let Some(table) = table else { continue };
        let mut walk = Walk { direction, from, to, changes: Vec::new() };
        walk.message(api, table);
        changes.append(&mut walk.changes);
    }
    changes
}

struct Walk {
    direction: Direction,
    from: i16,
    to: i16,
    changes: Vec<Change>,
}

impl Walk {
    fn add(&mut self, field: &str, what: impl Into<String>) {
        self.changes.push(Change { direction: self.direction, field: field.to_owned(), what: what.into() });
    }

    fn message(&mut self, api: &ApiInfo, table: &MessageTable) {
        match (table.versions.contains(self.from), table.versions.contains(self.to)) {
            (true, true) => {}
            (true, false) => return self.add("", format!("there is no version {}", self.to)),
            (false, true) => return self.add("", format!("there is no version {}", self.from)),
            (false, false) => return,
        }
        match (table.flexible.contains(self.from), table.flexible.contains(self.to)) {
            (false, true) => self.add("", "flexible: compact lengths, tagged fields"),
            (true, false) => self.add("", "no longer flexible"),
            _ => {}
        }
        let header = |version| match self.direction {
            Direction::Request => api.request_header_version(version),
            Direction::Response => api.response_header_version(version),
        };
        let size = |version| smallest_frame_of(api, self.direction, version).map_or(0, |frame| frame.len());
        let header = (header(self.from), header(self.to));
        let size = (size(self.from), size(self.to));
        if header.0 != header.1 {
            self.add("", format!("header v{} becomes v{}", header.0, header.1));
        }
        if size.0 != size.1 {
            self.add("", format!("smallest frame of {} bytes becomes {}", size.0, size.1));
        }
        self.fields(table.root, "");
    }

    fn fields(&mut self, table: &StructTable, path: &str) {
        for field in table.fields {
            let path = if path.is_empty() { field.name.to_owned() } else { format!("{path}.{}", field.name) };
            match (field.versions.contains(self.from), field.versions.contains(self.to)) {
                (false, true) => self.add(&path, format!("added: {}", described(field, self.to))),
                (true, false) => self.add(&path, format!("removed: {}", described(field, self.from))),
                (true, true) => {
                    self.field(field, &path);
                    if let Some(inner) = struct_in(&field.ty) {
                        self.fields(inner, &path);
                    }
                }
                (false, false) => {}
            }
        }
    }

    /// A field of both versions.
    fn field(&mut self, field: &FieldTable, path: &str) {
        match (field.nullable.contains(self.from), field.nullable.contains(self.to)) {
            (false, true) => self.add(path, "may be null"),
            (true, false) => self.add(path, "may no longer be null"),
            _ => {}
        }
        let tag = |version| field.tag.filter(|_| field.is_tagged(version));
        match (tag(self.from), tag(self.to)) {
            (None, Some(tag)) => self.add(path, format!("becomes tagged field {tag}")),
            (Some(_), None) => self.add(path, "no longer tagged"),
            _ => {}
        }
    }
}

/// A field in words: type, nullability, tag, default.
fn described(field: &FieldTable, version: i16) -> String {
    let mut text = field.ty.to_string();
    if field.nullable.contains(version) {
        text.push_str(", may be null");
    }
    if let Some(tag) = field.tag.filter(|_| field.is_tagged(version)) {
        text.push_str(&format!(", tagged field {tag}"));
    }
    if let Some(default) = default(field) {
        text.push_str(&format!(", default {default}"));
    }
    text
}

/// The default of a field, unless it is the empty value of its type: zero, false, empty.
pub fn default(field: &FieldTable) -> Option<String> {
    match field.default {
        Default::Null if matches!(field.ty, Type::Records) => None,
        Default::Null => Some("null".to_owned()),
        Default::Bool(true) => Some("true".to_owned()),
        Default::Int(value) if value != 0 => Some(value.to_string()),
        Default::Float(value) if value != 0.0 => Some(value.to_string()),
        Default::Text(text) if !text.is_empty() => Some(format!("{text:?}")),
        Default::Uuid(uuid) if uuid.0 != [0; 16] => Some(uuid.to_string()),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ottla_wire::ApiKey;

    fn words(key: ApiKey, from: i16, to: i16) -> Vec<String> {
        let changes = diff(key.info().unwrap(), from, to);
        changes.iter().map(|c| format!("{:?} {}: {}", c.direction, c.field, c.what)).collect()
    }

    #[test]
    fn added_fields_flexibility_headers_and_sizes_are_named() {
        let words = words(ApiKey::TXN_OFFSET_COMMIT, 2, 3);
        for expected in [
            "Request : flexible: compact lengths, tagged fields",
            "Request : header v1 becomes v2",
            "Request GenerationIdOrMemberEpoch: added: int32, default -1",
            "Request GroupInstanceId: added: string, may be null, default null",
            "Response : header v0 becomes v1",
            "Response : smallest frame of 28 bytes becomes 25",
        ] {
            assert!(words.iter().any(|word| word == expected), "{expected}: {words:#?}");
        }
    }

    #[test]
    fn removed_and_replaced_fields_are_named() {
        let words = words(ApiKey::TXN_OFFSET_COMMIT, 5, 6);
        assert!(words.contains(&"Request Topics.Name: removed: string".to_owned()), "{words:#?}");
        assert!(words.contains(&"Request Topics.TopicId: added: uuid".to_owned()), "{words:#?}");
    }

    #[test]
    fn equal_versions_have_no_differences() {
        assert!(words(ApiKey::ADD_OFFSETS_TO_TXN, 3, 4).is_empty());
    }

    #[test]
    fn nullable_and_tagged_are_named() {
        let all = ottla_wire::API_TABLE.iter().flat_map(|api| {
            let Versions { min, max } = api.request_versions;
            diff(api, min, max.max(min))
        });
        let all: Vec<String> = all.map(|change| change.what).collect();
        assert!(all.iter().any(|what| what == "may be null"));
        assert!(all.iter().any(|what| what.contains(", tagged field ")));
    }

    use ottla_wire::Versions;
}
