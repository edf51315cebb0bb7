//! The trace of a run: a checksum in which two runs of a seed must agree, and text for debugging.

use std::fmt::Arguments;

/// The trace of a run.
#[derive(Debug)]
pub(crate) struct Trace {
    hash: u64,
    events: u64,
    text: bool,
    lines: Vec<String>,
}

impl Trace {
    pub(crate) fn new(text: bool) -> Trace {
        Trace { hash: 0xcbf2_9ce4_8422_2325, events: 0, text, lines: Vec::new() }
    }

    /// Adds bytes that were sent at a place and time.
    pub(crate) fn bytes(&mut self, at: u64, place: u64, bytes: &[u8]) {
        self.events += 1;
        self.mix(at);
        self.mix(place);
        let mut chunks = bytes.chunks_exact(8);
        for chunk in &mut chunks {
            let mut word = [0; 8];
            word.copy_from_slice(chunk);
            self.mix(u64::from_le_bytes(word));
        }
        for byte in chunks.remainder() {
            self.mix(u64::from(*byte));
        }
    }

    /// Adds an event as text.
    pub(crate) fn words(&mut self, at: u64, words: Arguments<'_>) {
        let line = words.to_string();
        self.bytes(at, 0, line.as_bytes());
        if self.text {
            self.lines.push(format!("{:>8}.{:03} {line}", at / 1000, at % 1000));
        }
    }

    /// A line that is not part of the hash.
    pub(crate) fn remark(&mut self, at: u64, words: Arguments<'_>) {
        if self.text {
            self.lines.push(format!("{:>8}.{:03} {words}", at / 1000, at % 1000));
        }
    }

    pub(crate) fn hash(&self) -> u64 {
        self.hash
    }

    pub(crate) fn events(&self) -> u64 {
        self.events
    }

    pub(crate) fn take_lines(&mut self) -> Vec<String> {
        std::mem::take(&mut self.lines)
    }

    fn mix(&mut self, word: u64) {
        self.hash = (self.hash ^ word).wrapping_mul(0x0000_0100_0000_01b3).rotate_left(23);
    }
}
