//! Secrets in frames: found by the tables, overwritten before anything is kept.

use bytes::{Bytes, BytesMut};
use ottla_wire::ApiKey;
use ottla_wire::explain::{self, Explained, Node, Options};
use ottla_wire::tables::{Direction, TableSet};

/// What stands in the place of a secret.
const MASK: u8 = b'*';
/// The fields that hold secrets, by API.
const SECRETS: &[(ApiKey, &[&str])] = &[
    (ApiKey::SASL_AUTHENTICATE, &["AuthBytes"]),
    (ApiKey::ALTER_USER_SCRAM_CREDENTIALS, &["Salt", "SaltedPassword"]),
    (ApiKey::CREATE_DELEGATION_TOKEN, &["Hmac"]),
    (ApiKey::RENEW_DELEGATION_TOKEN, &["Hmac"]),
    (ApiKey::EXPIRE_DELEGATION_TOKEN, &["Hmac"]),
    (ApiKey::DESCRIBE_DELEGATION_TOKEN, &["Hmac"]),
];
/// Length prefix, API and version: what is left to see of a request whose API nobody knows. It may be SASL without any frame.
const HEAD: usize = 8;

/// Whether frames of this API need a look at all their bytes.
pub(super) fn has_any(api: ApiKey) -> bool {
    api.info().is_none() || fields(api).is_some()
}

fn fields(api: ApiKey) -> Option<&'static [&'static str]> {
    SECRETS.iter().find(|(key, _)| *key == api).map(|(_, fields)| *fields)
}

/// Overwrites the secrets of a whole frame, its length prefix included. What cannot be decoded of an API with secrets counts as
/// one.
pub(super) fn mask(frame: &mut BytesMut, api: ApiKey, version: i16, direction: Direction) {
    if api.info().is_none() {
        frame.iter_mut().skip(HEAD).for_each(|byte| *byte = MASK);
        return;
    }
    let Some(fields) = fields(api) else { return };
    let bytes = Bytes::copy_from_slice(frame);
    let (set, options) =
        (TableSet::built_in(), Options { records: false, nested: false, ..Options::default() });
    let explained = match direction {
        Direction::Request => explain::request(set, &bytes, &options),
        Direction::Response => explain::response(set, api, version, &bytes, &options),
    };
    let is_secret =
        |node: &&Node| node.source == 0 && (fields.contains(&node.name) || node.name == "undecoded");
    for node in explained.nodes().iter().filter(is_secret) {
        let (from, to) = content(&explained, node);
        frame[from..to].fill(MASK);
    }
}

/// Where the content of a node lies in the frame.
fn content(explained: &Explained, node: &Node) -> (usize, usize) {
    let end = (node.at + node.size) as usize;
    (end - explained.content(node).len(), end)
}
