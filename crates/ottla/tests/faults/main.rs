//! Faults against the real binary. docs/internals/reliability.md says which line of the fault matrix each test belongs
//! to.
//!
//! Tests that need strace, root, a loop device or ten thousand file descriptors are ignored here; `cargo xtask faults`
//! runs them all, against the release build, which OTTLA_BINARY names.
#![expect(
    clippy::unwrap_used,
    reason = "helpers of tests; clippy.toml lets tests unwrap, but not their helpers"
)]

mod binary;
mod bombs;
mod full;
mod memory;
mod peers;
mod rot;
mod syscalls;
mod work;
