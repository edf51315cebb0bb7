//! Finds the secrets in frames: the values of the fields that `[secrets]` in schemas/about.toml marks.

use crate::ApiKey;
use crate::explain::{self, Explanation, Node, Options};
use crate::tables::{Direction, TableSet};
use bytes::Bytes;
use std::ops::Range;

/// The secrets of a frame.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Secrets {
    /// The positions of the values of the secret fields in the frame.
    pub fields: Vec<Range<usize>>,
    /// The bytes that cannot be decoded. They may contain secrets.
    pub undecoded: Vec<Range<usize>>,
    /// True if the frame is malformed. Then any byte after the header may be part of a secret.
    pub malformed: bool,
}

impl Secrets {
    /// Finds the secrets of a whole frame, its length prefix included. The version is that of the request.
    pub fn find(api: ApiKey, version: i16, direction: Direction, frame: &Bytes) -> Secrets {
        let set = TableSet::built_in();
        let table = set.api(api).and_then(|info| match direction {
            Direction::Request => info.request,
            Direction::Response => info.response,
        });
        let names = table.map(|table| table.secrets()).unwrap_or_default();
        let options = Options { records: false, nested: false, ..Options::default() };
        let explained = match direction {
            Direction::Request => explain::request(set, frame, &options),
            Direction::Response => explain::response(set, api, version, frame, &options),
        };
        let ranges = |is_wanted: &dyn Fn(&Node) -> bool| {
            let nodes = explained.nodes().iter().filter(|node| node.source == 0 && is_wanted(node));
            nodes.map(|node| content(&explained, node)).collect()
        };
        Secrets {
            fields: ranges(&|node| names.contains(&node.name)),
            undecoded: ranges(&|node| node.name == "undecoded"),
            malformed: !explained.faults().is_empty(),
        }
    }
}

/// Whether requests or responses of an API have secret fields.
pub fn has_secrets(api: ApiKey) -> bool {
    let info = TableSet::built_in().api(api);
    let tables = info.into_iter().flat_map(|info| info.request.into_iter().chain(info.response));
    tables.into_iter().any(|table| !table.secrets().is_empty())
}

/// The position of a node's content in the frame, without its length.
fn content(explained: &Explanation, node: &Node) -> Range<usize> {
    let end = (node.at + node.size) as usize;
    end - explained.content(node).len()..end
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::messages::{RenewDelegationTokenRequest, SaslAuthenticateResponse};
    use crate::{Message, frame};

    #[test]
    fn the_value_of_a_secret_field_is_found_in_every_version() {
        for version in RenewDelegationTokenRequest::VERSIONS.iter() {
            let request =
                RenewDelegationTokenRequest { hmac: Bytes::from_static(b"secret"), ..Default::default() };
            let frame = frame::request(1, None, &request, version).unwrap().to_bytes();
            let found = Secrets::find(ApiKey::RENEW_DELEGATION_TOKEN, version, Direction::Request, &frame);
            let values: Vec<&[u8]> = found.fields.iter().map(|range| &frame[range.clone()]).collect();
            assert_eq!((values, found.undecoded), (vec![&b"secret"[..]], vec![]));
        }
    }

    #[test]
    fn bytes_that_cannot_be_decoded_are_reported() {
        let response =
            SaslAuthenticateResponse { auth_bytes: Bytes::from_static(b"secret"), ..Default::default() };
        let whole = frame::response(1, &response, 2).unwrap().to_bytes();
        let torn = whole.slice(..whole.len() - 12);
        let found = Secrets::find(ApiKey::SASL_AUTHENTICATE, 2, Direction::Response, &torn);
        assert_eq!(found.undecoded.len(), 1);
    }

    #[test]
    fn apis_with_secrets() {
        let all: Vec<ApiKey> = (0..200).map(ApiKey).filter(|key| has_secrets(*key)).collect();
        let expected = [
            ApiKey::SASL_AUTHENTICATE,
            ApiKey::CREATE_DELEGATION_TOKEN,
            ApiKey::RENEW_DELEGATION_TOKEN,
            ApiKey::EXPIRE_DELEGATION_TOKEN,
            ApiKey::DESCRIBE_DELEGATION_TOKEN,
            ApiKey::ALTER_USER_SCRAM_CREDENTIALS,
        ];
        assert_eq!(all, expected);
    }
}
