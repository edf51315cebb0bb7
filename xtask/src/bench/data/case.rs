//! One measurement: the broker it runs against, its length and its topic.

use super::Pace;
use super::sides::Running;

/// A measurement.
pub(super) struct Case<'a> {
    pub(super) broker: &'a Running,
    pub(super) pace: &'a Pace,
    pub(super) topic: String,
}
