//! The load of `cargo xtask bench data`: one run of the program measures one cell, which NAME=VALUE words describe, and
//! prints one line of figures.

mod fetch;
mod histogram;
mod link;
mod procstat;
mod produce;
mod settings;
mod setup;
mod single;
pub(crate) mod template;

use settings::Settings;

/// Produces for a time, at full speed or at a rate.
pub(crate) fn produce(words: &[&str]) -> Result<(), String> {
    produce::run(&Settings::parse(words)?)
}

/// Fetches for a time, or until everything is read.
pub(crate) fn fetch(words: &[&str]) -> Result<(), String> {
    fetch::run(&Settings::parse(words)?)
}

/// Sends record after record, each when a consumer has the one before.
pub(crate) fn single(words: &[&str]) -> Result<(), String> {
    single::run(&Settings::parse(words)?)
}

/// Creates a topic, or deletes it.
pub(crate) fn topic(words: &[&str]) -> Result<(), String> {
    setup::topic(&Settings::parse(words)?)
}
