//! Comments and string literals of a Rust file, line by line, without the code between them.

use std::str::CharIndices;

/// A part of a line that people read.
#[derive(Debug, PartialEq)]
pub(super) struct Piece<'a> {
    /// Line number, from 1.
    pub(super) line: usize,
    /// Text of a comment without its slashes, or of a string literal as it is written.
    pub(super) text: &'a str,
}

/// The comments and string literals of a source, one piece a line.
pub(super) fn pieces(source: &str) -> Vec<Piece<'_>> {
    let mut scanner = Scanner { source, chars: source.char_indices(), pieces: Vec::new(), line: 1 };
    let mut before = ' ';
    while let Some((at, c)) = scanner.chars.next() {
        match c {
            '\n' => scanner.line += 1,
            '/' if scanner.rest().starts_with('/') => scanner.line_comment(at),
            '/' if scanner.rest().starts_with('*') => scanner.block_comment(at),
            '"' => scanner.string(at + 1, 0, false),
            'r' if !before.is_alphanumeric() && before != '_' => scanner.raw_string(at),
            '\'' => scanner.char_literal(),
            _ => {}
        }
        before = c;
    }
    scanner.pieces
}

struct Scanner<'a> {
    source: &'a str,
    chars: CharIndices<'a>,
    pieces: Vec<Piece<'a>>,
    line: usize,
}

impl<'a> Scanner<'a> {
    fn rest(&self) -> &'a str {
        self.chars.as_str()
    }

    /// Continues behind byte `at`.
    fn skip_to(&mut self, at: usize) {
        while self.chars.offset() < at && self.chars.next().is_some() {}
    }

    /// Adds what stands between two bytes, a piece for each line.
    fn push(&mut self, from: usize, to: usize) {
        let text = self.source.get(from..to).unwrap_or_default();
        for (number, text) in text.split('\n').enumerate() {
            self.pieces.push(Piece { line: self.line + number, text });
        }
        self.line += text.matches('\n').count();
    }

    fn line_comment(&mut self, at: usize) {
        let end = self.source[at..].find('\n').map_or(self.source.len(), |length| at + length);
        let text = self.source[at..end].trim_start_matches(['/', '!']);
        self.push(end - text.len(), end);
        self.skip_to(end);
    }

    fn block_comment(&mut self, at: usize) {
        let end = self.source[at..].find("*/").map_or(self.source.len(), |length| at + length);
        self.push(at + 2, end);
        self.skip_to(end + 2);
    }

    /// A literal whose content begins at `from` and ends at a quote followed by `hashes` hashes.
    fn string(&mut self, from: usize, hashes: usize, raw: bool) {
        self.skip_to(from);
        let close = format!("\"{}", "#".repeat(hashes));
        while let Some((at, c)) = self.chars.next() {
            if c == '\\' && !raw {
                self.chars.next();
            } else if self.source[at..].starts_with(&close) {
                self.push(from, at);
                return self.skip_to(at + close.len());
            }
        }
    }

    fn raw_string(&mut self, at: usize) {
        let rest = self.rest();
        let hashes = rest.len() - rest.trim_start_matches('#').len();
        if rest[hashes..].starts_with('"') {
            self.string(at + hashes + 2, hashes, true);
        }
    }

    /// Skips a char literal; leaves a lifetime alone.
    fn char_literal(&mut self) {
        let mut ahead = self.rest().chars();
        match (ahead.next(), ahead.next()) {
            (Some('\\'), _) => {
                self.chars.next();
                self.chars.next();
                let end = self.rest().find('\'').unwrap_or(0);
                self.skip_to(self.chars.offset() + end + 1);
            }
            (Some(_), Some('\'')) => {
                self.chars.next();
                self.chars.next();
            }
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comments_and_strings_are_separated_from_code() {
        let source = "//! head\nfn f<'a>(c: char) { g('\"', '\\'', \"two\\\" \\\nlines\", r#\"raw \" x\"#); } // tail\n/* b */ let r = r\"s\";";
        let found: Vec<(usize, &str)> = pieces(source).iter().map(|piece| (piece.line, piece.text)).collect();
        assert_eq!(
            found,
            [
                (1, " head"),
                (2, "two\\\" \\"),
                (3, "lines"),
                (3, "raw \" x"),
                (3, " tail"),
                (4, " b "),
                (4, "s")
            ]
        );
    }
}
