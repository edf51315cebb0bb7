//! The records of client quotas.

/// A record of client quotas.
#[derive(Clone, Debug, PartialEq)]
pub enum QuotaRecord {
    /// The quotas of an entity were replaced.
    QuotasChanged(QuotasChanged),
}

/// The quotas of an entity, replaced whole.
#[derive(Clone, Debug, PartialEq)]
pub struct QuotasChanged {
    /// The type and name of each component, sorted by type. A name is none for the default of the type.
    pub entity: Vec<(String, Option<String>)>,
    /// Key and limit, sorted by key. The limit is stored as the bits of a 64-bit float. None remains if it is empty.
    pub limits: Vec<(String, u64)>,
}
