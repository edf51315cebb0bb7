//! `ottla explain`: the reference page of an API or message.

use super::failure::Failure;
use super::out::Out;
use super::schemas::{SchemaFiles, find};
use clap::{Args, ValueEnum};
use ottla_microscope::diff::diff;
use ottla_microscope::names::Subject;
use ottla_microscope::page::{self, Page};
use ottla_microscope::page_json;
use ottla_microscope::schemas::Schemas;
use ottla_microscope::text::{self, Paint, Parts};
use ottla_web::Site;
use ottla_wire::tables::{Direction, MessageTable};
use ottla_wire::{ApiInfo, Versions};
use serde_json::{Value, json};
use std::env;
use std::io::{self, IsTerminal};

/// Show an API byte by byte: its smallest request and response as a grid and as a tree, and its schema.
///
/// The default is the highest stable version, and both request and response. With one of --request and --response and
/// one of
/// --bytes, --tree and --schema, that part alone is printed, without headings.
#[derive(Args)]
pub(crate) struct Explain {
    /// Name of the API in any case, optionally with Request or Response appended; its number; or another message.
    name: String,
    /// The version [default: the highest stable one]
    #[arg(long, value_name = "N")]
    version: Option<i16>,
    /// Show only the request.
    #[arg(long, conflicts_with = "response")]
    request: bool,
    /// Show only the response.
    #[arg(long)]
    response: bool,
    #[command(flatten)]
    parts: PartFlags,
    /// Print JSON: facts, bytes, trees, fields, schemas.
    #[arg(long, conflicts_with_all = ["bytes", "tree", "schema"])]
    json: bool,
    /// Print one self-contained HTML page: grid and tree, linked with each other, and schema.
    #[arg(long, conflicts_with_all = ["json", "diff", "bytes", "tree", "schema"])]
    html: bool,
    /// Show what changed from version A to version B: fields, nullability, tags, headers, sizes.
    #[arg(long, num_args = 2, value_names = ["A", "B"], conflicts_with_all = ["version", "bytes", "tree", "schema"])]
    diff: Vec<i16>,
    #[command(flatten)]
    schemas: SchemaFiles,
    /// When to colour the grid.
    #[arg(long, value_enum, default_value_t = Color::Auto)]
    color: Color,
}

/// Which parts to show.
#[derive(Args)]
struct PartFlags {
    /// Show the grid of bytes.
    #[arg(long)]
    bytes: bool,
    /// Show the tree.
    #[arg(long)]
    tree: bool,
    /// Show the schema.
    #[arg(long)]
    schema: bool,
}

impl PartFlags {
    fn parts(&self) -> Parts {
        let PartFlags { bytes, tree, schema } = *self;
        if bytes || tree || schema { Parts { bytes, tree, schema } } else { Parts::ALL }
    }
}

/// When to use colours.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum Color {
    /// On a terminal, unless NO_COLOR is set.
    Auto,
    /// Always.
    Always,
    /// Never.
    Never,
}

impl Color {
    pub(super) fn paint(self) -> Paint {
        let wanted = match self {
            Color::Auto => {
                io::stdout().is_terminal() && env::var_os("NO_COLOR").is_none_or(|set| set.is_empty())
            }
            Color::Always => true,
            Color::Never => false,
        };
        if wanted { Paint::Ansi } else { Paint::Plain }
    }
}

impl Explain {
    pub(super) fn run(self, out: &mut Out) -> Result<(), Failure> {
        let schemas = self.schemas.read()?;
        match find(&schemas, &self.name)? {
            Subject::Api(api, side) if self.diff.is_empty() => self.page(&schemas, api, side, out),
            Subject::Api(api, side) => self.changes(api, side, out),
            Subject::Message(table) => self.message(&schemas, table, out),
        }
    }

    /// The side to show: that of a flag, else that of the name.
    fn side(&self, named: Option<Direction>) -> Option<Direction> {
        match (self.request, self.response) {
            (true, _) => Some(Direction::Request),
            (_, true) => Some(Direction::Response),
            _ => named,
        }
    }

    fn page(
        &self,
        schemas: &Schemas,
        api: &'static ApiInfo,
        named: Option<Direction>,
        out: &mut Out,
    ) -> Result<(), Failure> {
        let side = self.side(named);
        let version =
            self.version.or_else(|| page::highest_version(api, side)).ok_or_else(|| removed(api))?;
        let page = Page::new(schemas, api, version).map(|page| match side {
            Some(Direction::Request) => Page { response: None, ..page },
            Some(Direction::Response) => Page { request: None, ..page },
            None => page,
        });
        let page = page.filter(|page| page.sides().next().is_some());
        let page = page.ok_or_else(|| no_version(api, version))?;
        if self.json {
            return Ok(out.json(&page_json::page(&page))?);
        }
        if self.html {
            let site = Site::new(schemas.clone(), ottla_broker::served_versions);
            let html = site.single_file(&page).map_err(|why| Failure::new(why.to_string()))?;
            return Ok(out.raw(html.as_bytes())?);
        }
        Ok(out.coloured(&text::page(&page, self.parts.parts(), self.color.paint()))?)
    }

    fn changes(&self, api: &'static ApiInfo, named: Option<Direction>, out: &mut Out) -> Result<(), Failure> {
        let &[from, to] = self.diff.as_slice() else { return Ok(()) };
        for version in [from, to] {
            if !api.request_versions.contains(version) && !api.response_versions.contains(version) {
                return Err(no_version(api, version));
            }
        }
        let mut changes = diff(api, from, to);
        if let Some(side) = self.side(named) {
            changes.retain(|change| change.direction == side);
        }
        if self.json {
            let changes = page_json::changes(&changes);
            return Ok(out.json(&json!({ "name": api.name, "from": from, "to": to, "changes": changes }))?);
        }
        Ok(out.text(&text::changes(&changes))?)
    }

    /// Shows a message that has no frame of its own: its fields and its schema.
    fn message(&self, schemas: &Schemas, table: &'static MessageTable, out: &mut Out) -> Result<(), Failure> {
        if !self.diff.is_empty()
            || self.html
            || self.parts.bytes
            || self.parts.tree
            || self.request
            || self.response
        {
            return Err(Failure::new(format!("{} has no frame of its own", table.name))
                .remedy("Leave out the flags to see its fields and schema."));
        }
        let version = self.version.unwrap_or(table.versions.max);
        if !table.versions.contains(version) {
            return Err(missing(table.name, version, table.versions));
        }
        let schema = schemas.text(table.name).unwrap_or_default();
        if self.json {
            return Ok(out.json(&message_json(table, version, schema))?);
        }
        if !self.parts.schema {
            out.line(format!("{} v{version} of {}", table.name, table.versions))?;
            if !table.about.is_empty() {
                out.line("")?;
                out.line(table.about)?;
            }
            out.text("\nfields\n\n")?;
            out.text(&text::field_table(table, version))?;
            out.text("\nkafka message schema (.json)\n\n")?;
        }
        out.text(schema)?;
        Ok(out.line("")?)
    }
}

fn message_json(table: &'static MessageTable, version: i16, schema: &str) -> Value {
    json!({
        "name": table.name,
        "about": table.about,
        "version": version,
        "versions": table.versions.to_string(),
        "flexible_versions": page::flexible(table.flexible),
        "fields": page_json::field_rows(table, version),
        "schema": schema,
    })
}

fn removed(api: &ApiInfo) -> Failure {
    Failure::new(format!(
        "{} was removed from the protocol: its number {} is kept, no version is left",
        api.name, api.key.0
    ))
    .remedy("Schemas of an older Kafka may have it: --schemas kafka-clients.jar.")
}

fn no_version(api: &ApiInfo, version: i16) -> Failure {
    if page::highest_version(api, None).is_none() {
        return removed(api);
    }
    missing(api.name, version, api.request_versions)
}

fn missing(name: &str, version: i16, versions: Versions) -> Failure {
    Failure::new(format!("{name} has no version {version}; it has {versions}"))
}
