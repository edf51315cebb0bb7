//! What the pages and the metrics read from the broker's shard, as plain values, and the one command that they submit.
//!
//! No other module of this crate names `ottla_core`. Each function runs a closure on the shard through the host, copies
//! what it needs, and returns rows that serialize; the shard is locked only while the closure runs.

pub(crate) mod abort;
pub(crate) mod blocking;
pub(crate) mod figures;
pub(crate) mod groups;
pub(crate) mod records;
pub(crate) mod summary;
pub(crate) mod topics;
pub(crate) mod transactions;
