//! ApiVersions 0-5: the APIs that are served, and the features of the cluster.
//! Left out: group.version, share.version and streams.version, which say that the newer group protocols are served.

use super::advertised;
use crate::context::Context;
use crate::session::Session;
use ottla_wire::messages::api_versions_response::{ApiVersion, FinalizedFeatureKey, SupportedFeatureKey};
use ottla_wire::messages::{ApiVersionsRequest, ApiVersionsResponse};
use ottla_wire::{ApiKey, ErrorCode, Text, Versions};

/// A feature (KIP-584): the supported range, and the finalized level.
struct Feature {
    name: &'static str,
    supported: (i16, i16),
    level: i16,
}

/// The features of the cluster. Clients use transaction version 2 if `transaction.version` is at level 2 (T-03). Tools
/// take the version of Apache Kafka from `metadata.version`, whose level is 33 for 4.4.
const FEATURES: &[Feature] = &[
    Feature { name: "metadata.version", supported: (7, 33), level: 33 },
    Feature { name: "transaction.version", supported: (0, 2), level: 2 },
];

/// Features never change while the broker runs. Clients ignore an epoch below 0 (T-04).
const FEATURES_EPOCH: i64 = 0;

pub(crate) async fn answer(
    ctx: &Context,
    _session: &Session,
    request: ApiVersionsRequest,
    version: i16,
) -> ApiVersionsResponse {
    match refused(ctx, &request, version) {
        Some(error) => ApiVersionsResponse { error_code: error.0, ..Default::default() },
        None => served(version),
    }
}

/// The response to a version that is not served: in version 0, with the versions of this API only (KIP-511).
pub(crate) fn unknown_version() -> ApiVersionsResponse {
    let own = advertised().filter(|(key, _)| *key == ApiKey::API_VERSIONS);
    ApiVersionsResponse {
        error_code: ErrorCode::UNSUPPORTED_VERSION.0,
        api_keys: own.map(row).collect(),
        ..Default::default()
    }
}

fn refused(ctx: &Context, request: &ApiVersionsRequest, version: i16) -> Option<ErrorCode> {
    let names = [&request.client_software_name, &request.client_software_version];
    if version >= 3 && !names.into_iter().all(|name| is_software_name(name)) {
        return Some(ErrorCode::INVALID_REQUEST);
    }
    // KIP-1242: a client may name the cluster and the node that it expects, either both or neither.
    match (&request.cluster_id, request.node_id) {
        (None, -1) => None,
        (None, _) | (Some(_), -1) => Some(ErrorCode::INVALID_REQUEST),
        (Some(cluster), node) if *cluster == ctx.cluster_id && node == ctx.node_id => None,
        _ => Some(ErrorCode::REBOOTSTRAP_REQUIRED),
    }
}

/// Letters, digits, '-' and '.', with a letter or digit at both ends.
fn is_software_name(name: &str) -> bool {
    let alphanumeric = |c: Option<&u8>| c.is_some_and(u8::is_ascii_alphanumeric);
    let bytes = name.as_bytes();
    alphanumeric(bytes.first())
        && alphanumeric(bytes.last())
        && bytes.iter().all(|c| c.is_ascii_alphanumeric() || matches!(c, b'-' | b'.'))
}

fn row((key, versions): (ApiKey, Versions)) -> ApiVersion {
    ApiVersion { api_key: key.0, min_version: versions.min, max_version: versions.max, ..Default::default() }
}

fn served(version: i16) -> ApiVersionsResponse {
    ApiVersionsResponse {
        api_keys: advertised().map(row).collect(),
        supported_features: supported(version),
        finalized_features_epoch: FEATURES_EPOCH,
        finalized_features: FEATURES.iter().map(finalized).collect(),
        ..Default::default()
    }
}

/// Before version 4, features that start at 0 are left out: older clients fail on them (KAFKA-17011).
fn supported(version: i16) -> Vec<SupportedFeatureKey> {
    let shown = FEATURES.iter().filter(|feature| version >= 4 || feature.supported.0 > 0);
    shown
        .map(|feature| SupportedFeatureKey {
            name: Text::from_static(feature.name),
            min_version: feature.supported.0,
            max_version: feature.supported.1,
            ..Default::default()
        })
        .collect()
}

/// The lowest and highest level of a feature.
pub(super) fn supported_levels(feature: &str) -> Option<(i16, i16)> {
    FEATURES.iter().find(|known| known.name == feature).map(|known| known.supported)
}

/// The level of a feature that is in force.
pub(super) fn finalized_level(feature: &str) -> Option<i16> {
    FEATURES.iter().find(|known| known.name == feature).map(|known| known.level)
}

fn finalized(feature: &Feature) -> FinalizedFeatureKey {
    FinalizedFeatureKey {
        name: Text::from_static(feature.name),
        max_version_level: feature.level,
        min_version_level: feature.level,
        ..Default::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn software_names_are_checked() {
        for good in ["a", "apache-kafka-java", "4.4.0", "x-1.y"] {
            assert!(is_software_name(good), "{good}");
        }
        for bad in ["", "-a", "a-", ".", "a b", "a_b", "ä"] {
            assert!(!is_software_name(bad), "{bad}");
        }
    }

    #[test]
    fn features_from_level_0_are_shown_from_version_4_on() {
        let names = |version| supported(version).into_iter().map(|f| f.name.to_string()).collect::<Vec<_>>();
        assert_eq!(names(3), ["metadata.version"]);
        assert_eq!(names(4), ["metadata.version", "transaction.version"]);
    }

    #[test]
    fn t_03_t_04_transaction_version_2_is_finalized_at_an_epoch_that_clients_heed() {
        let response = served(3);
        let transactions = response.finalized_features.iter().find(|f| f.name == "transaction.version");
        assert_eq!(transactions.unwrap().max_version_level, 2);
        assert!(response.finalized_features_epoch >= 0);
    }
}
