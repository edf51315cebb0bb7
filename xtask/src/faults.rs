//! `cargo xtask faults`: the faults of crates/ottla/tests/faults against the release build, those too that need strace,
//! a loop device, root, or many file descriptors. docs/internals/reliability.md says which line of the fault matrix
//! each belongs to.

use crate::e2e::broker::build_ottla;
use crate::process;
use clap::Args;

/// Which faults.
#[derive(Args)]
pub(crate) struct Options {
    /// Only tests whose names contain this.
    only: Option<String>,
}

/// Installs what is needed and runs the tests with all they print.
pub(crate) fn run(options: &Options) -> Result<(), String> {
    process::install_package("strace")?;
    let (root, binary) = (process::root(), build_ottla()?);
    let test = "ulimit -n 20000 && exec cargo test --quiet -p ottla --test faults -- --include-ignored --nocapture --test-threads 1";
    let only = options.only.clone().unwrap_or_default();
    let (binary, script) = (format!("OTTLA_BINARY={}", binary.display()), format!("{test} \"$0\""));
    process::run(&root, &["env", &binary, "sh", "-c", &script, &only])
}
