//! The description of a configuration key of the broker.

use super::check::Kind;

/// A configuration key of the broker.
#[derive(Clone, Copy, Debug)]
pub struct BrokerKey {
    /// Kafka's name, or `ottla.…` for our own.
    pub name: &'static str,
    /// The values it takes.
    pub kind: Kind,
    /// Its default; empty for none.
    pub default: &'static str,
    /// True if it can be changed while the broker runs.
    pub dynamic: bool,
    /// False if the key is accepted and shown, but changes nothing in this broker.
    pub has_effect: bool,
    /// What it does.
    pub doc: &'static str,
}
