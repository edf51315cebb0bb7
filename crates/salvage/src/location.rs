//! Locations in the files of a folder, and damage found there.

use crate::SalvageError;
use ottla_layout::Geometry;
use ottla_store::RunError;
use ottla_store::inspect::{self, Folder};
use std::fmt;

/// A byte of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Location {
    /// Name of the file in the folder.
    pub file: String,
    /// Offset in the file, in bytes.
    pub offset: u64,
}

impl Location {
    pub(crate) fn new(file: impl Into<String>, offset: u64) -> Location {
        Location { file: file.into(), offset }
    }

    /// The location of a position of the log.
    pub(crate) fn in_log(geometry: Geometry, position: u64) -> Location {
        let file = Folder::segment_name(geometry.segment_of(position));
        Location { file, offset: geometry.offset_of(position) }
    }
}

impl fmt::Display for Location {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:0x{:08x}", self.file, self.offset)
    }
}

/// Damage in a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Damage {
    /// The first byte that is known to be affected, or the start of what it belongs to.
    pub location: Location,
    /// What was found there.
    pub reason: String,
    /// Where the log continues after damaged groups.
    pub resumes: Option<Location>,
    /// How many groups are missing, if the sequence numbers of the groups around them show it.
    pub missing_groups: Option<u64>,
}

impl Damage {
    pub(crate) fn new(location: Location, reason: impl Into<String>) -> Damage {
        Damage { location, reason: reason.into(), resumes: None, missing_groups: None }
    }

    /// Damage between groups of the log.
    pub(crate) fn in_log(geometry: Geometry, damage: inspect::Damage) -> Damage {
        Damage {
            location: Location::in_log(geometry, damage.at),
            reason: damage.reason,
            resumes: damage.to.map(|position| Location::in_log(geometry, position)),
            missing_groups: damage.groups,
        }
    }

    /// The damage of a run, or that the medium failed. `file` is reported for errors that name no file.
    pub(crate) fn of_run(file: &str, error: RunError) -> Result<Damage, SalvageError> {
        match error {
            RunError::Medium { .. } => Err(SalvageError::Run(error)),
            RunError::Damaged { file, offset, what } => Ok(Damage::new(Location::new(file, offset), what)),
            RunError::Freed { .. } | RunError::InvalidInput { .. } => {
                Ok(Damage::new(Location::new(file, 0), error.to_string()))
            }
        }
    }
}
