//! The paste box: bytes in, frames taken apart.

use super::view::{FrameView, Legend, legend};
use super::{Sheet, serve};
use crate::asked::{Refusal, html};
use askama::Template;
use axum::extract::Multipart;
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use ottla_microscope::capture::{Reading, Settings, is_capture};
use ottla_microscope::conversation::{Connection, Event, Frame, Time, Topics};
use ottla_microscope::input::{Form, bytes_of};
use ottla_microscope::names::{self, Subject};
use ottla_microscope::stream::{Assume, Frames};
use ottla_wire::explain::Options;
use ottla_wire::tables::{Direction, TableSet};

/// The most bytes that the box takes.
pub(crate) const MOST_BYTES: usize = 8 << 20;
/// The most frames of one input that are shown.
const MOST_FRAMES: usize = 50;
/// The most bytes that the records of one input may be decompressed to.
const CAP: usize = 16 << 20;
/// The most nodes that a frame is taken apart to.
const MOST_NODES: usize = 50_000;

/// What somebody put into the form.
#[derive(Clone, Debug, Default)]
struct Input {
    text: String,
    file: Bytes,
    api: String,
    version: String,
    responses: bool,
}

/// The form, and what came of it.
#[derive(Template)]
#[template(path = "decode.html")]
struct Decode {
    sheet: Sheet,
    input: Input,
    /// How the bytes were written, and how many they are.
    taken: Option<(&'static str, usize)>,
    frames: Vec<Shown>,
    /// What else a capture tells.
    notices: Vec<String>,
    /// Whether there were more.
    more: bool,
    refused: Option<String>,
}

/// A frame of the input.
struct Shown {
    summary: String,
    view: FrameView,
}

/// One line: connection, direction, API, version, correlation id, and of a response its time.
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

impl Decode {
    fn empty(input: Input) -> Decode {
        let sheet = serve::site().sheet("Decode", "Decode", "/reference/");
        Decode {
            sheet,
            input,
            taken: None,
            frames: Vec::new(),
            notices: Vec::new(),
            more: false,
            refused: None,
        }
    }

    /// Takes the conversations of a capture file apart.
    fn capture(&mut self, tables: &'static TableSet, options: &Options, bytes: &[u8]) {
        let mut reading = Reading::new(Settings::default());
        let mut told = |topics: &Topics, connection: &Connection, _: Time, event: Event| match event {
            Event::Frame(frame) if self.frames.len() < MOST_FRAMES => {
                let options = Options { topics: topics.names().clone(), ..options.clone() };
                let Some(explained) = frame.explain(tables, &options) else { return };
                let view = FrameView::new(format!("f{}", self.frames.len()), &explained);
                self.frames.push(Shown { summary: summary(connection, &frame), view });
            }
            Event::Frame(_) => self.more = true,
            Event::Notice(_, notice) if self.notices.len() < MOST_FRAMES => {
                self.notices.push(format!("{connection}: {notice}"));
            }
            _ => {}
        };
        let read = reading.push(bytes, &mut told).and_then(|()| reading.finish(&mut told).map(|_| ()));
        if let Err(why) = read {
            self.notices.push(why.to_string());
        }
        if self.frames.is_empty() {
            self.notices.push("there is no frame of the Kafka protocol in this capture".to_owned());
        }
    }

    fn legend(&self) -> Vec<Legend> {
        legend(None)
    }
}

/// The empty form.
pub(crate) async fn form() -> Response {
    html(&Decode::empty(Input::default()))
}

/// The form with what it was given, taken apart.
pub(crate) async fn decode(form: Multipart) -> Response {
    let input = match read(form).await {
        Ok(input) => input,
        Err(refusal) => return refusal.into_response(),
    };
    // Bytes of somebody else's choosing must not hold up the threads that serve clients.
    match tokio::task::spawn_blocking(move || html(&opened(input))).await {
        Ok(page) => page,
        Err(why) => crate::asked::failed(&why.to_string()),
    }
}

async fn read(mut form: Multipart) -> Result<Input, Refusal> {
    let bad = |why: axum::extract::multipart::MultipartError| Refusal::new(why.status(), why.body_text());
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

fn opened(input: Input) -> Decode {
    let assume = match assume(&input) {
        Ok(assume) => assume,
        Err(why) => return Decode { refused: Some(why), ..Decode::empty(input) },
    };
    let given = if input.file.is_empty() { Bytes::from(input.text.clone()) } else { input.file.clone() };
    let mut page = Decode::empty(input);
    if given.is_empty() {
        page.refused = Some("there is nothing to decode: paste hex or base64, or choose a file".to_owned());
        return page;
    }
    let (form, bytes) = bytes_of(&given);
    let form = match form {
        Form::Hex => "hex",
        Form::Base64 => "base64",
        Form::Binary => "binary",
    };
    page.taken = Some((form, bytes.len()));
    let tables = TableSet::built_in();
    let options = Options { cap: CAP, most_nodes: MOST_NODES, ..Options::default() };
    if is_capture(&bytes) {
        page.capture(tables, &options, &bytes);
        return page;
    }
    for framed in Frames::new(tables, bytes, assume, &options) {
        if page.frames.len() == MOST_FRAMES {
            page.more = true;
            break;
        }
        let view = FrameView::new(format!("f{}", page.frames.len()), &framed.explained);
        page.frames.push(Shown { summary: framed.summary(tables), view });
    }
    page
}

/// What the frames must be, by the fields of the form.
fn assume(input: &Input) -> Result<Assume, String> {
    if !input.responses {
        return Ok(Assume::Mixed);
    }
    let need = "responses do not say what they answer: name the API and the version";
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
