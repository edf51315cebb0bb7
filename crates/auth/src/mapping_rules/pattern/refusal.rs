//! What this module refuses in a pattern (S-58).

/// Why a pattern was refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(super) enum Refusal {
    #[error("`{0}` is not supported")]
    Unsupported(&'static str),
    #[error("the escape `\\{0}` is not supported")]
    Escape(char),
    #[error("a backslash ends it")]
    LastBackslash,
    #[error("an escape needs hexadecimal digits of one character")]
    CodePoint,
    #[error("a character class has no end, or no member")]
    UnclosedClass,
    #[error("a character range is out of order, or has an end that is no character")]
    Range,
    #[error("a parenthesis has no counterpart")]
    Parenthesis,
    #[error("a quantifier follows nothing that can be repeated")]
    DanglingQuantifier,
    #[error("a quantifier in braces is not of the form {{n}}, {{n,}} or {{n,m}}")]
    Braces,
    #[error("a group's name is not of letters and digits, or appears twice")]
    GroupName,
}
