//! Errors of calls to a cluster.

use ottla_wire::{ErrorCode, Versions};
use std::time::Duration;

/// A failed call. Two kinds are separate only if callers handle them differently.
#[derive(Clone, Debug, thiserror::Error)]
pub enum ClientError {
    /// No connection, or it closed before the response arrived. Whether the broker executed the request is unknown.
    #[error("lost the connection to {peer}: {reason}")]
    ConnectionLost {
        /// Address of the broker.
        peer: String,
        /// The error of the socket.
        reason: String,
    },
    /// None of the bootstrap addresses could be reached: nothing was sent.
    #[error("cannot reach a broker: {reason}")]
    Unreachable {
        /// Each address that was tried, with its error.
        reason: String,
    },
    /// The response did not arrive in time. Whether the broker executed the request is unknown.
    #[error("waited {} ms for {what}{}", after.as_millis(), last_words(last))]
    Timeout {
        /// The request, and the broker.
        what: String,
        /// The time that was waited.
        after: Duration,
        /// The last error before the timeout, if there were several attempts.
        last: Option<Box<ClientError>>,
    },
    /// Bytes that do not follow the protocol, from the broker or from this client.
    #[error("malformed {what}: {reason}")]
    Malformed {
        /// The message, and its sender.
        what: String,
        /// The field and the position of the byte.
        reason: String,
    },
    /// Broker and client have no version of an API in common.
    #[error("{peer} does not offer {api} in a version from {ours} (it offers {theirs})")]
    Unsupported {
        /// Address of the broker.
        peer: String,
        /// Name of the API.
        api: &'static str,
        /// Versions that this client speaks.
        ours: Versions,
        /// Versions that the broker offers; none if it does not list the API.
        theirs: Versions,
    },
    /// The broker refused, with an error code of the protocol.
    #[error("{api} failed for {about}: {} ({}){}", code.name(), code.meaning().trim_end_matches('.'), detail(message))]
    Kafka {
        /// The code.
        code: ErrorCode,
        /// Name of the API.
        api: &'static str,
        /// The topic, partition, group or id concerned.
        about: String,
        /// The broker's error message, if it sent one.
        message: Option<String>,
    },
    /// The client itself refused, before anything was sent.
    #[error("{0}")]
    Misuse(String),
}

fn last_words(last: &Option<Box<ClientError>>) -> String {
    last.as_ref().map(|error| format!("; the last attempt: {error}")).unwrap_or_default()
}

fn detail(message: &Option<String>) -> String {
    message.as_ref().map(|message| format!(": {message}")).unwrap_or_default()
}

impl ClientError {
    /// The error code, if a broker sent one.
    pub fn code(&self) -> Option<ErrorCode> {
        match self {
            ClientError::Kafka { code, .. } => Some(*code),
            ClientError::Timeout { last: Some(last), .. } => last.code(),
            _ => None,
        }
    }

    /// Whether a broker sent this code.
    pub fn is(&self, code: ErrorCode) -> bool {
        self.code() == Some(code)
    }

    /// Whether the same request may succeed when sent again, after a pause and with fresh metadata.
    pub fn is_retriable(&self) -> bool {
        match self {
            ClientError::ConnectionLost { .. } => true,
            ClientError::Timeout { last, .. } => last.is_none(),
            ClientError::Kafka { code, .. } => {
                code.retriable() || *code == ErrorCode::CONCURRENT_TRANSACTIONS
            }
            _ => false,
        }
    }
}

/// Turns an error code of a response into a result; `about` names the topic, partition, group or id.
pub(crate) fn check(code: i16, api: &'static str, about: impl FnOnce() -> String) -> Result<(), ClientError> {
    check_with(code, api, about, None)
}

/// As [`check`], with the broker's own message.
pub(crate) fn check_with(
    code: i16,
    api: &'static str,
    about: impl FnOnce() -> String,
    message: Option<&str>,
) -> Result<(), ClientError> {
    let code = ErrorCode(code);
    if code == ErrorCode::NONE {
        return Ok(());
    }
    let message = message.filter(|text| !text.is_empty()).map(str::to_owned);
    Err(ClientError::Kafka { code, api, about: about(), message })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn retriable(code: ErrorCode) -> bool {
        check(code.0, "Produce", String::new).unwrap_err().is_retriable()
    }

    #[test]
    fn t_280_t_281_t_282_which_codes_are_worth_the_same_request_again() {
        for code in [
            ErrorCode::COORDINATOR_LOAD_IN_PROGRESS,
            ErrorCode::COORDINATOR_NOT_AVAILABLE,
            ErrorCode::NOT_COORDINATOR,
            ErrorCode::CONCURRENT_TRANSACTIONS,
            ErrorCode::NOT_ENOUGH_REPLICAS,
            ErrorCode::UNKNOWN_TOPIC_OR_PARTITION,
            ErrorCode::NOT_LEADER_OR_FOLLOWER,
        ] {
            assert!(retriable(code), "{code}");
        }
        for code in [
            ErrorCode::PRODUCER_FENCED,
            ErrorCode::INVALID_PRODUCER_EPOCH,
            ErrorCode::INVALID_TXN_STATE,
            ErrorCode::INVALID_PRODUCER_ID_MAPPING,
            ErrorCode::TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
            ErrorCode::TRANSACTION_ABORTABLE,
            ErrorCode::OUT_OF_ORDER_SEQUENCE_NUMBER,
            ErrorCode::ILLEGAL_GENERATION,
            ErrorCode::UNKNOWN_MEMBER_ID,
            ErrorCode::FENCED_INSTANCE_ID,
            ErrorCode::OPERATION_NOT_ATTEMPTED,
        ] {
            assert!(!retriable(code), "{code}");
        }
    }
}
