//! Trees of the log, drawn as `ottla decode` draws frames: every byte of a group or entry in a named field with its
//! location.

use super::line::said;
use bytes::Bytes;
use ottla_layout::explain::FieldSpan;
use ottla_salvage::TopicNames;
use ottla_wire::explain::{self, Options, branches, columns};
use std::fmt::Write;

/// The rows of a tree.
#[derive(Default)]
pub(super) struct Tree {
    depths: Vec<usize>,
    rows: Vec<[String; 5]>,
}

/// Consecutive bytes of a file.
#[derive(Clone, Copy)]
pub(super) struct FileRange {
    /// Offset in the file.
    pub(super) at: u64,
    /// Bytes.
    pub(super) size: u64,
}

impl FileRange {
    fn text(self) -> String {
        format!("[0x{:08x}, {}B]", self.at, self.size)
    }
}

impl Tree {
    /// Adds a row: label, type and value; location; meaning.
    pub(super) fn row(&mut self, depth: usize, cells: [&str; 3], at: FileRange, about: &str) {
        let [label, word, value] = cells;
        let value = if value.is_empty() { String::new() } else { format!("= {value}") };
        self.depths.push(depth);
        self.rows.push([label.to_owned(), word.to_owned(), value, at.text(), about.to_owned()]);
    }

    /// Adds the pieces of `bytes`, which begin at offset `base` of their file. Record batches are decoded too.
    pub(super) fn pieces(
        &mut self,
        depth: usize,
        pieces: &[FieldSpan],
        (base, bytes): (u64, &Bytes),
        names: &TopicNames,
    ) {
        for piece in pieces {
            let own = bytes.slice(piece.at.min(bytes.len())..(piece.at + piece.size).min(bytes.len()));
            let label = match piece.index {
                Some(index) => format!("{}[{index}]", piece.name),
                None => piece.name.to_owned(),
            };
            let at = FileRange { at: base + piece.at as u64, size: piece.size as u64 };
            let depth = depth + piece.depth;
            if piece.word == "record batch" {
                self.row(depth, [&label, piece.word, &super::line::counted(piece.size, "byte")], at, "");
                self.batches(depth + 1, base + piece.at as u64, &own);
                continue;
            }
            self.row(depth, [&label, piece.word, &said(piece, &own, names)], at, piece.about);
        }
    }

    /// Adds the fields of record batches, which begin at offset `base` of their file.
    fn batches(&mut self, depth: usize, base: u64, bytes: &Bytes) {
        let explained = explain::records(bytes, &Options::default());
        for (id, node) in explained.nodes().iter().enumerate().skip(1) {
            let [word, value, place, about] = explained.cells(id);
            let at = FileRange { at: base + u64::from(node.at), size: u64::from(node.size) };
            // Decompressed bytes have no offset in the file.
            let place = if node.source == 0 { at.text() } else { place };
            self.depths.push(depth - 1 + usize::from(node.depth));
            self.rows.push([explained.label(id).into_owned(), word, value, place, about]);
        }
    }

    /// The tree as text.
    pub(super) fn text(self) -> String {
        let labels = branches(&self.depths).into_iter();
        let rows: Vec<_> = labels
            .zip(self.rows)
            .map(|(branch, [label, word, value, place, about])| [branch + &label, word, value, place, about])
            .collect();
        columns(&rows)
    }
}

/// A hex dump: sixteen bytes per line, with offsets in the file, and as ASCII.
pub(super) fn hex(base: u64, bytes: &[u8]) -> String {
    let mut out = String::new();
    for (line, row) in (0u64..).zip(bytes.chunks(16)) {
        let digits: Vec<String> = row.iter().map(|byte| format!("{byte:02x}")).collect();
        let letters = row.iter().map(|byte| match byte {
            0x20..=0x7e => char::from(*byte),
            _ => '.',
        });
        let letters: String = letters.collect();
        let _ = writeln!(out, "  0x{:08x}  {:<47}  {letters}", base + 16 * line, digits.join(" "));
    }
    out
}
