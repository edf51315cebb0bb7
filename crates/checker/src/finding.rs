//! The anomalies, by name.

use crate::history::{Key, OpId, Value};
use std::fmt;

/// A kind of anomaly.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Class {
    /// One offset of a key holds two values.
    InconsistentOffsets,
    /// One value is at two offsets of a key.
    Duplicate,
    /// A value was read under read_committed whose writer failed or aborted.
    G1a,
    /// Transactions read each other's writes in a circle.
    G1c,
    /// A transaction read a value it wrote itself.
    PrecommittedRead,
    /// A value was read that no operation wrote, or from a key it was not written to.
    Unwritten,
    /// A value whose writer must have committed, at or below what others read, was never read.
    LostWrite,
    /// A value whose writer must have committed was never read, not even in the drain.
    Unseen,
    /// A value that was read is missing in the drain.
    Vanished,
    /// Between two operations a consumer jumped over values.
    PollSkip,
    /// Between two operations a consumer went back.
    NonmonotonicPoll,
    /// Inside an operation a consumer jumped over values.
    IntPollSkip,
    /// Inside an operation a consumer went back.
    IntNonmonotonicPoll,
    /// A producer's later operation landed at a lower offset.
    NonmonotonicSend,
    /// A producer's later write in an operation landed at a lower offset.
    IntNonmonotonicSend,
    /// Some writes of a transaction are there, some are not.
    TornData,
    /// A transaction's offsets are there and its data is not, or the other way round.
    TornOffsets,
    /// A committed offset was read whose writer failed or aborted, or that no operation wrote.
    AbortedOffset,
    /// A group's committed offset is lower than one that was acknowledged or read before.
    OffsetBack,
    /// One input was transformed by two committed transactions.
    TransformedTwice,
    /// An input below the committed offset was transformed by none.
    NotTransformed,
    /// A high watermark is lower than one seen, or a record acknowledged, before.
    HighBack,
    /// A last stable offset is lower than one seen, or a record read, before.
    StableBack,
    /// A last stable offset is above the high watermark.
    StableAboveHigh,
    /// At the end of all a last stable offset is still below the high watermark: a transaction hangs.
    HangingTransaction,
    /// A client without a fault received an error that accuses it of one.
    ImpossibleAnswer,
    /// The history itself is wrong: a value was written twice.
    WrittenTwice,
}

impl Class {
    /// The name of the kind.
    pub fn name(self) -> &'static str {
        match self {
            Class::InconsistentOffsets => "inconsistent-offsets",
            Class::Duplicate => "duplicate",
            Class::G1a => "G1a",
            Class::G1c => "G1c",
            Class::PrecommittedRead => "precommitted-read",
            Class::Unwritten => "unwritten",
            Class::LostWrite => "lost-write",
            Class::Unseen => "unseen",
            Class::Vanished => "vanished",
            Class::PollSkip => "poll-skip",
            Class::NonmonotonicPoll => "nonmonotonic-poll",
            Class::IntPollSkip => "int-poll-skip",
            Class::IntNonmonotonicPoll => "int-nonmonotonic-poll",
            Class::NonmonotonicSend => "nonmonotonic-send",
            Class::IntNonmonotonicSend => "int-nonmonotonic-send",
            Class::TornData => "torn-data",
            Class::TornOffsets => "torn-offsets",
            Class::AbortedOffset => "aborted-offset",
            Class::OffsetBack => "offset-back",
            Class::TransformedTwice => "transformed-twice",
            Class::NotTransformed => "not-transformed",
            Class::HighBack => "high-back",
            Class::StableBack => "stable-back",
            Class::StableAboveHigh => "stable-above-high",
            Class::HangingTransaction => "hanging-transaction",
            Class::ImpossibleAnswer => "impossible-answer",
            Class::WrittenTwice => "written-twice",
        }
    }
}

impl fmt::Display for Class {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// An anomaly, with the operations and values that show it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// The kind.
    pub class: Class,
    /// A description.
    pub text: String,
    /// The operations that show it.
    pub ops: Vec<OpId>,
    /// The values that show it.
    pub values: Vec<Value>,
    /// The positions that show it.
    pub places: Vec<(Key, i64)>,
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.class, self.text)
    }
}
