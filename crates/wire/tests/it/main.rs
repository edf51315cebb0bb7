//! Tests of the public API of the wire crate, in one binary.

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
