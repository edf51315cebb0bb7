//! `ottla encode`: encodes JSON to a frame.

use super::failure::Failure;
use super::out::Out;
use super::schemas::{SchemaFiles, find};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use clap::Args;
use ottla_microscope::json::{encode, encode_request, encode_response};
use ottla_microscope::names::Subject;
use ottla_microscope::page::highest_version;
use ottla_wire::ApiInfo;
use ottla_wire::tables::{Direction, MessageTable};
use serde_json::Value;
use std::io::{self, Read};

/// Encode a message: JSON on standard input becomes the frame that a client or broker would send.
///
/// Field names are those of the schema with a lower-case first letter, as `ottla decode --json` prints them; omitted
/// fields have their defaults. A whole frame as `ottla decode --json` prints it is accepted too: its message is under
/// `body`, and correlationId and clientId are kept.
#[derive(Args)]
pub(crate) struct Encode {
    /// Name of the API, optionally with Request or Response appended; its number; or another message, which has no
    /// frame.
    name: String,
    /// The version [default: the highest stable one]
    #[arg(long, value_name = "N")]
    version: Option<i16>,
    /// Encode the response rather than the request.
    #[arg(long)]
    response: bool,
    /// Encode the message alone, without size and header.
    #[arg(long)]
    body_only: bool,
    /// Correlation id in the header [default: that of the JSON, or 0]
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    correlation_id: Option<i32>,
    /// Client id in the header of a request [default: that of the JSON, or null]
    #[arg(long, value_name = "TEXT")]
    client_id: Option<String>,
    #[command(flatten)]
    form: FormFlags,
    #[command(flatten)]
    schemas: SchemaFiles,
}

/// How to print bytes.
#[derive(Args)]
#[group(multiple = false)]
struct FormFlags {
    /// Print hex: the default.
    #[arg(long)]
    hex: bool,
    /// Print base64.
    #[arg(long)]
    base64: bool,
    /// Write raw bytes.
    #[arg(long)]
    binary: bool,
}

impl Encode {
    pub(super) fn run(self, out: &mut Out) -> Result<(), Failure> {
        let schemas = self.schemas.read()?;
        let subject = find(&schemas, &self.name)?;
        let mut text = String::new();
        io::stdin()
            .read_to_string(&mut text)
            .map_err(|error| Failure::new(format!("cannot read standard input: {error}")))?;
        let json: Value = serde_json::from_str(&text)
            .map_err(|error| Failure::new(format!("standard input is not JSON: {error}")))?;
        let bytes = match subject {
            Subject::Api(api, side) => self.frame(api, side, &json)?,
            Subject::Message(table) => self.body(table, self.version.unwrap_or(table.versions.max), &json)?,
        };
        self.form.print(&bytes, out)
    }

    fn frame(&self, api: &ApiInfo, named: Option<Direction>, json: &Value) -> Result<Bytes, Failure> {
        let direction = if self.response { Direction::Response } else { named.unwrap_or(Direction::Request) };
        let table = match direction {
            Direction::Request => api.request,
            Direction::Response => api.response,
        };
        let version = self.version.or_else(|| highest_version(api, Some(direction)));
        let (Some(table), Some(version)) = (table, version) else {
            return Err(Failure::new(format!(
                "{} was removed from the protocol and has no version",
                api.name
            )));
        };
        // A frame as `decode` prints it, rather than a message.
        let whole = json.get("body").filter(|_| json.get("apiKey").is_some());
        let message = whole.unwrap_or(json);
        if self.body_only {
            return self.body(table, version, message);
        }
        let header = |name| json.get(name).filter(|_| whole.is_some());
        let id =
            self.correlation_id.map(i64::from).or_else(|| header("correlationId")?.as_i64()).unwrap_or(0);
        let id =
            i32::try_from(id).map_err(|_| Failure::new(format!("correlationId: {id} does not fit int32")))?;
        let encoded = match direction {
            Direction::Request => {
                let client = self.client_id.as_deref().or_else(|| header("clientId")?.as_str());
                encode_request(api, version, message, (id, client))
            }
            Direction::Response => encode_response(api, version, message, id),
        };
        encoded.map_err(|error| Failure::new(format!("cannot encode {}: {error}", table.name)))
    }

    fn body(&self, table: &'static MessageTable, version: i16, json: &Value) -> Result<Bytes, Failure> {
        encode(table, version, json)
            .map_err(|error| Failure::new(format!("cannot encode {}: {error}", table.name)))
    }
}

impl FormFlags {
    fn print(&self, bytes: &[u8], out: &mut Out) -> Result<(), Failure> {
        if self.binary {
            return Ok(out.raw(bytes)?);
        }
        if self.base64 {
            return Ok(out.line(STANDARD.encode(bytes))?);
        }
        Ok(out.line(ottla_microscope::input::hex(bytes))?)
    }
}
