//! The version of each API: the newest that both this client and the broker support.

use crate::error::ClientError;
use ottla_wire::messages::{ApiVersionsRequest, ApiVersionsResponse};
use ottla_wire::{ApiKey, Request, Versions};
use std::collections::HashMap;

/// The API versions and features in a broker's ApiVersions response.
#[derive(Default)]
pub(crate) struct BrokerVersions {
    ranges: HashMap<i16, Versions>,
    finalized: HashMap<String, i16>,
}

impl BrokerVersions {
    /// The newest version of `R` that the broker, this client and `within` have in common.
    pub(crate) fn choose<R: Request>(&self, peer: &str, within: Versions) -> Result<i16, ClientError> {
        let ours = ours::<R>(within);
        let theirs = self.ranges.get(&R::KEY.0).copied().unwrap_or(Versions::NONE);
        let best = ours.max.min(theirs.max);
        if best >= ours.min && best >= theirs.min {
            return Ok(best);
        }
        Err(ClientError::Unsupported { peer: peer.to_owned(), api: R::KEY.name(), ours, theirs })
    }

    /// The level at which the cluster has finalized a feature, 0 if it has not (T-03).
    pub(crate) fn finalized(&self, feature: &str) -> i16 {
        self.finalized.get(feature).copied().unwrap_or(0)
    }
}

impl From<ApiVersionsResponse> for BrokerVersions {
    fn from(answer: ApiVersionsResponse) -> BrokerVersions {
        let range = |key: &ottla_wire::messages::api_versions_response::ApiVersion| {
            (key.api_key, Versions::new(key.min_version, key.max_version))
        };
        let finalized = answer.finalized_features.iter().filter(|_| answer.finalized_features_epoch >= 0);
        BrokerVersions {
            ranges: answer.api_keys.iter().map(range).collect(),
            finalized: finalized.map(|f| (f.name.to_string(), f.max_version_level)).collect(),
        }
    }
}

/// The ApiVersions row of an UNSUPPORTED_VERSION response; 0 from brokers that are too old to send one.
pub(crate) fn offered(answer: &ApiVersionsResponse) -> i16 {
    let row = answer.api_keys.iter().find(|row| row.api_key == ApiVersionsRequest::KEY.0);
    row.map_or(0, |row| row.max_version.max(0))
}

/// The versions of `R` that this client implements.
///
/// If an API has had two forms (one key or a list of keys), the client implements only the newer form.
/// AddPartitionsToTxn from version 4 on is for brokers only (T-80), and OffsetFetch from 10 on names topics by ids,
/// which can be resolved only for existing topics. A version that Kafka marks unstable is never used.
pub(crate) fn ours<R: Request>(within: Versions) -> Versions {
    let shape = match R::KEY {
        ApiKey::FIND_COORDINATOR => Versions::new(4, i16::MAX),
        ApiKey::OFFSET_FETCH => Versions::new(8, 9),
        ApiKey::LEAVE_GROUP => Versions::new(3, i16::MAX),
        ApiKey::DELETE_TOPICS => Versions::new(6, i16::MAX),
        ApiKey::ADD_PARTITIONS_TO_TXN => Versions::new(0, 3),
        _ => Versions::new(0, i16::MAX),
    };
    let stable = R::KEY.info().map_or(R::VERSIONS, |api| api.stable_versions());
    Versions::new(stable.min.max(shape.min).max(within.min), stable.max.min(shape.max).min(within.max))
}
