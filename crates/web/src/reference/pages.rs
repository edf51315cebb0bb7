//! The pages of the reference: templates and their values.

use super::frame_view::FrameView;
use super::{ReferenceLayout, Site, versions};
use askama::Template;
use ottla_microscope::diff::{Change, diff};
use ottla_microscope::page::{FieldRow, Page, Side, direction_name, fields, flexible, highest_version};
use ottla_wire::smallest_frame_of;
use ottla_wire::tables::{Direction, MessageKind, MessageTable};
use ottla_wire::{ApiInfo, ApiKey, ErrorCode, Versions};
use std::collections::BTreeMap;

/// Error codes that the broker's responses may contain, by API. `cargo xtask apis` gathers them from the broker's
/// source.
const ERRORS: &str = include_str!("../../data/errors.tsv");
/// The requests of stock clients, by API and version. `cargo xtask e2e --through-tap` counts them.
const TRAFFIC: &str = include_str!("../../../microscope/data/traffic.tsv");

/// The error codes that the broker's response to an API may contain, ascending.
fn known_errors(key: ApiKey) -> Vec<ErrorCode> {
    let names = ERRORS.lines().filter_map(|line| line.split_once('\t')).find(|(api, _)| *api == key.name());
    let names: Vec<&str> = names.map_or_else(Vec::new, |(_, names)| names.split(' ').collect());
    ErrorCode::all().filter(|code| names.contains(&code.name())).collect()
}

/// The stock clients that used an API in the end-to-end tests, each with the versions.
fn clients(api: &ApiInfo) -> Vec<(&'static str, String)> {
    let mut used: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for line in TRAFFIC.lines().skip(1) {
        let columns: Vec<&str> = line.split('\t').collect();
        if let [_, name, version, client, ..] = columns[..]
            && name == api.name
        {
            used.entry(client).or_default().push(version);
        }
    }
    used.into_iter().map(|(client, versions)| (client, versions.join(", "))).collect()
}

/// Makes a sentence of a meaning: a capital letter at the start and a full stop at the end.
fn sentence(about: &str) -> String {
    let mut chars = about.chars();
    match chars.next() {
        Some(first) => first.to_uppercase().chain(chars).chain(['.']).collect(),
        None => String::new(),
    }
}

/// The page of an API at a version.
#[derive(Template)]
#[template(path = "api.html")]
pub(super) struct ApiPage<'a> {
    layout: ReferenceLayout,
    page: &'a Page,
    versions: Vec<i16>,
    served: Option<Versions>,
    sides: Vec<SideSection<'a>>,
    changes: Vec<Change>,
    errors: Vec<ErrorCode>,
    clients: Vec<(&'static str, String)>,
}

/// A request or response on a page.
struct SideSection<'a> {
    heading: &'static str,
    about: String,
    side: &'a Side,
    view: FrameView,
}

impl<'a> ApiPage<'a> {
    pub(super) fn new(site: &Site, page: &'a Page, inline: bool) -> ApiPage<'a> {
        let mut layout = site.layout(page.api.name, "", "../../");
        layout.inline = inline;
        let sides = page.sides().map(|side| SideSection {
            heading: direction_name(side.direction),
            about: sentence(side.message.about),
            side,
            view: FrameView::new(direction_name(side.direction).to_ascii_lowercase(), &side.explained),
        });
        let before = versions(page.api).contains(&(page.version - 1));
        let changes = if before { diff(page.api, page.version - 1, page.version) } else { Vec::new() };
        ApiPage {
            layout,
            page,
            versions: versions(page.api),
            served: (site.served)(page.api.key),
            sides: sides.collect(),
            changes,
            errors: known_errors(page.api.key),
            clients: clients(page.api),
        }
    }

    fn is_unstable(&self, version: &i16) -> bool {
        !self.page.api.stable_versions().contains(*version)
    }

    fn side_name(&self, change: &Change) -> &'static str {
        match change.direction {
            Direction::Request => "Request",
            Direction::Response => "Response",
        }
    }
}

/// The list of all APIs.
#[derive(Template)]
#[template(path = "reference_index.html")]
pub(super) struct IndexPage {
    layout: ReferenceLayout,
    rows: Vec<IndexRow>,
    messages: Vec<(&'static str, &'static str)>,
}

struct IndexRow {
    key: i16,
    name: &'static str,
    about: &'static str,
    versions: Vec<i16>,
    flexible: String,
    served: String,
    request_size: String,
    response_size: String,
}

impl IndexPage {
    pub(super) fn new(site: &Site) -> IndexPage {
        let rows = site.schemas.tables().apis().iter().map(|api| {
            let size = |direction| {
                let version = highest_version(api, Some(direction));
                let frame = version.and_then(|version| smallest_frame_of(api, direction, version));
                frame.map_or_else(String::new, |frame| frame.len().to_string())
            };
            IndexRow {
                key: api.key.0,
                name: api.name,
                about: api.request.map_or("", |table| table.about),
                versions: versions(api),
                flexible: flexible(api.request_flexible),
                served: (site.served)(api.key).map_or_else(String::new, |versions| versions.to_string()),
                request_size: size(Direction::Request),
                response_size: size(Direction::Response),
            }
        });
        IndexPage {
            layout: site.layout("The Kafka protocol, byte by byte", "APIs", ""),
            rows: rows.collect(),
            messages: site.messages().map(|table| (table.name, table.about)).collect(),
        }
    }
}

/// The list of all error codes.
#[derive(Template)]
#[template(path = "reference_errors.html")]
pub(super) struct ErrorsPage {
    layout: ReferenceLayout,
    codes: Vec<ErrorCode>,
}

impl ErrorsPage {
    pub(super) fn new(site: &Site) -> ErrorsPage {
        ErrorsPage {
            layout: site.layout("Error codes", "Error codes", ""),
            codes: ErrorCode::all().collect(),
        }
    }
}

/// A message that is neither request nor response.
#[derive(Template)]
#[template(path = "reference_message.html")]
pub(super) struct MessagePage {
    layout: ReferenceLayout,
    table: &'static MessageTable,
    about: String,
    kind: &'static str,
    flexible: String,
    versions: Vec<(i16, Vec<FieldTableRow>)>,
    schema: String,
}

/// A field of a message.
struct FieldTableRow {
    name: String,
    ty: String,
    about: &'static str,
}

fn row(FieldRow { depth, field }: FieldRow, version: i16) -> FieldTableRow {
    let mut ty = field.ty.to_string();
    if field.nullable.contains(version) {
        ty.push_str(", nullable");
    }
    if let Some(tag) = field.tag.filter(|_| field.is_tagged(version)) {
        ty.push_str(&format!(", tag {tag}"));
    }
    FieldTableRow { name: format!("{}{}", "    ".repeat(depth), field.name), ty, about: field.about }
}

impl MessagePage {
    pub(super) fn new(site: &Site, table: &'static MessageTable) -> MessagePage {
        let kind = match table.kind {
            MessageKind::Request => "request",
            MessageKind::Response => "response",
            MessageKind::Header => "header, in front of requests or responses",
            MessageKind::Data => "data, inside other messages or records",
            MessageKind::CoordinatorKey => "key of a record of an internal topic",
            MessageKind::CoordinatorValue => "value of a record of an internal topic",
        };
        let rows = |version| {
            (version, fields(table, version).into_iter().map(|field| row(field, version)).collect())
        };
        MessagePage {
            layout: site.layout(table.name, "", "../"),
            about: sentence(table.about),
            kind,
            flexible: flexible(table.flexible),
            versions: table.versions.iter().rev().map(rows).collect(),
            schema: site.schemas.text(table.name).unwrap_or_default().to_owned(),
            table,
        }
    }
}
