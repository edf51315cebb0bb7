//! API numbers and what is known about each.

use crate::Versions;
use crate::tables::{self, TableSet};
use std::fmt;

/// The number of an API: open, with constants for the known ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ApiKey(pub i16);

impl ApiKey {
    /// What is known about it; `None` for a number that no schema has.
    pub fn info(self) -> Option<&'static ApiInfo> {
        TableSet::built_in().api(self)
    }

    /// The name, such as `Produce`; `unknown` for a number that no schema has.
    pub fn name(self) -> &'static str {
        self.info().map_or("unknown", |info| info.name)
    }
}

impl fmt::Display for ApiKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({})", self.name(), self.0)
    }
}

/// What the schemas say about an API.
#[derive(Clone, Debug)]
pub struct ApiInfo {
    /// Its number.
    pub key: ApiKey,
    /// Its name, without `Request`.
    pub name: &'static str,
    /// The versions of its request; empty when the API was removed.
    pub request_versions: Versions,
    /// The versions of its response.
    pub response_versions: Versions,
    /// The flexible versions of its request.
    pub request_flexible: Versions,
    /// The flexible versions of its response.
    pub response_flexible: Versions,
    /// The kinds of listener that answer it: `broker`, `controller`.
    pub listeners: &'static [&'static str],
    /// Whether its highest version is served only when unstable versions are enabled.
    pub latest_version_unstable: bool,
    /// The table of its request, unless removed.
    pub request: Option<&'static tables::MessageTable>,
    /// The table of its response, unless removed.
    pub response: Option<&'static tables::MessageTable>,
}

impl ApiInfo {
    /// The versions without an unstable one at the top.
    pub fn stable_versions(&self) -> Versions {
        let Versions { min, max } = self.request_versions;
        Versions::new(min, if self.latest_version_unstable { max - 1 } else { max })
    }

    /// The version of the header in front of its request: 2 for flexible versions, else 1; 0 for ControlledShutdown version 0
    /// alone. A version above the known ones counts as flexible if the highest known one is.
    pub fn request_header_version(&self, version: i16) -> i16 {
        const CONTROLLED_SHUTDOWN: ApiKey = ApiKey(7);
        if self.key == CONTROLLED_SHUTDOWN && version == 0 {
            return 0;
        }
        if since(self.request_flexible, version) { 2 } else { 1 }
    }

    /// The version of the header in front of its response: 1 for flexible versions, else 0; always 0 for ApiVersions, so that
    /// a client can read the answer to a version that the broker does not know.
    pub fn response_header_version(&self, version: i16) -> i16 {
        if self.key != ApiKey::API_VERSIONS && since(self.response_flexible, version) { 1 } else { 0 }
    }
}

/// See [`ApiInfo::request_header_version`]; `None` for an unknown API.
pub fn request_header_version(key: ApiKey, version: i16) -> Option<i16> {
    Some(key.info()?.request_header_version(version))
}

/// See [`ApiInfo::response_header_version`]; `None` for an unknown API.
pub fn response_header_version(key: ApiKey, version: i16) -> Option<i16> {
    Some(key.info()?.response_header_version(version))
}

fn since(flexible: Versions, version: i16) -> bool {
    !flexible.is_empty() && version >= flexible.min
}
