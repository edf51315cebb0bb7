//! Tests of the log through its public API, without and with faults.

mod common;
mod crash;
mod damage;
mod faults;
mod log;
mod run_faults;
mod runs;
mod threads;
