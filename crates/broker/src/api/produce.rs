//! Produce 3-13: appends batches, one per partition; partitions succeed or fail independently (T-40 to T-73). Version
//! 12 and later add partitions to the transaction, earlier ones only verify that they are in it. Version 13 names
//! topics by id. `acks` 1 and -1 mean the same: a response means that the batch is durable. Left out: nothing.
//!
//! The command is submitted at the first poll, so that requests that overlap on a connection keep their order.

mod check;

use super::authorization::{TOPIC_DENIED, TRANSACTIONAL_ID_DENIED, TopicChecks, Verdict, take_denied};
use super::subject::{Partition, Reason};
use crate::api::{AnswerError, Outcome};
use crate::authorizer::{Resource, Rights};
use crate::context::{Context, to_topic_id};
use crate::host::{BatchRule, LiveSettings, NoRoom, ProduceOutcome};
use crate::session::Session;
use check::{BatchRefusal, CheckedBatch, RecordSummary, SuspectRecords, TopicViolation};
use ottla_core::Rejection;
use ottla_core::catalog::TopicRef;
use ottla_core::partitions::{AppendResult, Produce, ProduceBatch, ProduceError};
use ottla_core::transactions::TransactionCheck;
use ottla_types::Millis;
use ottla_types::acl::Operation;
use ottla_wire::messages::produce_request::{PartitionProduceData, TopicProduceData};
use ottla_wire::messages::produce_response::{
    BatchIndexAndErrorMessage, PartitionProduceResponse, TopicProduceResponse,
};
use ottla_wire::messages::{ProduceRequest, ProduceResponse};
use ottla_wire::{ErrorCode, Text, Uuid};
use std::time::Duration;

/// S-301, S-302: WRITE on the transactional id of transactional batches, also if the request has no id, and WRITE on
/// each topic.
pub(crate) fn authorize(
    request: &mut ProduceRequest,
    rights: &Rights<'_>,
    _version: i16,
) -> Verdict<ProduceResponse> {
    let transactional_id = request.transactional_id.as_deref().unwrap_or_default();
    let mut partitions = request.topic_data.iter().flat_map(|topic| &topic.partition_data);
    if partitions.any(is_transactional)
        && !rights.allows(Operation::Write, Resource::TransactionalId(transactional_id))
    {
        if request.acks == 0 {
            return Verdict::Closed("acks is 0 and the client may not use the transactional id");
        }
        let topics = std::mem::take(&mut request.topic_data).into_iter();
        let responses = topics.map(|topic| denied_topic(DeniedTopic::of(&topic), TRANSACTIONAL_ID_DENIED));
        return Verdict::Refused(ProduceResponse { responses: responses.collect(), ..Default::default() });
    }
    let mut checks = TopicChecks::new(rights, Operation::Write);
    let denied = take_denied(&mut request.topic_data, |topic| checks.allows_ref(&topic.name, topic.topic_id));
    let denied = denied.iter().map(DeniedTopic::of).collect();
    Verdict::without(denied, |response: &mut ProduceResponse, denied| {
        response.responses.extend(denied.into_iter().map(|topic| denied_topic(topic, TOPIC_DENIED)));
    })
}

/// A topic that the client may not write to, without its data.
struct DeniedTopic {
    name: Text,
    topic_id: Uuid,
    partitions: Vec<i32>,
}

impl DeniedTopic {
    fn of(topic: &TopicProduceData) -> DeniedTopic {
        let partitions = topic.partition_data.iter().map(|partition| partition.index).collect();
        DeniedTopic { name: Text::from(&*topic.name), topic_id: topic.topic_id, partitions }
    }
}

fn denied_topic(topic: DeniedTopic, error_code: i16) -> TopicProduceResponse {
    let partition =
        |index| PartitionProduceResponse { index, error_code, base_offset: -1, ..Default::default() };
    TopicProduceResponse {
        name: topic.name,
        topic_id: topic.topic_id,
        partition_responses: topic.partitions.into_iter().map(partition).collect(),
        ..Default::default()
    }
}

/// Whether the first batch of a partition is transactional: bit 4 of its attributes.
fn is_transactional(partition: &PartitionProduceData) -> bool {
    /// The low byte of the attributes of a batch.
    const ATTRIBUTES_AT: usize = 22;
    const TRANSACTIONAL: u8 = 1 << 4;
    let first = partition.records.as_ref().and_then(|records| records.chunks().first());
    first.and_then(|chunk| chunk.get(ATTRIBUTES_AT)).is_some_and(|low| low & TRANSACTIONAL != 0)
}

pub(crate) async fn answer(
    ctx: &Context,
    _session: &Session,
    request: ProduceRequest,
    version: i16,
) -> Outcome<ProduceResponse> {
    let no_answer = request.acks == 0;
    let response = match respond(ctx, request, version).await {
        Err(broken) => return Outcome::Close(broken.to_string()),
        Ok(response) => response,
    };
    // A client that asked for no response is muted too.
    let mute = u64::try_from(response.throttle_time_ms).unwrap_or(0);
    let outcome = if !no_answer {
        Outcome::Send(response)
    } else if let Some(code) = first_error(&response) {
        // With acks 0 there is no response that could carry the error (T-50).
        Outcome::Close(format!("acks is 0 and a partition failed with {code}"))
    } else {
        Outcome::Nothing
    };
    match mute {
        0 => outcome,
        millis => Outcome::Muted(Box::new(outcome), Duration::from_millis(millis)),
    }
}

async fn respond(
    ctx: &Context,
    request: ProduceRequest,
    version: i16,
) -> Result<ProduceResponse, AnswerError> {
    let checks = BatchChecks::new(ctx, &request, version);
    let (slots, batches) = checks.check_all(ctx.shards.settings(), &request.topic_data);
    let topics: Vec<TopicHead> = request.topic_data.into_iter().map(TopicHead::from).collect();
    let SubmitOutcome { results, of_request, mute } = checks.submit(ctx, batches).await?;
    let mut results = results.into_iter();
    let mut parts = slots.into_iter().map(|slot| match slot {
        Slot::Refused(index, refusal) => {
            (index, Err(of_request.map_or(refusal, |refused| checks.explain(refused))))
        }
        Slot::Submitted(index, walked, suspects) => {
            let result = results.next().unwrap_or(Err(ErrorCode::UNKNOWN_SERVER_ERROR.into()));
            (index, result.map_err(|refusal| refusal.of_records(&walked, &suspects)))
        }
    });
    let mut responses = Vec::with_capacity(topics.len());
    for topic in topics {
        let part = |(index, result): (i32, Result<AppendResult, BatchRefusal>)| match result {
            Ok(appended) => done(index, appended),
            Err(refusal) => {
                ctx.refused(Partition(&topic.name, topic.topic_id, index), refusal.code, &refusal);
                refused(index, refusal)
            }
        };
        responses.push(TopicProduceResponse {
            partition_responses: parts.by_ref().take(topic.partitions).map(part).collect(),
            name: topic.name,
            topic_id: topic.topic_id,
            ..Default::default()
        });
    }
    Ok(ProduceResponse { responses, throttle_time_ms: mute, ..Default::default() })
}

/// A topic of the request without its data. It is a copy, so that the frame is freed as soon as the batches are in the
/// buffers of the log.
struct TopicHead {
    name: Text,
    topic_id: Uuid,
    partitions: usize,
}

impl From<TopicProduceData> for TopicHead {
    fn from(topic: TopicProduceData) -> TopicHead {
        let TopicProduceData { name, topic_id, partition_data, .. } = topic;
        TopicHead { name: Text::from(&*name), topic_id, partitions: partition_data.len() }
    }
}

/// A partition of the request.
enum Slot {
    /// Its batch is submitted to the core.
    Submitted(i32, RecordSummary, SuspectRecords),
    /// Its batch is refused by a check.
    Refused(i32, BatchRefusal),
}

/// The outcome of the batches that passed the checks.
#[derive(Default)]
struct SubmitOutcome {
    /// A result for each batch, in order.
    results: Vec<Result<AppendResult, BatchRefusal>>,
    /// The refusal that also holds for the batches that a check refused (T-60).
    of_request: Option<Rejection<ProduceError>>,
    /// For how many milliseconds the connection is muted.
    mute: i32,
}

/// What the checks need of a request.
struct BatchChecks {
    version: i16,
    transactional_id: Option<String>,
    bad_acks: bool,
    /// The size of the largest batch that the log can hold, in bytes, whatever the configuration of topics.
    largest: u64,
}

/// The size of the largest batch, in bytes. A batch is in memory twice for a moment.
const LARGEST_BATCH: u64 = 32 << 20;
/// Bytes of a batch's log record in addition to the batch, at most.
const BATCH_OVERHEAD: u64 = 512;

impl BatchChecks {
    fn new(ctx: &Context, request: &ProduceRequest, version: i16) -> BatchChecks {
        BatchChecks {
            version,
            transactional_id: request.transactional_id.as_ref().map(String::from),
            bad_acks: !(-1..=1).contains(&request.acks),
            largest: ctx.reader.largest_record().saturating_sub(BATCH_OVERHEAD).min(LARGEST_BATCH),
        }
    }

    /// Checks the batches. Returns a slot for each, and the batches that passed.
    fn check_all(
        &self,
        settings: &LiveSettings,
        topics: &[TopicProduceData],
    ) -> (Vec<Slot>, Vec<ProduceBatch>) {
        let (mut slots, mut batches) = (Vec::new(), Vec::new());
        let now = settings.now();
        for topic in topics {
            let at = self.topic_ref(topic);
            let rule = settings.batch_rule(&at);
            for partition in &topic.partition_data {
                let index = partition.index;
                match self.check(partition.records.as_ref(), &rule, now) {
                    Err(refusal) => slots.push(Slot::Refused(index, refusal)),
                    Ok(CheckedBatch { summary, payload, walked, suspects, stamped }) => {
                        slots.push(Slot::Submitted(index, walked, suspects));
                        batches.push(ProduceBatch {
                            topic: at.clone(),
                            partition: index,
                            keyless: walked.keyless.is_some(),
                            earliest: walked.earliest.map_or(Millis::NONE, |(earliest, _)| earliest),
                            stamped,
                            summary,
                            payload,
                        });
                    }
                }
            }
        }
        (slots, batches)
    }

    fn check(
        &self,
        records: Option<&ottla_wire::Records>,
        rule: &BatchRule,
        now: Millis,
    ) -> Result<CheckedBatch, BatchRefusal> {
        if self.bad_acks {
            let reason = Box::new(Reason(Some("T-50"), "acks must be 0, 1 or -1"));
            return Err(BatchRefusal { reason: Some(reason), ..ErrorCode::INVALID_REQUIRED_ACKS.into() });
        }
        let checked = check::check(records, self.version, rule, now)?;
        if checked.payload.len() as u64 > self.largest {
            let why = format!("the batch is larger than the log can hold, which is {} bytes", self.largest);
            return Err(BatchRefusal::new(ErrorCode::MESSAGE_TOO_LARGE, why));
        }
        Ok(checked)
    }

    fn topic_ref(&self, topic: &TopicProduceData) -> TopicRef {
        match self.version {
            ..=12 => TopicRef::Name(String::from(&topic.name)),
            _ => TopicRef::Id(to_topic_id(topic.topic_id)),
        }
    }

    /// Submits the batches.
    async fn submit(&self, ctx: &Context, batches: Vec<ProduceBatch>) -> Result<SubmitOutcome, AnswerError> {
        let count = batches.len();
        if count == 0 {
            return Ok(SubmitOutcome::default());
        }
        let transactional_id = self.transactional_id.clone();
        let check = if self.version >= 12 { TransactionCheck::Add } else { TransactionCheck::Verify };
        let produce = Produce { transactional_id, check, batches };
        let Ok(ProduceOutcome { results, mute }) = ctx.shards.partitions().produce(produce).await? else {
            let full = || BatchRefusal {
                reason: Some(Box::new(Reason(None, NoRoom))),
                ..BatchRefusal::new(ErrorCode::KAFKA_STORAGE_ERROR, NoRoom)
            };
            let results = (0..count).map(|_| Err(full())).collect();
            return Ok(SubmitOutcome { results, ..SubmitOutcome::default() });
        };
        let mut refused = results.iter().filter_map(|result| result.as_ref().err().copied());
        let of_request = refused.find(|refused| refused.error == ProduceError::NoTransactionalId);
        let results = results.into_iter().map(|result| result.map_err(|error| self.explain(error)));
        let mute = i32::try_from(mute.0).unwrap_or(i32::MAX);
        Ok(SubmitOutcome { results: results.collect(), of_request, mute })
    }

    /// The refusal of the core with Kafka's error code (T-220).
    fn explain(&self, refused: Rejection<ProduceError>) -> BatchRefusal {
        BatchRefusal { reason: Some(Box::new(refused)), ..self.coded(refused.error) }
    }

    fn coded(&self, error: ProduceError) -> BatchRefusal {
        let why = error.to_string();
        let code = match error {
            ProduceError::UnknownTopic if self.version >= 13 => ErrorCode::UNKNOWN_TOPIC_ID,
            ProduceError::UnknownTopic | ProduceError::UnknownPartition => {
                ErrorCode::UNKNOWN_TOPIC_OR_PARTITION
            }
            ProduceError::InternalTopic => ErrorCode::INVALID_TOPIC_EXCEPTION,
            ProduceError::RepeatedPartition => {
                return BatchRefusal::new(ErrorCode::INVALID_REQUEST, why);
            }
            // Nothing of such a request is appended.
            ProduceError::NoTransactionalId => ErrorCode::TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
            ProduceError::EmptyTransactionalId => ErrorCode::INVALID_REQUEST,
            ProduceError::SeveralProducers | ProduceError::UnknownProducer => {
                ErrorCode::INVALID_PRODUCER_ID_MAPPING
            }
            ProduceError::StaleEpoch => ErrorCode::INVALID_PRODUCER_EPOCH,
            ProduceError::NotInTransaction if self.version >= 11 => ErrorCode::TRANSACTION_ABORTABLE,
            ProduceError::NotInTransaction => {
                return BatchRefusal::new(
                    ErrorCode::INVALID_TXN_STATE,
                    "the partition is not in a transaction",
                );
            }
            ProduceError::OutsideTransaction => ErrorCode::INVALID_TXN_STATE,
            ProduceError::OutOfOrder => ErrorCode::OUT_OF_ORDER_SEQUENCE_NUMBER,
            ProduceError::TooLarge { most } => {
                return BatchRefusal::new(ErrorCode::MESSAGE_TOO_LARGE, format!("{why}, which is {most}"));
            }
            ProduceError::BadTimestamp { least, most } => {
                let violation = TopicViolation::Time { least, most };
                return BatchRefusal::at(violation, ErrorCode::INVALID_TIMESTAMP, why);
            }
            ProduceError::NotItsTime => {
                return BatchRefusal::at(TopicViolation::All, ErrorCode::INVALID_TIMESTAMP, why);
            }
            ProduceError::NeedsKeys => {
                return BatchRefusal::at(TopicViolation::Key, ErrorCode::INVALID_RECORD, why);
            }
            ProduceError::Invalid(_) => return BatchRefusal::new(ErrorCode::INVALID_RECORD, why),
        };
        code.into()
    }
}

fn done(index: i32, appended: AppendResult) -> PartitionProduceResponse {
    PartitionProduceResponse {
        index,
        base_offset: appended.base_offset.0,
        log_append_time_ms: appended.log_append_time.0,
        log_start_offset: appended.log_start.0,
        ..Default::default()
    }
}

fn refused(index: i32, refusal: BatchRefusal) -> PartitionProduceResponse {
    let error = |(batch_index, why): (i32, String)| BatchIndexAndErrorMessage {
        batch_index,
        batch_index_error_message: Some(why.into()),
        ..Default::default()
    };
    PartitionProduceResponse {
        index,
        error_code: refusal.code.0,
        base_offset: -1,
        record_errors: refusal.records.into_iter().map(error).collect(),
        error_message: refusal.why.as_deref().map(Text::from),
        ..Default::default()
    }
}

fn first_error(response: &ProduceResponse) -> Option<ErrorCode> {
    let mut parts = response.responses.iter().flat_map(|topic| &topic.partition_responses);
    parts.find(|part| part.error_code != 0).map(|part| ErrorCode(part.error_code))
}
