//! The reference page of an API at one version, as values, for the command line and the web pages.
//!
//! A page encodes the smallest legal request and response and explains them. All its content comes from the tables.

use crate::grid::{self, Cell};
use crate::schemas::Schemas;
use ottla_wire::explain::{Explanation, sample};
use ottla_wire::tables::{Direction, FieldTable, MessageTable, StructTable, Type};
use ottla_wire::{ApiInfo, Versions};

/// An API at one version.
#[derive(Clone, Debug)]
pub struct Page {
    /// The API.
    pub api: &'static ApiInfo,
    /// The version.
    pub version: i16,
    /// The request, unless this version has none.
    pub request: Option<Side>,
    /// The response, unless this version has none.
    pub response: Option<Side>,
}

/// A request or response at one version.
#[derive(Clone, Debug)]
pub struct Side {
    /// Whether this is the request or the response.
    pub direction: Direction,
    /// The message.
    pub message: &'static MessageTable,
    /// The version.
    pub version: i16,
    /// The version of the header in front of it.
    pub header_version: i16,
    /// The explanation of the smallest frame; source 0 is the frame itself.
    pub explained: Explanation,
    /// The text of the schema.
    pub schema: String,
}

/// A field of a message at one version.
#[derive(Clone, Copy, Debug)]
pub struct FieldRow {
    /// The number of structs around it, without the root struct.
    pub depth: usize,
    /// The table of the field.
    pub field: &'static FieldTable,
}

/// The highest stable version of the request or the response, or the highest that both have. For an API with unstable
/// versions alone, the highest version. `None` if there is no version.
pub fn highest_version(api: &ApiInfo, side: Option<Direction>) -> Option<i16> {
    let stable = api.stable_versions();
    let requests = if stable.is_empty() { api.request_versions } else { stable };
    let highest = |versions: Versions| (!versions.is_empty()).then_some(versions.max);
    match (side, highest(requests), highest(api.response_versions)) {
        (Some(Direction::Request), request, _) => request,
        (Some(Direction::Response), Some(request), Some(response)) if api.latest_version_unstable => {
            Some(request.min(response))
        }
        (Some(Direction::Response), _, response) => response,
        (None, Some(request), Some(response)) => Some(request.min(response)),
        (None, request, response) => request.or(response),
    }
}

/// `3+`, as schemas write it; `none` if no version is flexible.
pub fn flexible(versions: Versions) -> String {
    if versions.is_empty() { "none".to_owned() } else { format!("{}+", versions.min) }
}

/// The name of a direction in headings.
pub fn direction_name(direction: Direction) -> &'static str {
    match direction {
        Direction::Request => "Request",
        Direction::Response => "Response",
    }
}

impl Page {
    /// The page of an API at that version; `None` if the version has neither request nor response.
    pub fn new(schemas: &Schemas, api: &'static ApiInfo, version: i16) -> Option<Page> {
        let side = |direction| Side::new(schemas, api, direction, version);
        let (request, response) = (side(Direction::Request), side(Direction::Response));
        if request.is_none() && response.is_none() {
            return None;
        }
        Some(Page { api, version, request, response })
    }

    /// The request and the response, if they exist.
    pub fn sides(&self) -> impl Iterator<Item = &Side> {
        self.request.iter().chain(&self.response)
    }

    /// Whether the version has compact lengths and tagged sections.
    pub fn is_flexible(&self) -> bool {
        self.api.request_flexible.contains(self.version) || self.api.response_flexible.contains(self.version)
    }

    /// A paragraph about what the page shows.
    pub fn introduction(&self) -> String {
        let mut text = "The smallest legal request and response: numbers are zero, strings and bytes are empty, every array \
            has one element, records are one empty batch of 61 bytes, and optional tagged fields are left out."
            .to_owned();
        if self.is_flexible() {
            text.push_str(&format!(
                " Version {} is flexible: every struct ends with the number of its tagged fields, and the lengths of strings \
                and arrays are compact, which means one more than they count, as a uvarint.",
                self.version
            ));
        }
        text.push_str(" Sizes include the four bytes of the size field.");
        text
    }

    /// The names and values at the top of the page, in order.
    pub fn facts(&self) -> Vec<(&'static str, String)> {
        let api = self.api;
        let headers = [("req", &self.request), ("resp", &self.response)]
            .map(|(name, side)| side.as_ref().map(|side| format!("{name} v{}", side.header_version)));
        let size = |side: &Option<Side>| side.as_ref().map(|side| format!("{} bytes", side.size()));
        let mut facts = vec![
            ("API key", Some(api.key.0.to_string())),
            ("Encoded at", Some(format!("v{}", self.version))),
            ("Flexible versions", Some(flexible(api.request_flexible))),
            ("Headers", Some(headers.into_iter().flatten().collect::<Vec<_>>().join(", "))),
            ("Request versions", Some(api.request_versions.to_string())),
            ("Response versions", Some(api.response_versions.to_string())),
            ("Request size", size(&self.request)),
            ("Response size", size(&self.response)),
        ];
        if api.latest_version_unstable {
            facts.push(("Unstable", Some(format!("v{}", api.request_versions.max))));
        }
        facts.into_iter().filter_map(|(name, value)| Some((name, value?))).collect()
    }
}

impl Side {
    /// The request or response of an API at that version; `None` if there is no such version.
    pub fn new(schemas: &Schemas, api: &'static ApiInfo, direction: Direction, version: i16) -> Option<Side> {
        let (message, header_version) = match direction {
            Direction::Request => (api.request?, api.request_header_version(version)),
            Direction::Response => (api.response?, api.response_header_version(version)),
        };
        let explained = sample(schemas.tables(), api, direction, version)?;
        let schema = schemas.text(message.name).unwrap_or_default().to_owned();
        Some(Side { direction, message, version, header_version, explained, schema })
    }

    /// The size of the smallest frame in bytes, including the size field.
    pub fn size(&self) -> usize {
        self.explained.source(0).len()
    }

    /// The line below the heading.
    pub fn line(&self) -> String {
        let kind = direction_name(self.direction).to_ascii_lowercase();
        format!(
            "{} v{}, {kind} header v{}, {} bytes on the wire",
            self.message.name,
            self.version,
            self.header_version,
            self.size()
        )
    }

    /// The heading of the grid.
    pub fn grid_line(&self) -> String {
        format!("byte layout ({} bytes, {} bytes per row)", self.size(), grid::ROW)
    }

    /// The bytes of the frame, in order.
    pub fn cells(&self) -> Vec<Cell> {
        grid::cells(&self.explained, 0)
    }

    /// The fields that this version has, tagged ones included, in the order of the schema.
    pub fn fields(&self) -> Vec<FieldRow> {
        fields(self.message, self.version)
    }
}

/// The fields that a message has in that version, tagged ones included, in the order of the schema, the fields of a
/// struct after it.
pub fn fields(message: &MessageTable, version: i16) -> Vec<FieldRow> {
    fn add(rows: &mut Vec<FieldRow>, table: &StructTable, depth: usize, version: i16) {
        for field in table.fields.iter().filter(|field| field.versions.contains(version)) {
            rows.push(FieldRow { depth, field });
            if let Some(inner) = struct_in(&field.ty) {
                add(rows, inner, depth + 1, version);
            }
        }
    }
    let mut rows = Vec::new();
    add(&mut rows, message.root, 0, version);
    rows
}

/// The struct of a struct type or of an array of structs.
pub fn struct_in(ty: &Type) -> Option<&'static StructTable> {
    match ty {
        Type::Struct(table) => Some(table),
        Type::Array(element) => struct_in(element),
        _ => None,
    }
}
