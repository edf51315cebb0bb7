//! `ottla log dump`: everything that a data folder holds.

use super::FolderArgument;
use super::filter::Filter;
use super::printer::{Printer, Show};
use super::runs::print_runs;
use crate::cli::failure::Failure;
use crate::cli::out::Out;
use clap::Args;
use ottla_salvage::visit;

/// Show what a data folder holds: identity, snapshots, segments, groups and every entry.
///
/// Each is one line by default, beginning with file and offset. Damage is reported and reading continues after it; the
/// exit status is then 1. It is 2 if the folder cannot be read at all.
#[derive(Args)]
pub(super) struct Dump {
    #[command(flatten)]
    folder: FolderArgument,
    #[command(flatten)]
    filter: Filter,
    #[command(flatten)]
    show: Show,
}

impl Dump {
    pub(super) fn run(self, out: &mut Out) -> Result<(), Failure> {
        let folder = self.folder.open()?;
        let mut printer = Printer::new(out, self.show, self.filter);
        visit(&folder, &mut |item| printer.item(&item))?;
        print_runs(&mut printer, &folder)?;
        match printer.damaged {
            0 => Ok(()),
            1 => Err(Failure::damaged("the folder is damaged in 1 place, see above")),
            many => Err(Failure::damaged(format!("the folder is damaged in {many} places, see above"))),
        }
    }
}
