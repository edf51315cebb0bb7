//! UpdateFeatures 0-2: a feature keeps the level that this broker finalizes; every other level is refused.

use super::api_versions::{finalized_level, supported_levels};
use super::authorization::Verdict;
use crate::authorizer::{Resource, Rights};
use crate::context::Context;
use crate::session::Session;
use ottla_types::acl::Operation;
use ottla_wire::messages::update_features_request::FeatureUpdateKey;
use ottla_wire::messages::update_features_response::UpdatableFeatureResult;
use ottla_wire::messages::{UpdateFeaturesRequest, UpdateFeaturesResponse};
use ottla_wire::{ErrorCode, Text};

/// The types of an update from version 1 on: upgrade, safe downgrade, unsafe downgrade.
const UPGRADE_TYPES: std::ops::RangeInclusive<i8> = 1..=3;
const UPGRADE: i8 = 1;

/// S-353: ALTER on the cluster.
pub(crate) fn authorize(
    _request: &mut UpdateFeaturesRequest,
    rights: &Rights<'_>,
    _version: i16,
) -> Verdict<UpdateFeaturesResponse> {
    let code = ErrorCode::CLUSTER_AUTHORIZATION_FAILED;
    Verdict::when(rights.allows(Operation::Alter, Resource::Cluster), || refused(code, code.meaning()))
}

pub(crate) async fn answer(
    _ctx: &Context,
    _session: &Session,
    request: UpdateFeaturesRequest,
    version: i16,
) -> UpdateFeaturesResponse {
    let wrong = request.feature_updates.iter().find_map(|update| refusal(update, version));
    if let Some(why) = wrong {
        return refused(ErrorCode::INVALID_UPDATE_VERSION, &why);
    }
    let result = |update: FeatureUpdateKey| UpdatableFeatureResult {
        feature: update.feature,
        // Kafka sends the name of the error here, also for NONE.
        error_message: Some(Text::from_static("NONE")),
        ..Default::default()
    };
    let results = request.feature_updates.into_iter().filter(|_| version < 2).map(result).collect();
    UpdateFeaturesResponse { error_message: None, results, ..Default::default() }
}

/// Why an update is refused.
fn refusal(update: &FeatureUpdateKey, version: i16) -> Option<String> {
    let (feature, level) = (&*update.feature, update.max_version_level);
    let Some((_, highest)) = supported_levels(feature) else {
        return Some(format!("the feature '{feature}' is not known"));
    };
    if version >= 1 && !UPGRADE_TYPES.contains(&update.upgrade_type) {
        return Some(format!("no upgrade type has the number {}", update.upgrade_type));
    }
    let current = finalized_level(feature).unwrap_or(0);
    if !(0..=highest).contains(&level) {
        return Some(format!("the feature '{feature}' has no level {level}; the highest is {highest}"));
    }
    let only_up = if version >= 1 { update.upgrade_type == UPGRADE } else { !update.allow_downgrade };
    if level < current && only_up {
        return Some(format!(
            "the feature '{feature}' has level {current}, and {level} would be a downgrade"
        ));
    }
    (level != current)
        .then(|| format!("the feature '{feature}' has level {current}, the only one that this broker serves"))
}

fn refused(code: ErrorCode, why: &str) -> UpdateFeaturesResponse {
    UpdateFeaturesResponse { error_code: code.0, error_message: Some(Text::from(why)), ..Default::default() }
}
