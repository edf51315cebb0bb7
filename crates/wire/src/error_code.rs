//! Error codes: open numbers with Kafka's names.

use std::fmt;

/// The number that a response gives for what went wrong: open, with constants for the ones of Apache Kafka 4.4.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ErrorCode(pub i16);

macro_rules! errors {
    ($($code:literal $name:ident $retriable:literal $meaning:literal;)*) => {
        impl ErrorCode {$(
            #[doc = $meaning]
            pub const $name: ErrorCode = ErrorCode($code);
        )*}

        static KNOWN: &[Known] = &[$(Known {
            code: $code,
            name: stringify!($name),
            retriable: $retriable,
            meaning: $meaning,
        },)*];
    };
}

struct Known {
    code: i16,
    name: &'static str,
    retriable: bool,
    meaning: &'static str,
}

impl ErrorCode {
    /// Every known code, ascending.
    pub fn all() -> impl Iterator<Item = ErrorCode> {
        KNOWN.iter().map(|known| ErrorCode(known.code))
    }

    fn known(self) -> Option<&'static Known> {
        // The codes start at -1 and have no holes today.
        let place = usize::try_from(i32::from(self.0) + 1).ok()?;
        match KNOWN.get(place) {
            Some(known) if known.code == self.0 => Some(known),
            _ => KNOWN.iter().find(|known| known.code == self.0),
        }
    }

    /// Kafka's name; `UNKNOWN` for a number that Apache Kafka 4.4 does not have.
    pub fn name(self) -> &'static str {
        self.known().map_or("UNKNOWN", |known| known.name)
    }

    /// Whether Kafka's clients try again.
    pub fn retriable(self) -> bool {
        self.known().is_some_and(|known| known.retriable)
    }

    /// What it means, in a few words.
    pub fn meaning(self) -> &'static str {
        self.known().map_or("a code that is not known here", |known| known.meaning)
    }

    /// Whether it is [`ErrorCode::NONE`].
    pub fn is_none(self) -> bool {
        self == ErrorCode::NONE
    }
}

impl From<i16> for ErrorCode {
    fn from(code: i16) -> ErrorCode {
        ErrorCode(code)
    }
}

impl From<ErrorCode> for i16 {
    fn from(code: ErrorCode) -> i16 {
        code.0
    }
}

impl fmt::Display for ErrorCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({})", self.name(), self.0)
    }
}

errors! {
    -1 UNKNOWN_SERVER_ERROR false "Kafka error -1.";
    0 NONE false "Kafka error 0.";
    1 OFFSET_OUT_OF_RANGE false "Kafka error 1.";
    2 CORRUPT_MESSAGE true "Kafka error 2.";
    3 UNKNOWN_TOPIC_OR_PARTITION true "Kafka error 3.";
    4 INVALID_FETCH_SIZE false "Kafka error 4.";
    5 LEADER_NOT_AVAILABLE true "Kafka error 5.";
    6 NOT_LEADER_OR_FOLLOWER true "Kafka error 6.";
    7 REQUEST_TIMED_OUT true "Kafka error 7.";
    8 BROKER_NOT_AVAILABLE false "Kafka error 8.";
    9 REPLICA_NOT_AVAILABLE true "Kafka error 9.";
    10 MESSAGE_TOO_LARGE false "Kafka error 10.";
    11 STALE_CONTROLLER_EPOCH false "Kafka error 11.";
    12 OFFSET_METADATA_TOO_LARGE false "Kafka error 12.";
    13 NETWORK_EXCEPTION true "Kafka error 13.";
    14 COORDINATOR_LOAD_IN_PROGRESS true "Kafka error 14.";
    15 COORDINATOR_NOT_AVAILABLE true "Kafka error 15.";
    16 NOT_COORDINATOR true "Kafka error 16.";
    17 INVALID_TOPIC_EXCEPTION false "Kafka error 17.";
    18 RECORD_LIST_TOO_LARGE false "Kafka error 18.";
    19 NOT_ENOUGH_REPLICAS true "Kafka error 19.";
    20 NOT_ENOUGH_REPLICAS_AFTER_APPEND true "Kafka error 20.";
    21 INVALID_REQUIRED_ACKS false "Kafka error 21.";
    22 ILLEGAL_GENERATION false "Kafka error 22.";
    23 INCONSISTENT_GROUP_PROTOCOL false "Kafka error 23.";
    24 INVALID_GROUP_ID false "Kafka error 24.";
    25 UNKNOWN_MEMBER_ID false "Kafka error 25.";
    26 INVALID_SESSION_TIMEOUT false "Kafka error 26.";
    27 REBALANCE_IN_PROGRESS false "Kafka error 27.";
    28 INVALID_COMMIT_OFFSET_SIZE false "Kafka error 28.";
    29 TOPIC_AUTHORIZATION_FAILED false "Kafka error 29.";
    30 GROUP_AUTHORIZATION_FAILED false "Kafka error 30.";
    31 CLUSTER_AUTHORIZATION_FAILED false "Kafka error 31.";
    32 INVALID_TIMESTAMP false "Kafka error 32.";
    33 UNSUPPORTED_SASL_MECHANISM false "Kafka error 33.";
    34 ILLEGAL_SASL_STATE false "Kafka error 34.";
    35 UNSUPPORTED_VERSION false "Kafka error 35.";
    36 TOPIC_ALREADY_EXISTS false "Kafka error 36.";
    37 INVALID_PARTITIONS false "Kafka error 37.";
    38 INVALID_REPLICATION_FACTOR false "Kafka error 38.";
    39 INVALID_REPLICA_ASSIGNMENT false "Kafka error 39.";
    40 INVALID_CONFIG false "Kafka error 40.";
    41 NOT_CONTROLLER true "Kafka error 41.";
    42 INVALID_REQUEST false "Kafka error 42.";
    43 UNSUPPORTED_FOR_MESSAGE_FORMAT false "Kafka error 43.";
    44 POLICY_VIOLATION false "Kafka error 44.";
    45 OUT_OF_ORDER_SEQUENCE_NUMBER false "Kafka error 45.";
    46 DUPLICATE_SEQUENCE_NUMBER false "Kafka error 46.";
    47 INVALID_PRODUCER_EPOCH false "Kafka error 47.";
    48 INVALID_TXN_STATE false "Kafka error 48.";
    49 INVALID_PRODUCER_ID_MAPPING false "Kafka error 49.";
    50 INVALID_TRANSACTION_TIMEOUT false "Kafka error 50.";
    51 CONCURRENT_TRANSACTIONS true "Kafka error 51.";
    52 TRANSACTION_COORDINATOR_FENCED false "Kafka error 52.";
    53 TRANSACTIONAL_ID_AUTHORIZATION_FAILED false "Kafka error 53.";
    54 SECURITY_DISABLED false "Kafka error 54.";
    55 OPERATION_NOT_ATTEMPTED false "Kafka error 55.";
    56 KAFKA_STORAGE_ERROR true "Kafka error 56.";
    57 LOG_DIR_NOT_FOUND false "Kafka error 57.";
    58 SASL_AUTHENTICATION_FAILED false "Kafka error 58.";
    59 UNKNOWN_PRODUCER_ID false "Kafka error 59.";
    60 REASSIGNMENT_IN_PROGRESS false "Kafka error 60.";
    61 DELEGATION_TOKEN_AUTH_DISABLED false "Kafka error 61.";
    62 DELEGATION_TOKEN_NOT_FOUND false "Kafka error 62.";
    63 DELEGATION_TOKEN_OWNER_MISMATCH false "Kafka error 63.";
    64 DELEGATION_TOKEN_REQUEST_NOT_ALLOWED false "Kafka error 64.";
    65 DELEGATION_TOKEN_AUTHORIZATION_FAILED false "Kafka error 65.";
    66 DELEGATION_TOKEN_EXPIRED false "Kafka error 66.";
    67 INVALID_PRINCIPAL_TYPE false "Kafka error 67.";
    68 NON_EMPTY_GROUP false "Kafka error 68.";
    69 GROUP_ID_NOT_FOUND false "Kafka error 69.";
    70 FETCH_SESSION_ID_NOT_FOUND true "Kafka error 70.";
    71 INVALID_FETCH_SESSION_EPOCH true "Kafka error 71.";
    72 LISTENER_NOT_FOUND true "Kafka error 72.";
    73 TOPIC_DELETION_DISABLED false "Kafka error 73.";
    74 FENCED_LEADER_EPOCH true "Kafka error 74.";
    75 UNKNOWN_LEADER_EPOCH true "Kafka error 75.";
    76 UNSUPPORTED_COMPRESSION_TYPE false "Kafka error 76.";
    77 STALE_BROKER_EPOCH false "Kafka error 77.";
    78 OFFSET_NOT_AVAILABLE true "Kafka error 78.";
    79 MEMBER_ID_REQUIRED false "Kafka error 79.";
    80 PREFERRED_LEADER_NOT_AVAILABLE true "Kafka error 80.";
    81 GROUP_MAX_SIZE_REACHED false "Kafka error 81.";
    82 FENCED_INSTANCE_ID false "Kafka error 82.";
    83 ELIGIBLE_LEADERS_NOT_AVAILABLE true "Kafka error 83.";
    84 ELECTION_NOT_NEEDED true "Kafka error 84.";
    85 NO_REASSIGNMENT_IN_PROGRESS false "Kafka error 85.";
    86 GROUP_SUBSCRIBED_TO_TOPIC false "Kafka error 86.";
    87 INVALID_RECORD false "Kafka error 87.";
    88 UNSTABLE_OFFSET_COMMIT true "Kafka error 88.";
    89 THROTTLING_QUOTA_EXCEEDED true "Kafka error 89.";
    90 PRODUCER_FENCED false "Kafka error 90.";
    91 RESOURCE_NOT_FOUND false "Kafka error 91.";
    92 DUPLICATE_RESOURCE false "Kafka error 92.";
    93 UNACCEPTABLE_CREDENTIAL false "Kafka error 93.";
    94 INCONSISTENT_VOTER_SET false "Kafka error 94.";
    95 INVALID_UPDATE_VERSION false "Kafka error 95.";
    96 FEATURE_UPDATE_FAILED false "Kafka error 96.";
    97 PRINCIPAL_DESERIALIZATION_FAILURE false "Kafka error 97.";
    98 SNAPSHOT_NOT_FOUND false "Kafka error 98.";
    99 POSITION_OUT_OF_RANGE false "Kafka error 99.";
    100 UNKNOWN_TOPIC_ID true "Kafka error 100.";
    101 DUPLICATE_BROKER_REGISTRATION false "Kafka error 101.";
    102 BROKER_ID_NOT_REGISTERED false "Kafka error 102.";
    103 INCONSISTENT_TOPIC_ID true "Kafka error 103.";
    104 INCONSISTENT_CLUSTER_ID false "Kafka error 104.";
    105 TRANSACTIONAL_ID_NOT_FOUND false "Kafka error 105.";
    106 FETCH_SESSION_TOPIC_ID_ERROR true "Kafka error 106.";
    107 INELIGIBLE_REPLICA false "Kafka error 107.";
    108 NEW_LEADER_ELECTED false "Kafka error 108.";
    109 OFFSET_MOVED_TO_TIERED_STORAGE false "Kafka error 109.";
    110 FENCED_MEMBER_EPOCH false "Kafka error 110.";
    111 UNRELEASED_INSTANCE_ID false "Kafka error 111.";
    112 UNSUPPORTED_ASSIGNOR false "Kafka error 112.";
    113 STALE_MEMBER_EPOCH false "Kafka error 113.";
    114 MISMATCHED_ENDPOINT_TYPE false "Kafka error 114.";
    115 UNSUPPORTED_ENDPOINT_TYPE false "Kafka error 115.";
    116 UNKNOWN_CONTROLLER_ID false "Kafka error 116.";
    117 UNKNOWN_SUBSCRIPTION_ID false "Kafka error 117.";
    118 TELEMETRY_TOO_LARGE false "Kafka error 118.";
    119 INVALID_REGISTRATION false "Kafka error 119.";
    120 TRANSACTION_ABORTABLE false "Kafka error 120.";
    121 INVALID_RECORD_STATE false "Kafka error 121.";
    122 SHARE_SESSION_NOT_FOUND true "Kafka error 122.";
    123 INVALID_SHARE_SESSION_EPOCH true "Kafka error 123.";
    124 FENCED_STATE_EPOCH false "Kafka error 124.";
    125 INVALID_VOTER_KEY false "Kafka error 125.";
    126 DUPLICATE_VOTER false "Kafka error 126.";
    127 VOTER_NOT_FOUND false "Kafka error 127.";
    128 INVALID_REGULAR_EXPRESSION false "Kafka error 128.";
    129 REBOOTSTRAP_REQUIRED false "Kafka error 129.";
    130 STREAMS_INVALID_TOPOLOGY false "Kafka error 130.";
    131 STREAMS_INVALID_TOPOLOGY_EPOCH false "Kafka error 131.";
    132 STREAMS_TOPOLOGY_FENCED false "Kafka error 132.";
    133 SHARE_SESSION_LIMIT_REACHED true "Kafka error 133.";
    134 GROUP_DELETION_FAILED false "Kafka error 134.";
    135 STREAMS_TOPOLOGY_DESCRIPTION_UPDATE_FAILED false "Kafka error 135.";
    136 CONTROLLER_ID_NOT_REGISTERED false "Kafka error 136.";
}

#[cfg(test)]
mod tests {
    use super::ErrorCode;

    #[test]
    fn codes_are_dense_and_open() {
        let codes: Vec<i16> = ErrorCode::all().map(i16::from).collect();
        assert_eq!(codes, (-1..=136).collect::<Vec<_>>());
        assert_eq!(ErrorCode::UNKNOWN_TOPIC_OR_PARTITION.name(), "UNKNOWN_TOPIC_OR_PARTITION");
        assert!(ErrorCode(3).retriable());
        assert_eq!(ErrorCode(999).to_string(), "UNKNOWN (999)");
    }
}
