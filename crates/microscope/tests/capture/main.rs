//! Captures built here, read as conversations: loss, disorder, repetition, every cut, every kind of link.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod conversations;
mod files;
mod hostile;
mod real;
mod speed;
mod support;
