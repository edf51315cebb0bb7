//! What clients and broker said to each other: every frame checked, then counted by API, version and client.

use super::clients::Client;
use crate::process;
use bytes::Bytes;
use ottla_wire::ApiKey;
use serde::Deserialize;
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{BufRead, BufReader};
use std::path::Path;

mod check;
mod known;
mod page;

/// A line of `ottla tap --json --bytes`, as far as it is used.
#[derive(Deserialize)]
struct Line {
    direction: String,
    api_key: Option<i16>,
    version: Option<i16>,
    note: Option<String>,
    hex: String,
}

/// The frames of one API and version, of one client.
#[derive(Clone, Copy, Default)]
struct Counts {
    requests: usize,
    request_bytes: usize,
    responses: usize,
    response_bytes: usize,
}

/// All that was seen.
#[derive(Default)]
pub(crate) struct Traffic {
    /// By API and version, then by client.
    counts: BTreeMap<(ApiKey, i16), BTreeMap<String, Counts>>,
    frames: usize,
    bytes: usize,
    faulty: usize,
    /// By client and reason, the frames with a mistake that is known.
    mistakes: BTreeMap<(&'static str, &'static str), usize>,
}

impl Traffic {
    /// Reads the frames of a client. Those that are not what they should be are printed.
    pub(crate) fn read(&mut self, client: &str, frames: &Path) -> Result<(), String> {
        let cannot = |e: &dyn std::fmt::Display| format!("cannot read {}: {e}", frames.display());
        let file = File::open(frames).map_err(|e| cannot(&e))?;
        for line in BufReader::new(file).lines() {
            let line = line.map_err(|e| cannot(&e))?;
            let line: Line = serde_json::from_str(&line).map_err(|e| cannot(&e))?;
            let frame = unhex(&line.hex).ok_or_else(|| cannot(&"a frame that is not hexadecimal"))?;
            self.frame(client, &line, &frame);
        }
        Ok(())
    }

    fn frame(&mut self, client: &str, line: &Line, frame: &Bytes) {
        self.frames += 1;
        self.bytes += frame.len();
        let is_request = line.direction == "request";
        let (Some(key), Some(version)) = (line.api_key.map(ApiKey), line.version) else {
            return self.complain(client, line, "a frame without a header");
        };
        let all = self.counts.entry((key, version)).or_default();
        let counts = all.entry(client.to_owned()).or_default();
        let (count, bytes) = match is_request {
            true => (&mut counts.requests, &mut counts.request_bytes),
            false => (&mut counts.responses, &mut counts.response_bytes),
        };
        *count += 1;
        *bytes += frame.len();
        if let Some(note) = &line.note {
            self.complain(client, line, note);
        }
        let Err(why) = check::check(frame, is_request, key, version) else { return };
        match known::corrected(client, key, version, frame) {
            Some((mistake, frame)) if is_request && check::check(&frame, true, key, version).is_ok() => {
                *self.mistakes.entry((mistake.client, mistake.why)).or_default() += 1;
            }
            _ => self.complain(client, line, &why),
        }
    }

    fn complain(&mut self, client: &str, line: &Line, why: &str) {
        self.faulty += 1;
        let Line { direction, api_key, version, hex, .. } = line;
        let api = api_key.map_or("no API", |key| ApiKey(key).name());
        let version = version.unwrap_or(-1);
        eprintln!("\n--- {client}: {api} {direction} v{version}: {why}\n{hex}");
    }

    /// One sentence about the whole.
    pub(crate) fn sentence(&self) -> String {
        let Traffic { counts, frames, bytes, faulty, mistakes } = self;
        let (pairs, known) = (counts.len(), mistakes.values().sum::<usize>());
        format!(
            "{frames} frames ({bytes} bytes) of {pairs} APIs and versions through the tap, {faulty} faulty, {known} with a known \
             mistake of the client"
        )
    }

    /// How many frames were not what they should be.
    pub(crate) fn faulty(&self) -> usize {
        self.faulty
    }

    /// Writes docs/evidence/traffic.md and the table that pages are made from.
    pub(crate) fn write(&self, clients: &[Client]) -> Result<(), String> {
        let root = process::root();
        let data = root.join("crates/microscope/data");
        let write = |path: &Path, text: String| {
            fs::write(path, text).map_err(|e| format!("cannot write {}: {e}", path.display()))
        };
        fs::create_dir_all(&data).map_err(|e| format!("cannot make {}: {e}", data.display()))?;
        write(&root.join("docs/evidence/traffic.md"), page::markdown(self, clients))?;
        write(&data.join("traffic.tsv"), page::table(self))
    }
}

fn unhex(text: &str) -> Option<Bytes> {
    let digits: Option<Vec<u32>> = text.chars().map(|c| c.to_digit(16)).collect();
    let digits = digits?;
    let (pairs, []) = digits.as_chunks::<2>() else { return None };
    Some(pairs.iter().map(|[high, low]| (high * 16 + low) as u8).collect())
}
