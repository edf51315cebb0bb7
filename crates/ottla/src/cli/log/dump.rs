//! `ottla log dump`: everything that a data folder holds.

use bytes::Bytes;
use clap::Args;
use ottla_layout::record::decode;
use ottla_layout::{GROUP_HEADER, Group, explain};
use ottla_store::inspect::{Damage, End, Folder, Found, SnapshotFound};
use ottla_types::record::LogRecord;
use serde_json::{Map, Value, json};

use super::filter::Filter;
use super::names::Names;
use super::tree::{Stretch, Tree, hex};
use super::{Target, json as as_json, line, place};
use crate::cli::failure::Failure;
use crate::cli::out::Out;

/// Show what a data folder holds: identity, snapshots, segments, groups and every entry.
///
/// A line each unless asked for otherwise, with file and offset in front. What is damaged is said, and reading goes on behind it;
/// the exit status is then 1, and 2 if the folder cannot be read at all.
#[derive(Args)]
pub(super) struct Dump {
    #[command(flatten)]
    target: Target,
    #[command(flatten)]
    filter: Filter,
    #[command(flatten)]
    show: Show,
}

/// How an entry is shown.
#[derive(Args)]
#[group(multiple = false)]
pub(super) struct Show {
    /// A tree each: every byte in a named field with its offset in the file.
    #[arg(long)]
    tree: bool,
    /// The bytes of each entry below its line.
    #[arg(long)]
    hex: bool,
    /// The records of each batch below its line.
    #[arg(long)]
    pub(super) records: bool,
    /// A JSON object a line.
    #[arg(long)]
    pub(super) json: bool,
}

impl Dump {
    pub(super) fn run(self, out: &mut Out) -> Result<(), Failure> {
        let folder = self.target.open()?;
        let mut printer =
            Printer { out, show: self.show, filter: self.filter, names: Names::default(), damaged: 0 };
        printer.identity(&folder)?;
        for position in folder.snapshots() {
            printer.snapshot(&folder, position)?;
        }
        folder.walk(&mut |found| printer.found(&folder, found))?;
        printer.runs(&folder)?;
        match printer.damaged {
            0 => Ok(()),
            1 => Err(Failure::damaged("the folder is damaged in 1 place, see above")),
            many => Err(Failure::damaged(format!("the folder is damaged in {many} places, see above"))),
        }
    }
}

pub(super) struct Printer<'o> {
    pub(super) out: &'o mut Out,
    pub(super) show: Show,
    pub(super) filter: Filter,
    pub(super) names: Names,
    damaged: u64,
}

/// Something of a file that is shown: where it is, and a word for what it is.
struct Head<'a> {
    file: &'a str,
    offset: u64,
    what: &'static str,
}

impl Printer<'_> {
    fn identity(&mut self, folder: &Folder) -> Result<(), Failure> {
        let identity = folder.identity();
        let size = identity.geometry.segment_size();
        let text =
            format!("log {:016x}, shard {}, segments of {size} bytes", identity.log_id, identity.shard);
        let bytes = Bytes::from(folder.head("identity")?);
        let head = Head { file: "identity", offset: 0, what: "identity" };
        let pieces = explain::identity(&bytes);
        self.part(&head, &text, &pieces, &bytes)
    }

    /// Shows a header: as a line, with its fields as an object, or as a tree. Not if only some entries are wanted.
    fn part(
        &mut self,
        head: &Head<'_>,
        text: &str,
        pieces: &[explain::Piece],
        bytes: &Bytes,
    ) -> Result<(), Failure> {
        if self.filter.is_set() {
            return Ok(());
        }
        if self.show.json {
            let mut shown = self.object(head);
            let fields =
                pieces.iter().filter(|piece| !matches!(piece.name, "padding" | "reserved" | "magic"));
            shown.extend(fields.map(|piece| {
                let value = match &piece.said {
                    explain::Said::Number(number) => json!(u64::try_from(*number).unwrap_or(0)),
                    _ => line::said(piece, &[], &self.names).into(),
                };
                (piece.name.to_owned(), value)
            }));
            return Ok(self.out.json_line(&shown.into())?);
        }
        if self.show.tree {
            let size = pieces.iter().map(|piece| piece.size as u64).sum();
            let mut tree = Tree::default();
            tree.row(0, [head.what, "", text], Stretch { at: head.offset, size }, head.file);
            tree.pieces(1, pieces, (head.offset, bytes), &self.names);
            return Ok(self.out.bytes(tree.text().as_bytes())?);
        }
        Ok(self.out.line(format!("{}  {} {text}", place(head.file, head.offset), head.what))?)
    }

    fn object(&self, head: &Head<'_>) -> Map<String, Value> {
        let Value::Object(object) = json!({ "what": head.what, "file": head.file, "offset": head.offset })
        else {
            return Map::new();
        };
        object
    }

    pub(super) fn damage(&mut self, file: &str, offset: u64, reason: &str) -> Result<(), Failure> {
        self.damaged += 1;
        if self.show.json {
            let mut shown = self.object(&Head { file, offset, what: "damage" });
            shown.insert("reason".to_owned(), reason.into());
            return Ok(self.out.json_line(&shown.into())?);
        }
        Ok(self.out.line(format!("{}  damaged: {reason}", place(file, offset)))?)
    }

    fn snapshot(&mut self, folder: &Folder, position: u64) -> Result<(), Failure> {
        let name = Folder::snapshot_name(position);
        let mut version = 0;
        folder.snapshot(position, &mut |found| match found {
            SnapshotFound::Header { format, bytes } => {
                version = format;
                let bytes = Bytes::copy_from_slice(bytes);
                let head = Head { file: &name, offset: 0, what: "snapshot" };
                let text = format!("of position {position}");
                self.part(&head, &text, &explain::snapshot_header(&bytes), &bytes)
            }
            SnapshotFound::Chunk { offset, bytes, position, entries } => {
                let whole = Bytes::copy_from_slice(bytes);
                let head = Head { file: &name, offset, what: "chunk" };
                let rows = line::counted(entries.len(), "row");
                let text = format!("of position {position}, {rows}, {} bytes", bytes.len());
                self.part(&head, &text, &explain::chunk_header(version, bytes), &whole)?;
                for (at, entry) in entries {
                    let within = (at - offset) as usize;
                    let bytes = whole.slice(within..within + entry.len());
                    self.entry(&Head { file: &name, offset: at - 4, what: "row" }, bytes)?;
                }
                Ok(())
            }
            SnapshotFound::End { offset, bytes } => {
                let bytes = Bytes::copy_from_slice(bytes);
                let head = Head { file: &name, offset, what: "end" };
                self.part(&head, "of the snapshot", &explain::chunk_header(version, &bytes), &bytes)
            }
            SnapshotFound::Damage { offset, reason } => self.damage(&name, offset, &reason),
        })
    }

    fn found(&mut self, folder: &Folder, found: Found<'_>) -> Result<(), Failure> {
        let geometry = folder.identity().geometry;
        let file = |position: u64| Folder::segment_name(geometry.segment_of(position));
        match found {
            Found::Segment { number, size, block, header } => {
                let name = Folder::segment_name(number);
                let bytes = Bytes::copy_from_slice(block);
                let epoch =
                    header.as_ref().map_or(String::new(), |header| format!(", epoch {}", header.epoch));
                let text = format!("of {size} bytes{epoch}");
                let head = Head { file: &name, offset: 0, what: "segment" };
                self.part(&head, &text, &explain::segment_header(&bytes), &bytes)?;
                header.map_or_else(|reason| self.damage(&name, 0, &reason), |_| Ok(()))
            }
            Found::Group { bytes, group } => {
                let name = file(group.header.position);
                self.group(&name, geometry.offset_of(group.header.position), bytes, &group)
            }
            Found::Damage(damage) => {
                let (name, offset) = (file(damage.at), geometry.offset_of(damage.at));
                self.damage(&name, offset, &describe(&damage, folder))
            }
            Found::End(end) => self.end(&file(end.position), geometry.offset_of(end.position), &end),
        }
    }

    fn group(&mut self, file: &str, offset: u64, bytes: &[u8], group: &Group<'_>) -> Result<(), Failure> {
        let header = &group.header;
        let bytes = Bytes::copy_from_slice(bytes);
        let head = Head { file, offset, what: "group" };
        let text = format!(
            "{}, epoch {}, {}, {}, {}",
            header.sequence,
            header.epoch,
            if header.durable == header.position {
                "all before durable".to_owned()
            } else {
                format!("durable to {}", header.durable)
            },
            line::counted(header.entries as usize, "entry").replace("entrys", "entries"),
            line::counted(header.len() as usize, "byte"),
        );
        self.part(&head, &text, &explain::group_header(&bytes), &bytes)?;
        for entry in group.entries() {
            let within = (entry.position - header.position) as usize;
            let body = bytes.slice(within + 4..within + 4 + entry.bytes.len());
            self.entry(&Head { file, offset: offset + within as u64, what: "entry" }, body)?;
        }
        self.padding(file, offset, header.len(), &bytes)
    }

    /// The zeros behind a group are bytes as well.
    fn padding(&mut self, file: &str, offset: u64, len: u64, bytes: &Bytes) -> Result<(), Failure> {
        debug_assert!(bytes.len() >= GROUP_HEADER);
        if !self.show.tree || self.filter.is_set() || len >= bytes.len() as u64 {
            return Ok(());
        }
        let at = Stretch { at: offset + len, size: bytes.len() as u64 - len };
        let mut tree = Tree::default();
        tree.row(0, ["padding", "zeros", ""], at, file);
        Ok(self.out.bytes(tree.text().as_bytes())?)
    }

    /// Shows an entry; `head` says where its length stands.
    fn entry(&mut self, head: &Head<'_>, bytes: Bytes) -> Result<(), Failure> {
        let decoded = match decode(&bytes) {
            Ok(decoded) => decoded,
            Err(error) => {
                if self.show.tree {
                    self.tree(head, &explain::entry(&bytes).0, &bytes)?;
                }
                return self.damage(head.file, head.offset, &error.to_string());
            }
        };
        self.names.learn(&decoded.record);
        let (pieces, _) = explain::entry(&bytes);
        if !self.filter.fits(&decoded.record, &pieces, &self.names) {
            return Ok(());
        }
        if self.show.json {
            let mut shown = self.object(head);
            shown.insert("kind".to_owned(), kind(&pieces).into());
            shown.insert("version".to_owned(), bytes.get(1).copied().into());
            shown.insert("fields".to_owned(), as_json::fields(&pieces, &bytes, &self.names));
            return Ok(self.out.json_line(&shown.into())?);
        }
        if self.show.tree {
            return self.tree(head, &pieces, &bytes);
        }
        let payload = bytes.slice(decoded.payload.unwrap_or(bytes.len())..);
        let text = match &decoded.record {
            LogRecord::BatchAppended(batch) => line::batch(batch, &payload, &self.names),
            _ => line::fields(&pieces, &self.names),
        };
        self.out.line(format!("{}    {} {text}", place(head.file, head.offset), kind(&pieces)).trim_end())?;
        if self.show.records && !payload.is_empty() {
            for record in line::records(&payload) {
                self.out.line(format!("  {record}"))?;
            }
        }
        if self.show.hex {
            let mut whole = (bytes.len() as u32).to_le_bytes().to_vec();
            whole.extend_from_slice(&bytes);
            self.out.bytes(hex(head.offset, &whole).as_bytes())?;
        }
        Ok(())
    }

    fn tree(&mut self, head: &Head<'_>, pieces: &[explain::Piece], bytes: &Bytes) -> Result<(), Failure> {
        let mut tree = Tree::default();
        let (at, size) = (head.offset, bytes.len() as u64);
        tree.row(0, [head.what, kind(pieces), ""], Stretch { at, size: size + 4 }, head.file);
        tree.row(1, ["length", "u32", &size.to_string()], Stretch { at, size: 4 }, "bytes that follow");
        tree.pieces(1, pieces, (at + 4, bytes), &self.names);
        Ok(self.out.bytes(tree.text().as_bytes())?)
    }

    fn end(&mut self, file: &str, offset: u64, end: &End) -> Result<(), Failure> {
        if self.filter.is_set() {
            return Ok(());
        }
        let torn = end.torn.as_ref().map(|(_, reason)| reason.as_str());
        if self.show.json {
            let mut shown = self.object(&Head { file, offset, what: "end" });
            shown.insert("position".to_owned(), end.position.into());
            shown.insert("torn".to_owned(), torn.into());
            return Ok(self.out.json_line(&shown.into())?);
        }
        let torn = torn.map_or(String::new(), |reason| format!("; behind it a torn group: {reason}"));
        Ok(self.out.line(format!("{}  the log ends{torn}", place(file, offset)))?)
    }
}

fn kind(pieces: &[explain::Piece]) -> &'static str {
    match pieces.first().map(|piece| &piece.said) {
        Some(explain::Said::Named(_, name)) => name,
        _ => "unknown",
    }
}

/// What is missing at a place, and where the log goes on.
pub(super) fn describe(damage: &Damage, folder: &Folder) -> String {
    let geometry = folder.identity().geometry;
    let mut text = damage.reason.clone();
    if let Some(to) = damage.to {
        let file = Folder::segment_name(geometry.segment_of(to));
        text += &format!("; the log goes on at {}", place(&file, geometry.offset_of(to)));
    }
    if let Some(groups) = damage.groups {
        text +=
            &format!(", {} missing", line::counted(usize::try_from(groups).unwrap_or(usize::MAX), "group"));
    }
    text
}
