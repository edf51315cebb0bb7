//! Every message of the protocol, generated from `schemas/`: a module per message with its structs, root structs here as well.
//!
//! A field holds its default until it is set. Encoding refuses a value that the version has no room for unless the schema
//! calls the field ignorable; decoding leaves the fields that a version lacks at their defaults.

use crate::tables;
use crate::{ApiInfo, ApiKey, DecodeError, EncodeError, ErrorCode, Reader, Versions, Writer};
use bytes::Bytes;

/// A message: something with versions that can be written and read.
pub trait Message: Sized + Default {
    /// The name in the schema.
    const NAME: &'static str;
    /// The versions there are.
    const VERSIONS: Versions;
    /// The versions with compact lengths and tagged sections.
    const FLEXIBLE: Versions;
    /// What the schema says, as data.
    const TABLE: &'static tables::MessageTable;

    /// Reads a message. Bytes behind it are left in the reader.
    ///
    /// # Errors
    /// The bytes are not such a message, or there is no such version.
    fn decode(r: &mut Reader, version: i16) -> Result<Self, DecodeError>;

    /// Appends the message. After an error the writer holds a part of it.
    ///
    /// # Errors
    /// A value does not fit the version, or there is no such version.
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

    /// The message with its version in front as an int16: how data messages are put into bytes fields and record values.
    ///
    /// # Errors
    /// As [`Message::encode`].
    fn to_versioned_bytes(&self, version: i16) -> Result<Bytes, EncodeError> {
        let mut w = Writer::new();
        w.i16(version);
        self.encode(&mut w, version)?;
        Ok(w.into_bytes())
    }

    /// Reads a message with its version in front. A version above the highest known one is read as that one, because later
    /// versions only add fields at the end.
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
    /// What the broker sends back.
    type Response: Response;
}

/// A message that a broker sends back.
pub trait Response: Message {
    /// The API.
    const KEY: ApiKey;

    /// Shows every error code in the response, [`ErrorCode::NONE`] included.
    fn error_codes(&self, visit: &mut dyn FnMut(ErrorCode));
}

/// What generated modules use.
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
