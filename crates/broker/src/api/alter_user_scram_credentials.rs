//! AlterUserScramCredentials 0: stores and removes SCRAM credentials; one result a user (KIP-554). The client sends the
//! salted password, of which the keys are kept.

use super::AnswerError;
use super::authorization::{CLUSTER_DENIED, Verdict};
use crate::authorizer::{Resource, Rights};
use crate::context::Context;
use crate::session::Session;
use bytes::Bytes;
use ottla_auth::scram::{Credential, Mechanism};
use ottla_auth::secret::Secret;
use ottla_core::users::{AlterScram, ScramChange};
use ottla_types::acl::Operation;
use ottla_types::record::{ScramCredential, ScramMechanism};
use ottla_wire::messages::alter_user_scram_credentials_request::{
    ScramCredentialDeletion, ScramCredentialUpsertion,
};
use ottla_wire::messages::alter_user_scram_credentials_response::AlterUserScramCredentialsResult;
use ottla_wire::messages::{AlterUserScramCredentialsRequest, AlterUserScramCredentialsResponse};
use ottla_wire::{ErrorCode, Text};
use std::collections::BTreeMap;

/// The iterations that are accepted (S-142).
const ITERATIONS: std::ops::RangeInclusive<i32> = 4096..=16_384;
/// The shortest salt, in bytes (S-143).
const SHORTEST_SALT: usize = 8;

/// S-140: ALTER on the cluster.
pub(crate) fn authorize(
    request: &mut AlterUserScramCredentialsRequest,
    rights: &Rights<'_>,
    _version: i16,
) -> Verdict<AlterUserScramCredentialsResponse> {
    Verdict::when(rights.allows(Operation::Alter, Resource::Cluster), || {
        let why = ErrorCode(CLUSTER_DENIED).meaning();
        let results = users(request).into_keys().map(|user| row(user, ErrorCode(CLUSTER_DENIED), why));
        AlterUserScramCredentialsResponse { results: results.collect(), ..Default::default() }
    })
}

pub(crate) async fn answer(
    ctx: &Context,
    session: &Session,
    request: AlterUserScramCredentialsRequest,
    _version: i16,
) -> Result<AlterUserScramCredentialsResponse, AnswerError> {
    let counts = users(&request);
    let deletions = request.deletions.iter().map(|one| (one.name.clone(), deletion(one)));
    let upsertions = request.upsertions.iter().map(|one| (one.name.clone(), upsertion(one)));
    let mut results = Vec::with_capacity(counts.len());
    let (mut names, mut changes) = (Vec::new(), Vec::new());
    for (name, judged) in deletions.chain(upsertions) {
        // S-141: the unit is the user.
        if counts.get(&name).is_some_and(|count| *count > 1) {
            continue;
        }
        match judged {
            Ok(change) => {
                changes.push(change);
                names.push(name);
            }
            Err((code, why)) => results.push(row(name, code, why)),
        }
    }
    let twice = counts.into_iter().filter(|(_, count)| *count > 1);
    results.extend(twice.map(|(name, _)| {
        row(name, ErrorCode::DUPLICATE_RESOURCE, "a user cannot be altered twice in one request")
    }));
    let judged = ctx.shards.catalog().submit(AlterScram { changes }).await?;
    results.extend(names.into_iter().zip(judged).map(|(name, result)| match result {
        Ok(()) => {
            tracing::info!(
                principal = session.principal(), host = %session.host(), user = ?&*name, "SCRAM credentials are changed"
            );
            AlterUserScramCredentialsResult { user: name, error_message: None, ..Default::default() }
        }
        Err(_) => {
            row(name, ErrorCode::RESOURCE_NOT_FOUND, "the user has no credential of this mechanism to delete")
        }
    }));
    results.sort_by(|one, other| one.user.cmp(&other.user));
    Ok(AlterUserScramCredentialsResponse { results, ..Default::default() })
}

/// How often each user is named.
fn users(request: &AlterUserScramCredentialsRequest) -> BTreeMap<Text, usize> {
    let mut counts = BTreeMap::new();
    let deletions = request.deletions.iter().map(|one| &one.name);
    for name in deletions.chain(request.upsertions.iter().map(|one| &one.name)) {
        *counts.entry(name.clone()).or_default() += 1;
    }
    counts
}

type ChangeResult = Result<ScramChange, (ErrorCode, &'static str)>;

fn deletion(one: &ScramCredentialDeletion) -> ChangeResult {
    check_name(&one.name)?;
    Ok(ScramChange::Remove(String::from(&one.name), mechanism(one.mechanism)?))
}

fn upsertion(one: &ScramCredentialUpsertion) -> ChangeResult {
    check_name(&one.name)?;
    let mechanism = mechanism(one.mechanism)?;
    if one.iterations < *ITERATIONS.start() {
        return Err((ErrorCode::UNACCEPTABLE_CREDENTIAL, "there are too few iterations, 4096 is the least"));
    }
    if one.iterations > *ITERATIONS.end() {
        return Err((ErrorCode::UNACCEPTABLE_CREDENTIAL, "there are too many iterations, 16384 is the most"));
    }
    let scram = match mechanism {
        ScramMechanism::Sha256 => Mechanism::Sha256,
        ScramMechanism::Sha512 => Mechanism::Sha512,
    };
    if one.salt.len() < SHORTEST_SALT || one.salted_password.len() != scram.hash_length() {
        return Err((
            ErrorCode::UNACCEPTABLE_CREDENTIAL,
            "the salt needs 8 bytes at least, and the salted password the length of the mechanism's hash",
        ));
    }
    let is_wire_safe = one.name.bytes().all(|byte| (b' '..=b'~').contains(&byte));
    if !is_wire_safe {
        return Err((
            ErrorCode::UNACCEPTABLE_CREDENTIAL,
            "a user with this name could never log in: use ASCII",
        ));
    }
    let iterations = u32::try_from(one.iterations).unwrap_or(0);
    let password = Secret::new(one.salted_password.to_vec());
    let keys = Credential::from_salted_password(scram, &password, one.salt.to_vec(), iterations);
    Ok(ScramChange::Store(ScramCredential {
        user: String::from(&one.name),
        mechanism,
        salt: Bytes::from(keys.salt),
        iterations: one.iterations,
        stored_key: Bytes::from(keys.stored_key),
        server_key: Bytes::from(keys.server_key),
    }))
}

fn check_name(name: &Text) -> Result<(), (ErrorCode, &'static str)> {
    if name.is_empty() {
        return Err((ErrorCode::UNACCEPTABLE_CREDENTIAL, "a user needs a name"));
    }
    Ok(())
}

fn mechanism(number: i8) -> Result<ScramMechanism, (ErrorCode, &'static str)> {
    let known = u8::try_from(number).ok().and_then(ScramMechanism::from_number);
    known.ok_or((ErrorCode::UNSUPPORTED_SASL_MECHANISM, "the mechanism is not SCRAM-SHA-256 (1) or -512 (2)"))
}

fn row(user: Text, code: ErrorCode, why: &str) -> AlterUserScramCredentialsResult {
    AlterUserScramCredentialsResult {
        user,
        error_code: code.0,
        error_message: Some(Text::from(why)),
        ..Default::default()
    }
}
