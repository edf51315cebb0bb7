//! Tests of the log through its public face: what it does when all is well, and what it makes of faults.

mod common;
mod crash;
mod damage;
mod faults;
mod log;
mod run_faults;
mod runs;
mod threads;
