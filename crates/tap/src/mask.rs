//! Masks secrets in frames before they are reported: each byte becomes `*`, so that sizes stay as they are. The secret
//! fields are those that schemas/about.toml marks; [`ottla_wire::secrets`] finds them.

use bytes::{Bytes, BytesMut};
use ottla_wire::ApiKey;
use ottla_wire::secrets::{Secrets, has_secrets};
use ottla_wire::tables::Direction;
use std::ops::Range;

/// Bytes of the size in front of a frame.
const SIZE: usize = 4;
/// Bytes of the size and of the shortest header: the correlation id, in requests also API and version.
const SHORTEST_RESPONSE_HEAD: usize = 8;
const SHORTEST_REQUEST_HEAD: usize = 12;
/// Replaces each secret byte.
const STAR: u8 = b'*';

/// The request with its secrets masked; the frame itself if its API has none. If a request that can have secrets cannot
/// be decoded, everything after its header is masked.
pub(crate) fn request(key: ApiKey, version: i16, whole: &Bytes) -> Bytes {
    mask_fields(key, version, Direction::Request, whole)
}

/// The response with its secrets masked, as in [`request`].
pub(crate) fn response(key: ApiKey, version: i16, whole: &Bytes) -> Bytes {
    mask_fields(key, version, Direction::Response, whole)
}

/// A SASL token without a header: everything after the size is masked.
pub(crate) fn token(whole: &Bytes) -> Bytes {
    fill(whole, std::iter::once(SIZE..whole.len()))
}

fn mask_fields(key: ApiKey, version: i16, direction: Direction, whole: &Bytes) -> Bytes {
    let is_known = key.info().is_some();
    if is_known && !has_secrets(key) {
        return whole.clone();
    }
    let secrets = Secrets::find(key, version, direction, whole);
    // A frame of an unknown API may be a SASL token without a header.
    if is_known && !secrets.malformed && secrets.undecoded.is_empty() {
        return fill(whole, secrets.fields);
    }
    let head = match direction {
        Direction::Request => SHORTEST_REQUEST_HEAD,
        Direction::Response => SHORTEST_RESPONSE_HEAD,
    };
    fill(whole, std::iter::once(head..whole.len()))
}

/// Fills ranges of the frame with stars.
fn fill(whole: &Bytes, ranges: impl IntoIterator<Item = Range<usize>>) -> Bytes {
    let mut copy = BytesMut::from(&whole[..]);
    for range in ranges {
        copy.get_mut(range).unwrap_or_default().fill(STAR);
    }
    copy.freeze()
}

#[cfg(test)]
mod tests {
    use super::*;
    use ottla_wire::messages::alter_user_scram_credentials_request::ScramCredentialUpsertion;
    use ottla_wire::messages::{
        AlterUserScramCredentialsRequest, CreateDelegationTokenResponse, SaslAuthenticateRequest,
    };
    use ottla_wire::{Text, frame};

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

    /// The fields of this response are shifted: it is malformed only at its last byte, and all bytes are decoded.
    #[test]
    fn a_response_that_is_malformed_at_its_end_is_masked_whole() {
        let sent = Bytes::from_static(b"\0\0\0\x18\0\x24\0\x02\0\x24\0\x02\0\x02me\0\x07secret\0");
        let seen = response(ApiKey::SASL_AUTHENTICATE, 2, &sent);
        assert_eq!(&seen[..8], &sent[..8]);
        assert!(seen[8..].iter().all(|byte| *byte == STAR), "{seen:?}");
    }

    #[test]
    fn an_unknown_version_is_masked_whole() {
        let sent = Bytes::from_static(b"\0\0\0\x0a\0\0\0\x07secret");
        assert_eq!(&response(ApiKey::SASL_AUTHENTICATE, 99, &sent)[..], b"\0\0\0\x0a\0\0\0\x07******");
        let sent = Bytes::from_static(b"\0\0\0\x10\0\x24\0\x63\0\0\0\x07\xff\xffsecret");
        assert_eq!(
            &request(ApiKey::SASL_AUTHENTICATE, 99, &sent)[..],
            b"\0\0\0\x10\0\x24\0\x63\0\0\0\x07********"
        );
    }

    #[test]
    fn the_key_of_a_new_token_becomes_stars() {
        let message = |hmac: &'static [u8]| CreateDelegationTokenResponse {
            hmac: Bytes::from_static(hmac),
            ..CreateDelegationTokenResponse::default()
        };
        for version in 1..=3 {
            let frame = |hmac| frame::response(7, &message(hmac), version).unwrap().to_bytes();
            assert_eq!(response(ApiKey::CREATE_DELEGATION_TOKEN, version, &frame(b"abc")), frame(b"***"));
        }
    }
}
