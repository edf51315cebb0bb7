//! Fetch 4-18: whole batches from partitions, now or when there are enough of them.
//! Left out: followers (there are none), tiered storage, and diverging epochs: the one leader epoch never ends.
//!
//! [`crate::reading`] plans and reads; this file applies the fetch session and encodes the rows.

use super::authorization::TopicChecks;
use super::subject::Reason;
use super::{AnswerError, Outcome};
use crate::authorizer::Resource;
use crate::context::Context;
use crate::fetch_session::{FetchTargets, SessionError};
use crate::net::ResponseCharge;
use crate::reading::{
    PartitionRead, PartitionRecords, ReadBounds, ReadError, ReadResult, RecordReader, TopicKey,
};
use crate::session::Session;
use ottla_core::partitions::Isolation;
use ottla_types::acl::Operation;
use ottla_types::record;
use ottla_wire::messages::fetch_response::{AbortedTransaction, FetchableTopicResponse, PartitionData};
use ottla_wire::messages::{FetchRequest, FetchResponse};
use ottla_wire::{ErrorCode, Records, Text};
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;

/// The most bytes of records in one response, except for a single batch that is larger (Kafka's default of the broker's
/// `fetch.max.bytes`).
const MAX_BYTES: i32 = 55 << 20;

pub(crate) async fn answer(
    ctx: &Context,
    session: &Session,
    request: FetchRequest,
    version: i16,
) -> Outcome<FetchResponse> {
    match respond(ctx, session, request, version).await {
        Ok((response, charge)) => Outcome::Charged(response, charge),
        Err(broken) => Outcome::Close(broken.to_string()),
    }
}

async fn respond(
    ctx: &Context,
    client: &Session,
    request: FetchRequest,
    version: i16,
) -> Result<(FetchResponse, ResponseCharge), AnswerError> {
    let bounds = ReadBounds {
        max_bytes: u64::try_from(request.max_bytes.min(MAX_BYTES)).unwrap_or(0),
        min_bytes: u64::try_from(request.min_bytes.min(request.max_bytes)).unwrap_or(0),
        isolation: super::isolation(request.isolation_level),
    };
    let max_wait = Duration::from_millis(u64::try_from(request.max_wait_ms).unwrap_or(0));
    let is_follower = is_follower(&request, version);
    let FetchTargets { reads, session } = match ctx.fetch_sessions.begin(request, version) {
        Ok(targets) => targets,
        Err(error) => {
            let code = session_code(error);
            ctx.refused("", code, &Reason(None, "the fetch session is not as the request expects it"));
            let refused = FetchResponse { error_code: code.0, ..Default::default() };
            return Ok((refused, ctx.response_budget.charge(0).await));
        }
    };
    let reads = Arc::new(reads);
    let access = FetchAccess { ctx, session: client, is_follower };
    let (rows, charge) = access.read(&reads, bounds, Instant::now() + max_wait).await?;
    let session_id = session.as_ref().map_or(0, |session| session.id);
    let shown = match session {
        Some(session) => ctx.fetch_sessions.finish(&session, &reads, rows),
        None => rows.into_iter().map(Some).collect(),
    };
    let responses = by_topic(&reads, shown);
    Ok((FetchResponse { session_id, responses, ..Default::default() }, charge))
}

/// S-305: whether a follower fetches, not a consumer.
fn is_follower(request: &FetchRequest, version: i16) -> bool {
    let replica = if version < 15 { request.replica_id } else { request.replica_state.replica_id };
    replica >= 0
}

/// The client of a request, and what it may read.
struct FetchAccess<'a> {
    ctx: &'a Context,
    session: &'a Session,
    is_follower: bool,
}

impl FetchAccess<'_> {
    /// Reads the partitions that the client may read. A row for each partition, in order.
    ///
    /// S-303 to S-305: a follower needs CLUSTER_ACTION on the cluster, a consumer READ on each topic. A fetch session
    /// holds its topics, so they are checked with each request of the session, and again after a wait during which ACLs
    /// have changed (S-02).
    async fn read(
        &self,
        reads: &Arc<Vec<PartitionRead>>,
        bounds: ReadBounds,
        deadline: Instant,
    ) -> Result<(Vec<PartitionData>, ResponseCharge), AnswerError> {
        let ctx = self.ctx;
        let acl_changes = ctx.shards.settings().access().acl_changes();
        let may_read = self.may_read(reads);
        let allowed = if may_read.iter().all(|may| *may) {
            Arc::clone(reads)
        } else {
            let allowed = reads.iter().zip(&may_read).filter(|(_, may)| **may);
            Arc::new(allowed.map(|(read, _)| read.clone()).collect())
        };
        let reader =
            RecordReader { host: ctx.shards.partitions(), log: &ctx.reader, budget: &ctx.response_budget };
        let deadline = if allowed.is_empty() && !reads.is_empty() { Instant::now() } else { deadline };
        let (results, charge) = reader.read(&allowed, bounds, deadline).await?;
        let unchanged = acl_changes == ctx.shards.settings().access().acl_changes();
        let still = if unchanged { None } else { Some(self.may_read(reads)) };
        let mut results = results.into_iter();
        let rows = reads.iter().enumerate().map(|(at, read)| {
            let result = if may_read[at] { results.next() } else { None };
            match result {
                Some(result) if still.as_ref().is_none_or(|still| still[at]) => {
                    row(ctx, read, result, bounds.isolation)
                }
                _ => refused(ErrorCode::TOPIC_AUTHORIZATION_FAILED),
            }
        });
        Ok((rows.collect(), charge))
    }

    /// Whether the client may read each partition.
    fn may_read(&self, reads: &[PartitionRead]) -> Vec<bool> {
        let rights = self.ctx.rights(self.session);
        if rights.is_unlimited() {
            return vec![true; reads.len()];
        }
        if self.is_follower {
            let may = rights.allows(Operation::ClusterAction, Resource::Cluster);
            return vec![may; reads.len()];
        }
        let mut checks = TopicChecks::new(&rights, Operation::Read);
        let may = |read: &PartitionRead| match &read.topic {
            TopicKey::Name(name) => checks.allows(name),
            TopicKey::Id(id) => checks.allows_ref(&Text::default(), *id),
        };
        reads.iter().map(may).collect()
    }
}

/// The row of a partition. [`by_topic`] fills in its index.
///
/// zstd batches go out at every version, as Apache Kafka 4.4 sends them: clients of Fetch 4 that can read them exist.
fn row(ctx: &Context, read: &PartitionRead, result: ReadResult, isolation: Isolation) -> PartitionData {
    match result {
        Ok(records) => filled(ctx, records, isolation),
        Err(error) => {
            let code = read_code(&error);
            if !matches!(error, ReadError::Storage) {
                ctx.refused(read, code, &error);
            }
            refused(code)
        }
    }
}

fn filled(ctx: &Context, records: PartitionRecords, isolation: Isolation) -> PartitionData {
    let PartitionRecords { at, plan, chunks, bytes, offsets } = records;
    if bytes > 0 {
        ctx.metrics().fetched(at.topic, bytes, offsets);
    }
    let entry = |aborted: &record::AbortedTransaction| AbortedTransaction {
        producer_id: aborted.producer_id.0,
        first_offset: aborted.first_offset.0,
        ..Default::default()
    };
    PartitionData {
        high_watermark: plan.high_watermark.0,
        last_stable_offset: plan.last_stable.0,
        log_start_offset: plan.log_start.0,
        // T-204: null unless the client reads committed records only.
        aborted_transactions: (isolation == Isolation::Committed)
            .then(|| plan.aborted.iter().map(entry).collect()),
        records: Some(Records::from(chunks)),
        ..Default::default()
    }
}

/// A row without data. Its records are empty, never null: some clients fail on null (KAFKA-18646).
fn refused(code: ErrorCode) -> PartitionData {
    let without_partition = matches!(
        code,
        ErrorCode::UNKNOWN_TOPIC_OR_PARTITION
            | ErrorCode::UNKNOWN_TOPIC_ID
            | ErrorCode::TOPIC_AUTHORIZATION_FAILED
    );
    PartitionData {
        error_code: code.0,
        high_watermark: -1,
        // Kafka sends an empty list for a partition that it does not look at, and null for other errors.
        aborted_transactions: without_partition.then(Vec::new),
        records: Some(Records::default()),
        ..Default::default()
    }
}

/// The rows that the response shows, grouped by topic in the order of the reads.
fn by_topic(reads: &[PartitionRead], rows: Vec<Option<PartitionData>>) -> Vec<FetchableTopicResponse> {
    let mut topics: Vec<FetchableTopicResponse> = Vec::new();
    let mut last: Option<&TopicKey> = None;
    for (read, row) in reads.iter().zip(rows) {
        let Some(mut row) = row else { continue };
        row.partition_index = read.partition;
        if last != Some(&read.topic) {
            topics.push(topic(&read.topic));
            last = Some(&read.topic);
        }
        if let Some(topic) = topics.last_mut() {
            topic.partitions.push(row);
        }
    }
    topics
}

fn topic(key: &TopicKey) -> FetchableTopicResponse {
    match key {
        TopicKey::Name(name) => FetchableTopicResponse { topic: name.clone(), ..Default::default() },
        TopicKey::Id(id) => FetchableTopicResponse { topic_id: *id, ..Default::default() },
    }
}

fn session_code(error: SessionError) -> ErrorCode {
    match error {
        SessionError::UnknownId => ErrorCode::FETCH_SESSION_ID_NOT_FOUND,
        SessionError::WrongEpoch => ErrorCode::INVALID_FETCH_SESSION_EPOCH,
        SessionError::WrongTopicKeys => ErrorCode::FETCH_SESSION_TOPIC_ID_ERROR,
    }
}

fn read_code(error: &ReadError) -> ErrorCode {
    match error {
        ReadError::UnknownTopicId => ErrorCode::UNKNOWN_TOPIC_ID,
        ReadError::UnknownTopicName | ReadError::UnknownPartition => ErrorCode::UNKNOWN_TOPIC_OR_PARTITION,
        ReadError::LeaderEpochAhead => ErrorCode::UNKNOWN_LEADER_EPOCH,
        ReadError::FetchedEpochAhead | ReadError::OutOfRange(_) => ErrorCode::OFFSET_OUT_OF_RANGE,
        ReadError::Storage => ErrorCode::KAFKA_STORAGE_ERROR,
    }
}
