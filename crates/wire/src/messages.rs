//! Every message of the protocol, generated from `schemas/`: a module for each message with its structs. The root
//! structs are exported here too.
//!
//! A field holds its default until it is set. Encoding fails for a value of a field that the version lacks, unless the
//! schema calls the field ignorable. Decoding leaves the fields that the version lacks at their defaults.

use crate::tables;
use crate::{ApiInfo, ApiKey, DecodeError, EncodeError, ErrorCode, Reader, Versions, Writer};
use bytes::Bytes;

/// A message of the protocol, which can be encoded and decoded at each of its versions.
pub trait Message: Sized + Default {
    /// The name in the schema.
    const NAME: &'static str;
    /// The valid versions.
    const VERSIONS: Versions;
    /// The versions with compact lengths and tagged sections.
    const FLEXIBLE: Versions;
    /// The table of the schema.
    const TABLE: &'static tables::MessageTable;

    /// Decodes a message. The reader stops after its last byte.
    ///
    /// # Errors
    /// The bytes are not a valid message, or the version is not valid.
    fn decode(r: &mut Reader, version: i16) -> Result<Self, DecodeError>;

    /// Appends the message. After an error the writer contains a part of it.
    ///
    /// # Errors
    /// A value cannot be encoded at the version, or the version is not valid.
    fn encode(&self, w: &mut Writer, version: i16) -> Result<(), EncodeError>;

    /// The message alone, as bytes.
    ///
    /// # Errors
    /// As [`Message::encode`].
    fn to_bytes(&self, version: i16) -> Result<Bytes, EncodeError> {
        let mut w = Writer::with_capacity(256);
        self.encode(&mut w, version)?;
        Ok(w.into_bytes())
    }

    /// The message after its version as an int16, as bytes fields and record values contain data messages.
    ///
    /// # Errors
    /// As [`Message::encode`].
    fn to_versioned_bytes(&self, version: i16) -> Result<Bytes, EncodeError> {
        let mut w = Writer::new();
        w.i16(version);
        self.encode(&mut w, version)?;
        Ok(w.into_bytes())
    }

    /// Reads a message with its version in front. A version above the highest known one is read as that one, because
    /// later versions only add fields at the end.
    ///
    /// # Errors
    /// As [`Message::decode`].
    fn from_versioned_bytes(bytes: &Bytes) -> Result<(i16, Self), DecodeError> {
        let mut r = Reader::new(bytes.clone());
        let version = r.i16(&crate::At(Self::NAME, "version"))?;
        Ok((version, Self::decode(&mut r, version.min(Self::VERSIONS.max))?))
    }
}

/// A message that a client sends.
pub trait Request: Message {
    /// The API.
    const KEY: ApiKey;
    /// The response of the broker.
    type Response: Response;
}

/// A message that a broker sends back.
pub trait Response: Message {
    /// The API.
    const KEY: ApiKey;

    /// Calls `visit` for every error code in the response, [`ErrorCode::NONE`] included.
    fn error_codes(&self, visit: &mut dyn FnMut(ErrorCode));
}

/// The imports of generated modules.
mod prelude {
    pub(super) use super::{Message, Request, Response};
    pub(super) use crate::input::Input;
    pub(super) use crate::{
        ApiKey, At, DecodeError, EncodeError, ErrorCode, Numbers, Reader, Records, Tags, Text, Uuid,
        Versions, Writer, tables,
    };
    pub(super) use bytes::Bytes;
}

include!(concat!(env!("OUT_DIR"), "/messages.rs"));

#[cfg(test)]
mod tests {
    use super::add_partitions_to_txn_response::{
        AddPartitionsToTxnPartitionResult, AddPartitionsToTxnResult, AddPartitionsToTxnTopicResult,
    };
    use super::{AddPartitionsToTxnResponse, Response, SaslHandshakeResponse};
    use crate::ErrorCode;

    fn codes(response: &impl Response) -> Vec<i16> {
        let mut codes = Vec::new();
        response.error_codes(&mut |ErrorCode(code)| codes.push(code));
        codes
    }

    #[test]
    fn error_codes_are_found_on_top_and_below() {
        assert_eq!(codes(&SaslHandshakeResponse { error_code: 33, ..Default::default() }), [33]);
        let partition =
            |code| AddPartitionsToTxnPartitionResult { partition_error_code: code, ..Default::default() };
        let topic = AddPartitionsToTxnTopicResult {
            results_by_partition: vec![partition(0), partition(48)],
            ..Default::default()
        };
        let transaction = AddPartitionsToTxnResult { topic_results: vec![topic], ..Default::default() };
        let response = AddPartitionsToTxnResponse {
            error_code: 7,
            results_by_transaction: vec![transaction],
            ..Default::default()
        };
        assert_eq!(codes(&response), [7, 0, 48]);
    }
}
