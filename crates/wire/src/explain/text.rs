//! The tree as text: the columns of a reference page.

use super::{Explanation, Kind, Node, Prefix, Value};
use crate::codec::Compression;
use crate::{ApiKey, ErrorCode, Uuid};
use std::borrow::Cow;
use std::fmt::Write;

/// Longer meanings are cut to [`CUT_ABOUT`] characters and three dots.
const MAX_ABOUT: usize = 78;
const CUT_ABOUT: usize = 75;
/// The most characters of a text, and the most bytes in hex, that are shown.
const MAX_TEXT_CHARS: usize = 100;
const MAX_HEX_BYTES: usize = 24;

impl Explanation {
    /// The name of a node, with its index in an array: `Partitions`, `int32[3]`.
    pub fn label(&self, id: usize) -> Cow<'static, str> {
        match self.nodes().get(id) {
            Some(Node { name, index: Some(index), .. }) => format!("{name}[{index}]").into(),
            Some(node) => node.name.into(),
            None => "".into(),
        }
    }

    /// Its type: `int32`, `[]Topic`, `message v5`.
    pub fn type_text(&self, id: usize) -> String {
        self.nodes().get(id).map_or_else(String::new, |node| node.kind.to_string())
    }

    /// The value as a page shows it; may be empty.
    pub fn value_text(&self, id: usize) -> String {
        let Some(node) = self.nodes().get(id) else { return String::new() };
        match node.value {
            // The type column already says struct.
            Value::None => String::new(),
            Value::Struct if matches!(node.kind, Kind::Word("struct") | Kind::Version(_)) => String::new(),
            Value::Struct => "struct".to_owned(),
            Value::Null(prefix) => format!("null{}", length_text(prefix, None)),
            Value::Bool(value) => value.to_string(),
            Value::Int(value) => value.to_string(),
            Value::Float(value) => format!("{value:?}"),
            Value::Uuid => Uuid(self.bytes(node).try_into().unwrap_or_default()).to_string(),
            Value::Text { length, prefix } => {
                format!("{}{}", quote(self.content(node)), length_text(prefix, Some(length)))
            }
            Value::Bytes { length, prefix } => {
                let count = count_text(length, "byte");
                // The children show the content.
                let opened = node.end as usize > id + 1;
                let content = if opened { String::new() } else { show_bytes(self.content(node)) };
                format!("{count}{content}{}", length_text(prefix, Some(length)))
            }
            Value::Elements(count) => count_text(count, "element"),
            Value::Count { written, prefix: Prefix::Compact } => format!("{written} (compact, n+1)"),
            Value::Count { written, .. } => (written as i32).to_string(),
            Value::Api(key) => format!("{key} ({})", ApiKey(key).name()),
            Value::Error(0) => "0".to_owned(),
            Value::Error(code) => format!("{code} ({})", ErrorCode(code).name()),
            Value::Timestamp(millis) => format_timestamp(millis),
            Value::Crc(crc) => format!("{crc:08x}"),
            Value::Attributes(bits) => attributes(bits),
            Value::Control(kind) => format!("{kind} ({})", control(kind)),
            Value::Compressed { from, to } => format!("{from} bytes, {to} when decompressed"),
        }
    }

    /// The full meaning.
    pub fn about_text(&self, id: usize) -> Cow<'static, str> {
        match self.nodes().get(id) {
            Some(Node { about: "message body", .. }) => match self.head() {
                Some(head) => format!("message body, version {}", head.version).into(),
                None => "message body".into(),
            },
            Some(node) => node.about.into(),
            None => "".into(),
        }
    }

    /// The position: `[0x001c, 4B]`, or with the number of the source for decompressed data: `[1:0x001c, 4B]`.
    pub fn position_text(&self, id: usize) -> String {
        match self.nodes().get(id) {
            Some(Node { source: 0, at, size, .. }) => format!("[0x{at:04x}, {size}B]"),
            Some(Node { source, at, size, .. }) => format!("[{source}:0x{at:04x}, {size}B]"),
            None => String::new(),
        }
    }

    /// The whole tree: label, type, value, position and meaning in columns, each two blanks wider than its widest cell.
    pub fn tree(&self) -> String {
        columns(&self.rows())
    }

    /// The cells of [`Explanation::tree`], a row for each node: the label with its branches in front, type, value,
    /// position, and meaning, cut to fit a line.
    pub fn rows(&self) -> Vec<[String; 5]> {
        let depths: Vec<usize> = self.nodes().iter().map(|node| usize::from(node.depth)).collect();
        let rows = branches(&depths).into_iter().enumerate().map(|(id, branch)| {
            let [ty, value, place, about] = self.cells(id);
            [branch + &self.label(id), ty, value, place, about]
        });
        rows.collect()
    }

    /// The cells of a node after its label: type, value, position, and meaning.
    pub fn cells(&self, id: usize) -> [String; 4] {
        [self.type_text(id), self.value_cell(id), self.position_text(id), self.about_cell(id)]
    }

    fn value_cell(&self, id: usize) -> String {
        match self.value_text(id) {
            empty if empty.is_empty() => empty,
            value => format!("= {value}"),
        }
    }

    /// The note and the meaning, cut to fit a line.
    fn about_cell(&self, id: usize) -> String {
        let note = self.nodes().get(id).and_then(|node| node.note);
        let about = self.about_text(id);
        let about = match about.chars().count() {
            long if long > MAX_ABOUT => about.chars().take(CUT_ABOUT).chain("...".chars()).collect(),
            _ => about.into_owned(),
        };
        match note {
            Some(note) if about.is_empty() => format!("! {}", note.text()),
            Some(note) => format!("! {}; {about}", note.text()),
            None => about,
        }
    }
}

/// The branches in front of the labels of a tree. `depths` are the depths of its nodes in preorder, 0 for the root.
pub fn branches(depths: &[usize]) -> Vec<String> {
    // For each depth, whether a sibling follows the last node at that depth. The nodes are visited backwards.
    let mut follows: Vec<bool> = Vec::new();
    let mut drawn: Vec<String> = Vec::with_capacity(depths.len());
    for depth in depths.iter().rev().copied() {
        follows.truncate(depth + 1);
        follows.resize(depth + 1, false);
        let above = follows.iter().take(depth).skip(1).map(|more| if *more { "|   " } else { "    " });
        let own = if depth > 0 { "+-- " } else { "" };
        drawn.push(above.chain([own]).collect());
        if let Some(here) = follows.last_mut() {
            *here = true;
        }
    }
    drawn.reverse();
    drawn
}

/// Aligns the columns of rows: each is two blanks wider than its widest cell. Lines do not end with blanks.
pub fn columns(rows: &[[String; 5]]) -> String {
    let mut widths = [0; 4];
    for row in rows {
        for (width, cell) in widths.iter_mut().zip(row) {
            *width = (*width).max(cell.chars().count());
        }
    }
    let mut out = String::new();
    for row in rows {
        let from = out.len();
        for (cell, width) in row.iter().zip(widths) {
            let _ = write!(out, "{cell:<width$}  ");
        }
        out.push_str(&row[4]);
        out.truncate(from + out[from..].trim_end().len());
        out.push('\n');
    }
    out
}

fn length_text(prefix: Prefix, length: Option<u32>) -> String {
    let signed = length.map_or(-1, i64::from);
    match prefix {
        Prefix::Compact => format!(" (compact, len+1={})", signed + 1),
        Prefix::Int16 => format!(" (int16 len={signed})"),
        Prefix::Int32 => format!(" (int32 len={signed})"),
        Prefix::Varint => format!(" (varint len={signed})"),
        Prefix::Marker | Prefix::Rest => String::new(),
    }
}

fn count_text(count: u32, what: &str) -> String {
    format!("{count} {what}{}", if count == 1 { "" } else { "s" })
}

/// A string in quotes on one line; a long string is cut.
pub fn quote(bytes: &[u8]) -> String {
    let text = String::from_utf8_lossy(bytes);
    let mut short: String = text.chars().take(MAX_TEXT_CHARS).collect();
    if short.len() < text.len() {
        short.push('…');
    }
    format!("{short:?}")
}

/// Bytes as text if they are printable UTF-8, else in hex.
pub fn show_bytes(bytes: &[u8]) -> String {
    if bytes.is_empty() {
        return String::new();
    }
    let readable = std::str::from_utf8(bytes).is_ok_and(|text| !text.chars().any(char::is_control));
    if readable {
        return format!(" {}", quote(bytes));
    }
    let mut out = " ".to_owned();
    for byte in bytes.iter().take(MAX_HEX_BYTES) {
        let _ = write!(out, "{byte:02x}");
    }
    if bytes.len() > MAX_HEX_BYTES {
        out.push('…');
    }
    out
}

fn attributes(bits: i16) -> String {
    let codec = Compression::from_number((bits & 7) as u8).map_or("unknown codec", Compression::name);
    let mut words = vec![codec];
    for (bit, word) in [(3, "log append time"), (4, "transactional"), (5, "control"), (6, "delete horizon")] {
        if bits & 1 << bit != 0 {
            words.push(word);
        }
    }
    if bits == 0 { "0".to_owned() } else { format!("0x{bits:04x} ({})", words.join(", ")) }
}

fn control(kind: i16) -> &'static str {
    match kind {
        0 => "abort",
        1 => "commit",
        2 => "leader change",
        3 => "snapshot header",
        4 => "snapshot footer",
        5 => "kraft version",
        6 => "kraft voters",
        _ => "unknown",
    }
}

/// Milliseconds since 1970, and the date in UTC for the years 1970 to 9999.
pub fn format_timestamp(millis: i64) -> String {
    const DAY: i64 = 86_400_000;
    // The end of the year 9999.
    if millis <= 0 || millis >= 253_402_300_800_000 {
        return millis.to_string();
    }
    let (year, month, day) = date(millis / DAY);
    let (rest, ms) = (millis % DAY / 1000, millis % 1000);
    let (hour, minute, second) = (rest / 3600, rest / 60 % 60, rest % 60);
    format!("{millis} ({year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{ms:03}Z)")
}

/// Year, month and day of a number of days since 1970, in the Gregorian calendar. Years are counted from March, so that
/// the leap day is their last.
fn date(days: i64) -> (i64, i64, i64) {
    let from_march = days + 719_468;
    let era = from_march.div_euclid(146_097);
    let day_of_era = from_march.rem_euclid(146_097);
    let year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month + 2) / 5 + 1;
    let month = if month < 10 { month + 3 } else { month - 9 };
    (era * 400 + year_of_era + i64::from(month <= 2), month, day)
}
