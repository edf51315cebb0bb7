//! Which side of a connection is the client, when its beginning was not seen: the one that says a request.

use super::Time;
use super::boundary::{Search, Wanted, is_tls};
use bytes::BytesMut;

/// Bytes that are kept of both sides together.
const MOST: usize = 512 << 10;
/// Pieces that are kept.
const MOST_PIECES: usize = 4_096;

/// Bytes, or how many are missing.
pub(crate) type Kept = (usize, Time, Result<Vec<u8>, u64>);

/// What both sides said until it is known which is which.
#[derive(Debug, Default)]
pub(crate) struct Undecided {
    kept: Vec<Kept>,
    bytes: usize,
    probes: [(BytesMut, Search); 2],
    found: Option<usize>,
    news: [bool; 2],
    /// Whether it is TLS, so that no request will be seen.
    tls: bool,
}

impl Undecided {
    /// Keeps what a side said.
    pub(crate) fn keep(&mut self, side: usize, time: Time, piece: Result<&[u8], u64>) {
        if let Ok(data) = piece {
            self.tls |= self.probes[side].0.is_empty() && is_tls(data);
            self.bytes += data.len();
            self.probes[side].0.extend_from_slice(data);
            self.news[side] = true;
        }
        self.kept.push((side, time, piece.map(<[u8]>::to_vec)));
    }

    /// Whether no more is to be kept.
    pub(crate) fn is_full(&self) -> bool {
        self.tls || self.bytes >= MOST || self.kept.len() >= MOST_PIECES
    }

    /// The side of the client, if it is clear.
    pub(crate) fn client(&mut self, limit: usize) -> Option<usize> {
        for (side, (buffer, search)) in self.probes.iter_mut().enumerate() {
            if std::mem::take(&mut self.news[side])
                && self.found.is_none()
                && search.look(buffer, &Wanted::Request, limit).is_some()
            {
                self.found = Some(side);
            }
        }
        self.found
    }

    /// All that was kept, in order.
    pub(crate) fn take(&mut self) -> Vec<Kept> {
        self.probes = Default::default();
        std::mem::take(&mut self.kept)
    }
}
