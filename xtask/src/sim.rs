//! `cargo xtask sim`: runs seeds of the simulator, release build, until one fails or the time is over.

use clap::Args;
use std::process::Command;

/// What to run.
#[derive(Args)]
pub(crate) struct Options {
    /// How many seeds, each run twice.
    #[arg(long, default_value_t = 1000)]
    seeds: u64,
    /// Stop after so many minutes.
    #[arg(long)]
    minutes: Option<f64>,
    /// Only this seed.
    #[arg(long)]
    seed: Option<u64>,
    /// The first seed, where there are many.
    #[arg(long, default_value_t = 0, conflicts_with = "seed")]
    from: u64,
    /// Plant bugs in a copy of the sources and see whether the simulator finds each within a minute (--minutes to
    /// change that).
    #[arg(long, conflicts_with_all = ["seed", "from", "seeds"])]
    planted: bool,
    /// With --planted: only these bugs.
    #[arg(requires = "planted")]
    bugs: Vec<String>,
}

/// Builds the simulator and lets it print rate, figures, and the first seed that fails with the command that repeats
/// it.
pub(crate) fn run(options: &Options) -> Result<(), String> {
    if options.planted {
        return crate::planted::run(&options.bugs, options.minutes.unwrap_or(1.0));
    }
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.args(["run", "--release", "--quiet", "--package", "ottla-sim", "--"]);
    match options.seed {
        Some(seed) => command.arg("--seed").arg(seed.to_string()),
        None => {
            command.arg("--from").arg(options.from.to_string());
            command.arg("--seeds").arg(options.seeds.to_string())
        }
    };
    if let Some(minutes) = options.minutes {
        command.arg("--minutes").arg(minutes.to_string());
    }
    let status = command.status().map_err(|error| format!("cargo run: {error}"))?;
    if status.success() { Ok(()) } else { Err("a promise was broken in simulation".to_owned()) }
}
