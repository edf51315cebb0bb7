//! Why a command failed: one sentence, and what to do about it where that is known.

use ottla_client::ClientError;
use ottla_salvage::{OpenError, SalvageError};
use ottla_wire::ErrorCode;
use std::fmt;
use std::io;

/// Why a command failed.
#[derive(Debug)]
pub(crate) struct Failure {
    what: String,
    remedy: Option<String>,
    quiet: bool,
    status: u8,
}

/// The exit status of a command that failed.
const FAILED: u8 = 1;
/// The exit status of a command that found faults in its input.
const FOUND_FAULTS: u8 = 3;
/// The exit status of a command that found its data damaged.
const DAMAGED: u8 = 1;
/// The exit status of a command that could not read its data.
const UNREADABLE: u8 = 2;

impl Failure {
    pub(crate) fn new(what: impl Into<String>) -> Failure {
        Failure { what: what.into(), remedy: None, quiet: false, status: FAILED }
    }

    /// The command found faults in its input.
    pub(crate) fn faults(what: impl Into<String>) -> Failure {
        Failure { status: FOUND_FAULTS, ..Failure::new(what) }
    }

    /// The data is damaged.
    pub(crate) fn damaged(what: impl Into<String>) -> Failure {
        Failure { status: DAMAGED, ..Failure::new(what) }
    }

    /// The data cannot be read at all.
    pub(crate) fn unreadable(what: impl Into<String>) -> Failure {
        Failure { status: UNREADABLE, ..Failure::new(what) }
    }

    /// The exit status of the command.
    pub(crate) fn status(&self) -> u8 {
        self.status
    }

    /// Adds a sentence that says what to do.
    pub(crate) fn remedy(mut self, remedy: impl Into<String>) -> Failure {
        self.remedy = Some(remedy.into());
        self
    }

    /// True if the reader of the output has closed it: then there is nothing to report.
    pub(crate) fn is_quiet(&self) -> bool {
        self.quiet
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.what.trim_end_matches('.'))?;
        match &self.remedy {
            Some(remedy) => write!(f, ". {remedy}"),
            None => f.write_str("."),
        }
    }
}

impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Failure {
        let quiet = error.kind() == io::ErrorKind::BrokenPipe;
        Failure { quiet, ..Failure::new(format!("cannot write the output: {error}")) }
    }
}

impl From<OpenError> for Failure {
    fn from(error: OpenError) -> Failure {
        Failure::unreadable(error.to_string())
    }
}

impl From<SalvageError> for Failure {
    fn from(error: SalvageError) -> Failure {
        let failure = Failure::unreadable(error.to_string());
        match error {
            SalvageError::NotEmpty { .. } => {
                failure.remedy("Name a new folder with --to; nothing was written.")
            }
            SalvageError::Open(_)
            | SalvageError::Run(_)
            | SalvageError::Copy { .. }
            | SalvageError::Changed
            | SalvageError::Write(_) => failure,
        }
    }
}

impl From<ClientError> for Failure {
    fn from(error: ClientError) -> Failure {
        let failure = Failure::new(error.to_string());
        match remedy(&error) {
            Some(remedy) => failure.remedy(remedy),
            None => failure,
        }
    }
}

fn remedy(error: &ClientError) -> Option<&'static str> {
    match error {
        ClientError::Unreachable { .. } => Some(
            "Start a broker with `ottla serve`, or name a running one with --bootstrap-server HOST:PORT.",
        ),
        ClientError::ConnectionLost { peer, .. } if peer.contains("where broker") => {
            Some("Set the broker's advertised address to one that this machine can reach.")
        }
        ClientError::ConnectionLost { .. } => Some("Check the log of the broker, then try again."),
        ClientError::Timeout { last: Some(last), .. } => {
            remedy(last).or(Some("Try again, or wait longer with --timeout."))
        }
        ClientError::Timeout { .. } => {
            Some("Check whether the broker is overloaded, or wait longer with --timeout.")
        }
        ClientError::Malformed { .. } => {
            Some("Check that the address is that of a plaintext listener of a Kafka broker.")
        }
        ClientError::Unsupported { .. } => Some("This needs Ottla, or Apache Kafka 4.0 or later."),
        ClientError::Kafka { code, .. } => remedy_for_code(*code),
        ClientError::Misuse(_) => None,
    }
}

fn remedy_for_code(code: ErrorCode) -> Option<&'static str> {
    Some(match code {
        ErrorCode::UNKNOWN_TOPIC_OR_PARTITION => "`ottla topic list` lists the topics.",
        ErrorCode::TOPIC_ALREADY_EXISTS => "Use --if-not-exists to keep it as it is, or choose another name.",
        ErrorCode::INVALID_REPLICATION_FACTOR => {
            "Leave out --replication-factor to take the broker's default."
        }
        ErrorCode::OFFSET_OUT_OF_RANGE => "`ottla topic offsets` shows where partitions begin and end.",
        ErrorCode::GROUP_ID_NOT_FOUND => "`ottla group list` lists the groups.",
        ErrorCode::NON_EMPTY_GROUP => "Stop the group's members first; `ottla group describe` shows them.",
        ErrorCode::TRANSACTIONAL_ID_NOT_FOUND => "`ottla txn list` lists the transactional ids.",
        ErrorCode::PRODUCER_FENCED | ErrorCode::INVALID_PRODUCER_EPOCH => {
            "Another producer has taken over this transactional id, or the transaction timed out."
        }
        ErrorCode::MESSAGE_TOO_LARGE => {
            "Raise max.message.bytes with `ottla topic alter`, or send smaller records."
        }
        _ => return None,
    })
}

/// Turns an error code of a response into a failure. `about` names the resource; `message` is that of the response.
pub(crate) fn refused(
    code: i16,
    api: &'static str,
    about: impl FnOnce() -> String,
    message: Option<&str>,
) -> Result<(), Failure> {
    let code = ErrorCode(code);
    if code.is_none() {
        return Ok(());
    }
    let message = message.filter(|text| !text.is_empty()).map(str::to_owned);
    Err(ClientError::Kafka { code, api, about: about(), message }.into())
}
