//! Ids, numbers and the records of the log, shared by every crate. It must not know how any of them is encoded,
//! decided, stored or sent.
#![forbid(unsafe_code)]

pub mod acl;
mod batch;
mod ids;
pub mod record;

pub use batch::{BatchSummary, TimestampType};
pub use ids::{
    LogPosition, Millis, Offset, ProducerEpoch, ProducerId, TopicId, TopicPartition, next_sequence,
    sequence_after,
};
