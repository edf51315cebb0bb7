//! Finds the client of a connection whose start was not captured: the endpoint that sends a request.

use super::Time;
use super::boundary::{Search, Target, is_tls};
use bytes::BytesMut;

/// The most bytes that are kept of both endpoints together.
const MAX: usize = 512 << 10;
/// The most chunks that are kept.
const MAX_CHUNKS: usize = 4_096;

/// Endpoint and time of a chunk, with its bytes or the number of lost bytes.
pub(crate) type BufferedChunk = (usize, Time, Result<Vec<u8>, u64>);

/// The chunks of both endpoints until the client is known.
#[derive(Debug, Default)]
pub(crate) struct ClientSide {
    kept: Vec<BufferedChunk>,
    bytes: usize,
    probes: [(BytesMut, Search); 2],
    found: Option<usize>,
    news: [bool; 2],
    /// Whether the connection is TLS, so that requests cannot be recognized.
    tls: bool,
}

impl ClientSide {
    /// Keeps a chunk of an endpoint.
    pub(crate) fn keep(&mut self, side: usize, time: Time, chunk: Result<&[u8], u64>) {
        if let Ok(data) = chunk {
            self.tls |= self.probes[side].0.is_empty() && is_tls(data);
            self.bytes += data.len();
            self.probes[side].0.extend_from_slice(data);
            self.news[side] = true;
        }
        self.kept.push((side, time, chunk.map(<[u8]>::to_vec)));
    }

    /// Whether no more chunks should be kept.
    pub(crate) fn is_full(&self) -> bool {
        self.tls || self.bytes >= MAX || self.kept.len() >= MAX_CHUNKS
    }

    /// The endpoint of the client, if it is known.
    pub(crate) fn client(&mut self, limit: usize) -> Option<usize> {
        for (side, (buffer, search)) in self.probes.iter_mut().enumerate() {
            if std::mem::take(&mut self.news[side])
                && self.found.is_none()
                && search.look(buffer, &Target::Request, limit).is_some()
            {
                self.found = Some(side);
            }
        }
        self.found
    }

    /// Removes and returns all chunks, in order.
    pub(crate) fn take(&mut self) -> Vec<BufferedChunk> {
        self.probes = Default::default();
        std::mem::take(&mut self.kept)
    }
}
