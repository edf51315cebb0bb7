//! Ranges of versions.

use std::fmt;
use std::ops::RangeInclusive;

/// A range of versions, both ends included; empty when `max` is below `min`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Versions {
    /// The lowest version.
    pub min: i16,
    /// The highest version.
    pub max: i16,
}

impl Versions {
    /// No version: the API was removed, or no version is flexible.
    pub const NONE: Versions = Versions { min: 0, max: -1 };

    /// The versions from `min` to `max`.
    pub const fn new(min: i16, max: i16) -> Versions {
        Versions { min, max }
    }

    /// Whether there is no version in the range.
    pub const fn is_empty(self) -> bool {
        self.max < self.min
    }

    /// Whether the version is in the range.
    #[inline]
    pub const fn contains(self, version: i16) -> bool {
        self.min <= version && version <= self.max
    }

    /// Every version in the range, ascending.
    pub fn iter(self) -> RangeInclusive<i16> {
        self.min..=self.max
    }
}

impl fmt::Display for Versions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            v if v.is_empty() => write!(f, "none"),
            Versions { min, max } if min == max => write!(f, "{min}"),
            Versions { min, max } => write!(f, "{min}-{max}"),
        }
    }
}
