//! Error codes: numbers with Kafka's names.

use std::fmt;

/// The error code of a response. Any number is a value; the codes of Apache Kafka 4.4 have constants.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ErrorCode(pub i16);

macro_rules! errors {
    ($($code:literal $name:ident $retriable:literal $meaning:literal;)*) => {
        impl ErrorCode {$(
            #[doc = $meaning]
            pub const $name: ErrorCode = ErrorCode($code);
        )*}

        static KNOWN: &[CodeInfo] = &[$(CodeInfo {
            code: $code,
            name: stringify!($name),
            retriable: $retriable,
            meaning: $meaning,
        },)*];
    };
}

struct CodeInfo {
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

    fn code_info(self) -> Option<&'static CodeInfo> {
        // The codes of Apache Kafka 4.4 start at -1 and leave out no number, so the index is code + 1.
        let place = usize::try_from(i32::from(self.0) + 1).ok()?;
        match KNOWN.get(place) {
            Some(known) if known.code == self.0 => Some(known),
            _ => KNOWN.iter().find(|known| known.code == self.0),
        }
    }

    /// Kafka's name; `UNKNOWN` for a number that Apache Kafka 4.4 does not have.
    pub fn name(self) -> &'static str {
        self.code_info().map_or("UNKNOWN", |known| known.name)
    }

    /// Whether Kafka's clients retry the request.
    pub fn retriable(self) -> bool {
        self.code_info().is_some_and(|known| known.retriable)
    }

    /// The meaning in a sentence.
    pub fn meaning(self) -> &'static str {
        self.code_info().map_or("a code that is not known here", |known| known.meaning)
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
    -1 UNKNOWN_SERVER_ERROR false "The server failed in a way that no other code describes.";
    0 NONE false "Success.";
    1 OFFSET_OUT_OF_RANGE false "The partition holds no such offset: it is before the start or past the end.";
    2 CORRUPT_MESSAGE true "Records failed their checksum, their size or another check of their form.";
    3 UNKNOWN_TOPIC_OR_PARTITION true "This broker has no such topic or partition.";
    4 INVALID_FETCH_SIZE false "A fetch asks for an impossible number of bytes.";
    5 LEADER_NOT_AVAILABLE true "The partition has no leader at the moment, as during an election.";
    6 NOT_LEADER_OR_FOLLOWER true "This broker neither leads nor follows the partition.";
    7 REQUEST_TIMED_OUT true "The request did not complete within its timeout.";
    8 BROKER_NOT_AVAILABLE false "The broker cannot be reached.";
    9 REPLICA_NOT_AVAILABLE true "The requested replica is not available.";
    10 MESSAGE_TOO_LARGE false "A batch is larger than the topic allows.";
    11 STALE_CONTROLLER_EPOCH false "A newer controller has taken over from the sender.";
    12 OFFSET_METADATA_TOO_LARGE false "The metadata text of a committed offset is too long.";
    13 NETWORK_EXCEPTION true "The connection ended before the response arrived.";
    14 COORDINATOR_LOAD_IN_PROGRESS true "The coordinator is still loading its state.";
    15 COORDINATOR_NOT_AVAILABLE true "No coordinator is available at the moment.";
    16 NOT_COORDINATOR true "Another broker coordinates this group or transactional id.";
    17 INVALID_TOPIC_EXCEPTION false "The topic's name is not legal, or the topic may not be used this way.";
    18 RECORD_LIST_TOO_LARGE false "The batches of a request are larger than a segment may be.";
    19 NOT_ENOUGH_REPLICAS true "Fewer replicas are in sync than acknowledgement needs; nothing was written.";
    20 NOT_ENOUGH_REPLICAS_AFTER_APPEND true "Written, but fewer replicas are in sync than acknowledgement needs.";
    21 INVALID_REQUIRED_ACKS false "Acks is none of -1, 0 and 1.";
    22 ILLEGAL_GENERATION false "The generation is not the current one of the group.";
    23 INCONSISTENT_GROUP_PROTOCOL false "The member offers no protocol that all members of the group support.";
    24 INVALID_GROUP_ID false "The group's name is not legal.";
    25 UNKNOWN_MEMBER_ID false "The group has no such member.";
    26 INVALID_SESSION_TIMEOUT false "The session timeout is outside what the broker allows.";
    27 REBALANCE_IN_PROGRESS false "The group is rebalancing; the member must join again.";
    28 INVALID_COMMIT_OFFSET_SIZE false "A committed offset would not fit its log.";
    29 TOPIC_AUTHORIZATION_FAILED false "The client may not do this to the topic.";
    30 GROUP_AUTHORIZATION_FAILED false "The client may not do this to the group.";
    31 CLUSTER_AUTHORIZATION_FAILED false "The client may not do this to the cluster.";
    32 INVALID_TIMESTAMP false "A timestamp is too far from the broker's clock or not legal.";
    33 UNSUPPORTED_SASL_MECHANISM false "The broker does not offer this SASL mechanism.";
    34 ILLEGAL_SASL_STATE false "The request does not fit the current step of authentication.";
    35 UNSUPPORTED_VERSION false "The broker does not have this version of the API.";
    36 TOPIC_ALREADY_EXISTS false "There is a topic of that name already.";
    37 INVALID_PARTITIONS false "The number of partitions is not legal.";
    38 INVALID_REPLICATION_FACTOR false "The replication factor is below one or above the number of brokers.";
    39 INVALID_REPLICA_ASSIGNMENT false "The assignment of replicas to brokers is not legal.";
    40 INVALID_CONFIG false "A configuration key or value is not legal.";
    41 NOT_CONTROLLER true "This node is not the controller.";
    42 INVALID_REQUEST false "The request contradicts itself or breaks a rule of its API.";
    43 UNSUPPORTED_FOR_MESSAGE_FORMAT false "The stored record format cannot do this.";
    44 POLICY_VIOLATION false "A policy of the cluster forbids the request.";
    45 OUT_OF_ORDER_SEQUENCE_NUMBER false "The producer's sequence number leaves a gap or goes back.";
    46 DUPLICATE_SEQUENCE_NUMBER false "The batch is a duplicate of a batch so old that its offset is no longer known.";
    47 INVALID_PRODUCER_EPOCH false "The producer's epoch is old: a newer one exists.";
    48 INVALID_TXN_STATE false "The transaction is not in a state that allows this.";
    49 INVALID_PRODUCER_ID_MAPPING false "The producer id is not the one of this transactional id.";
    50 INVALID_TRANSACTION_TIMEOUT false "The transaction timeout is zero, negative or above the broker's limit.";
    51 CONCURRENT_TRANSACTIONS true "The transactional id still processes its last transaction or change.";
    52 TRANSACTION_COORDINATOR_FENCED false "A newer coordinator owns the transactional id.";
    53 TRANSACTIONAL_ID_AUTHORIZATION_FAILED false "The client may not use this transactional id.";
    54 SECURITY_DISABLED false "There is no authorizer, so access rules cannot be managed.";
    55 OPERATION_NOT_ATTEMPTED false "Not attempted, because another part of the request failed.";
    56 KAFKA_STORAGE_ERROR true "The broker's disk failed.";
    57 LOG_DIR_NOT_FOUND false "The broker has no such log directory.";
    58 SASL_AUTHENTICATION_FAILED false "The credentials were refused.";
    59 UNKNOWN_PRODUCER_ID false "The broker has no state of this producer any more.";
    60 REASSIGNMENT_IN_PROGRESS false "The partition is being moved already.";
    61 DELEGATION_TOKEN_AUTH_DISABLED false "Delegation tokens are not enabled.";
    62 DELEGATION_TOKEN_NOT_FOUND false "There is no such delegation token.";
    63 DELEGATION_TOKEN_OWNER_MISMATCH false "The principal is neither owner nor renewer of the token.";
    64 DELEGATION_TOKEN_REQUEST_NOT_ALLOWED false "Tokens cannot be managed over this kind of connection.";
    65 DELEGATION_TOKEN_AUTHORIZATION_FAILED false "The client may not do this to the token.";
    66 DELEGATION_TOKEN_EXPIRED false "The token has expired.";
    67 INVALID_PRINCIPAL_TYPE false "The principal's type is not supported.";
    68 NON_EMPTY_GROUP false "The group still has members.";
    69 GROUP_ID_NOT_FOUND false "There is no such group.";
    70 FETCH_SESSION_ID_NOT_FOUND true "The broker has no such fetch session.";
    71 INVALID_FETCH_SESSION_EPOCH true "The epoch is not the one the fetch session expects next.";
    72 LISTENER_NOT_FOUND true "The leader has no listener of the name the client used.";
    73 TOPIC_DELETION_DISABLED false "The broker does not delete topics.";
    74 FENCED_LEADER_EPOCH true "The client's leader epoch is older than the broker's.";
    75 UNKNOWN_LEADER_EPOCH true "The client's leader epoch is newer than the broker's.";
    76 UNSUPPORTED_COMPRESSION_TYPE false "The codec cannot be used with this version or broker.";
    77 STALE_BROKER_EPOCH false "The broker has registered again since it sent this.";
    78 OFFSET_NOT_AVAILABLE true "A new leader does not know its high watermark yet.";
    79 MEMBER_ID_REQUIRED false "The member must join again with the member id of this response.";
    80 PREFERRED_LEADER_NOT_AVAILABLE true "The preferred leader cannot take over.";
    81 GROUP_MAX_SIZE_REACHED false "The group has its maximum number of members.";
    82 FENCED_INSTANCE_ID false "Another member has taken over this static instance id.";
    83 ELIGIBLE_LEADERS_NOT_AVAILABLE true "No replica that could lead is available.";
    84 ELECTION_NOT_NEEDED true "The partition has the leader it should have.";
    85 NO_REASSIGNMENT_IN_PROGRESS false "The partition is not being moved.";
    86 GROUP_SUBSCRIBED_TO_TOPIC false "Offsets of a topic that the group subscribes to cannot be deleted.";
    87 INVALID_RECORD false "A record or its batch breaks a rule of the topic or the format.";
    88 UNSTABLE_OFFSET_COMMIT true "Offsets of an open transaction are pending.";
    89 THROTTLING_QUOTA_EXCEEDED true "A quota is exceeded; retry later.";
    90 PRODUCER_FENCED false "A newer producer with this transactional id has taken over.";
    91 RESOURCE_NOT_FOUND false "The request names a resource that does not exist.";
    92 DUPLICATE_RESOURCE false "The request names a resource twice, or one that exists.";
    93 UNACCEPTABLE_CREDENTIAL false "The credential does not meet the requirements.";
    94 INCONSISTENT_VOTER_SET false "Sender and receiver do not agree on who may vote.";
    95 INVALID_UPDATE_VERSION false "The partition or feature is at another version than the update expects.";
    96 FEATURE_UPDATE_FAILED false "A feature could not be set to that level.";
    97 PRINCIPAL_DESERIALIZATION_FAILURE false "The principal of a forwarded request cannot be read.";
    98 SNAPSHOT_NOT_FOUND false "There is no such snapshot.";
    99 POSITION_OUT_OF_RANGE false "The position lies outside the snapshot.";
    100 UNKNOWN_TOPIC_ID true "This broker has no topic with that id.";
    101 DUPLICATE_BROKER_REGISTRATION false "Another broker is registered with this id.";
    102 BROKER_ID_NOT_REGISTERED false "No broker is registered with this id.";
    103 INCONSISTENT_TOPIC_ID true "The id is not the one of the named topic.";
    104 INCONSISTENT_CLUSTER_ID false "The sender belongs to another cluster.";
    105 TRANSACTIONAL_ID_NOT_FOUND false "There is no such transactional id.";
    106 FETCH_SESSION_TOPIC_ID_ERROR true "The fetch session mixes topic names and ids.";
    107 INELIGIBLE_REPLICA false "The replica may not join those in sync.";
    108 NEW_LEADER_ELECTED false "The change made another replica the leader.";
    109 OFFSET_MOVED_TO_TIERED_STORAGE false "The data at this offset is in remote storage only.";
    110 FENCED_MEMBER_EPOCH false "The coordinator has fenced the member; it must join again.";
    111 UNRELEASED_INSTANCE_ID false "Another member still holds this static instance id.";
    112 UNSUPPORTED_ASSIGNOR false "The coordinator has no assignor of that name.";
    113 STALE_MEMBER_EPOCH false "The member's epoch is out of date; it must use the newest one.";
    114 MISMATCHED_ENDPOINT_TYPE false "The request went to the wrong kind of endpoint.";
    115 UNSUPPORTED_ENDPOINT_TYPE false "The kind of endpoint is not known.";
    116 UNKNOWN_CONTROLLER_ID false "There is no such controller.";
    117 UNKNOWN_SUBSCRIPTION_ID false "The client's telemetry subscription is out of date.";
    118 TELEMETRY_TOO_LARGE false "The pushed metrics are larger than the broker accepts.";
    119 INVALID_REGISTRATION false "The registration is not legal.";
    120 TRANSACTION_ABORTABLE false "The transaction must be aborted; after that the producer can continue.";
    121 INVALID_RECORD_STATE false "The record is not in a state that allows this acknowledgement.";
    122 SHARE_SESSION_NOT_FOUND true "The broker has no such share session.";
    123 INVALID_SHARE_SESSION_EPOCH true "The epoch is not the one the share session expects next.";
    124 FENCED_STATE_EPOCH false "The share group's state is at a newer epoch.";
    125 INVALID_VOTER_KEY false "The voter's key is not the receiver's.";
    126 DUPLICATE_VOTER false "The voter belongs to the set already.";
    127 VOTER_NOT_FOUND false "The voter does not belong to the set.";
    128 INVALID_REGULAR_EXPRESSION false "The regular expression is not legal.";
    129 REBOOTSTRAP_REQUIRED false "The client's view is too old; it must start from its bootstrap servers again.";
    130 STREAMS_INVALID_TOPOLOGY false "The topology is not legal.";
    131 STREAMS_INVALID_TOPOLOGY_EPOCH false "The epoch of the topology is not legal.";
    132 STREAMS_TOPOLOGY_FENCED false "The group has a newer topology.";
    133 SHARE_SESSION_LIMIT_REACHED true "The broker has its maximum number of share sessions.";
    134 GROUP_DELETION_FAILED false "The group could not be deleted.";
    135 STREAMS_TOPOLOGY_DESCRIPTION_UPDATE_FAILED false "The description of the topology could not be stored.";
    136 CONTROLLER_ID_NOT_REGISTERED false "No controller is registered with this id.";
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
