//! Lookups in the tables that the build script generated from `schemas/`.

use crate::messages::{API_TABLE, MESSAGE_TABLES};
use crate::{ApiInfo, ApiKey, TableSet};
use std::fmt;

static BUILT_IN: TableSet = TableSet::new(API_TABLE, MESSAGE_TABLES);

impl TableSet {
    /// The tables that the broker serves with.
    pub fn built_in() -> &'static TableSet {
        &BUILT_IN
    }
}

impl ApiKey {
    /// What the schemas say about the API; `None` for a number that no schema has.
    pub fn info(self) -> Option<&'static ApiInfo> {
        TableSet::built_in().api(self)
    }

    /// The API's name, such as `Produce`; `unknown` for a number that no schema has.
    pub fn name(self) -> &'static str {
        self.info().map_or("unknown", |info| info.name)
    }
}

impl fmt::Display for ApiKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({})", self.name(), self.0)
    }
}

/// The header version of a request, see [`ApiInfo::request_header_version`]; `None` for an unknown API.
pub fn request_header_version(key: ApiKey, version: i16) -> Option<i16> {
    Some(key.info()?.request_header_version(version))
}

/// The header version of a response, see [`ApiInfo::response_header_version`]; `None` for an unknown API.
pub fn response_header_version(key: ApiKey, version: i16) -> Option<i16> {
    Some(key.info()?.response_header_version(version))
}
