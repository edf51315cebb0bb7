//! The number of an API.

/// The number of an API, such as 0 for Produce. Any number is a value; the numbers that the schemas know have
/// constants.
///
/// [`ApiKey::info`] looks up what the schemas say about it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ApiKey(pub i16);
