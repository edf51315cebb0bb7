//! Whole frames as JSON: the fields of the header, and the message in `body`.

use super::decode::Options;
use super::encode::JsonError;
use super::{decode, encode};
use bytes::Bytes;
use ottla_wire::tables::{Direction, TableSet};
use ottla_wire::{ApiInfo, ApiKey, At, DecodeError, DecodeProblem, Reader, Writer};
use serde_json::{Value, json};

/// The length of the size field in bytes.
const SIZE: usize = 4;

/// Decodes a request frame, including its size field: `apiKey`, `api`, `version`, `correlationId`, `clientId`, and
/// `body`.
///
/// # Errors
/// The bytes are not exactly one valid frame.
pub fn decode_request(set: &TableSet, frame: &Bytes, options: Options) -> Result<Value, DecodeError> {
    let at = |field| At("RequestHeader", field);
    let mut r = Reader::new(frame.clone());
    r.i32(&at("Size"))?;
    let key = ApiKey(r.i16(&at("RequestApiKey"))?);
    let version = r.i16(&at("RequestApiVersion"))?;
    let correlation_id = r.i32(&at("CorrelationId"))?;
    let info = set.api(key);
    let info =
        info.ok_or_else(|| DecodeError::new(&at("RequestApiKey"), SIZE, DecodeProblem::UnknownApi(key.0)))?;
    let header = info.request_header_version(version);
    let mut json = json!({
        "apiKey": key.0, "api": info.name, "version": version, "correlationId": correlation_id,
    });
    if header >= 1 {
        let client_id = r.text_or_null(false, &at("ClientId"))?;
        json["clientId"] = client_id.map_or(Value::Null, |text| text.as_str().into());
    }
    finish(&mut r, json, (info, Direction::Request, version), (header >= 2, options))
}

/// Decodes the response frame to a request of that API and version, including its size field: `apiKey`, `api`,
/// `version`, `correlationId`, and `body`.
///
/// # Errors
/// The bytes are not exactly one valid frame.
pub fn decode_response(
    info: &ApiInfo,
    version: i16,
    frame: &Bytes,
    options: Options,
) -> Result<Value, DecodeError> {
    let at = |field| At("ResponseHeader", field);
    let mut r = Reader::new(frame.clone());
    r.i32(&at("Size"))?;
    let correlation_id = r.i32(&at("CorrelationId"))?;
    let json = json!({
        "apiKey": info.key.0, "api": info.name, "version": version, "correlationId": correlation_id,
    });
    let flexible = info.response_header_version(version) >= 1;
    finish(&mut r, json, (info, Direction::Response, version), (flexible, options))
}

fn finish(
    r: &mut Reader,
    mut json: Value,
    (info, direction, version): (&ApiInfo, Direction, i16),
    (flexible, options): (bool, Options),
) -> Result<Value, DecodeError> {
    if flexible {
        let mut tags = ottla_wire::Tags::default();
        r.unknown_tags(&mut tags, &At("header", "tagged fields"))?;
        if !tags.is_empty() {
            json[super::UNKNOWN_TAGS] = tags.iter().map(tag).collect();
        }
    }
    let table = match direction {
        Direction::Request => info.request,
        Direction::Response => info.response,
    };
    let Some(table) = table else {
        let problem = DecodeProblem::Version { version, valid: info.request_versions };
        return Err(DecodeError::new(&At(info.name, ""), r.offset(), problem));
    };
    json["body"] = decode(table, version, r, options)?;
    match r.remaining() {
        0 => Ok(json),
        left => {
            let problem = DecodeProblem::TrailingBytes(left as u64);
            Err(DecodeError::new(&At(table.name, "end"), r.offset(), problem))
        }
    }
}

fn tag((tag, data): (u32, &Bytes)) -> Value {
    use base64::Engine;
    json!({ "tag": tag, "data": base64::engine::general_purpose::STANDARD.encode(data) })
}

/// Encodes a request frame with size field and header. `json` is the message.
///
/// # Errors
/// As [`encode`].
pub fn encode_request(
    info: &ApiInfo,
    version: i16,
    json: &Value,
    (correlation_id, client_id): (i32, Option<&str>),
) -> Result<Bytes, JsonError> {
    let table = info.request.ok_or_else(|| removed(info))?;
    let body = encode(table, version, json)?;
    let header = info.request_header_version(version);
    let mut w = Writer::with_capacity(body.len() + 64);
    w.i16(info.key.0);
    w.i16(version);
    w.i32(correlation_id);
    match client_id.filter(|_| header >= 1) {
        Some(id) => {
            let written = w.str(false, id, &At("RequestHeader", "ClientId"));
            written.map_err(|why| JsonError::new("clientId", why.problem().to_string()))?;
        }
        None if header >= 1 => w.null_text(false),
        None => {}
    }
    if header >= 2 {
        w.uvarint(0);
    }
    framed(&w.into_bytes(), &body)
}

/// Encodes a response frame with size field and header. `json` is the message.
///
/// # Errors
/// As [`encode`].
pub fn encode_response(
    info: &ApiInfo,
    version: i16,
    json: &Value,
    correlation_id: i32,
) -> Result<Bytes, JsonError> {
    let table = info.response.ok_or_else(|| removed(info))?;
    let body = encode(table, version, json)?;
    let mut w = Writer::with_capacity(8);
    w.i32(correlation_id);
    if info.response_header_version(version) >= 1 {
        w.uvarint(0);
    }
    framed(&w.into_bytes(), &body)
}

fn removed(info: &ApiInfo) -> JsonError {
    JsonError::new("", format!("{} was removed from the protocol and has no version", info.name))
}

fn framed(header: &Bytes, body: &Bytes) -> Result<Bytes, JsonError> {
    let length = header.len() + body.len();
    let size = i32::try_from(length)
        .map_err(|_| JsonError::new("", format!("a frame of {length} bytes is too large")))?;
    Ok([&size.to_be_bytes()[..], header, body].concat().into())
}
