//! Finds the start of a frame in a stream, for captures that begin within a connection and after lost bytes.

use super::event::{Head, SIZE};
use bytes::{Bytes, BytesMut};
use ottla_wire::explain::{self, Options};
use ottla_wire::tables::TableSet;
use ottla_wire::{ApiKey, response_header_version};

/// The bytes that decide whether this can be a request: size, API key, version, correlation id, length of the client
/// id.
const REQUEST_HEAD: usize = 14;
/// The bytes that decide whether this can be a response: size and correlation id.
const RESPONSE_HEAD: usize = 8;
/// The number of versions of ApiVersions above the known ones that are accepted.
const MAX_NEWER_VERSIONS: i16 = 16;
/// The most positions that are kept because a frame may start there and is incomplete.
const MAX_CANDIDATES: usize = 32;
/// The longest client id that is accepted, in bytes.
const MAX_CLIENT_ID: usize = 1_024;

/// Whether this can be the start of TLS: a record header of any version.
pub(super) fn is_tls(data: &[u8]) -> bool {
    matches!(data, [20..=23, 3, 0..=4, 0..=0x48, _, ..])
}

/// The size of the frame at the start, including the size field. The inner option is none for a negative size.
pub(super) fn size(data: &[u8]) -> Option<Option<usize>> {
    let size = i32::from_be_bytes(*data.first_chunk::<SIZE>()?);
    Some(usize::try_from(size).ok().map(|size| size + SIZE))
}

/// The size of the request that can start here: its API and version exist, and its client id fits.
fn request_size(data: &[u8], limit: usize) -> Option<usize> {
    let size = size(data)??;
    if size > limit || size < REQUEST_HEAD - 2 {
        return None;
    }
    let [k0, k1, v0, v1, _, _, _, _, l0, l1] = *data.get(SIZE..)?.first_chunk::<10>()?;
    let (key, version) = (ApiKey(i16::from_be_bytes([k0, k1])), i16::from_be_bytes([v0, v1]));
    let versions = key.info()?.request_versions;
    let future = if key == ApiKey::API_VERSIONS { MAX_NEWER_VERSIONS } else { 0 };
    if versions.is_empty() || version < versions.min || version > versions.max + future {
        return None;
    }
    let Ok(length) = usize::try_from(i16::from_be_bytes([l0, l1])) else {
        return (i16::from_be_bytes([l0, l1]) == -1).then_some(size);
    };
    let there = data.get(REQUEST_HEAD..).unwrap_or_default();
    let id = there.get(..length).unwrap_or(there);
    let fits = length <= MAX_CLIENT_ID && REQUEST_HEAD + length <= size;
    (fits && id.iter().all(|byte| !byte.is_ascii_control())).then_some(size)
}

/// Whether a valid request header of a frame of any size starts here.
pub(super) fn begins_request(data: &[u8]) -> bool {
    request_size(data, usize::MAX).is_some()
}

/// Whether the frame is a request with a valid header and body.
pub(super) fn is_request(whole: &Bytes) -> bool {
    if request_size(whole, whole.len()) != Some(whole.len()) {
        return false;
    }
    Head::of_request(whole).is_some_and(|head| {
        !head.is_known() || explain::request(TableSet::built_in(), whole, &shallow()).faults().is_empty()
    })
}

fn is_response(whole: &Bytes, head: &Head) -> bool {
    if !head.is_known() || response_header_version(head.key, head.version).is_none() {
        return true;
    }
    let on_event = |version| {
        explain::response(TableSet::built_in(), head.key, version, whole, &shallow()).faults().is_empty()
    };
    on_event(head.version) || (head.key == ApiKey::API_VERSIONS && on_event(0))
}

fn shallow() -> Options {
    Options { records: false, nested: false, cap: 0, ..Options::default() }
}

/// The kind of frame that is searched.
pub(super) enum Target<'a> {
    Request,
    /// A response to one of these.
    Response(&'a dyn Fn(i32) -> Option<Head>),
}

impl Target<'_> {
    fn head(&self) -> usize {
        match self {
            Target::Request => REQUEST_HEAD,
            Target::Response(_) => RESPONSE_HEAD,
        }
    }

    /// The size of the frame that can start here, and for a response the header of its request.
    fn candidate(&self, data: &[u8], limit: usize) -> Option<(usize, Option<Head>)> {
        match self {
            Target::Request => Some((request_size(data, limit)?, None)),
            Target::Response(pending) => {
                let size = size(data)??;
                if size > limit || size < RESPONSE_HEAD {
                    return None;
                }
                let id = data.get(SIZE..)?.first_chunk()?;
                Some((size, Some(pending(i32::from_be_bytes(*id))?)))
            }
        }
    }
}

/// A search in a growing buffer.
#[derive(Debug, Default)]
pub(super) struct Search {
    /// Bytes skipped before the buffer.
    pub(super) skipped: u64,
    scanned: usize,
    open: Vec<usize>,
}

impl Search {
    /// A search after `skipped` bytes were skipped.
    pub(super) fn after(skipped: u64) -> Search {
        Search { skipped, ..Search::default() }
    }

    /// Searches the new bytes of the buffer. Returns the position of a complete valid frame.
    pub(super) fn look(&mut self, buffer: &BytesMut, target: &Target<'_>, limit: usize) -> Option<usize> {
        let sure = |at: usize| -> Option<bool> {
            let data = buffer.get(at..)?;
            let (size, head) = target.candidate(data, limit)?;
            let Some(whole) = data.get(..size) else { return Some(false) };
            let whole = Bytes::copy_from_slice(whole);
            let is_one = head.map_or_else(|| is_request(&whole), |head| is_response(&whole, &head));
            is_one.then_some(true)
        };
        let mut found = None;
        self.open.retain(|at| {
            let verdict = if found.is_none() { sure(*at) } else { Some(false) };
            if verdict == Some(true) {
                found = Some(*at);
            }
            verdict.is_some()
        });
        if found.is_some() {
            return found;
        }
        while self.scanned + target.head() <= buffer.len() {
            let at = self.scanned;
            self.scanned += 1;
            match sure(at) {
                Some(true) => return Some(at),
                Some(false) if self.open.len() < MAX_CANDIDATES => self.open.push(at),
                _ => {}
            }
        }
        None
    }

    /// The earliest position where an incomplete frame may start.
    pub(super) fn earliest_candidate(&self) -> Option<usize> {
        self.open.iter().min().copied()
    }

    /// Restarts the search, because the target has changed.
    pub(super) fn restart(&mut self) {
        self.scanned = 0;
        self.open.clear();
    }

    /// Removes the searched bytes from the buffer.
    pub(super) fn drop_scanned(&mut self, buffer: &mut BytesMut) {
        let scanned = self.scanned.min(buffer.len());
        bytes::Buf::advance(buffer, scanned);
        self.skipped += scanned as u64;
        self.restart();
    }
}
