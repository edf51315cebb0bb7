//! API numbers and what is known about each.

use crate::{API_TABLE, Versions, tables};
use std::fmt;

/// The number of an API: open, with constants for the known ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ApiKey(pub i16);

impl ApiKey {
    /// What is known about it; `None` for a number that no schema has.
    pub fn info(self) -> Option<&'static ApiInfo> {
        let place = usize::try_from(self.0).ok()?;
        // The numbers have no holes today; search if that ever changes.
        match API_TABLE.get(place) {
            Some(info) if info.key == self => Some(info),
            _ => API_TABLE.iter().find(|info| info.key == self),
        }
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
#[derive(Debug)]
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
}

/// The version of the header in front of a request: 2 for flexible versions, else 1; 0 for ControlledShutdown version 0 alone.
/// A version above the known ones counts as flexible if the highest known one is. `None` for an unknown API.
pub fn request_header_version(key: ApiKey, version: i16) -> Option<i16> {
    const CONTROLLED_SHUTDOWN: ApiKey = ApiKey(7);
    let info = key.info()?;
    if key == CONTROLLED_SHUTDOWN && version == 0 {
        return Some(0);
    }
    Some(if since(info.request_flexible, version) { 2 } else { 1 })
}

/// The version of the header in front of a response: 1 for flexible versions, else 0; always 0 for ApiVersions, so that a
/// client can read the answer to a version that the broker does not know. `None` for an unknown API.
pub fn response_header_version(key: ApiKey, version: i16) -> Option<i16> {
    let info = key.info()?;
    Some(if key != ApiKey::API_VERSIONS && since(info.response_flexible, version) { 1 } else { 0 })
}

fn since(flexible: Versions, version: i16) -> bool {
    !flexible.is_empty() && version >= flexible.min
}
