//! Types for numbers, so that one kind cannot be passed for another.

use std::fmt;

/// An offset in a partition; -1 stands for "none" on the wire.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Offset(pub i64);

impl Offset {
    /// The wire's "no offset".
    pub const NONE: Offset = Offset(-1);

    /// The offset plus `count`.
    #[must_use]
    pub fn plus(self, count: i64) -> Offset {
        Offset(self.0 + count)
    }
}

/// The id of a producer; never assigned twice (T-22).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ProducerId(pub i64);

impl ProducerId {
    /// The wire's "no producer id".
    pub const NONE: ProducerId = ProducerId(-1);

    /// True unless this is [`ProducerId::NONE`] or another negative number.
    pub fn is_some(self) -> bool {
        self.0 >= 0
    }
}

/// The epoch of a producer id: a higher one fences the lower.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ProducerEpoch(pub i16);

impl ProducerEpoch {
    /// The wire's "no epoch".
    pub const NONE: ProducerEpoch = ProducerEpoch(-1);
    /// The last epoch that a client may hold; the one above is the coordinator's (T-32).
    pub const LAST_FOR_CLIENTS: ProducerEpoch = ProducerEpoch(i16::MAX - 1);

    /// True when the next bump would need a new producer id (T-32, T-105).
    pub fn is_exhausted(self) -> bool {
        self >= ProducerEpoch::LAST_FOR_CLIENTS
    }

    /// The next epoch; 32767 stays where it is (T-34).
    #[must_use]
    pub fn bumped(self) -> ProducerEpoch {
        ProducerEpoch(self.0.saturating_add(1))
    }
}

/// Milliseconds since the Unix epoch, or a span of milliseconds; -1 stands for "none" on the wire.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Millis(pub i64);

impl Millis {
    /// The wire's "no time".
    pub const NONE: Millis = Millis(-1);

    /// The time `span` later, saturating at the largest value.
    #[must_use]
    pub fn after(self, span: Millis) -> Millis {
        Millis(self.0.saturating_add(span.0))
    }

    /// The time since `earlier`; negative if `earlier` is later than `self`.
    #[must_use]
    pub fn since(self, earlier: Millis) -> Millis {
        Millis(self.0.saturating_sub(earlier.0))
    }
}

/// The 128-bit id of a topic (KIP-516); all zero stands for "none".
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TopicId(pub [u8; 16]);

impl TopicId {
    /// The id that stands for "none".
    pub const ZERO: TopicId = TopicId([0; 16]);
}

impl fmt::Display for TopicId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

/// One partition of one topic.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TopicPartition {
    /// The topic.
    pub topic: TopicId,
    /// The partition's index, from 0.
    pub partition: i32,
}

/// The address of a byte in the log: segment number times segment size, plus the offset in the segment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LogPosition(pub u64);

/// The sequence number after `sequence`: 0 follows 2147483647 (T-48).
pub fn next_sequence(sequence: i32) -> i32 {
    sequence_after(sequence, 1)
}

/// The sequence number `count` after `sequence`, wrapping from 2147483647 to 0, never negative (T-48).
pub fn sequence_after(sequence: i32, count: i32) -> i32 {
    ((i64::from(sequence) + i64::from(count)) & i64::from(i32::MAX)) as i32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn t_48_zero_follows_the_largest_sequence() {
        assert_eq!(next_sequence(i32::MAX), 0);
        assert_eq!(next_sequence(i32::MAX - 1), i32::MAX);
        assert_eq!(sequence_after(2_147_483_640, 19), 11);
    }

    #[test]
    fn t_34_the_epoch_never_passes_32767() {
        assert_eq!(ProducerEpoch(i16::MAX).bumped(), ProducerEpoch(i16::MAX));
        assert!(ProducerEpoch(32766).is_exhausted());
        assert!(!ProducerEpoch(32765).is_exhausted());
    }
}
