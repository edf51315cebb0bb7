//! The wire crate from outside: one binary, a module per question.

mod batch;
mod bombs;
mod explain;
mod flexible;
mod golden;
mod hostile;
mod random;
mod refusals;
mod seeds;
mod selecting;
mod support;
