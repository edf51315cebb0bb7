//! Masks secrets in frames before they are reported: each byte becomes `*`, so that sizes stay as they are.
//! Secrets are SASL exchanges, salted passwords and the keys of delegation tokens.

use bytes::{Bytes, BytesMut};
use ottla_wire::messages::{
    AlterUserScramCredentialsRequest, CreateDelegationTokenResponse, DescribeDelegationTokenResponse,
    ExpireDelegationTokenRequest, RenewDelegationTokenRequest, SaslAuthenticateRequest,
    SaslAuthenticateResponse,
};
use ottla_wire::{ApiKey, Message, Reader, frame};

/// Bytes of the size in front of a frame.
const SIZE: usize = 4;
/// Bytes of the size and of the shortest header: the correlation id, in requests also API and version.
const SHORTEST_RESPONSE_HEAD: usize = 8;
const SHORTEST_REQUEST_HEAD: usize = 12;

/// The request with its secrets masked; the frame itself if it has none. If a request that has secrets cannot be
/// decoded, everything after its header is masked.
pub(crate) fn request(key: ApiKey, version: i16, whole: &Bytes) -> Bytes {
    let secrets = match key {
        ApiKey::SASL_AUTHENTICATE => {
            in_request(whole, version, |m: &SaslAuthenticateRequest| vec![m.auth_bytes.clone()])
        }
        ApiKey::RENEW_DELEGATION_TOKEN => {
            in_request(whole, version, |m: &RenewDelegationTokenRequest| vec![m.hmac.clone()])
        }
        ApiKey::EXPIRE_DELEGATION_TOKEN => {
            in_request(whole, version, |m: &ExpireDelegationTokenRequest| vec![m.hmac.clone()])
        }
        ApiKey::ALTER_USER_SCRAM_CREDENTIALS => {
            in_request(whole, version, |m: &AlterUserScramCredentialsRequest| {
                m.upsertions.iter().flat_map(|one| [one.salt.clone(), one.salted_password.clone()]).collect()
            })
        }
        // It may be a SASL token without a header.
        _ if key.info().is_none() => None,
        _ => return whole.clone(),
    };
    masked(whole, secrets, SHORTEST_REQUEST_HEAD)
}

/// The response with its secrets masked, as in [`request`].
pub(crate) fn response(key: ApiKey, version: i16, whole: &Bytes) -> Bytes {
    let secrets = match key {
        ApiKey::SASL_AUTHENTICATE => {
            in_response(key, version, whole, |m: &SaslAuthenticateResponse| vec![m.auth_bytes.clone()])
        }
        ApiKey::CREATE_DELEGATION_TOKEN => {
            in_response(key, version, whole, |m: &CreateDelegationTokenResponse| vec![m.hmac.clone()])
        }
        ApiKey::DESCRIBE_DELEGATION_TOKEN => {
            in_response(key, version, whole, |m: &DescribeDelegationTokenResponse| {
                m.tokens.iter().map(|one| one.hmac.clone()).collect()
            })
        }
        _ if key.info().is_none() => None,
        _ => return whole.clone(),
    };
    masked(whole, secrets, SHORTEST_RESPONSE_HEAD)
}

/// A SASL token without a header: everything after the size is masked.
pub(crate) fn token(whole: &Bytes) -> Bytes {
    masked(whole, None, SIZE)
}

fn in_request<M: Message>(
    whole: &Bytes,
    version: i16,
    secrets: impl Fn(&M) -> Vec<Bytes>,
) -> Option<Vec<Bytes>> {
    let (_, mut body) = frame::read_request_header(&content(whole)).ok()?;
    read(&mut body, version, secrets)
}

fn in_response<M: Message>(
    key: ApiKey,
    version: i16,
    whole: &Bytes,
    secrets: impl Fn(&M) -> Vec<Bytes>,
) -> Option<Vec<Bytes>> {
    let (_, mut body) = frame::read_response_header(&content(whole), key, version).ok()?;
    read(&mut body, version, secrets)
}

/// The secrets of a message; `None` if it cannot be decoded or bytes follow it.
fn read<M: Message>(
    body: &mut Reader,
    version: i16,
    secrets: impl Fn(&M) -> Vec<Bytes>,
) -> Option<Vec<Bytes>> {
    let message = M::decode(body, version).ok()?;
    (body.remaining() == 0).then(|| secrets(&message))
}

fn content(whole: &Bytes) -> Bytes {
    whole.slice(whole.len().min(SIZE)..)
}

/// Fills the secrets, which are slices of the frame, with stars; without a list, everything after the first `head`
/// bytes.
fn masked(whole: &Bytes, secrets: Option<Vec<Bytes>>, head: usize) -> Bytes {
    let mut copy = BytesMut::from(&whole[..]);
    match secrets {
        None => copy.get_mut(head..).unwrap_or_default().fill(STAR),
        Some(secrets) => {
            for secret in secrets.iter().filter(|secret| !secret.is_empty()) {
                let from = (secret.as_ptr() as usize).wrapping_sub(whole.as_ptr() as usize);
                let range = from..from.saturating_add(secret.len());
                copy.get_mut(range).unwrap_or_default().fill(STAR);
            }
        }
    }
    copy.freeze()
}

/// Replaces each secret byte.
const STAR: u8 = b'*';

#[cfg(test)]
mod tests {
    use super::*;
    use ottla_wire::Text;
    use ottla_wire::messages::alter_user_scram_credentials_request::ScramCredentialUpsertion;

    #[test]
    fn the_bytes_of_sasl_become_stars_and_nothing_else_changes() {
        let message = |auth: &'static [u8]| SaslAuthenticateRequest {
            auth_bytes: Bytes::from_static(auth),
            ..SaslAuthenticateRequest::default()
        };
        let client = Text::from_static("me");
        for version in 0..=2 {
            let frame = |auth| frame::request(7, Some(&client), &message(auth), version).unwrap().to_bytes();
            let seen = request(ApiKey::SASL_AUTHENTICATE, version, &frame(b"\0max\0secret"));
            assert_eq!(seen, frame(b"***********"));
        }
    }

    #[test]
    fn salt_and_password_of_every_user_become_stars() {
        let one = |salt: &'static [u8], password: &'static [u8]| ScramCredentialUpsertion {
            salt: Bytes::from_static(salt),
            salted_password: Bytes::from_static(password),
            ..ScramCredentialUpsertion::default()
        };
        let frame = |upsertions| {
            let message = AlterUserScramCredentialsRequest { upsertions, ..Default::default() };
            frame::request(7, None, &message, 0).unwrap().to_bytes()
        };
        let seen = request(
            ApiKey::ALTER_USER_SCRAM_CREDENTIALS,
            0,
            &frame(vec![one(b"ab", b"cde"), one(b"", b"f")]),
        );
        assert_eq!(seen, frame(vec![one(b"**", b"***"), one(b"", b"*")]));
    }

    #[test]
    fn what_cannot_be_read_is_masked_whole() {
        let cut = Bytes::from_static(b"\0\0\0\x0c\0\x24\0\x02\0\0\0\x07\xff\xff\0\x09");
        let seen = request(ApiKey::SASL_AUTHENTICATE, 2, &cut);
        assert_eq!(&seen[..], b"\0\0\0\x0c\0\x24\0\x02\0\0\0\x07****");
        assert_eq!(&token(&Bytes::from_static(b"\0\0\0\x02ab"))[..], b"\0\0\0\x02**");
        assert_eq!(&response(ApiKey::SASL_AUTHENTICATE, 2, &Bytes::from_static(b"\0"))[..], b"\0");
    }

    #[test]
    fn other_frames_are_not_copied() {
        let frame = Bytes::from_static(b"\0\0\0\x0a\0\x12\0\0\0\0\0\x07\xff\xff");
        assert_eq!(request(ApiKey::API_VERSIONS, 0, &frame).as_ptr(), frame.as_ptr());
    }
}
