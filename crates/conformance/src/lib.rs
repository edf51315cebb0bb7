//! The same requests to two brokers, as raw frames, and every field of every answer compared.
//! It must not know how a broker works inside: it has an address, scripts, and a list of the differences that are
//! meant.
//!
//! - [`script`]: what is asked, as text; [`mutate`] makes many requests of one; [`random`] writes whole scripts by
//!   chance; [`request`] makes frames of all of them.
//! - [`peer`]: connections to a broker; [`player`] plays scripts on it and gives the exchanges.
//! - [`normal`]: names for what may differ between two brokers: ids, times, addresses.
//! - [`compare`]: answers held against each other; [`differences`]: the list of what may be unlike, and its page.
//! - [`parting`]: the differences that only random histories show.
//! - [`transcript`]: the exchanges with a broker, kept as lines of JSON.

#![forbid(unsafe_code)]

pub mod compare;
pub mod differences;
pub mod mutate;
pub mod normal;
pub mod parting;
pub mod peer;
pub mod player;
pub mod random;
pub mod request;
pub mod script;
pub mod suite;
pub mod transcript;
