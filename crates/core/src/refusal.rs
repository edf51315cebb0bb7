//! Why something was refused: a rule, and words with the values at hand.

use std::fmt::Display;

/// The reason of a refusal. Its text says what was found and what would have been right.
pub trait Refusal: Display {
    /// The rule of the specification of transactions that decided, `T-33` for example; none if it is not one of those.
    fn rule(&self) -> Option<&'static str>;
}
