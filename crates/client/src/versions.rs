//! Which version of each API to speak: what the schema has, what this client keeps to, what the broker offers.

use std::collections::HashMap;
use std::time::Duration;

use ottla_wire::messages::{ApiVersionsRequest, ApiVersionsResponse};
use ottla_wire::{ApiKey, ErrorCode, Request, Versions};

use crate::ClientError;
use crate::connection::{Connection, body};

/// What a broker said it serves.
#[derive(Default)]
pub(crate) struct Served {
    ranges: HashMap<i16, Versions>,
    finalized: HashMap<String, i16>,
}

impl Served {
    /// Asks with the newest version; an older broker answers in version 0, with error 35 and its own range.
    pub(crate) async fn ask(connection: &Connection, limit: Duration) -> Result<Served, ClientError> {
        let mut version = ours::<ApiVersionsRequest>(Versions::new(0, i16::MAX)).max;
        loop {
            let request = ApiVersionsRequest {
                client_software_name: "ottla".into(),
                client_software_version: env!("CARGO_PKG_VERSION").into(),
                ..Default::default()
            };
            let answer = connection.exchange(&request, version, limit).await?;
            let decoded = body::<ApiVersionsRequest>(&answer, version)
                .or_else(|_| body::<ApiVersionsRequest>(&answer, 0));
            let answer = decoded.map_err(|error| ClientError::Malformed {
                what: format!("answer to ApiVersions of {}", connection.peer()),
                reason: error.to_string(),
            })?;
            match ErrorCode(answer.error_code) {
                ErrorCode::NONE => return Ok(Served::from(answer)),
                ErrorCode::UNSUPPORTED_VERSION if version > 0 => version = offered(&answer).min(version - 1),
                code => {
                    let about = connection.peer().to_owned();
                    return Err(ClientError::Kafka { code, api: "ApiVersions", about, message: None });
                }
            }
        }
    }

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

impl From<ApiVersionsResponse> for Served {
    fn from(answer: ApiVersionsResponse) -> Served {
        let range = |key: &ottla_wire::messages::api_versions_response::ApiVersion| {
            (key.api_key, Versions::new(key.min_version, key.max_version))
        };
        let finalized = answer.finalized_features.iter().filter(|_| answer.finalized_features_epoch >= 0);
        Served {
            ranges: answer.api_keys.iter().map(range).collect(),
            finalized: finalized.map(|f| (f.name.to_string(), f.max_version_level)).collect(),
        }
    }
}

/// The ApiVersions row of an UNSUPPORTED_VERSION answer; 0 from brokers so old that they send none.
fn offered(answer: &ApiVersionsResponse) -> i16 {
    let row = answer.api_keys.iter().find(|row| row.api_key == ApiVersionsRequest::KEY.0);
    row.map_or(0, |row| row.max_version.max(0))
}

/// The versions of `R` that this client speaks.
///
/// Where an API once had two shapes (one key or a list of keys), only the newer shape is spoken. AddPartitionsToTxn from
/// version 4 on is for brokers only (T-80), and OffsetFetch from 10 on names topics by ids that only a living topic resolves.
/// A version that Kafka marks unstable is never used.
fn ours<R: Request>(within: Versions) -> Versions {
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
