//! Standard output: lines, aligned tables, JSON.

use std::io::{self, BufWriter, Write};

use serde_json::Value;

/// Where a command prints to.
pub(crate) struct Out {
    to: Box<dyn Write>,
}

impl Out {
    pub(crate) fn stdout() -> Out {
        Out { to: Box::new(BufWriter::new(io::stdout())) }
    }

    /// Prints a line.
    pub(crate) fn line(&mut self, text: impl AsRef<str>) -> io::Result<()> {
        writeln!(self.to, "{}", text.as_ref())
    }

    /// Prints bytes as they are.
    pub(crate) fn bytes(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.to.write_all(bytes)
    }

    /// Prints a JSON document, indented.
    pub(crate) fn json(&mut self, value: &Value) -> io::Result<()> {
        serde_json::to_writer_pretty(&mut self.to, value)?;
        writeln!(self.to)
    }

    /// Prints a JSON document as one line.
    pub(crate) fn json_line(&mut self, value: &Value) -> io::Result<()> {
        serde_json::to_writer(&mut self.to, value)?;
        writeln!(self.to)
    }

    /// Prints rows below their headings, columns aligned.
    pub(crate) fn table(&mut self, headings: &[&str], rows: &[Vec<String>]) -> io::Result<()> {
        self.to.write_all(table(headings, rows).as_bytes())
    }

    /// Shows what was printed so far.
    pub(crate) fn flush(&mut self) -> io::Result<()> {
        self.to.flush()
    }
}

/// Numbers stand right-aligned, all else left-aligned; no blanks at line ends.
pub(crate) fn table(headings: &[&str], rows: &[Vec<String>]) -> String {
    let width = |column: usize| {
        let cells = rows.iter().filter_map(|row| row.get(column)).map(|cell| cell.chars().count());
        cells.chain([headings[column].len()]).max().unwrap_or(0)
    };
    let widths: Vec<usize> = (0..headings.len()).map(width).collect();
    let numeric = |column: usize| {
        let mut cells = rows.iter().filter_map(|row| row.get(column)).filter(|cell| *cell != "-").peekable();
        cells.peek().is_some() && cells.all(|cell| cell.parse::<i64>().is_ok())
    };
    let numeric: Vec<bool> = (0..headings.len()).map(numeric).collect();
    let mut text = String::new();
    let headings: Vec<String> = headings.iter().map(|heading| (*heading).to_owned()).collect();
    for row in std::iter::once(&headings).chain(rows) {
        let cells = row.iter().zip(&widths).zip(&numeric).map(|((cell, width), numeric)| match numeric {
            true => format!("{cell:>width$}"),
            false => format!("{cell:<width$}"),
        });
        text.push_str(cells.collect::<Vec<_>>().join("  ").trim_end());
        text.push('\n');
    }
    text
}

/// A list of numbers as people write it.
pub(crate) fn numbers(numbers: &[i32]) -> String {
    numbers.iter().map(i32::to_string).collect::<Vec<_>>().join(",")
}

#[cfg(test)]
mod tests {
    use super::table;

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
