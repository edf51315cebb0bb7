//! The dispatch table: a row for each API that is served.
//!
//! Each API has a file whose `answer(ctx, session, request, version)` returns the response, an [`Outcome`], or a
//! `Result` whose error closes the connection. To serve another API, write its file and add its row. [`dispatch`]
//! serves requests by the table.

mod add_offsets_to_txn;
mod add_partitions_to_txn;
mod add_raft_voter;
mod alter_configs;
mod alter_partition_reassignments;
mod alter_replica_log_dirs;
mod alter_user_scram_credentials;
mod api_versions;
mod create_acls;
mod create_partitions;
mod create_topics;
mod delete_acls;
mod delete_groups;
mod delete_records;
mod delete_topics;
mod describe_acls;
mod describe_cluster;
mod describe_configs;
mod describe_groups;
mod describe_log_dirs;
mod describe_producers;
mod describe_quorum;
mod describe_topic_partitions;
mod describe_transactions;
mod describe_user_scram_credentials;
mod elect_leaders;
mod end_txn;
mod fetch;
mod find_coordinator;
mod heartbeat;
mod incremental_alter_configs;
mod init_producer_id;
mod join_group;
mod leave_group;
mod list_config_resources;
mod list_groups;
mod list_offsets;
mod list_partition_reassignments;
mod list_transactions;
mod metadata;
mod offset_commit;
mod offset_delete;
mod offset_fetch;
mod offset_for_leader_epoch;
mod produce;
mod remove_raft_voter;
mod sasl_authenticate;
mod sasl_handshake;
mod sync_group;
mod txn_offset_commit;
mod unregister_broker;
mod unregister_controller;
mod update_features;
mod write_txn_markers;

mod acl_rows;
mod authorization;
mod committed_rows;
mod config_rows;
mod dispatch;
mod group_member;
mod leader_epoch;
mod offset_topics;
mod partition_lookup;
mod raft_voter;
mod subject;
#[cfg(test)]
mod tests;
mod topic_error;

pub(crate) use dispatch::Dispatch;

use crate::context::Context;
use crate::host::HostGone;
use crate::net::ResponseCharge;
use crate::randomness::NoRandomness;
use crate::session::Session;
use authorization::Authorization;
use dispatch::ApiRow;
use ottla_core::partitions::Isolation;
use ottla_wire::{ApiKey, Request, Response, Versions, messages};
use std::collections::BTreeMap;
use std::time::Duration;

/// What an API does with a request.
#[derive(Debug)]
pub(crate) enum Outcome<T> {
    /// It sends this response.
    Send(T),
    /// It sends this response, whose memory is charged to the response budget already.
    Charged(T, ResponseCharge),
    /// It sends nothing (Produce with acks 0).
    Nothing,
    /// It closes the connection. The text gives the reason and goes to the log.
    Close(String),
    /// It sends this response and closes the connection. The text gives the reason and goes to the log.
    SendAndClose(T, String),
    /// It has this outcome, and the connection is muted for this long afterwards. Only for APIs whose row says
    /// [`MuteUse::Mutes`].
    Muted(Box<Outcome<T>>, Duration),
}

impl<T: Response> From<T> for Outcome<T> {
    fn from(response: T) -> Outcome<T> {
        Outcome::Send(response)
    }
}

impl<T: Response, E: std::fmt::Display> From<Result<T, E>> for Outcome<T> {
    fn from(result: Result<T, E>) -> Outcome<T> {
        match result {
            Ok(response) => Outcome::Send(response),
            Err(error) => Outcome::Close(error.to_string()),
        }
    }
}

/// Why a request gets no response. None of it is the client's fault.
#[derive(Debug, thiserror::Error)]
pub(crate) enum AnswerError {
    /// The host is gone.
    #[error(transparent)]
    Gone(#[from] HostGone),
    /// No id can be drawn.
    #[error(transparent)]
    NoRandomness(#[from] NoRandomness),
}

/// The isolation level of a reader. Every level except 1 is 0, as in Kafka.
fn isolation(level: i8) -> Isolation {
    if level == 1 { Isolation::Committed } else { Isolation::Uncommitted }
}

/// Whether a request may be answered a second time if its first response does not fit into the memory budget.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Repeat {
    /// The request changes nothing, so it may.
    Repeats,
    /// The request changes something, or has charged its response already.
    Once,
}

/// When a request may begin on its connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Order {
    /// After the response to the previous request.
    InOrder,
    /// While earlier requests of the same API are pending. Responses keep the order of the requests.
    Overlaps,
}

/// Whether the API may mute its connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum MuteUse {
    Mutes,
    NoMute,
}

/// An API that is served. Implemented for its request by the table below.
pub(crate) trait Api: Request<Response: Send> + Send + 'static {
    const REPEAT: Repeat;
    const ORDER: Order;
    const MUTE: MuteUse;
    /// Who may use the API.
    const AUTHORIZATION: Authorization<Self, Self::Response>;

    /// Answers a request.
    fn answer(
        self,
        ctx: &Context,
        session: &Session,
        version: i16,
    ) -> impl Future<Output = Outcome<Self::Response>> + Send;
}

/// Makes a row for each API and implements [`Api`] for its request.
macro_rules! apis {
    ($($file:ident $request:ident $repeat:ident $order:ident $mute:ident $who:ident;)*) => {
        /// The APIs that are served, in the order of their numbers.
        static APIS: &[ApiRow] = &[$(ApiRow::of::<messages::$request>()),*];

        $(impl Api for messages::$request {
            const REPEAT: Repeat = Repeat::$repeat;
            const ORDER: Order = Order::$order;
            const MUTE: MuteUse = MuteUse::$mute;
            const AUTHORIZATION: Authorization<Self, Self::Response> = apis!(@who $who $file);

            async fn answer(self, ctx: &Context, session: &Session, version: i16) -> Outcome<Self::Response> {
                $file::answer(ctx, session, self, version).await.into()
            }
        })*
    };
    (@who Everyone $file:ident) => { Authorization::Everyone };
    (@who Filtered $file:ident) => { Authorization::Filtered };
    (@who Checked $file:ident) => { Authorization::Checked($file::authorize) };
}

// The last column says who may use the API: everyone; everyone, with an answer that shows only what the client may see;
// or the clients that the function `authorize` of its file lets in.
//
// file                             request                             repeat  order    mute   who
apis! {
    produce                         ProduceRequest                      Once    Overlaps Mutes  Checked;
    fetch                           FetchRequest                        Once    InOrder  NoMute Filtered;
    list_offsets                    ListOffsetsRequest                  Repeats InOrder  NoMute Checked;
    metadata                        MetadataRequest                     Repeats InOrder  NoMute Checked;
    offset_commit                   OffsetCommitRequest                 Once    InOrder  NoMute Checked;
    offset_fetch                    OffsetFetchRequest                  Repeats InOrder  NoMute Checked;
    find_coordinator                FindCoordinatorRequest              Repeats InOrder  NoMute Checked;
    join_group                      JoinGroupRequest                    Once    InOrder  NoMute Checked;
    heartbeat                       HeartbeatRequest                    Once    InOrder  NoMute Checked;
    leave_group                     LeaveGroupRequest                   Once    InOrder  NoMute Checked;
    sync_group                      SyncGroupRequest                    Once    InOrder  NoMute Checked;
    describe_groups                 DescribeGroupsRequest               Repeats InOrder  NoMute Checked;
    list_groups                     ListGroupsRequest                   Repeats InOrder  NoMute Filtered;
    sasl_handshake                  SaslHandshakeRequest                Once    InOrder  NoMute Everyone;
    api_versions                    ApiVersionsRequest                  Repeats InOrder  NoMute Everyone;
    create_topics                   CreateTopicsRequest                 Once    InOrder  NoMute Checked;
    delete_topics                   DeleteTopicsRequest                 Once    InOrder  NoMute Checked;
    delete_records                  DeleteRecordsRequest                Once    InOrder  NoMute Checked;
    init_producer_id                InitProducerIdRequest               Once    InOrder  NoMute Checked;
    offset_for_leader_epoch         OffsetForLeaderEpochRequest         Repeats InOrder  NoMute Checked;
    add_partitions_to_txn           AddPartitionsToTxnRequest           Once    InOrder  NoMute Checked;
    add_offsets_to_txn              AddOffsetsToTxnRequest              Once    InOrder  NoMute Checked;
    end_txn                         EndTxnRequest                       Once    InOrder  NoMute Checked;
    write_txn_markers               WriteTxnMarkersRequest              Once    InOrder  NoMute Checked;
    txn_offset_commit               TxnOffsetCommitRequest              Once    InOrder  NoMute Checked;
    describe_acls                   DescribeAclsRequest                 Repeats InOrder  NoMute Checked;
    create_acls                     CreateAclsRequest                   Once    InOrder  NoMute Checked;
    delete_acls                     DeleteAclsRequest                   Once    InOrder  NoMute Checked;
    describe_configs                DescribeConfigsRequest              Repeats InOrder  NoMute Checked;
    alter_configs                   AlterConfigsRequest                 Once    InOrder  NoMute Checked;
    alter_replica_log_dirs          AlterReplicaLogDirsRequest          Once    InOrder  NoMute Checked;
    describe_log_dirs               DescribeLogDirsRequest              Repeats InOrder  NoMute Checked;
    sasl_authenticate               SaslAuthenticateRequest             Once    InOrder  NoMute Everyone;
    create_partitions               CreatePartitionsRequest             Once    InOrder  NoMute Checked;
    delete_groups                   DeleteGroupsRequest                 Once    InOrder  NoMute Checked;
    elect_leaders                   ElectLeadersRequest                 Once    InOrder  NoMute Checked;
    incremental_alter_configs       IncrementalAlterConfigsRequest      Once    InOrder  NoMute Checked;
    alter_partition_reassignments   AlterPartitionReassignmentsRequest  Once    InOrder  NoMute Checked;
    list_partition_reassignments    ListPartitionReassignmentsRequest   Repeats InOrder  NoMute Checked;
    offset_delete                   OffsetDeleteRequest                 Once    InOrder  NoMute Checked;
    describe_user_scram_credentials DescribeUserScramCredentialsRequest Repeats InOrder  NoMute Checked;
    alter_user_scram_credentials    AlterUserScramCredentialsRequest    Once    InOrder  NoMute Checked;
    describe_quorum                 DescribeQuorumRequest               Repeats InOrder  NoMute Checked;
    update_features                 UpdateFeaturesRequest               Once    InOrder  NoMute Checked;
    describe_cluster                DescribeClusterRequest              Repeats InOrder  NoMute Everyone;
    describe_producers              DescribeProducersRequest            Repeats InOrder  NoMute Checked;
    unregister_broker               UnregisterBrokerRequest             Once    InOrder  NoMute Checked;
    describe_transactions           DescribeTransactionsRequest         Repeats InOrder  NoMute Checked;
    list_transactions               ListTransactionsRequest             Repeats InOrder  NoMute Filtered;
    list_config_resources           ListConfigResourcesRequest          Repeats InOrder  NoMute Checked;
    describe_topic_partitions       DescribeTopicPartitionsRequest      Repeats InOrder  NoMute Checked;
    add_raft_voter                  AddRaftVoterRequest                 Once    InOrder  NoMute Checked;
    remove_raft_voter               RemoveRaftVoterRequest              Once    InOrder  NoMute Checked;
    unregister_controller           UnregisterControllerRequest         Once    InOrder  NoMute Checked;
}

/// The versions of an API that this broker serves: all stable ones of Apache Kafka 4.4. None if it does not serve the
/// API.
///
/// ApiVersions shows clients the same range, except for Produce (T-08).
pub fn served_versions(key: ApiKey) -> Option<Versions> {
    ApiRow::find(key).map(ApiRow::served)
}

/// The APIs and versions that ApiVersions shows.
fn advertised() -> impl Iterator<Item = (ApiKey, Versions)> {
    APIS.iter().map(|api| (api.key, api.advertised()))
}

/// Separates the items whose name occurs once from the names that occur more often.
fn named_once<T, K: Ord + Clone>(items: Vec<T>, name: impl Fn(&T) -> K) -> (Vec<T>, Vec<K>) {
    let mut counts: BTreeMap<K, usize> = BTreeMap::new();
    for item in &items {
        *counts.entry(name(item)).or_default() += 1;
    }
    counts.retain(|_, count| *count > 1);
    let once = items.into_iter().filter(|item| !counts.contains_key(&name(item))).collect();
    (once, counts.into_keys().collect())
}
