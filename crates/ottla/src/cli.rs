//! The command line: one table of commands and flags, and the flags that commands share.
//!
//! Exit status: 0 done, 1 failed (one sentence on standard error says what, where and what to do), 2 wrong usage, 3 for
//! faults that `ottla decode` found. `ottla log` has its own: 0 undamaged, 1 damaged, 2 unreadable.

mod apis;
mod consume;
mod decode;
mod demo;
mod encode;
mod errors;
mod explain;
mod failure;
mod format;
mod group;
mod log;
mod out;
mod produce;
mod schemas;
mod security;
mod site;
mod tap;
mod topic;
mod txn;
mod user;

use crate::terminal::say;
use clap::{Args, Subcommand, ValueEnum};
use failure::Failure;
use ottla_client::{Client, Options};
use out::Out;
use std::process::ExitCode;
use std::time::Duration;

/// The commands: first those that need a running cluster.
#[derive(Subcommand)]
pub(crate) enum Command {
    #[command(visible_alias = "topics")]
    Topic(topic::Topic),
    Produce(produce::Produce),
    Consume(consume::Consume),
    #[command(visible_alias = "groups")]
    Group(group::Group),
    #[command(visible_alias = "transactions")]
    Txn(txn::Txn),
    Demo(demo::Demo),
    Apis(apis::Apis),
    Errors(errors::Errors),
    Explain(explain::Explain),
    /// Write the reference as static pages.
    Site(site::WriteSite),
    Encode(encode::Encode),
    Decode(decode::Decode),
    Tap(tap::Tap),
    Log(log::Log),
    #[command(visible_alias = "users")]
    User(user::User),
}

/// The cluster, and the form of the output.
#[derive(Args)]
struct Connect {
    /// Brokers to connect to first, as HOST:PORT, separated by commas; the default port is 9092.
    #[arg(
        short = 'b',
        long,
        global = true,
        value_name = "HOST:PORT",
        env = "OTTLA_BOOTSTRAP_SERVER",
        default_value = "127.0.0.1:9092",
        help_heading = "Cluster"
    )]
    bootstrap_server: String,
    /// How long to retry before the command fails, in seconds.
    #[arg(long, global = true, value_name = "SECONDS", default_value_t = 30, help_heading = "Cluster")]
    timeout: u64,
    /// Form of the output: aligned text, or JSON for programs.
    #[arg(short, long, global = true, value_enum, default_value_t = Output::Text, help_heading = "Output")]
    output: Output,
    #[command(flatten)]
    security: security::SecurityFlags,
}

/// Form of the output.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Output {
    /// Aligned text.
    Text,
    /// JSON: one document, or one object per line for a stream of records.
    Json,
}

impl Connect {
    async fn client(&self) -> Result<Client, Failure> {
        let timeout = Duration::from_secs(self.timeout.max(1));
        let security = self.security.security()?;
        let client_id = "ottla-cli".to_owned();
        let options = Options { client_id, request_timeout: timeout, patience: timeout, security };
        Ok(Client::connect_with(&self.bootstrap_server, options).await?)
    }

    fn is_json(&self) -> bool {
        self.output == Output::Json
    }
}

/// Runs a command, reports a failure, and returns the exit status.
pub(crate) fn run(command: Command) -> ExitCode {
    let mut out = Out::stdout();
    let done = execute(command, &mut out).and_then(|()| Ok(out.flush()?));
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) if failure.is_quiet() => ExitCode::SUCCESS,
        Err(failure) => {
            // Output printed before the failure is kept.
            let _ = out.flush();
            say(failure.to_string());
            ExitCode::from(failure.status())
        }
    }
}

fn execute(command: Command, out: &mut Out) -> Result<(), Failure> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| Failure::new(format!("cannot start: {error}")))?;
    runtime.block_on(async {
        match command {
            Command::Topic(command) => command.run(out).await,
            Command::Produce(command) => command.run(out).await,
            Command::Consume(command) => command.run(out).await,
            Command::Group(command) => command.run(out).await,
            Command::Txn(command) => command.run(out).await,
            Command::Demo(command) => command.run(out).await,
            Command::Apis(command) => command.run(out),
            Command::Errors(command) => command.run(out),
            Command::Explain(command) => command.run(out),
            Command::Site(command) => command.run(out),
            Command::Encode(command) => command.run(out),
            Command::Decode(command) => command.run(out),
            Command::Tap(command) => command.run(out).await,
            Command::Log(command) => command.run(out),
            Command::User(command) => command.run(out).await,
        }
    })
}

/// Parses `NAME=VALUE` of flags for configurations and headers.
fn name_and_value(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((name, value)) if !name.is_empty() => Ok((name.to_owned(), value.to_owned())),
        _ => Err("expected NAME=VALUE".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::{CommandFactory, Parser};

    #[derive(Parser)]
    #[command(name = "ottla")]
    struct Cli {
        #[command(subcommand)]
        _command: Command,
    }

    /// The commands that need no cluster.
    const ALONE: [&str; 14] = [
        "ottla serve",
        "ottla apis",
        "ottla errors",
        "ottla explain",
        "ottla site",
        "ottla encode",
        "ottla decode",
        "ottla tap",
        "ottla log dump",
        "ottla log verify",
        "ottla log salvage",
        "ottla user add",
        "ottla user delete",
        "ottla user list",
    ];

    /// Every command with the words that lead to it.
    fn commands() -> Vec<(String, clap::Command)> {
        fn walk(path: &str, command: &clap::Command, found: &mut Vec<(String, clap::Command)>) {
            let path = format!("{path} {}", command.get_name()).trim().to_owned();
            command.get_subcommands().for_each(|child| walk(&path, child, found));
            found.push((path, command.clone()));
        }
        let mut root = Cli::command();
        root.build();
        let mut found = Vec::new();
        walk("", &root, &mut found);
        found
    }

    #[test]
    fn the_table_of_commands_is_sound() {
        Cli::command().debug_assert();
    }

    #[test]
    fn every_command_and_flag_says_what_it_is_for() {
        let commands = commands();
        assert!(commands.len() > 20, "only {} commands", commands.len());
        for (path, command) in commands.iter().filter(|(path, _)| !path.split(' ').any(|word| word == "help"))
        {
            let about = command.get_about().map(ToString::to_string).unwrap_or_default();
            assert!(about.len() > 10, "`{path}` has no help");
            for argument in command.get_arguments() {
                let help = argument.get_help().map(ToString::to_string).unwrap_or_default();
                assert!(!help.is_empty(), "`{path}`: {} has no help", argument.get_id());
            }
        }
    }

    #[test]
    fn the_page_of_commands_names_every_command_and_flag() {
        let page = include_str!("../../../docs/guide/commands.md");
        for (path, command) in commands() {
            if path == "ottla" || path.contains("help") {
                continue;
            }
            assert!(page.contains(&format!("`{path}")) || page.contains(&format!("    {path}")), "`{path}`");
            for flag in command.get_arguments().filter_map(|argument| argument.get_long()) {
                assert!(flag == "help" || page.contains(&format!("--{flag}")), "`{path}`: --{flag}");
            }
        }
    }

    #[test]
    fn every_command_that_talks_to_a_cluster_takes_the_shared_flags() {
        for (path, command) in commands() {
            let alone = ALONE.contains(&path.as_str());
            if command.has_subcommands() || path.contains("help") || alone {
                continue;
            }
            for flag in ["bootstrap_server", "output", "timeout"] {
                let has = command.get_arguments().any(|argument| argument.get_id() == flag);
                assert!(has, "`{path}` lacks {flag}");
            }
        }
    }

    #[test]
    fn names_and_values_are_split_at_the_first_equals_sign() {
        assert_eq!(name_and_value("a=b=c"), Ok(("a".to_owned(), "b=c".to_owned())));
        assert_eq!(name_and_value("a="), Ok(("a".to_owned(), String::new())));
        assert!(name_and_value("=b").is_err());
        assert!(name_and_value("a").is_err());
    }
}
