//! DescribeUserScramCredentials 0: the mechanisms and iterations of users, never their keys (KIP-554).

use super::authorization::Verdict;
use crate::authorizer::{Resource, Rights};
use crate::context::Context;
use crate::host::HostGone;
use crate::session::Session;
use ottla_types::acl::Operation;
use ottla_wire::messages::describe_user_scram_credentials_request::UserName;
use ottla_wire::messages::describe_user_scram_credentials_response::{
    CredentialInfo, DescribeUserScramCredentialsResult,
};
use ottla_wire::messages::{DescribeUserScramCredentialsRequest, DescribeUserScramCredentialsResponse};
use ottla_wire::{ErrorCode, Text};
use std::collections::BTreeMap;

/// S-144, S-145: DESCRIBE on the cluster.
pub(crate) fn authorize(
    request: &mut DescribeUserScramCredentialsRequest,
    rights: &Rights<'_>,
    _version: i16,
) -> Verdict<DescribeUserScramCredentialsResponse> {
    let code = ErrorCode::CLUSTER_AUTHORIZATION_FAILED;
    Verdict::when(rights.allows(Operation::Describe, Resource::Cluster), || {
        let row = |_: &UserName| DescribeUserScramCredentialsResult {
            error_code: code.0,
            error_message: None,
            ..Default::default()
        };
        DescribeUserScramCredentialsResponse {
            error_code: code.0,
            error_message: None,
            results: request.users.iter().flatten().map(row).collect(),
            ..Default::default()
        }
    })
}

pub(crate) async fn answer(
    ctx: &Context,
    _session: &Session,
    request: DescribeUserScramCredentialsRequest,
    _version: i16,
) -> Result<DescribeUserScramCredentialsResponse, HostGone> {
    let look = ctx.shards.catalog().read(|shard, _| {
        let users = shard.users().all().map(|(user, credentials)| {
            let infos = credentials.values().map(|one| (one.mechanism.number(), one.iterations));
            (user.to_owned(), infos.collect::<Vec<_>>())
        });
        users.collect::<BTreeMap<String, Vec<(u8, i32)>>>()
    });
    let known = look.await?;
    let wanted: Vec<Text> = match request.users.filter(|users| !users.is_empty()) {
        Some(users) => users.into_iter().map(|user| user.name).collect(),
        None => known.keys().map(|name| Text::from(name.as_str())).collect(),
    };
    let mut counts: BTreeMap<&Text, usize> = BTreeMap::new();
    wanted.iter().for_each(|name| *counts.entry(name).or_default() += 1);
    let result = |(name, count): (&Text, usize)| {
        if count > 1 {
            let why = format!("the user '{name}' is named twice");
            return refused(name.clone(), ErrorCode::DUPLICATE_RESOURCE, &why);
        }
        let Some(infos) = known.get(&**name) else {
            let why = format!("there is no user '{name}' with SCRAM credentials");
            return refused(name.clone(), ErrorCode::RESOURCE_NOT_FOUND, &why);
        };
        let info = |(mechanism, iterations): &(u8, i32)| CredentialInfo {
            mechanism: i8::try_from(*mechanism).unwrap_or(0),
            iterations: *iterations,
            ..Default::default()
        };
        let credential_infos = infos.iter().map(info).collect();
        DescribeUserScramCredentialsResult { user: name.clone(), credential_infos, ..Default::default() }
    };
    let results = counts.into_iter().map(result).collect();
    Ok(DescribeUserScramCredentialsResponse { results, ..Default::default() })
}

fn refused(user: Text, code: ErrorCode, why: &str) -> DescribeUserScramCredentialsResult {
    DescribeUserScramCredentialsResult {
        user,
        error_code: code.0,
        error_message: Some(Text::from(why)),
        ..Default::default()
    }
}
