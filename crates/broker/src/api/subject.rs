//! The names of refused things in verdicts. The text is made only for requests that are traced.

use ottla_core::Refusal;
use ottla_wire::{Text, Uuid};
use std::fmt::{self, Display};

/// A partition: of a topic by name, or by id where the message has no name.
pub(super) struct Partition<'a>(pub(super) &'a Text, pub(super) Uuid, pub(super) i32);

/// `transactional id "x"`.
pub(super) struct TransactionalId<'a>(pub(super) &'a Text);

/// `group "g"`, and its member if one is named.
pub(super) struct Member<'a>(pub(super) &'a Text, pub(super) &'a Text);

/// `topic "t"`.
pub(super) struct Topic<'a>(pub(super) &'a Text);

/// The first inside the second, as a partition in a transaction.
pub(super) struct In<A, B>(pub(super) A, pub(super) B);

impl<A: Display, B: Display> Display for In<A, B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}, {}", self.1, self.0)
    }
}

/// A refusal that an API decides without the core: its rule and its reason.
pub(super) struct Reason<T>(pub(super) Option<&'static str>, pub(super) T);

impl Display for Partition<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0.is_empty() {
            write!(f, "{}-{}", self.1, self.2)
        } else {
            write!(f, "{}-{}", self.0, self.2)
        }
    }
}

impl Display for TransactionalId<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "transactional id {:?}", self.0)
    }
}

impl Display for Member<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "group {:?}", self.0)?;
        if self.1.is_empty() { Ok(()) } else { write!(f, ", member {:?}", self.1) }
    }
}

impl Display for Topic<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "topic {:?}", self.0)
    }
}

impl<T: Display> Display for Reason<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.1.fmt(f)
    }
}

impl<T: Display> Refusal for Reason<T> {
    fn rule(&self) -> Option<&'static str> {
        self.0
    }
}
