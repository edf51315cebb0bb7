//! The dispatch table: a row for each API that is served.
//!
//! Each API has a file whose `answer(ctx, session, request, version)` returns the response, an [`Outcome`], or a
//! `Result` whose error closes the connection. To serve another API, write its file and add its row. [`dispatch`]
//! serves requests by the table.

mod add_offsets_to_txn;
mod add_partitions_to_txn;
mod alter_configs;
mod api_versions;
mod create_partitions;
mod create_topics;
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
mod end_txn;
mod fetch;
mod find_coordinator;
mod heartbeat;
mod incremental_alter_configs;
mod init_producer_id;
mod join_group;
mod leave_group;
mod list_groups;
mod list_offsets;
mod list_transactions;
mod metadata;
mod offset_commit;
mod offset_delete;
mod offset_fetch;
mod offset_for_leader_epoch;
mod produce;
mod sync_group;
mod txn_offset_commit;
mod write_txn_markers;

mod authorization;
mod committed_rows;
mod config_rows;
mod dispatch;
mod group_member;
mod leader_epoch;
mod offset_topics;
mod partition_lookup;
mod resources;
mod subject;
#[cfg(test)]
mod tests;
mod topic_error;

pub(crate) use dispatch::Dispatch;

use crate::authorizer::Operation::{
    Alter, AlterConfigs, ClusterAction, Create, Delete, Describe, DescribeConfigs, IdempotentWrite, Read,
    Write,
};
use crate::authorizer::ResourceType::{Group, Topic, TransactionalId};
use crate::authorizer::{Operation, ResourceType};
use crate::context::Context;
use crate::host::HostGone;
use crate::net::ResponseCharge;
use crate::randomness::NoRandomness;
use crate::session::Session;
use authorization::Check::{Any, Cluster, Later, Named, When};
use authorization::{Check, NamesGroups, NamesTopics, NamesTransactionalIds};
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
    /// The checks of authorization in the order in which they are made; empty if everybody may use the API (section 9
    /// of the security rules).
    const AUTHORIZATION: &'static [Check<Self>];

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
    ($($file:ident $request:ident $repeat:ident $order:ident $mute:ident [$($check:expr),*];)*) => {
        /// The APIs that are served, in the order of their numbers.
        static APIS: &[ApiRow] = &[$(ApiRow::of::<messages::$request>()),*];

        $(impl Api for messages::$request {
            const REPEAT: Repeat = Repeat::$repeat;
            const ORDER: Order = Order::$order;
            const MUTE: MuteUse = MuteUse::$mute;
            const AUTHORIZATION: &'static [Check<Self>] = &[$($check),*];

            async fn answer(self, ctx: &Context, session: &Session, version: i16) -> Outcome<Self::Response> {
                $file::answer(ctx, session, self, version).await.into()
            }
        })*
    };
}

/// The operation on every topic that a request names.
const fn topics<R: NamesTopics>(operation: Operation) -> Check<R> {
    Named(operation, R::topics)
}

/// The operation on every group that a request names.
const fn groups<R: NamesGroups>(operation: Operation) -> Check<R> {
    Named(operation, R::groups)
}

/// The operation on every transactional id that a request names.
const fn transactional_ids<R: NamesTransactionalIds>(operation: Operation) -> Check<R> {
    Named(operation, R::transactional_ids)
}

// file                     request                          repeat   order     mute    authorization
apis! {
    produce                 ProduceRequest                   Once     Overlaps  Mutes   [transactional_ids(Write), topics(Write)];
    fetch                   FetchRequest                     Once     InOrder   NoMute  [
        When(resources::is_follower, &Cluster(ClusterAction)), When(resources::is_consumer, &Later(Read, Topic))];
    list_offsets            ListOffsetsRequest               Repeats  InOrder   NoMute  [topics(Describe)];
    metadata                MetadataRequest                  Repeats  InOrder   NoMute  [
        topics(Describe), Later(Describe, Topic), Any(&[&[Later(Create, ResourceType::Cluster)], &[Later(Create, Topic)]])];
    offset_commit           OffsetCommitRequest              Once     InOrder   NoMute  [groups(Read), topics(Read)];
    offset_fetch            OffsetFetchRequest               Repeats  InOrder   NoMute  [
        groups(Describe), topics(Describe), Later(Describe, Topic)];
    find_coordinator        FindCoordinatorRequest           Repeats  InOrder   NoMute  [
        groups(Describe), transactional_ids(Describe), When(resources::finds_share_coordinator, &Cluster(ClusterAction))];
    join_group              JoinGroupRequest                 Once     InOrder   NoMute  [groups(Read)];
    heartbeat               HeartbeatRequest                 Once     InOrder   NoMute  [groups(Read)];
    leave_group             LeaveGroupRequest                Once     InOrder   NoMute  [groups(Read)];
    sync_group              SyncGroupRequest                 Once     InOrder   NoMute  [groups(Read)];
    describe_groups         DescribeGroupsRequest            Repeats  InOrder   NoMute  [groups(Describe)];
    list_groups             ListGroupsRequest                Repeats  InOrder   NoMute  [
        Any(&[&[Cluster(Describe)], &[Later(Describe, Group)]])];
    api_versions            ApiVersionsRequest               Repeats  InOrder   NoMute  [];
    create_topics           CreateTopicsRequest              Once     InOrder   NoMute  [
        Any(&[&[Cluster(Create)], &[topics(Create)]]), Later(DescribeConfigs, Topic)];
    delete_topics           DeleteTopicsRequest              Once     InOrder   NoMute  [
        Any(&[&[Cluster(Delete)], &[topics(Describe), topics(Delete)]])];
    delete_records          DeleteRecordsRequest             Once     InOrder   NoMute  [topics(Delete)];
    init_producer_id        InitProducerIdRequest            Once     InOrder   NoMute  [
        transactional_ids(Write),
        When(resources::has_no_transactional_id, &Any(&[&[Cluster(IdempotentWrite)], &[Later(Write, Topic)]]))];
    offset_for_leader_epoch OffsetForLeaderEpochRequest      Repeats  InOrder   NoMute  [
        Any(&[&[Cluster(ClusterAction)], &[topics(Describe)]])];
    add_partitions_to_txn   AddPartitionsToTxnRequest        Once     InOrder   NoMute  [
        When(resources::is_between_brokers, &Cluster(ClusterAction)), transactional_ids(Write), topics(Write)];
    add_offsets_to_txn      AddOffsetsToTxnRequest           Once     InOrder   NoMute  [transactional_ids(Write), groups(Read)];
    end_txn                 EndTxnRequest                    Once     InOrder   NoMute  [transactional_ids(Write)];
    write_txn_markers       WriteTxnMarkersRequest           Once     InOrder   NoMute  [
        Any(&[&[Cluster(Alter)], &[Cluster(ClusterAction)]])];
    txn_offset_commit       TxnOffsetCommitRequest           Once     InOrder   NoMute  [
        transactional_ids(Write), groups(Read), topics(Read)];
    describe_acls           DescribeAclsRequest              Repeats  InOrder   NoMute  [Cluster(Describe)];
    describe_configs        DescribeConfigsRequest           Repeats  InOrder   NoMute  [
        topics(DescribeConfigs), groups(DescribeConfigs), When(resources::describes_broker, &Cluster(DescribeConfigs))];
    alter_configs           AlterConfigsRequest              Once     InOrder   NoMute  [
        topics(AlterConfigs), groups(AlterConfigs), When(resources::alters_broker, &Cluster(AlterConfigs))];
    describe_log_dirs       DescribeLogDirsRequest           Repeats  InOrder   NoMute  [Cluster(Describe)];
    create_partitions       CreatePartitionsRequest          Once     InOrder   NoMute  [topics(Alter)];
    delete_groups           DeleteGroupsRequest              Once     InOrder   NoMute  [groups(Delete)];
    incremental_alter_configs IncrementalAlterConfigsRequest Once     InOrder   NoMute  [
        topics(AlterConfigs), groups(AlterConfigs), When(resources::alters_broker_incrementally, &Cluster(AlterConfigs))];
    offset_delete           OffsetDeleteRequest              Once     InOrder   NoMute  [groups(Delete), topics(Read)];
    describe_quorum         DescribeQuorumRequest            Repeats  InOrder   NoMute  [Cluster(Describe)];
    describe_cluster        DescribeClusterRequest           Repeats  InOrder   NoMute  [];
    describe_producers      DescribeProducersRequest         Repeats  InOrder   NoMute  [topics(Read)];
    describe_transactions   DescribeTransactionsRequest      Repeats  InOrder   NoMute  [
        transactional_ids(Describe), Later(Describe, Topic)];
    list_transactions       ListTransactionsRequest          Repeats  InOrder   NoMute  [Later(Describe, TransactionalId)];
    describe_topic_partitions DescribeTopicPartitionsRequest Repeats  InOrder   NoMute  [topics(Describe), Later(Describe, Topic)];
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
