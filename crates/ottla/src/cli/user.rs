//! `ottla user`: the users of a stopped broker's data folder that log in with SCRAM.

use super::failure::Failure;
use super::out::Out;
use clap::{Args, Subcommand, ValueEnum};
use ottla::{NewUser, UserFolder};
use ottla_auth::scram::Mechanism;
use ottla_auth::secret::Secret;
use std::io::IsTerminal;
use std::path::PathBuf;

/// Make the first users of a broker: in the data folder, while the broker does not run.
#[derive(Args)]
pub(crate) struct User {
    #[command(subcommand)]
    command: UserCommand,
}

#[derive(Subcommand)]
enum UserCommand {
    Add(Add),
    Delete(Delete),
    List(List),
}

/// Store a user's SCRAM credential. Only keys that follow from the password are kept.
#[derive(Args)]
struct Add {
    /// Name of the user.
    name: String,
    #[command(flatten)]
    folder: FolderFlag,
    /// File with the password; without it, the password is read from standard input.
    #[arg(long, value_name = "FILE")]
    password_file: Option<PathBuf>,
    /// SASL mechanism that the user logs in with.
    #[arg(long, value_enum, default_value_t = ScramName::ScramSha512)]
    mechanism: ScramName,
    /// Rounds of hashing. More rounds slow down an attacker who has stolen the data folder, and each login.
    #[arg(long, value_name = "N", default_value_t = 8192, value_parser = clap::value_parser!(u32).range(4096..=16384))]
    iterations: u32,
}

/// Remove all credentials of a user.
#[derive(Args)]
struct Delete {
    /// Name of the user.
    name: String,
    #[command(flatten)]
    folder: FolderFlag,
}

/// List the users with their mechanisms.
#[derive(Args)]
struct List {
    #[command(flatten)]
    folder: FolderFlag,
}

#[derive(Args)]
struct FolderFlag {
    /// Data folder of the stopped broker; created if it does not exist.
    #[arg(long, value_name = "FOLDER", env = "OTTLA_DATA", default_value = "ottla-data")]
    data: PathBuf,
}

/// A SCRAM mechanism by its name in SASL.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum ScramName {
    #[value(name = "SCRAM-SHA-256")]
    ScramSha256,
    #[value(name = "SCRAM-SHA-512")]
    ScramSha512,
}

impl User {
    pub(super) async fn run(self, out: &mut Out) -> Result<(), Failure> {
        match self.command {
            UserCommand::Add(command) => command.run(out).await,
            UserCommand::Delete(command) => command.run(out).await,
            UserCommand::List(command) => command.run(out).await,
        }
    }
}

impl FolderFlag {
    fn open(&self) -> Result<UserFolder, Failure> {
        let opened = UserFolder::open(&self.data);
        opened.map_err(|error| {
            Failure::new(error.to_string())
                .remedy("while a broker runs, use kafka-configs --entity-type users on it")
        })
    }
}

impl Add {
    async fn run(self, out: &mut Out) -> Result<(), Failure> {
        let is_wire_safe = |byte: u8| (b' '..=b'~').contains(&byte);
        if self.name.is_empty() || !self.name.bytes().all(is_wire_safe) {
            return Err(Failure::new("the name of a user must be printable ASCII, else it could not log in"));
        }
        let password = self.password()?;
        let mechanism = match self.mechanism {
            ScramName::ScramSha256 => Mechanism::Sha256,
            ScramName::ScramSha512 => Mechanism::Sha512,
        };
        let user = NewUser { name: self.name, mechanism, iterations: self.iterations, password };
        let folder = self.folder.open()?;
        folder.store(&user).await.map_err(|error| Failure::new(error.to_string()))?;
        out.line(format!("user {} can log in with {}", user.name, mechanism.name()))?;
        Ok(())
    }

    /// The first line of the file, or of standard input.
    fn password(&self) -> Result<Secret, Failure> {
        let read = match &self.password_file {
            Some(path) => std::fs::read_to_string(path)
                .map_err(|error| Failure::new(format!("{}: {error}", path.display())))?,
            None => {
                if std::io::stdin().is_terminal() {
                    eprintln!("Password, then Enter (it is shown; use --password-file to avoid that):");
                }
                let mut text = String::new();
                let read = std::io::stdin().read_line(&mut text);
                read.map_err(|error| Failure::new(format!("standard input: {error}")))?;
                text
            }
        };
        let password = read.lines().next().unwrap_or_default();
        if password.is_empty() {
            return Err(Failure::new("the password is empty").remedy("give it on standard input"));
        }
        Ok(Secret::new(password))
    }
}

impl Delete {
    async fn run(self, out: &mut Out) -> Result<(), Failure> {
        let removed = self.folder.open()?.remove(&self.name).await;
        if !removed.map_err(|error| Failure::new(error.to_string()))? {
            return Err(
                Failure::new(format!("there is no user {}", self.name)).remedy("ottla user list shows all")
            );
        }
        out.line(format!("user {} is deleted", self.name))?;
        Ok(())
    }
}

impl List {
    async fn run(self, out: &mut Out) -> Result<(), Failure> {
        let users = self.folder.open()?.users().await.map_err(|error| Failure::new(error.to_string()))?;
        for user in users {
            let mechanisms: Vec<String> = user
                .mechanisms
                .iter()
                .map(|(name, rounds)| format!("{name} ({rounds} iterations)"))
                .collect();
            out.line(format!("{}  {}", user.name, mechanisms.join(", ")))?;
        }
        Ok(())
    }
}
