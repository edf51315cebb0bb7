//! Which parts and batches are too old or too many.

use super::Partition;
use super::batch_size::size;
use ottla_types::record::{RunPart, StoredBatch};
use ottla_types::{Millis, Offset};

/// How much is kept of a partition.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Keep {
    pub(crate) time: Option<Millis>,
    pub(crate) bytes: Option<i64>,
}

/// What goes as a whole or not at all: a part, as Kafka's segments do, or a batch that still lies in the log.
struct Piece {
    last_offset: Offset,
    bytes: u64,
    time: Millis,
}

impl Partition {
    /// Where the log should start, if later than it does. Never past the high watermark; whole parts and batches only.
    pub(crate) fn retained_from(&self, now: Millis, keep: Keep) -> Option<Offset> {
        let mut bytes = i64::try_from(self.bytes()).unwrap_or(i64::MAX);
        let mut start = None;
        for piece in self.pieces().take_while(|piece| piece.last_offset < self.high_watermark) {
            let left = bytes.saturating_sub_unsigned(piece.bytes);
            let too_old = keep.time.is_some_and(|span| now.since(piece.time) > span);
            let too_many = keep.bytes.is_some_and(|most| left >= most);
            if !too_old && !too_many {
                break;
            }
            bytes = left;
            start = Some(piece.last_offset.plus(1));
        }
        start
    }

    fn pieces(&self) -> impl Iterator<Item = Piece> {
        let parts = self.index.parts().iter().map(Piece::part);
        parts.chain(self.index.tail().iter().map(|batch| Piece::batch(&batch)))
    }

    pub(crate) fn idle_producers(&self, now: Millis, expiration: Millis) -> Vec<ottla_types::ProducerId> {
        self.producers.idle(now, expiration)
    }
}

impl Piece {
    fn part(part: &RunPart) -> Piece {
        let time = time_of(part.max_timestamp, part.appended);
        Piece { last_offset: part.last_offset, bytes: part.bytes, time }
    }

    fn batch(batch: &StoredBatch) -> Piece {
        let time = time_of(batch.max_timestamp, batch.appended);
        Piece { last_offset: batch.last_offset, bytes: u64::from(size(batch)), time }
    }
}

/// The time retention counts from.
fn time_of(max_timestamp: Millis, appended: Millis) -> Millis {
    if max_timestamp >= Millis(0) { max_timestamp } else { appended }
}
