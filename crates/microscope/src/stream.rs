//! Splits consecutive frames of a connection. Requests and responses may be mixed in their order.

use bytes::Bytes;
use ottla_wire::ApiKey;
use ottla_wire::explain::{Explanation, Options, request, response};
use ottla_wire::tables::{Direction, TableSet};
use std::collections::BTreeMap;

/// The length of the size field in bytes.
const SIZE: usize = 4;
/// The most requests without a response that are kept. Above it, the one with the lowest correlation id is dropped.
const MAX_PENDING: usize = 65_536;

/// The kind of frames in a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Assume {
    /// Requests, and responses to requests earlier in the stream.
    Mixed,
    /// Requests.
    Requests,
    /// Responses of this API and version alone.
    Responses(ApiKey, i16),
}

/// A frame of a stream.
#[derive(Clone, Debug)]
pub struct StreamFrame {
    /// The position of its first byte in the stream.
    pub at: usize,
    /// Whether it was read as a request or a response.
    pub direction: Direction,
    /// The API and version, as far as known.
    pub api: Option<(ApiKey, i16)>,
    /// The explanation of the frame.
    pub explained: Explanation,
}

/// Splits a stream into frames and explains each.
///
/// A frame is a response if it has the correlation id of an earlier request without a response, and either has no
/// faults as that response or has faults as a request too. An incomplete last frame is a frame with a fault.
pub struct Frames<'o> {
    tables: &'static TableSet,
    options: &'o Options,
    assume: Assume,
    stream: Bytes,
    at: usize,
    /// The API and version of requests without their response, by correlation id.
    pending: BTreeMap<i32, (ApiKey, i16)>,
}

impl<'o> Frames<'o> {
    /// The frames of a stream.
    pub fn new(tables: &'static TableSet, stream: Bytes, assume: Assume, options: &'o Options) -> Frames<'o> {
        Frames { tables, options, assume, stream, at: 0, pending: BTreeMap::new() }
    }

    fn cut(&mut self) -> Option<Bytes> {
        let left = self.stream.slice(self.at..);
        if left.is_empty() {
            return None;
        }
        let size = left.first_chunk().map(|size| i32::from_be_bytes(*size));
        let size = size.and_then(|size| usize::try_from(size).ok()).and_then(|size| size.checked_add(SIZE));
        // Without a valid size, the rest of the stream is one frame with a fault.
        let length = size.filter(|length| *length <= left.len()).unwrap_or(left.len());
        Some(left.slice(..length))
    }

    fn explain(&mut self, frame: &Bytes) -> (Direction, Option<(ApiKey, i16)>, Explanation) {
        if let Assume::Responses(key, version) = self.assume {
            let explained = response(self.tables, key, version, frame, self.options);
            return (Direction::Response, Some((key, version)), explained);
        }
        let id = frame.get(SIZE..).and_then(|rest| rest.first_chunk()).map(|id| i32::from_be_bytes(*id));
        let sent = id.and_then(|id| Some((id, *self.pending.get(&id)?)));
        let sent = sent.filter(|_| self.assume == Assume::Mixed);
        let as_response = sent.map(|(id, (key, version))| {
            (id, (key, version), response(self.tables, key, version, frame, self.options))
        });
        if let Some((id, api, as_response)) = as_response {
            let as_request = request(self.tables, frame, self.options);
            if as_response.faults().is_empty() || !as_request.faults().is_empty() {
                self.pending.remove(&id);
                return (Direction::Response, Some(api), as_response);
            }
            return self.request(as_request);
        }
        let as_request = request(self.tables, frame, self.options);
        self.request(as_request)
    }

    fn request(&mut self, as_request: Explanation) -> (Direction, Option<(ApiKey, i16)>, Explanation) {
        let head = as_request.head().map(|head| (head.correlation_id, (head.key, head.version)));
        if let Some((id, api)) = head.filter(|(_, (key, _))| self.tables.api(*key).is_some()) {
            self.pending.insert(id, api);
            if self.pending.len() > MAX_PENDING {
                self.pending.pop_first();
            }
        }
        (Direction::Request, head.map(|(_, api)| api), as_request)
    }
}

impl Iterator for Frames<'_> {
    type Item = StreamFrame;

    fn next(&mut self) -> Option<StreamFrame> {
        let frame = self.cut()?;
        let at = self.at;
        self.at += frame.len();
        let (direction, api, explained) = self.explain(&frame);
        Some(StreamFrame { at, direction, api, explained })
    }
}

impl StreamFrame {
    /// One line: direction, API, version, correlation id, client, size, and the first fault.
    pub fn summary(&self, tables: &TableSet) -> String {
        let way = match self.direction {
            Direction::Request => "request ",
            Direction::Response => "response",
        };
        let mut line = format!("{way}  ");
        match self.api {
            Some((key, version)) => match tables.api(key) {
                Some(api) => line.push_str(&format!("{} v{version}", api.name)),
                None => line.push_str(&format!("API {} v{version}", key.0)),
            },
            None => line.push_str("unknown"),
        }
        if let Some(head) = self.explained.head() {
            line.push_str(&format!("  correlation {}", head.correlation_id));
            if let Some(client) = &head.client_id {
                line.push_str(&format!("  client {client:?}"));
            }
        }
        line.push_str(&format!("  {} bytes", self.explained.source(0).len()));
        match self.explained.faults() {
            [] => {}
            [first, ..] => line.push_str(&format!("  fault: {first}")),
        }
        line
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ottla_wire::smallest_frame;

    type Seen = (Direction, Option<(ApiKey, i16)>, usize);

    fn frames(stream: Vec<u8>, assume: Assume) -> Vec<Seen> {
        let options = Options::default();
        let frames = Frames::new(TableSet::built_in(), stream.into(), assume, &options);
        frames.map(|frame| (frame.direction, frame.api, frame.explained.faults().len())).collect()
    }

    fn with_id(key: ApiKey, direction: Direction, version: i16, id: i32) -> Vec<u8> {
        let mut frame = smallest_frame(key, direction, version).unwrap().to_vec();
        let at = if direction == Direction::Request { 8 } else { 4 };
        frame[at..at + 4].copy_from_slice(&id.to_be_bytes());
        frame
    }

    #[test]
    fn responses_find_their_requests_by_correlation_id() {
        let (fetch, metadata) = (ApiKey::FETCH, ApiKey::METADATA);
        let stream = [
            with_id(fetch, Direction::Request, 12, 7),
            with_id(metadata, Direction::Request, 9, 8),
            with_id(metadata, Direction::Response, 9, 8),
            with_id(fetch, Direction::Response, 12, 7),
        ];
        let expected = [
            (Direction::Request, Some((fetch, 12)), 0),
            (Direction::Request, Some((metadata, 9)), 0),
            (Direction::Response, Some((metadata, 9)), 0),
            (Direction::Response, Some((fetch, 12)), 0),
        ];
        assert_eq!(frames(stream.concat(), Assume::Mixed), expected);
    }

    #[test]
    fn a_request_that_looks_like_a_correlation_id_is_a_request() {
        // Produce version 11 begins with the bytes of the number 11.
        let stream = [
            with_id(ApiKey::METADATA, Direction::Request, 9, 11),
            with_id(ApiKey::PRODUCE, Direction::Request, 11, 12),
            with_id(ApiKey::METADATA, Direction::Response, 9, 11),
        ];
        let ways: Vec<Direction> =
            frames(stream.concat(), Assume::Mixed).iter().map(|frame| frame.0).collect();
        assert_eq!(ways, [Direction::Request, Direction::Request, Direction::Response]);
    }

    #[test]
    fn responses_alone_need_their_api() {
        let stream = with_id(ApiKey::METADATA, Direction::Response, 9, 8).repeat(2);
        let found = frames(stream, Assume::Responses(ApiKey::METADATA, 9));
        assert_eq!(found, [(Direction::Response, Some((ApiKey::METADATA, 9)), 0); 2]);
    }

    #[test]
    fn the_end_of_a_cut_stream_is_a_fault_in_its_last_frame() {
        let whole = with_id(ApiKey::METADATA, Direction::Request, 9, 8).repeat(2);
        for length in 0..whole.len() {
            let found = frames(whole[..length].to_vec(), Assume::Mixed);
            let faults = found.iter().filter(|frame| frame.2 > 0).count();
            assert_eq!(faults, usize::from(length != 0 && length != whole.len() / 2), "{length}: {found:?}");
        }
    }
}
