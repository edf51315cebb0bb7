//! The bytes on the medium: identity, segments, groups, records, runs and snapshots of the log, and the plan of a
//! recovery. It must not know how a file is read or written, what time it is, or what a record means to the broker.
//!
//! Everything here is little-endian unless it is a Kafka batch. `docs/internals/format.md` describes the format without
//! the code. Tags and versions are frozen: a change is a new version, and the old one can still be read.
#![forbid(unsafe_code)]

pub mod explain;
mod geometry;
mod group;
mod identity;
mod read;
pub mod record;
pub mod recover;
pub mod run;
mod segment;
pub mod snapshot;
mod span;

pub use geometry::{BLOCK, Geometry, GeometryError, align_up};
pub use group::{
    Entry, GROUP_CAP, GROUP_FORMAT, GROUP_HEADER, Group, GroupError, GroupHeader, open_group, peek_group,
    seal_group,
};
pub use identity::{IDENTITY_LEN, Identity, IdentityError};
pub use segment::{SEGMENT_FORMAT, SegmentError, SegmentHeader};
