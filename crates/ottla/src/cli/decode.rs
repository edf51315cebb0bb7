//! `ottla decode`: decodes frames, messages and capture files.

mod capture;

use super::failure::Failure;
use super::out::Out;
use super::schemas::{SchemaFiles, find};
use super::tap::filter::{Filter, Filters};
use super::tap::inspect::Inspector;
use super::tap::print::FramePrinter;
use bytes::Bytes;
use capture::CaptureInput;
use clap::Args;
use ottla_microscope::capture::{CaptureReader, Settings};
use ottla_microscope::input::{bytes_of, hex};
use ottla_microscope::names::Subject;
use ottla_microscope::page::{self, highest_version};
use ottla_microscope::schemas::Schemas;
use ottla_microscope::stream::{Assume, Frames};
use ottla_microscope::{json, page_json};
use ottla_wire::explain::{Explanation, Fault, Options, message};
use ottla_wire::tables::{Direction, MessageTable};
use ottla_wire::{ApiInfo, ApiKey, Reader};
use serde_json::{Map, Value};
use std::fs::File;
use std::io::{self, Read};
use std::path::PathBuf;

/// Decode frames, given as hex, base64, raw bytes or a capture file, to trees, JSON or lines.
///
/// The input may have several frames. The header of a request names its API; a response is matched with a request
/// before it by its correlation id, or described by --api, --version and --response. A malformed frame is shown up to
/// the fault, with the byte and the field of the fault, and what was expected and found there; the exit status is then
/// 3.
#[derive(Args)]
pub(crate) struct Decode {
    /// The file; `-` or nothing for standard input.
    file: Option<PathBuf>,
    /// The API of the responses or of a body alone; or another message, which has no frame.
    #[arg(long, value_name = "NAME")]
    api: Option<String>,
    /// The version of --api [default: the highest stable one]
    #[arg(long, value_name = "N", requires = "api")]
    version: Option<i16>,
    /// Every frame is a response to --api.
    #[arg(long, requires = "api")]
    response: bool,
    /// The input is the message of --api alone, without size and header.
    #[arg(long, requires = "api")]
    body_only: bool,
    /// Port of the broker in a capture file, if the packets do not show which side is the broker.
    #[arg(long, value_name = "PORT")]
    port: Option<u16>,
    /// Show only matching frames of a capture file: api=Fetch, client=ID, topic=NAME, several separated by commas. A
    /// name may end in *. Conditions with the same key are alternatives; with different keys all must hold.
    #[arg(long, value_name = "KEY=VALUE,...", value_delimiter = ',')]
    filter: Vec<Filter>,
    #[command(flatten)]
    show: ShowFlags,
    #[command(flatten)]
    schemas: SchemaFiles,
}

/// How to show a frame.
#[derive(Args)]
#[group(multiple = false)]
struct ShowFlags {
    /// Print one JSON object per frame, which `ottla encode` accepts; records are decoded next to their bytes.
    #[arg(long)]
    json: bool,
    /// Print a tree for each frame: the default, except for capture files.
    #[arg(long)]
    tree: bool,
    /// Print one line per frame: the default for capture files.
    #[arg(long)]
    summary: bool,
}

/// Bytes at the start of a file by which its format is recognised.
const MAGIC: usize = 4;

/// Frames so far.
#[derive(Default)]
struct FrameCount {
    frames: u64,
    faulty: u64,
}

impl Decode {
    pub(super) fn run(self, out: &mut Out) -> Result<(), Failure> {
        let schemas = self.schemas.read()?;
        let (mut from, name) = self.open()?;
        let cannot_read = |error: io::Error| Failure::new(format!("cannot read {name}: {error}"));
        let mut head = Vec::new();
        from.by_ref().take(MAGIC as u64).read_to_end(&mut head).map_err(cannot_read)?;
        if ottla_microscope::capture::is_capture(&head) {
            return self.capture(&schemas, &mut head.chain(from), out)?.outcome();
        }
        from.read_to_end(&mut head).map_err(cannot_read)?;
        self.bytes(&schemas, &head.into(), out)?.outcome()
    }

    /// The input, and its name for messages.
    fn open(&self) -> Result<(Box<dyn Read>, String), Failure> {
        match &self.file {
            Some(path) if path.as_os_str() != "-" => {
                let name = path.display().to_string();
                let file = File::open(path);
                let file = file.map_err(|error| Failure::new(format!("cannot open {name}: {error}")))?;
                Ok((Box::new(file), name))
            }
            _ => Ok((Box::new(io::stdin()), "standard input".to_owned())),
        }
    }

    fn capture(&self, schemas: &Schemas, from: &mut dyn Read, out: &mut Out) -> Result<FrameCount, Failure> {
        if self.api.is_some() {
            return Err(Failure::new("--api cannot be used with a capture file, whose frames are known")
                .remedy("Leave out --api; --filter api=NAME shows only one API."));
        }
        let reading = CaptureReader::new(Settings { port: self.port, ..Settings::default() });
        let shown = CaptureInput {
            schemas,
            filters: Filters::new(self.filter.clone()),
            inspector: Inspector::new(schemas.tables(), self.show.tree),
            printer: FramePrinter::new(self.show.json, false),
            json: self.show.json,
            count: FrameCount::default(),
            out,
        };
        shown.read(from, reading)
    }

    fn bytes(&self, schemas: &Schemas, input: &Bytes, out: &mut Out) -> Result<FrameCount, Failure> {
        if self.port.is_some() || !self.filter.is_empty() {
            return Err(Failure::new("--port and --filter are for capture files, and the input is none"));
        }
        let (_, bytes) = bytes_of(input);
        if bytes.is_empty() {
            return Err(Failure::new("there are no bytes to decode")
                .remedy("Give hex, base64, raw bytes or a capture file."));
        }
        let mut count = FrameCount::default();
        match self.subject(schemas)? {
            Some(InputKind::Body(table, version)) => self.body(table, version, &bytes, &mut count, out)?,
            Some(InputKind::Frames(assume)) => self.frames(schemas, bytes, assume, &mut count, out)?,
            None => self.frames(schemas, bytes, Assume::Mixed, &mut count, out)?,
        }
        Ok(count)
    }

    fn subject(&self, schemas: &Schemas) -> Result<Option<InputKind>, Failure> {
        let Some(name) = &self.api else { return Ok(None) };
        let (api, side) = match find(schemas, name)? {
            Subject::Message(table) => {
                return Ok(Some(InputKind::Body(table, self.version.unwrap_or(table.versions.max))));
            }
            Subject::Api(api, side) => (api, side),
        };
        let direction = if self.response { Direction::Response } else { side.unwrap_or(Direction::Request) };
        let version = self.version.or_else(|| highest_version(api, Some(direction)));
        let (table, versions) = table_of(api, direction);
        let Some((version, table)) = version.zip(table).filter(|(version, _)| versions.contains(*version))
        else {
            let asked = version.map_or_else(String::new, |version| format!(" {version}"));
            return Err(Failure::new(format!("{} has no version{asked}; it has {versions}", api.name)));
        };
        Ok(Some(match direction {
            _ if self.body_only => InputKind::Body(table, version),
            Direction::Response => InputKind::Frames(Assume::Responses(api.key, version)),
            Direction::Request => InputKind::Frames(Assume::Requests),
        }))
    }

    fn body(
        &self,
        table: &'static MessageTable,
        version: i16,
        bytes: &Bytes,
        count: &mut FrameCount,
        out: &mut Out,
    ) -> Result<(), Failure> {
        let explained = message(table, version, bytes, &Options::default());
        count.frame(explained.faults().is_empty());
        if self.show.json && explained.faults().is_empty() {
            let mut reader = Reader::new(bytes.clone());
            if let Ok(shown) = json::decode(table, version, &mut reader, json::Options { opened: true }) {
                return Ok(out.json_line(&shown)?);
            }
        }
        if self.show.json {
            return Ok(out.json_line(&Value::Object(faulty(&explained)))?);
        }
        if self.show.summary {
            out.line(format!("{} v{version}  {} bytes", table.name, bytes.len()))?;
        } else {
            out.text(&explained.tree())?;
        }
        print_faults(&explained, out)
    }

    fn frames(
        &self,
        schemas: &Schemas,
        bytes: Bytes,
        assume: Assume,
        count: &mut FrameCount,
        out: &mut Out,
    ) -> Result<(), Failure> {
        let options = if self.show.summary {
            Options { nested: false, ..Options::default() }
        } else {
            Options::default()
        };
        for frame in Frames::new(schemas.tables(), bytes, assume, &options) {
            count.frame(frame.explained.faults().is_empty());
            if self.show.json {
                let (bytes, explained) = (frame.explained.source(0), Some(&frame.explained));
                let shown = described(schemas, frame.direction, frame.api, bytes, explained);
                out.json_line(&Value::Object(shown))?;
            } else if self.show.summary {
                out.line(frame.summary(schemas.tables()))?;
            } else {
                if count.frames > 1 {
                    out.line("")?;
                }
                out.text(&frame.explained.tree())?;
                print_faults(&frame.explained, out)?;
            }
        }
        Ok(())
    }
}

/// What the input is, by the flags.
enum InputKind {
    /// A message without a frame.
    Body(&'static MessageTable, i16),
    /// Frames.
    Frames(Assume),
}

fn table_of(api: &ApiInfo, direction: Direction) -> (Option<&'static MessageTable>, ottla_wire::Versions) {
    match direction {
        Direction::Request => (api.request, api.request_versions),
        Direction::Response => (api.response, api.response_versions),
    }
}

fn print_faults(explained: &Explanation, out: &mut Out) -> Result<(), Failure> {
    for fault in explained.faults() {
        out.line(format!("fault: {fault}"))?;
    }
    Ok(())
}

/// A frame as JSON, with its faults, and with its tree if it cannot be decoded as a message.
fn described(
    schemas: &Schemas,
    direction: Direction,
    api: Option<(ApiKey, i16)>,
    bytes: &Bytes,
    explained: Option<&Explanation>,
) -> Map<String, Value> {
    let (tables, options) = (schemas.tables(), json::Options { opened: true });
    let read = match (direction, api) {
        (Direction::Request, _) => json::decode_request(tables, bytes, options).ok(),
        (Direction::Response, Some((key, version))) => {
            tables.api(key).and_then(|api| json::decode_response(api, version, bytes, options).ok())
        }
        (Direction::Response, None) => None,
    };
    let name = page::direction_name(direction).to_ascii_lowercase();
    let mut shown = Map::from_iter([("direction".to_owned(), name.into())]);
    match (read, explained) {
        (Some(Value::Object(read)), explained) => {
            shown.extend(read);
            if let Some(found) = explained.map(Explanation::faults).filter(|found| !found.is_empty()) {
                shown.insert("faults".to_owned(), faults(found));
            }
        }
        (_, Some(explained)) => shown.extend(faulty(explained)),
        (_, None) => drop(shown.insert("bytes".to_owned(), hex(bytes).into())),
    }
    shown
}

/// Faults and tree of bytes that cannot be decoded as a message.
fn faulty(explained: &Explanation) -> Map<String, Value> {
    let mut shown = Map::new();
    if let Some(head) = explained.head() {
        shown.insert("apiKey".to_owned(), head.key.0.into());
        shown.insert("version".to_owned(), head.version.into());
        shown.insert("correlationId".to_owned(), head.correlation_id.into());
    }
    shown.insert("faults".to_owned(), faults(explained.faults()));
    shown.insert("tree".to_owned(), page_json::tree(explained));
    shown
}

fn faults(faults: &[Fault]) -> Value {
    faults.iter().map(page_json::fault).collect()
}

impl FrameCount {
    fn frame(&mut self, is_well: bool) {
        self.frames += 1;
        self.faulty += u64::from(!is_well);
    }

    fn outcome(&self) -> Result<(), Failure> {
        match (self.faulty, self.frames) {
            (0, _) => Ok(()),
            (1, 1) => Err(Failure::faults("the frame is malformed")),
            (faulty, frames) => Err(Failure::faults(format!("{faulty} of {frames} frames are malformed"))),
        }
    }
}
