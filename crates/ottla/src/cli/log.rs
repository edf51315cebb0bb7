//! `ottla log`: the data folder of a broker that does not run, shown, verified, salvaged.
//!
//! The folder is locked as a broker locks it, so a running broker refuses these commands, and they keep one from
//! starting.

mod dump;
mod filter;
mod json;
mod line;
mod printer;
mod runs;
mod salvage;
mod tree;
mod verify;

use super::failure::Failure;
use super::out::Out;
use clap::{Args, Subcommand};
use ottla_salvage::{Damage, Folder};
use std::path::PathBuf;

/// Show, verify and salvage the data folder of a stopped broker.
#[derive(Args)]
pub(crate) struct Log {
    #[command(subcommand)]
    command: LogCommand,
}

#[derive(Subcommand)]
enum LogCommand {
    Dump(dump::Dump),
    Verify(verify::Verify),
    Salvage(salvage::Salvage),
}

impl Log {
    pub(super) fn run(self, out: &mut Out) -> Result<(), Failure> {
        match self.command {
            LogCommand::Dump(command) => command.run(out),
            LogCommand::Verify(command) => command.run(out),
            LogCommand::Salvage(command) => command.run(out),
        }
    }
}

/// The folder.
#[derive(Args)]
struct FolderArgument {
    /// The data folder of a stopped broker.
    #[arg(value_name = "FOLDER", env = "OTTLA_DATA", default_value = "ottla-data")]
    folder: PathBuf,
}

impl FolderArgument {
    /// Locks the folder. Nothing in it is changed.
    fn open(&self) -> Result<Folder, Failure> {
        Ok(ottla_salvage::open(&self.folder)?)
    }
}

/// A location in a file, as every line of these commands begins with it.
fn location(file: &str, offset: u64) -> String {
    format!("{file}:0x{offset:08x}")
}

/// What is damaged, and where the log continues after it.
fn damage_text(damage: &Damage) -> String {
    let mut text = damage.reason.clone();
    if let Some(location) = &damage.resumes {
        text += &format!("; the log continues at {location}");
    }
    if let Some(groups) = damage.missing_groups {
        let groups = usize::try_from(groups).unwrap_or(usize::MAX);
        text += &format!(", {} missing", line::counted(groups, "group"));
    }
    text
}
