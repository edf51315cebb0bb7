//! Prints the items of a data folder as lines, trees or JSON.

use super::filter::Filter;
use super::tree::{FileRange, Tree, hex};
use super::{damage_text, json as as_json, line};
use crate::cli::failure::Failure;
use crate::cli::out::Out;
use clap::Args;
use ottla_layout::GroupHeader;
use ottla_layout::explain::{FieldSpan, FieldValue};
use ottla_salvage::{Damage, Entry, Header, HeaderKind, Item, Location, LogEnd, TopicNames};
use ottla_types::record::{LogRecord, PartitionRecord};
use serde_json::{Map, Value, json};

/// How an entry is shown.
#[derive(Args)]
#[group(multiple = false)]
pub(super) struct Show {
    /// Show a tree for each: every byte in a named field with its offset in the file.
    #[arg(long)]
    tree: bool,
    /// Show the bytes of each entry below its line.
    #[arg(long)]
    hex: bool,
    /// Show the records of each batch below its line.
    #[arg(long)]
    pub(super) records: bool,
    /// Print one JSON object per line.
    #[arg(long)]
    pub(super) json: bool,
}

pub(super) struct Printer<'o> {
    pub(super) out: &'o mut Out,
    pub(super) show: Show,
    pub(super) filter: Filter,
    pub(super) names: TopicNames,
    /// How often damage was printed.
    pub(super) damaged: u64,
}

impl Printer<'_> {
    pub(super) fn new(out: &mut Out, show: Show, filter: Filter) -> Printer<'_> {
        Printer { out, show, filter, names: TopicNames::default(), damaged: 0 }
    }

    pub(super) fn item(&mut self, item: &Item) -> Result<(), Failure> {
        match item {
            Item::Header(header) => self.header(header),
            Item::Entry(entry) => self.entry(entry),
            Item::Padding { location, size } => self.padding(location, *size),
            Item::Damage(damage) => self.damage(damage),
            Item::End(end) => self.end(end),
        }
    }

    /// Prints a header as a line, as an object with its fields, or as a tree. A filter for entries excludes headers.
    fn header(&mut self, header: &Header) -> Result<(), Failure> {
        if self.filter.is_set() {
            return Ok(());
        }
        let (word, text) = describe(&header.kind);
        if self.show.json {
            let mut shown = object(word, &header.location);
            let fields =
                header.fields.iter().filter(|piece| !matches!(piece.name, "padding" | "reserved" | "magic"));
            shown.extend(fields.map(|piece| {
                let value = match &piece.value {
                    FieldValue::Number(number) => json!(u64::try_from(*number).unwrap_or(0)),
                    _ => line::said(piece, &[], &self.names).into(),
                };
                (piece.name.to_owned(), value)
            }));
            return Ok(self.out.json_line(&shown.into())?);
        }
        let Location { file, offset: at } = &header.location;
        if self.show.tree {
            let size = header.fields.iter().map(|piece| piece.size as u64).sum();
            let mut tree = Tree::default();
            tree.row(0, [word, "", &text], FileRange { at: *at, size }, file);
            tree.pieces(1, &header.fields, (*at, &header.bytes), &self.names);
            return Ok(self.out.text(&tree.text())?);
        }
        Ok(self.out.line(format!("{}  {word} {text}", header.location))?)
    }

    pub(super) fn damage(&mut self, damage: &Damage) -> Result<(), Failure> {
        self.damaged += 1;
        let text = damage_text(damage);
        if self.show.json {
            let mut shown = object("damage", &damage.location);
            shown.insert("reason".to_owned(), text.into());
            return Ok(self.out.json_line(&shown.into())?);
        }
        Ok(self.out.line(format!("{}  damaged: {text}", damage.location))?)
    }

    /// In a tree every byte is shown, the zeros after a group too.
    fn padding(&mut self, location: &Location, size: u64) -> Result<(), Failure> {
        if !self.show.tree || self.filter.is_set() {
            return Ok(());
        }
        let mut tree = Tree::default();
        let at = FileRange { at: location.offset, size };
        tree.row(0, ["padding", "zeros", ""], at, &location.file);
        Ok(self.out.text(&tree.text())?)
    }

    fn entry(&mut self, entry: &Entry) -> Result<(), Failure> {
        let Entry { location, bytes, fields, .. } = entry;
        let decoded = match &entry.decoded {
            Ok(decoded) => decoded,
            Err(error) => {
                if self.show.tree {
                    self.tree(entry)?;
                }
                let (location, reason) = (location.clone(), error.to_string());
                return self.damage(&Damage { location, reason, resumes: None, missing_groups: None });
            }
        };
        self.names.learn(&decoded.record);
        if !self.filter.fits(&decoded.record, fields, &self.names) {
            return Ok(());
        }
        if self.show.json {
            let mut shown = object(entry_word(entry), location);
            shown.insert("kind".to_owned(), kind(fields).into());
            shown.insert("version".to_owned(), bytes.get(1).copied().into());
            shown.insert("fields".to_owned(), as_json::fields(fields, bytes, &self.names));
            return Ok(self.out.json_line(&shown.into())?);
        }
        if self.show.tree {
            return self.tree(entry);
        }
        let payload = bytes.slice(decoded.payload.unwrap_or(bytes.len())..);
        let text = match &decoded.record {
            LogRecord::Partitions(PartitionRecord::BatchAppended(batch)) => {
                line::batch(batch, &payload, &self.names)
            }
            _ => line::fields(fields, &self.names),
        };
        self.out.line(format!("{location}    {} {text}", kind(fields)).trim_end())?;
        if self.show.records && !payload.is_empty() {
            for record in line::records(&payload) {
                self.out.line(format!("  {record}"))?;
            }
        }
        if self.show.hex {
            let mut whole = (bytes.len() as u32).to_le_bytes().to_vec();
            whole.extend_from_slice(bytes);
            self.out.text(&hex(location.offset, &whole))?;
        }
        Ok(())
    }

    fn tree(&mut self, entry: &Entry) -> Result<(), Failure> {
        let mut tree = Tree::default();
        let (at, size) = (entry.location.offset, entry.bytes.len() as u64);
        let title = [entry_word(entry), kind(&entry.fields), ""];
        tree.row(0, title, FileRange { at, size: size + 4 }, &entry.location.file);
        tree.row(1, ["length", "u32", &size.to_string()], FileRange { at, size: 4 }, "bytes that follow");
        tree.pieces(1, &entry.fields, (at + 4, &entry.bytes), &self.names);
        Ok(self.out.text(&tree.text())?)
    }

    fn end(&mut self, end: &LogEnd) -> Result<(), Failure> {
        if self.filter.is_set() {
            return Ok(());
        }
        if self.show.json {
            let mut shown = object("end", &end.location);
            shown.insert("position".to_owned(), end.position.into());
            shown.insert("torn".to_owned(), end.torn.as_deref().into());
            return Ok(self.out.json_line(&shown.into())?);
        }
        let torn =
            end.torn.as_ref().map_or(String::new(), |reason| format!("; after it a torn group: {reason}"));
        Ok(self.out.line(format!("{}  the log ends{torn}", end.location))?)
    }
}

/// The beginning of an object: what is shown, and where it is.
fn object(what: &str, location: &Location) -> Map<String, Value> {
    Map::from_iter([
        ("what".to_owned(), what.into()),
        ("file".to_owned(), location.file.as_str().into()),
        ("offset".to_owned(), location.offset.into()),
    ])
}

/// The word and the text of the line for a header.
fn describe(kind: &HeaderKind) -> (&'static str, String) {
    match kind {
        HeaderKind::Identity(identity) => {
            let size = identity.geometry.segment_size();
            let (log, shard) = (identity.log_id, identity.shard);
            ("identity", format!("log {log:016x}, shard {shard}, segments of {size} bytes"))
        }
        HeaderKind::Snapshot { position } => ("snapshot", format!("of position {position}")),
        HeaderKind::Chunk { position, rows, size } => {
            let rows = line::counted(*rows, "row");
            ("chunk", format!("of position {position}, {rows}, {size} bytes"))
        }
        HeaderKind::SnapshotEnd => ("end", "of the snapshot".to_owned()),
        HeaderKind::Segment { size, epoch } => {
            let epoch = epoch.map_or(String::new(), |epoch| format!(", epoch {epoch}"));
            ("segment", format!("of {size} bytes{epoch}"))
        }
        HeaderKind::Group(header) => ("group", describe_group(header)),
    }
}

fn describe_group(header: &GroupHeader) -> String {
    let durable = if header.durable == header.position {
        "all before durable".to_owned()
    } else {
        format!("durable to {}", header.durable)
    };
    format!(
        "{}, epoch {}, {durable}, {}, {}",
        header.sequence,
        header.epoch,
        line::counted(header.entries as usize, "entry").replace("entrys", "entries"),
        line::counted(header.len() as usize, "byte"),
    )
}

fn entry_word(entry: &Entry) -> &'static str {
    if entry.is_row { "row" } else { "entry" }
}

fn kind(fields: &[FieldSpan]) -> &'static str {
    match fields.first().map(|piece| &piece.value) {
        Some(FieldValue::Named(_, name)) => name,
        _ => "unknown",
    }
}
