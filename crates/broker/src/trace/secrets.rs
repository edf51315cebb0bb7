//! Overwrites the secrets of frames before the trace keeps them. [`ottla_wire::secrets`] finds them.

use bytes::{Bytes, BytesMut};
use ottla_wire::ApiKey;
use ottla_wire::secrets::{Secrets, has_secrets};
use ottla_wire::tables::Direction;

/// The byte that replaces each byte of a secret.
const MASK: u8 = b'*';
/// Length prefix, API and version: the part of a request of an unknown API that is kept. The frame may be a SASL token
/// without a header.
const HEAD: usize = 8;

/// Whether frames of this API may have secrets, so that all their bytes must be examined.
pub(super) fn may_have_any(api: ApiKey) -> bool {
    api.info().is_none() || has_secrets(api)
}

/// Overwrites the secrets of a whole frame, its length prefix included, and the bytes that cannot be decoded and may be
/// secret.
pub(super) fn mask(frame: &mut BytesMut, api: ApiKey, version: i16, direction: Direction) {
    if api.info().is_none() {
        frame.iter_mut().skip(HEAD).for_each(|byte| *byte = MASK);
        return;
    }
    if !has_secrets(api) {
        return;
    }
    let secrets = Secrets::find(api, version, direction, &Bytes::copy_from_slice(frame));
    for range in secrets.fields.into_iter().chain(secrets.undecoded) {
        frame[range].fill(MASK);
    }
}
