//! Which side of a connection is the client, when its beginning was not seen: the one that says a request.

use super::Time;
use super::boundary::{Search, Target, is_tls};
use bytes::BytesMut;

/// Bytes that are kept of both sides together.
const MAX: usize = 512 << 10;
/// Pieces that are kept.
const MAX_CHUNKS: usize = 4_096;

/// Bytes, or how many are missing.
pub(crate) type BufferedChunk = (usize, Time, Result<Vec<u8>, u64>);

/// What both sides said until it is known which is which.
#[derive(Debug, Default)]
pub(crate) struct ClientSide {
    kept: Vec<BufferedChunk>,
    bytes: usize,
    probes: [(BytesMut, Search); 2],
    found: Option<usize>,
    news: [bool; 2],
    /// Whether it is TLS, so that no request will be seen.
    tls: bool,
}

impl ClientSide {
    /// Keeps what a side said.
    pub(crate) fn keep(&mut self, side: usize, time: Time, chunk: Result<&[u8], u64>) {
        if let Ok(data) = chunk {
            self.tls |= self.probes[side].0.is_empty() && is_tls(data);
            self.bytes += data.len();
            self.probes[side].0.extend_from_slice(data);
            self.news[side] = true;
        }
        self.kept.push((side, time, chunk.map(<[u8]>::to_vec)));
    }

    /// Whether no more is to be kept.
    pub(crate) fn is_full(&self) -> bool {
        self.tls || self.bytes >= MAX || self.kept.len() >= MAX_CHUNKS
    }

    /// The side of the client, if it is clear.
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

    /// All that was kept, in order.
    pub(crate) fn take(&mut self) -> Vec<BufferedChunk> {
        self.probes = Default::default();
        std::mem::take(&mut self.kept)
    }
}
