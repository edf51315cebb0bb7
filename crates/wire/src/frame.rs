//! Frames: the size and the header in front of a message on a connection.

use crate::messages::{Request, Response, ResponseHeader};
use crate::{ApiKey, At, DecodeError, DecodeProblem, EncodeError, Message, Reader, Tags, Text, Writer};
use crate::{messages, request_header_version, response_header_version};
use bytes::Bytes;

/// The length of the size field in bytes.
const SIZE: usize = 4;

/// An encoded frame as chunks. The first chunk starts with the size field.
#[derive(Clone, Debug)]
pub struct Frame {
    chunks: Vec<Bytes>,
    length: usize,
}

impl Frame {
    fn finish(mut w: Writer, at: &At) -> Result<Frame, EncodeError> {
        w.fill_size(at)?;
        let length = w.len();
        Ok(Frame { chunks: w.into_chunks(), length })
    }

    /// The chunks in order, for a vectored write.
    pub fn chunks(&self) -> &[Bytes] {
        &self.chunks
    }

    /// Consumes the frame and returns its chunks.
    pub fn into_chunks(self) -> Vec<Bytes> {
        self.chunks
    }

    /// The number of bytes, including the size field.
    #[expect(clippy::len_without_is_empty, reason = "a frame holds its own size and is never empty")]
    pub fn len(&self) -> usize {
        self.length
    }

    /// The frame as one buffer: shared when it is one chunk, else copied.
    pub fn to_bytes(&self) -> Bytes {
        match &self.chunks[..] {
            [only] => only.clone(),
            chunks => chunks.concat().into(),
        }
    }
}

/// The header of a request, any version of it.
#[derive(Clone, Debug, PartialEq)]
pub struct RequestHeader {
    /// The API.
    pub api_key: ApiKey,
    /// The version of the request.
    pub api_version: i16,
    /// The number that the response repeats.
    pub correlation_id: i32,
    /// The name that the client gave itself.
    pub client_id: Option<Text>,
    /// Tagged fields of a version 2 header.
    pub unknown_tags: Tags,
}

/// Builds a request frame.
///
/// # Errors
/// A value does not fit the version, or there is no such version.
pub fn request<M: Request>(
    correlation_id: i32,
    client_id: Option<&Text>,
    message: &M,
    version: i16,
) -> Result<Frame, EncodeError> {
    let mut w = Writer::with_capacity(256);
    w.i32(0);
    let header = messages::RequestHeader {
        request_api_key: M::KEY.0,
        request_api_version: version,
        correlation_id,
        client_id: client_id.cloned(),
        unknown_tags: Tags::default(),
    };
    header.encode(&mut w, request_header_version(M::KEY, version).unwrap_or(1))?;
    message.encode(&mut w, version)?;
    Frame::finish(w, &At(M::NAME, ""))
}

/// Builds a response frame.
///
/// # Errors
/// A value does not fit the version, or there is no such version.
pub fn response<M: Response>(correlation_id: i32, message: &M, version: i16) -> Result<Frame, EncodeError> {
    let header = ResponseHeader { correlation_id, unknown_tags: Tags::default() };
    response_with(&header, message, version)
}

/// Builds a response frame with the tagged fields of `header`, as a proxy needs it.
///
/// # Errors
/// As [`response`].
pub fn response_with<M: Response>(
    header: &ResponseHeader,
    message: &M,
    version: i16,
) -> Result<Frame, EncodeError> {
    let mut w = Writer::with_capacity(256);
    w.i32(0);
    header.encode(&mut w, response_header_version(M::KEY, version).unwrap_or(0))?;
    message.encode(&mut w, version)?;
    Frame::finish(w, &At(M::NAME, ""))
}

/// Reads the header of a request from a frame without its size field. Returns it with a reader at the start of the
/// body. Errors of that reader count bytes from the size field.
///
/// A version that the API does not have is not an error here: a broker must respond to ApiVersions in any version, and
/// the caller handles the other APIs.
///
/// # Errors
/// The frame is too short, the client id is malformed, or no API has the number.
pub fn read_request_header(frame: &Bytes) -> Result<(RequestHeader, Reader), DecodeError> {
    const fn at(field: &'static str) -> At {
        At("RequestHeader", field)
    }
    let mut r = Reader::with_base(frame.clone(), SIZE);
    let api_key = ApiKey(r.i16(&at("RequestApiKey"))?);
    let api_version = r.i16(&at("RequestApiVersion"))?;
    let Some(version) = request_header_version(api_key, api_version) else {
        return Err(DecodeError::new(&at("RequestApiKey"), SIZE, DecodeProblem::UnknownApi(api_key.0)));
    };
    let correlation_id = r.i32(&at("CorrelationId"))?;
    let client_id = if version >= 1 { r.text_or_null(false, &at("ClientId"))? } else { None };
    let mut unknown_tags = Tags::default();
    if version >= 2 {
        r.unknown_tags(&mut unknown_tags, &at("tagged fields"))?;
    }
    Ok((RequestHeader { api_key, api_version, correlation_id, client_id, unknown_tags }, r))
}

/// Reads the header of a response to a request of that API and version, from a frame without its size field. Returns
/// the correlation id and a reader at the start of the body.
///
/// # Errors
/// The frame is too short, or no API has the number.
pub fn read_response_header(frame: &Bytes, key: ApiKey, version: i16) -> Result<(i32, Reader), DecodeError> {
    let mut r = Reader::with_base(frame.clone(), SIZE);
    let at = At("ResponseHeader", "CorrelationId");
    let Some(version) = response_header_version(key, version) else {
        return Err(DecodeError::new(&at, SIZE, DecodeProblem::UnknownApi(key.0)));
    };
    let header = ResponseHeader::decode(&mut r, version)?;
    Ok((header.correlation_id, r))
}
