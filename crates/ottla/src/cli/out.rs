//! Standard output: lines, aligned tables, JSON.

use crate::terminal::escape_coloured;
use ottla_wire::explain::{escape_line, escape_lines, is_unprintable};
use serde_json::Value;
use std::borrow::Cow;
use std::io::{self, BufWriter, Write};

/// The output of a command.
pub(crate) struct Out {
    to: Box<dyn Write>,
}

impl Out {
    pub(crate) fn stdout() -> Out {
        Out { to: Box::new(BufWriter::new(io::stdout())) }
    }

    /// Prints one line, control characters escaped.
    pub(crate) fn line(&mut self, text: impl AsRef<str>) -> io::Result<()> {
        writeln!(self.to, "{}", escape_line(text.as_ref()))
    }

    /// Prints text with its own line ends, other control characters escaped. Line ends in values must be escaped
    /// already.
    pub(crate) fn text(&mut self, text: &str) -> io::Result<()> {
        self.to.write_all(escape_lines(text).as_bytes())
    }

    /// As [`Out::text`], but colours stay too.
    pub(crate) fn coloured(&mut self, text: &str) -> io::Result<()> {
        self.to.write_all(escape_coloured(text).as_bytes())
    }

    /// Prints bytes as they are: for files and programs, not for terminals.
    pub(crate) fn raw(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.to.write_all(bytes)
    }

    /// Prints a JSON document, indented.
    pub(crate) fn json(&mut self, value: &Value) -> io::Result<()> {
        let text = serde_json::to_string_pretty(value)?;
        writeln!(self.to, "{}", escape_json(&text))
    }

    /// Prints a JSON document as one line.
    pub(crate) fn json_line(&mut self, value: &Value) -> io::Result<()> {
        writeln!(self.to, "{}", escape_json(&value.to_string()))
    }

    /// Prints rows below their headings, columns aligned.
    pub(crate) fn table(&mut self, headings: &[&str], rows: &[Vec<String>]) -> io::Result<()> {
        self.to.write_all(table(headings, rows).as_bytes())
    }

    /// Flushes the output.
    pub(crate) fn flush(&mut self) -> io::Result<()> {
        self.to.flush()
    }
}

/// Escapes characters that JSON allows in strings and a terminal acts on. Outside of strings, JSON text has only line
/// ends of that kind.
fn escape_json(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        if c != '\n' && is_unprintable(c) {
            out.push_str(&format!("\\u{:04x}", u32::from(c)));
        } else {
            out.push(c);
        }
    }
    out
}

/// Formats a table: numbers right-aligned, other cells left-aligned, no blanks at line ends, control characters
/// escaped.
pub(crate) fn table(headings: &[&str], rows: &[Vec<String>]) -> String {
    let rows: Vec<Vec<Cow<'_, str>>> =
        rows.iter().map(|row| row.iter().map(|cell| escape_line(cell)).collect()).collect();
    let width = |column: usize| {
        let cells = rows.iter().filter_map(|row| row.get(column)).map(|cell| cell.chars().count());
        cells.chain([headings[column].len()]).max().unwrap_or(0)
    };
    let widths: Vec<usize> = (0..headings.len()).map(width).collect();
    let numeric = |column: usize| {
        let mut cells = rows.iter().filter_map(|row| row.get(column)).filter(|cell| **cell != "-").peekable();
        cells.peek().is_some() && cells.all(|cell| cell.parse::<i64>().is_ok())
    };
    let numeric: Vec<bool> = (0..headings.len()).map(numeric).collect();
    let mut text = String::new();
    let headings: Vec<Cow<'_, str>> = headings.iter().map(|heading| (*heading).into()).collect();
    for row in std::iter::once(&headings).chain(&rows) {
        let cells = row.iter().zip(&widths).zip(&numeric).map(|((cell, width), numeric)| match numeric {
            true => format!("{cell:>width$}"),
            false => format!("{cell:<width$}"),
        });
        text.push_str(cells.collect::<Vec<_>>().join("  ").trim_end());
        text.push('\n');
    }
    text
}

/// Numbers separated by commas.
pub(crate) fn numbers(numbers: &[i32]) -> String {
    numbers.iter().map(i32::to_string).collect::<Vec<_>>().join(",")
}

#[cfg(test)]
mod tests {
    use super::{escape_json, table};
    use serde_json::{Value, json};

    #[test]
    fn json_stays_what_it_is_and_has_nothing_that_a_terminal_acts_on() {
        let value = json!({ "\u{9b}a": ["\u{202e}x\u{7f}", "\u{1b}\n", "é漢😀"] });
        let text = escape_json(&serde_json::to_string_pretty(&value).unwrap());
        assert_eq!(serde_json::from_str::<Value>(&text).unwrap(), value);
        assert!(!text.chars().any(|c| c != '\n' && ottla_wire::explain::is_unprintable(c)), "{text:?}");
        assert!(text.contains("é漢😀"), "{text}");
    }

    #[test]
    fn a_cell_cannot_forge_a_row() {
        let rows = [vec!["a\nb  Stable".to_owned()], vec!["\u{1b}]0;x\u{7}".to_owned()]];
        assert_eq!(table(&["GROUP"], &rows), "GROUP\na\\nb  Stable\n\\u{1b}]0;x\\u{7}\n");
    }

    #[test]
    fn columns_are_aligned_and_numbers_stand_right() {
        let rows = [["a", "1", "x"], ["long-name", "-", ""], ["b", "1000", "y z"]];
        let rows = rows.map(|row| row.map(str::to_owned).to_vec());
        let expected = [
            "NAME        LAG  NOTE", //
            "a             1  x",
            "long-name     -",
            "b          1000  y z",
        ];
        assert_eq!(table(&["NAME", "LAG", "NOTE"], &rows).lines().collect::<Vec<_>>(), expected);
    }

    #[test]
    fn an_empty_table_is_its_headings() {
        assert_eq!(table(&["NAME", "LAG"], &[]), "NAME  LAG\n");
    }
}
