//! Why something was refused: the rule, and words with the values it was judged on.

use ottla_types::record::TransactionStatus;
use ottla_types::{Millis, Offset, ProducerEpoch, ProducerId};
use std::fmt::{self, Display};

/// The reason of a refusal. Displays the observed values and the conclusion.
pub trait Refusal: Display {
    /// The rule of the specification of transactions that decided, `T-33` for example; none if it is not one of those.
    fn rule(&self) -> Option<&'static str>;
}

/// A refusal: its kind, the rule that decided, and what it was judged on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rejection<E> {
    /// What kind of refusal it is; error codes are chosen by it.
    pub error: E,
    /// See [`Refusal::rule`].
    pub rule: Option<&'static str>,
    /// The values at hand.
    pub facts: Facts,
}

/// Values that something was judged on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "the text of each says what its fields are")]
pub enum Facts {
    /// No values.
    None,
    /// A producer's epoch.
    Epochs { producer_id: ProducerId, given: ProducerEpoch, current: ProducerEpoch },
    /// A producer id where one is expected.
    Producers { given: ProducerId, current: ProducerId },
    /// The id was never initialised, or it expired.
    UnknownId,
    /// The owner of a transactional id, and its epochs.
    Owner { given: (ProducerId, ProducerEpoch), current: (ProducerId, ProducerEpoch), last: ProducerEpoch },
    /// An open transaction that was aborted.
    Aborted { producer_id: ProducerId, epoch: ProducerEpoch },
    /// The state of a transaction.
    Status { status: TransactionStatus, commit: bool },
    /// A transaction that is open without a partition.
    Outside { status: TransactionStatus },
    /// The first sequence number of a batch.
    Sequence { producer_id: ProducerId, given: i32, expected: i32 },
    /// A transaction that is open at a partition since an offset.
    OpenSince { producer_id: ProducerId, start: Offset },
    /// A number within bounds.
    Bounds { given: i64, least: i64, most: i64 },
    /// A number with an upper bound.
    Most { given: i64, most: i64 },
    /// A timestamp and the broker's clock.
    Clock { given: Millis, now: Millis, most: Millis },
    /// The epoch of a coordinator.
    Coordinator { given: i32, current: i32 },
    /// The generation of a group.
    Generation { given: i32, current: i32 },
}

impl<E> Rejection<E> {
    pub(crate) fn by(rule: &'static str, error: E, facts: Facts) -> Rejection<E> {
        Rejection { error, rule: Some(rule), facts }
    }

    /// A refusal that no rule of the specification of transactions decides.
    pub(crate) fn on(error: E, facts: Facts) -> Rejection<E> {
        Rejection { error, rule: None, facts }
    }

    /// The same refusal as another kind.
    pub(crate) fn map<F>(self, change: impl FnOnce(E) -> F) -> Rejection<F> {
        Rejection { error: change(self.error), rule: self.rule, facts: self.facts }
    }
}

impl<E> From<E> for Rejection<E> {
    fn from(error: E) -> Rejection<E> {
        Rejection { error, rule: None, facts: Facts::None }
    }
}

impl<E: Display> Display for Rejection<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.facts != Facts::None {
            write!(f, "{}: ", self.facts)?;
        }
        self.error.fmt(f)
    }
}

impl<E: Display> Refusal for Rejection<E> {
    fn rule(&self) -> Option<&'static str> {
        self.rule
    }
}

impl Display for Facts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Facts::None => Ok(()),
            Facts::Epochs { producer_id: ProducerId(id), given, current } => {
                write!(f, "producer {id} has epoch {}, current is {}", given.0, current.0)
            }
            Facts::Producers { given, current } => {
                write!(f, "producer {} asks, the owner is producer {}", given.0, current.0)
            }
            Facts::UnknownId => f.write_str("the transactional id was never initialised, or has expired"),
            Facts::Owner { given: (id, epoch), current: (owner, current), last } => {
                write!(f, "producer {} asks with epoch {}, ", id.0, epoch.0)?;
                write!(f, "the owner is producer {} with epoch {}", owner.0, current.0)?;
                match last {
                    ProducerEpoch::NONE => f.write_str(", and no earlier epoch may retry"),
                    ProducerEpoch(last) => write!(f, ", and epoch {last} may retry"),
                }
            }
            Facts::Aborted { producer_id, epoch } => {
                write!(
                    f,
                    "the open transaction of producer {}, epoch {}, was aborted",
                    producer_id.0, epoch.0
                )
            }
            Facts::Status { status, commit } => {
                let how = if commit { "commit" } else { "abort" };
                write!(f, "the transaction is {status:?} and cannot {how}")
            }
            Facts::Outside { status } => write!(f, "the transaction is {status:?}"),
            Facts::Sequence { producer_id, given, expected } => {
                write!(f, "producer {} sent sequence {given}, expected {expected}", producer_id.0)
            }
            Facts::OpenSince { producer_id, start } => {
                write!(f, "producer {} has a transaction open here since offset {}", producer_id.0, start.0)
            }
            Facts::Bounds { given, least, most } => write!(f, "{given} is not between {least} and {most}"),
            Facts::Most { given, most } => write!(f, "{given} is more than {most}"),
            Facts::Clock { given, now, most } => {
                write!(f, "{} is more than {} ms from the broker's time {}", given.0, most.0, now.0)
            }
            Facts::Coordinator { given, current } => {
                write!(f, "the coordinator has epoch {given}, current is {current}")
            }
            Facts::Generation { given, current } => write!(f, "generation {given}, current is {current}"),
        }
    }
}

/// Gives the kinds of a refusal their words.
macro_rules! words {
    ($error:ty: $($kind:pat => $words:expr,)*) => {
        impl Display for $error {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(match self {
                    $($kind => $words,)*
                })
            }
        }
    };
}
pub(crate) use words;
