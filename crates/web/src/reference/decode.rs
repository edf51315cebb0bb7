//! The paste box: decodes the frames in pasted bytes or in a file.

use super::frame_view::{FrameView, LegendEntry, legend};
use super::{ReferenceLayout, serve};
use crate::error::HttpError;
use crate::respond::{html, internal_error};
use askama::Template;
use axum::extract::Multipart;
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use ottla_microscope::capture::{CaptureReader, Settings, is_capture};
use ottla_microscope::conversation::{Connection, Event, Frame, Time, Topics};
use ottla_microscope::input::{Form, bytes_of};
use ottla_microscope::names::{self, Subject};
use ottla_microscope::stream::{Assume, Frames};
use ottla_wire::explain::Options;
use ottla_wire::tables::{Direction, TableSet};

/// The largest input, in bytes.
pub(crate) const MAX_BYTES: usize = 8 << 20;
/// The most frames of one input that are shown.
const MAX_FRAMES: usize = 50;
/// The most bytes of decompressed records in one input.
const MAX_DECOMPRESSED: usize = 16 << 20;
/// The most nodes of a frame's tree.
const MAX_NODES: usize = 50_000;

/// The fields of the form.
#[derive(Clone, Debug, Default)]
struct Input {
    text: String,
    file: Bytes,
    api: String,
    version: String,
    responses: bool,
}

/// The form, and the frames of its input.
#[derive(Template)]
#[template(path = "decode.html")]
struct DecodePage {
    layout: ReferenceLayout,
    input: Input,
    /// The encoding of the input, and the number of bytes.
    input_form: Option<(&'static str, usize)>,
    frames: Vec<FrameSection>,
    /// Notices about a capture file.
    notices: Vec<String>,
    /// Whether the input has more frames than are shown.
    more: bool,
    error: Option<String>,
}

/// A frame of the input.
struct FrameSection {
    summary: String,
    view: FrameView,
}

/// One line: connection, direction, API, version, correlation id, and the latency of a response.
fn summary(connection: &Connection, frame: &Frame) -> String {
    let way = match frame.direction {
        Direction::Request => "request",
        Direction::Response => "response",
    };
    let mut line = format!("{connection}  {way}");
    if let Some(head) = &frame.head {
        line.push_str(&format!(
            "  {} v{}  correlation {}",
            head.key.name(),
            head.version,
            head.correlation_id
        ));
    }
    if let Some(latency) = frame.latency {
        line.push_str(&format!("  after {} us", latency.as_micros()));
    }
    line
}

impl DecodePage {
    fn empty(input: Input) -> DecodePage {
        let layout = serve::site().layout("Decode", "Decode", "/reference/");
        DecodePage {
            layout,
            input,
            input_form: None,
            frames: Vec::new(),
            notices: Vec::new(),
            more: false,
            error: None,
        }
    }

    /// Decodes the conversations of a capture file.
    fn read_capture(&mut self, tables: &'static TableSet, options: &Options, bytes: &[u8]) {
        let mut reading = CaptureReader::new(Settings::default());
        let mut on_event = |topics: &Topics, connection: &Connection, _: Time, event: Event| match event {
            Event::Frame(frame) if self.frames.len() < MAX_FRAMES => {
                let options = Options { topics: topics.names().clone(), ..options.clone() };
                let Some(explained) = frame.explain(tables, &options) else { return };
                let view = FrameView::new(format!("f{}", self.frames.len()), &explained);
                self.frames.push(FrameSection { summary: summary(connection, &frame), view });
            }
            Event::Frame(_) => self.more = true,
            Event::Notice(_, notice) if self.notices.len() < MAX_FRAMES => {
                self.notices.push(format!("{connection}: {notice}"));
            }
            _ => {}
        };
        let read =
            reading.push(bytes, &mut on_event).and_then(|()| reading.finish(&mut on_event).map(|_| ()));
        if let Err(why) = read {
            self.notices.push(why.to_string());
        }
        if self.frames.is_empty() {
            self.notices.push("there is no frame of the Kafka protocol in this capture".to_owned());
        }
    }

    fn legend(&self) -> Vec<LegendEntry> {
        legend(None)
    }
}

/// The empty form.
pub(crate) async fn form() -> Response {
    html(&DecodePage::empty(Input::default()))
}

/// The form with the frames of its input.
pub(crate) async fn decode(form: Multipart) -> Response {
    let input = match read(form).await {
        Ok(input) => input,
        Err(error) => return error.into_response(),
    };
    // Decoding an input can take long, and these threads also serve Kafka clients.
    match tokio::task::spawn_blocking(move || html(&decode_input(input))).await {
        Ok(page) => page,
        Err(why) => internal_error(&why.to_string()),
    }
}

async fn read(mut form: Multipart) -> Result<Input, HttpError> {
    let bad = |why: axum::extract::multipart::MultipartError| HttpError::new(why.status(), why.body_text());
    let mut input = Input::default();
    while let Some(field) = form.next_field().await.map_err(bad)? {
        let name = field.name().unwrap_or_default().to_owned();
        match name.as_str() {
            "file" => input.file = field.bytes().await.map_err(bad)?,
            "text" => input.text = field.text().await.map_err(bad)?,
            "api" => input.api = field.text().await.map_err(bad)?.trim().to_owned(),
            "version" => input.version = field.text().await.map_err(bad)?.trim().to_owned(),
            "responses" => input.responses = true,
            _ => {}
        }
    }
    Ok(input)
}

fn decode_input(input: Input) -> DecodePage {
    let assume = match assumption(&input) {
        Ok(assume) => assume,
        Err(why) => return DecodePage { error: Some(why), ..DecodePage::empty(input) },
    };
    let given = if input.file.is_empty() { Bytes::from(input.text.clone()) } else { input.file.clone() };
    let mut page = DecodePage::empty(input);
    if given.is_empty() {
        page.error = Some("there is nothing to decode: paste hex or base64, or choose a file".to_owned());
        return page;
    }
    let (form, bytes) = bytes_of(&given);
    let form = match form {
        Form::Hex => "hex",
        Form::Base64 => "base64",
        Form::Binary => "binary",
    };
    page.input_form = Some((form, bytes.len()));
    let tables = TableSet::built_in();
    let options = Options { cap: MAX_DECOMPRESSED, max_nodes: MAX_NODES, ..Options::default() };
    if is_capture(&bytes) {
        page.read_capture(tables, &options, &bytes);
        return page;
    }
    for framed in Frames::new(tables, bytes, assume, &options) {
        if page.frames.len() == MAX_FRAMES {
            page.more = true;
            break;
        }
        let view = FrameView::new(format!("f{}", page.frames.len()), &framed.explained);
        page.frames.push(FrameSection { summary: framed.summary(tables), view });
    }
    page
}

/// The kind of frames that the form says.
fn assumption(input: &Input) -> Result<Assume, String> {
    if !input.responses {
        return Ok(Assume::Mixed);
    }
    let need = "a response does not contain its API and version: name the API and the version";
    if input.api.is_empty() || input.version.is_empty() {
        return Err(need.to_owned());
    }
    let version = input.version.trim_start_matches('v');
    let version = version.parse().map_err(|_| format!("{:?} is not a version", input.version))?;
    match names::find(TableSet::built_in(), &input.api) {
        Ok(Subject::Api(api, None | Some(Direction::Response))) => Ok(Assume::Responses(api.key, version)),
        _ => Err(format!("{:?} is not an API", input.api)),
    }
}
