//! Dispatch: one table of the APIs that are served, and from a frame to the file that answers it.
//!
//! An API's file has `answer(ctx, caller, request, version)`, which returns the response, or an [`Outcome`], or a `Result` whose
//! error closes the connection. To serve one more API: write its file, add its line to the table.

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

mod config_rows;
mod group_member;
mod leader_epoch;
mod offset_topics;
mod place;
pub(crate) mod stored;
mod subject;
#[cfg(test)]
mod tests;
mod topic_error;

pub(crate) use fetch::Sessions;

use crate::ApiMetrics;
use crate::context::{Caller, Context, Mute};
use crate::host::HostGone;
use crate::net::{Answerer, Answering, Coming, Hold, Refused, Reply};
use crate::randomness::NoRandomness;
use crate::trace::{Arrived, Recording, Stage};
use bytes::Bytes;
use ottla_core::partition::Isolation;
use ottla_wire::frame::{self, RequestHeader};
use ottla_wire::{
    ApiKey, DecodeError, DecodeProblem, Message, Reader, Request, Response, Text, Versions, messages,
};
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// The most memory that the lists of a request may take beside its bytes: some ten thousand partitions.
const MOST_ROOM: usize = 4 << 20;
/// Requests that change nothing.
const QUESTIONS: [ApiKey; 17] = [
    ApiKey::LIST_OFFSETS,
    ApiKey::METADATA,
    ApiKey::OFFSET_FETCH,
    ApiKey::FIND_COORDINATOR,
    ApiKey::DESCRIBE_GROUPS,
    ApiKey::LIST_GROUPS,
    ApiKey::API_VERSIONS,
    ApiKey::OFFSET_FOR_LEADER_EPOCH,
    ApiKey::DESCRIBE_ACLS,
    ApiKey::DESCRIBE_CONFIGS,
    ApiKey::DESCRIBE_LOG_DIRS,
    ApiKey::DESCRIBE_QUORUM,
    ApiKey::DESCRIBE_CLUSTER,
    ApiKey::DESCRIBE_PRODUCERS,
    ApiKey::DESCRIBE_TRANSACTIONS,
    ApiKey::LIST_TRANSACTIONS,
    ApiKey::DESCRIBE_TOPIC_PARTITIONS,
];

/// Bytes of the length in front of a frame.
const PREFIX: u64 = 4;

/// What a request came to.
#[derive(Debug)]
pub(crate) enum Outcome<T> {
    /// This response is sent.
    Send(T),
    /// This response is sent; what it holds of the allowance is given back when the peer has taken it.
    Held(T, Hold),
    /// Nothing is sent (Produce with acks 0).
    Nothing,
    /// The connection is closed; the text says why and goes to the log.
    Close(String),
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

/// Why a request gets no answer: nothing that the client did.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Broken {
    /// The shard is gone.
    #[error(transparent)]
    Gone(#[from] HostGone),
    /// No topic id can be drawn.
    #[error(transparent)]
    NoRandomness(#[from] NoRandomness),
}

/// What anybody may do with a topic, as there are no ACLs: all operations that topics have, as bits.
const TOPIC_OPERATIONS: i32 = 0x0df8;
/// What anybody may do with the cluster.
const CLUSTER_OPERATIONS: i32 = 0x1fa0;

/// What the reader wants to see; what is not 1 is 0, as in Kafka.
fn isolation(level: i8) -> Isolation {
    if level == 1 { Isolation::Committed } else { Isolation::Uncommitted }
}

/// A request whose header has been read.
struct Incoming {
    begun: Instant,
    ctx: Arc<Context>,
    caller: Caller,
    version: i16,
    correlation_id: i32,
    body: Reader,
}

/// An API that is served.
struct Api {
    key: ApiKey,
    begin: fn(Incoming) -> Result<Answering, DecodeError>,
}

/// Reads a request and begins to answer it.
macro_rules! apis {
    ($($file:ident: $request:ident;)*) => {
        /// The APIs that are served, by number.
        const APIS: &[Api] = &[$(Api {
            key: messages::$request::KEY,
            begin: |mut incoming| {
                let request = messages::$request::decode(&mut incoming.body, incoming.version)?;
                if let Some(notes) = &incoming.ctx.notes {
                    notes.reach(Stage::Decoded);
                }
                // What the request does not need of its frame can go.
                let Incoming { begun, ctx, caller, version, correlation_id, .. } = incoming;
                Ok(Box::pin(async move {
                    let outcome = $file::answer(&ctx, &caller, request, version).await;
                    let outcome = outcome.into();
                    let metrics = ctx.metrics().api(messages::$request::KEY);
                    count(&outcome, metrics);
                    note(&ctx, &outcome);
                    let reply = reply(outcome, &caller, correlation_id, version);
                    count_reply(&reply, metrics, begun);
                    note_reply(&ctx, &reply).await;
                    muted(reply, &caller)
                }))
            },
        }),*];
    };
}

apis! {
    produce: ProduceRequest;
    fetch: FetchRequest;
    list_offsets: ListOffsetsRequest;
    metadata: MetadataRequest;
    offset_commit: OffsetCommitRequest;
    offset_fetch: OffsetFetchRequest;
    find_coordinator: FindCoordinatorRequest;
    join_group: JoinGroupRequest;
    heartbeat: HeartbeatRequest;
    leave_group: LeaveGroupRequest;
    sync_group: SyncGroupRequest;
    describe_groups: DescribeGroupsRequest;
    list_groups: ListGroupsRequest;
    api_versions: ApiVersionsRequest;
    create_topics: CreateTopicsRequest;
    delete_topics: DeleteTopicsRequest;
    delete_records: DeleteRecordsRequest;
    init_producer_id: InitProducerIdRequest;
    offset_for_leader_epoch: OffsetForLeaderEpochRequest;
    add_partitions_to_txn: AddPartitionsToTxnRequest;
    add_offsets_to_txn: AddOffsetsToTxnRequest;
    end_txn: EndTxnRequest;
    write_txn_markers: WriteTxnMarkersRequest;
    txn_offset_commit: TxnOffsetCommitRequest;
    describe_acls: DescribeAclsRequest;
    describe_configs: DescribeConfigsRequest;
    alter_configs: AlterConfigsRequest;
    describe_log_dirs: DescribeLogDirsRequest;
    create_partitions: CreatePartitionsRequest;
    delete_groups: DeleteGroupsRequest;
    incremental_alter_configs: IncrementalAlterConfigsRequest;
    offset_delete: OffsetDeleteRequest;
    describe_quorum: DescribeQuorumRequest;
    describe_cluster: DescribeClusterRequest;
    describe_producers: DescribeProducersRequest;
    describe_transactions: DescribeTransactionsRequest;
    list_transactions: ListTransactionsRequest;
    describe_topic_partitions: DescribeTopicPartitionsRequest;
}

impl Api {
    /// The versions that are served: all stable ones of Apache Kafka 4.4.
    fn served(&self) -> Versions {
        self.key.info().map_or(Versions::NONE, |info| info.stable_versions())
    }

    /// The versions that clients are told. Produce is said to start at 0 (T-08): older librdkafka turn compression off otherwise.
    fn advertised(&self) -> Versions {
        let served = self.served();
        if self.key == ApiKey::PRODUCE { Versions::new(0, served.max) } else { served }
    }
}

/// The versions of an API that this broker serves; `None` if it does not serve the API.
///
/// ApiVersions tells clients the same, but for Produce, which it says to start at 0 (T-08).
pub fn served_versions(key: ApiKey) -> Option<Versions> {
    APIS.iter().find(|api| api.key == key).map(Api::served)
}

/// The APIs that are served.
pub(crate) fn served_keys() -> impl Iterator<Item = ApiKey> {
    APIS.iter().map(|api| api.key)
}

/// Counts the errors of a response.
fn count<T: Response>(outcome: &Outcome<T>, metrics: Option<&ApiMetrics>) {
    if let (Some(metrics), Outcome::Send(response) | Outcome::Held(response, _)) = (metrics, outcome) {
        response.error_codes(&mut |code| metrics.error(code));
    }
}

/// Notes the errors of a response, if the request is traced.
fn note<T: Response>(ctx: &Context, outcome: &Outcome<T>) {
    if let (Some(notes), Outcome::Send(response) | Outcome::Held(response, _)) = (&ctx.notes, outcome) {
        notes.errors(response);
    }
}

/// Notes what a request that is traced was about.
async fn note_reply(ctx: &Context, reply: &Reply) {
    if let Some(notes) = &ctx.notes {
        notes.reach(Stage::Answered);
        notes.look(&ctx.trace, &ctx.host, reply).await;
    }
}

/// Counts a request that has been answered.
fn count_reply(reply: &Reply, metrics: Option<&ApiMetrics>, begun: Instant) {
    let Some(metrics) = metrics else { return };
    metrics.took(begun.elapsed());
    match reply {
        Reply::Send(chunks, _) => metrics.bytes_out.add(chunks.iter().map(|chunk| chunk.len() as u64).sum()),
        Reply::Nothing | Reply::Muted(..) => {}
        Reply::Close(_) => metrics.broken.add(1),
    }
}

fn reply<T: Response>(outcome: Outcome<T>, caller: &Caller, correlation_id: i32, version: i16) -> Reply {
    let (response, hold) = match outcome {
        Outcome::Send(response) => (response, None),
        Outcome::Held(response, hold) => (response, Some(hold)),
        Outcome::Nothing => return Reply::Nothing,
        Outcome::Close(why) => return Reply::Close(refusal(caller, T::KEY, version, why)),
    };
    match frame::response(correlation_id, &response, version) {
        Ok(frame) => Reply::Send(frame.into_chunks(), hold),
        Err(error) => {
            let why = format!("cannot encode the response, which is a bug in the broker: {error}");
            Reply::Close(refusal(caller, T::KEY, version, why))
        }
    }
}

/// The reply to a client that is to be quiet for a while.
fn muted(reply: Reply, caller: &Caller) -> Reply {
    match caller.mute.get() {
        Duration::ZERO => reply,
        span => Reply::Muted(Box::new(reply), span),
    }
}

/// One line for the log: who, what, why.
fn refusal(caller: &Caller, key: ApiKey, version: i16, why: impl std::fmt::Display) -> String {
    format!("client {:?}, {key} version {version}: {why}", caller.client_id)
}

/// The items whose name occurs once, and the names that occur more often.
fn named_once<T, K: Ord + Clone>(items: Vec<T>, name: impl Fn(&T) -> K) -> (Vec<T>, Vec<K>) {
    let mut counts: BTreeMap<K, usize> = BTreeMap::new();
    for item in &items {
        *counts.entry(name(item)).or_default() += 1;
    }
    counts.retain(|_, count| *count > 1);
    let once = items.into_iter().filter(|item| !counts.contains_key(&name(item))).collect();
    (once, counts.into_keys().collect())
}

/// True if the request that starts with these bytes can be answered twice.
fn may_repeat(head: &[u8]) -> bool {
    head.first_chunk().is_some_and(|key| QUESTIONS.contains(&ApiKey(i16::from_be_bytes(*key))))
}

/// The context as what connections ask.
pub(crate) struct Dispatch(pub(crate) Arc<Context>);

impl Answerer for Dispatch {
    fn begin(
        &self,
        peer: SocketAddr,
        frame: Bytes,
        room: usize,
        recording: Option<&Recording>,
    ) -> Result<Answering, Refused> {
        let overlaps = self.may_overlap(&frame);
        let repeats = may_repeat(&frame).then(|| (peer, frame.clone(), room));
        let begun = self.read(peer, frame, room, recording);
        if let Err(Refused::Bad(_)) = begun {
            self.0.metrics().malformed.add(1);
        }
        let begun = begun?;
        if overlaps {
            // The answers are smaller than the requests, which are paid for.
            return Ok(begun);
        }
        let dispatch = Dispatch(Arc::clone(&self.0));
        Ok(Box::pin(async move { dispatch.hold(begun.await, repeats).await }))
    }

    fn came(&self, coming: Coming) {
        let metrics = self.0.metrics();
        match coming {
            Coming::Accepted => metrics.accepted.add(1),
            Coming::Closed => metrics.closed.add(1),
            Coming::TurnedAway => metrics.turned_away.add(1),
        }
    }

    fn is_recording(&self) -> bool {
        self.0.trace.is_on()
    }

    fn record(&self, arrived: Arrived, frame: &Bytes) -> Option<Box<Recording>> {
        self.0.trace.record(arrived, frame)
    }

    fn may_overlap(&self, head: &[u8]) -> bool {
        head.starts_with(&ApiKey::PRODUCE.0.to_be_bytes())
    }
}

impl Dispatch {
    /// Waits until there is room for an answer. One that only tells something is forgotten meanwhile, and made again.
    async fn hold(&self, reply: Reply, repeats: Option<(SocketAddr, Bytes, usize)>) -> Reply {
        let Reply::Send(chunks, None) = reply else { return reply };
        let size = chunks.iter().map(|chunk| chunk.len() as u64).sum();
        if let Some(hold) = self.0.answers.try_hold(size) {
            return Reply::Send(chunks, Some(hold));
        }
        let Some((peer, frame, room)) = repeats else {
            let hold = self.0.answers.hold(size).await;
            return Reply::Send(chunks, Some(hold));
        };
        drop(chunks);
        let hold = self.0.answers.hold(size).await;
        match self.read(peer, frame, room, None) {
            Ok(again) => match again.await {
                Reply::Send(chunks, None) => Reply::Send(chunks, Some(hold)),
                other => other,
            },
            Err(why) => Reply::Close(format!("a request that was read cannot be read again: {why:?}")),
        }
    }

    /// Reads a request and begins to answer it.
    fn read(
        &self,
        peer: SocketAddr,
        frame: Bytes,
        room: usize,
        recording: Option<&Recording>,
    ) -> Result<Answering, Refused> {
        let bad = |error: DecodeError| Refused::Bad(error.to_string());
        let (header, body) = frame::read_request_header(&frame).map_err(bad)?;
        let RequestHeader { api_key: key, api_version: version, correlation_id, client_id, .. } = header;
        // A name of its own: a part of the frame would keep all of it.
        let client_id = client_id.map_or(Text::from_static(""), |id| Text::from(&*id));
        let caller = Caller { peer, client_id, mute: Mute::default() };
        let api = APIS.iter().find(|api| api.key == key);
        let Some(api) = api else {
            let why = "byte 4, field RequestApiKey: this API is not served";
            return Err(Refused::Bad(refusal(&caller, key, version, why)));
        };
        if !api.served().contains(version) {
            if key == ApiKey::API_VERSIONS {
                let response = Outcome::Send(api_versions::unknown_version());
                return Ok(Box::pin(std::future::ready(reply(response, &caller, correlation_id, 0))));
            }
            let why = format!("byte 6, field RequestApiVersion: served are {}", api.served());
            return Err(Refused::Bad(refusal(&caller, key, version, why)));
        }
        let who = caller.clone();
        if let Some(metrics) = self.0.metrics().api(key) {
            metrics.bytes_in.add(PREFIX + frame.len() as u64);
        }
        let incoming = Incoming {
            begun: Instant::now(),
            ctx: self.context(recording),
            caller,
            version,
            correlation_id,
            body: body.with_room(room),
        };
        (api.begin)(incoming).map_err(|error| match error.problem() {
            DecodeProblem::Room(_) if room < MOST_ROOM => Refused::Room,
            _ => Refused::Bad(refusal(&who, key, version, error)),
        })
    }

    fn context(&self, recording: Option<&Recording>) -> Arc<Context> {
        match recording {
            None => Arc::clone(&self.0),
            Some(recording) => Arc::new(self.0.traced(recording.notes())),
        }
    }
}
