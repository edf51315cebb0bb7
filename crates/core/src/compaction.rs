//! Log compaction: of a compacted topic the last record of each key stays.
//!
//! A pass looks at a partition from its first batch up to a bound, twice. First it notes the last offset of each key of
//! the part that no pass has seen yet ([`Keys`]); then it judges every batch and record ([`Pass`]). What stays is
//! written to a new run, and takes the place of the old batches at once.
//!
//! ```text
//!   first batch        dirty                 to         last stable   next offset
//!      │ seen by a pass   │ keys are noted    │ too new     │ undecided    │
//!      ├──────────────────┼───────────────────┼─────────────┼──────────────┤
//! ```
//!
//! What a reader can rely on: no offset of a record changes; the order of records does not change; of each key the last
//! committed value is there, or its tombstone until `delete.retention.ms` have passed since a pass first saw it; the
//! last batch of a partition is there, if only as an empty batch, so that a reader arrives at the end.

mod due;
mod keys;
mod pass;
mod plan;

pub use due::{Cleanable, Stretch, cleanable};
pub use keys::Keys;
pub use pass::{BatchFacts, Control, Outcome, Pass, RecordFacts, RemainingBatch};
pub use plan::Compactable;
pub(crate) use plan::plan;
