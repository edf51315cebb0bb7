//! Pages as text, for terminals and files.

use crate::diff::{Change, default};
use crate::grid::{Cell, ROW};
use crate::page::{Page, Side, direction_name, fields};
use ottla_wire::explain::Region;
use ottla_wire::tables::{Direction, MessageTable};
use std::fmt::Write;

/// Whether the text has colours.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Paint {
    /// No colours.
    Plain,
    /// ANSI escape sequences for terminals.
    Ansi,
}

/// The parts of a page to print.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Parts {
    /// The grid of bytes.
    pub bytes: bool,
    /// The tree.
    pub tree: bool,
    /// The text of the schema.
    pub schema: bool,
}

impl Parts {
    /// All parts.
    pub const ALL: Parts = Parts { bytes: true, tree: true, schema: true };

    fn count(self) -> usize {
        [self.bytes, self.tree, self.schema].into_iter().filter(|part| *part).count()
    }
}

/// A page with its title, facts, request and response. A single part of only the request or the response is printed
/// without headings, so that other tools can read the tree, the grid or the schema.
pub fn page(page: &Page, parts: Parts, paint: Paint) -> String {
    let mut out = String::new();
    let mut sides = page.sides();
    if let (1, Some(side), None) = (parts.count(), sides.next(), sides.next()) {
        one_part(&mut out, side, parts, paint);
        return out;
    }
    if parts == Parts::ALL {
        put(&mut out, page.api.name);
        out.push('\n');
        wrapped(&mut out, &page.introduction());
        out.push('\n');
        let facts = page.facts();
        let width = facts.iter().map(|(name, _)| name.len()).max().unwrap_or(0);
        for (name, value) in facts {
            put(&mut out, &format!("{name:<width$}  {value}"));
        }
    }
    for side in page.sides() {
        if !out.is_empty() {
            out.push('\n');
        }
        one_side(&mut out, side, parts, paint);
    }
    out
}

fn one_side(out: &mut String, side: &Side, parts: Parts, paint: Paint) {
    put(out, direction_name(side.direction));
    out.push('\n');
    put(out, &side.line());
    if parts.bytes {
        out.push('\n');
        put(out, &side.grid_line());
        out.push('\n');
        out.push_str(&grid(&side.cells(), side.direction, paint));
    }
    if parts.tree {
        out.push_str("\nobject tree\n\n");
        out.push_str(&side.explained.tree());
        let tagged = tagged_fields(side);
        if !tagged.is_empty() {
            out.push_str("\ntagged fields, left out above because they are optional\n\n");
            out.push_str(&tagged);
        }
    }
    if parts.schema {
        out.push_str("\nkafka message schema (.json)\n\n");
        put(out, side.schema.trim_end());
    }
}

fn one_part(out: &mut String, side: &Side, parts: Parts, paint: Paint) {
    if parts.bytes {
        out.push_str(&grid(&side.cells(), side.direction, paint));
    } else if parts.tree {
        out.push_str(&side.explained.tree());
    } else {
        put(out, side.schema.trim_end());
    }
}

fn tagged_fields(side: &Side) -> String {
    let rows = side.fields();
    let tagged = rows.iter().filter(|row| row.field.is_tagged(side.version));
    let rows: Vec<[String; 5]> = tagged
        .map(|row| {
            let field = row.field;
            [
                field.name.to_owned(),
                field.ty.to_string(),
                format!("tag {}", field.tag.unwrap_or(0)),
                default(field).map_or_else(String::new, |value| format!("= {value}")),
                field.about.to_owned(),
            ]
        })
        .collect();
    columns(&rows)
}

/// The fields of a message at one version: name, type, versions, null, tag, default, meaning.
pub fn field_table(message: &MessageTable, version: i16) -> String {
    let rows: Vec<[String; 7]> = fields(message, version)
        .iter()
        .map(|row| {
            let field = row.field;
            let null = if field.nullable.contains(version) { "nullable" } else { "" };
            let tag = field.tag.filter(|_| field.is_tagged(version));
            [
                format!("{}{}", "  ".repeat(row.depth), field.name),
                field.ty.to_string(),
                format!("v{}", field.versions),
                null.to_owned(),
                tag.map_or_else(String::new, |tag| format!("tag {tag}")),
                default(field).map_or_else(String::new, |value| format!("= {value}")),
                field.about.to_owned(),
            ]
        })
        .collect();
    columns(&rows)
}

/// Aligns the columns of rows: each is two blanks wider than its widest cell.
fn columns<const N: usize>(rows: &[[String; N]]) -> String {
    let mut widths = [0; N];
    for row in rows {
        for (width, cell) in widths.iter_mut().zip(row) {
            *width = (*width).max(cell.chars().count());
        }
    }
    let mut out = String::new();
    for row in rows {
        let mut line = String::new();
        for (cell, width) in row.iter().zip(widths).filter(|(_, width)| *width > 0) {
            // Writing to a String cannot fail.
            let _ = write!(line, "{cell:<width$}  ");
        }
        put(&mut out, line.trim_end());
    }
    out
}

/// The differences between two versions, one a line.
pub fn changes(changes: &[Change]) -> String {
    let rows: Vec<[String; 3]> = changes
        .iter()
        .map(|change| {
            let field = if change.field.is_empty() { "(message)" } else { &change.field };
            [direction_name(change.direction).to_owned(), field.to_owned(), change.what.clone()]
        })
        .collect();
    if rows.is_empty() { "no difference in the bytes\n".to_owned() } else { columns(&rows) }
}

/// Sixteen bytes a row. After each row, a letter for each byte names the part of the frame that it belongs to. A legend
/// follows.
pub fn grid(cells: &[Cell], direction: Direction, paint: Paint) -> String {
    let mut out = "      0  1  2  3  4  5  6  7  8  9  A  B  C  D  E  F\n".to_owned();
    for (place, row) in cells.chunks(ROW).enumerate() {
        // Writing to a String cannot fail.
        let _ = write!(out, "{:04X}  ", place * ROW);
        paint_row(&mut out, row, paint, " ", |cell| format!("{:02x}", cell.byte));
        out.push_str(&" ".repeat((ROW - row.len()) * 3 + 2));
        paint_row(&mut out, row, paint, "", |cell| letter(cell.region).to_string());
        out.push('\n');
    }
    out.push_str(&legend(cells, direction, paint));
    out
}

fn legend(cells: &[Cell], direction: Direction, paint: Paint) -> String {
    let used = Region::ALL.into_iter().filter(|region| cells.iter().any(|cell| cell.region == *region));
    let names = used.map(|region| {
        let name = match (region, direction) {
            (Region::Body, Direction::Request) => "request body",
            (Region::Body, Direction::Response) => "response body",
            (region, _) => region.name(),
        };
        match paint {
            Paint::Plain => format!("{} {name}", letter(region)),
            Paint::Ansi => format!("{}{} {name}{RESET}", colour(region), letter(region)),
        }
    });
    let names: Vec<String> = names.collect();
    if names.is_empty() { String::new() } else { format!("      {}\n", names.join("   ")) }
}

/// Adjacent cells of one region share one escape sequence.
fn paint_row(out: &mut String, row: &[Cell], paint: Paint, between: &str, text: impl Fn(&Cell) -> String) {
    for (place, run) in row.chunk_by(|a, b| a.region == b.region).enumerate() {
        if place > 0 {
            out.push_str(between);
        }
        let run_text = run.iter().map(&text).collect::<Vec<_>>().join(between);
        match (paint, run.first()) {
            (Paint::Ansi, Some(first)) => {
                let _ = write!(out, "{}{run_text}{RESET}", colour(first.region));
            }
            _ => out.push_str(&run_text),
        }
    }
}

const RESET: &str = "\x1b[0m";

fn colour(region: Region) -> &'static str {
    match region {
        Region::Frame => "\x1b[90m",
        Region::Header => "\x1b[36m",
        Region::Body => "\x1b[32m",
        Region::RecordBatch => "\x1b[35m",
        Region::Record => "\x1b[33m",
        Region::Tagged => "\x1b[31m",
    }
}

fn letter(region: Region) -> char {
    match region {
        Region::Frame => 'F',
        Region::Header => 'H',
        Region::Body => 'M',
        Region::RecordBatch => 'B',
        Region::Record => 'R',
        Region::Tagged => 'T',
    }
}

/// Breaks a paragraph into lines of at most a hundred characters.
fn wrapped(out: &mut String, text: &str) {
    const WIDTH: usize = 100;
    let mut line = String::new();
    for word in text.split_whitespace() {
        if !line.is_empty() && line.len() + 1 + word.len() > WIDTH {
            put(out, &line);
            line.clear();
        }
        if !line.is_empty() {
            line.push(' ');
        }
        line.push_str(word);
    }
    put(out, &line);
}

fn put(out: &mut String, line: &str) {
    out.push_str(line);
    out.push('\n');
}
