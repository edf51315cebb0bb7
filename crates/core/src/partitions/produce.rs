//! Produce: batches are appended, in a transaction or not, once each (T-40 to T-73).

use super::command::{AppendResult, Produce, ProduceBatch, ProduceError, ProduceReply};
use super::producer::{Verdict, stale};
use super::{Others, Partition, Partitions};
use crate::catalog::{Catalog, Topic, TopicRef, is_internal};
use crate::config::TopicSettings;
use crate::effect::Effects;
use crate::refusal::{Facts, Rejection};
use crate::transactions::{TransactionCheck, TransactionClaim};
use ottla_types::record::{BatchAppended, ProducerBatch};
use ottla_types::{BatchSummary, Millis, ProducerEpoch, ProducerId, TimestampType, TopicPartition};
use std::cmp::Ordering;
use std::collections::BTreeSet;

type Refusal = Rejection<ProduceError>;

/// A batch on its way: where it goes, or why it goes nowhere.
struct Entry {
    place: Result<TopicPartition, Refusal>,
    batch: ProduceBatch,
}

impl Entry {
    /// Where it goes, if it is transactional and not refused.
    fn transactional_place(&self) -> Option<TopicPartition> {
        self.place.ok().filter(|_| self.batch.summary.transactional)
    }
}

impl Partitions {
    pub(super) fn produce(
        &self,
        now: Millis,
        command: Produce,
        others: Others<'_>,
        out: &mut Effects,
    ) -> ProduceReply {
        let Produce { transactional_id, check, batches } = command;
        let mut entries = entries(transactional_id.is_some(), batches, others.catalog);
        if let Some(transactional_id) = transactional_id {
            let mut admission = Admission { now, check, transactional_id, others, out };
            self.admit_batches(&mut entries, &mut admission);
        }
        let append = |entry: Entry| self.append_batch((others.wall, check), entry, others.catalog, out);
        entries.into_iter().map(append).collect()
    }

    /// Asks the transaction about the transactional batches that are left (T-62 to T-72).
    fn admit_batches(&self, entries: &mut [Entry], admission: &mut Admission<'_>) {
        let mut asked = Vec::new();
        for entry in entries.iter_mut() {
            let Some(at) = entry.transactional_place() else { continue };
            match self.known_to_partition(at, &entry.batch.summary) {
                ProducerStanding::Open => {}
                ProducerStanding::Stale(epoch) => {
                    entry.place = Err(stale("T-62", &entry.batch.summary, epoch).map(Into::into));
                }
                ProducerStanding::No => asked.push((at, entry)),
            }
        }
        let Some((_, first)) = asked.first() else { return };
        let (producer_id, producer_epoch) = owner(&first.batch.summary);
        let Admission { now, check, others, .. } = *admission;
        let transactional_id = std::mem::take(&mut admission.transactional_id);
        let claim = TransactionClaim { transactional_id, producer_id, producer_epoch, check };
        let group_size = match check {
            TransactionCheck::Add => asked.len(),
            TransactionCheck::Verify => 1,
        };
        for group in asked.chunks_mut(group_size) {
            let data: Vec<_> = group.iter().map(|(at, _)| *at).collect();
            if let Err(error) = others.transactions.admit(now, &claim, (&data, &[]), admission.out) {
                let refused = error.map(ProduceError::from);
                group.iter_mut().for_each(|(_, entry)| entry.place = Err(refused));
            }
        }
    }

    /// T-62, T-63: a transaction that is open at the partition needs no further question.
    fn known_to_partition(&self, at: TopicPartition, batch: &BatchSummary) -> ProducerStanding {
        let partition = self.get(at);
        let Some(known) = partition.and_then(|partition| partition.producer(batch.producer_id)) else {
            return ProducerStanding::No;
        };
        match known.epoch.cmp(&batch.producer_epoch) {
            Ordering::Greater => ProducerStanding::Stale(known.epoch),
            Ordering::Equal if known.transaction_start.is_some() => ProducerStanding::Open,
            Ordering::Equal | Ordering::Less => ProducerStanding::No,
        }
    }

    fn append_batch(
        &self,
        (now, check): (Millis, TransactionCheck),
        entry: Entry,
        catalog: &Catalog,
        out: &mut Effects,
    ) -> Result<AppendResult, Refusal> {
        let Entry { place, batch } = entry;
        let at = place?;
        let topic = catalog.topic(at.topic).ok_or(ProduceError::UnknownTopic)?;
        let partition = self.get(at).ok_or(ProduceError::UnknownPartition)?;
        check_against_topic(now, topic, &batch)?;
        let from_zero = batch.summary.transactional && check == TransactionCheck::Add;
        let judged = partition.judge_batch(&batch.summary, from_zero);
        match judged.map_err(|refusal| refusal.map(ProduceError::from))? {
            Verdict::Duplicate(original) => Ok(already_there(partition, &original)),
            Verdict::Append => {
                let leader_epoch = catalog.leader_epoch(at);
                let (record, appended) = placed((now, leader_epoch), topic, (at, partition), batch);
                out.append(record);
                Ok(appended)
            }
        }
    }
}

/// What the transaction needs to admit the batches of a Produce.
struct Admission<'a> {
    now: Millis,
    check: TransactionCheck,
    transactional_id: String,
    others: Others<'a>,
    out: &'a mut Effects,
}

/// The batches with what is refused before any transaction is asked about (T-49, T-56, T-57, T-60, T-61).
fn entries(has_id: bool, batches: Vec<ProduceBatch>, catalog: &Catalog) -> Vec<Entry> {
    let transactional = batches.iter().filter(|batch| batch.summary.transactional);
    let owners: BTreeSet<_> = transactional.map(|batch| owner(&batch.summary)).collect();
    let mut seen = BTreeSet::new();
    let judge = |batch: &ProduceBatch| {
        if !owners.is_empty() && !has_id {
            return Err(Rejection::by("T-60", ProduceError::NoTransactionalId, Facts::None));
        }
        if owners.len() > 1 {
            return Err(Rejection::by("T-56", ProduceError::SeveralProducers, Facts::None));
        }
        let at = place(batch, catalog)?;
        if !seen.insert(at) {
            return Err(ProduceError::RepeatedPartition.into());
        }
        check_shape(&batch.summary)?;
        Ok(at)
    };
    let places: Vec<_> = batches.iter().map(judge).collect();
    batches.into_iter().zip(places).map(|(batch, place)| Entry { place, batch }).collect()
}

fn place(batch: &ProduceBatch, catalog: &Catalog) -> Result<TopicPartition, Refusal> {
    let unknown = |error| Rejection::by("T-61", error, Facts::None);
    let topic = match &batch.topic {
        TopicRef::Name(name) => catalog.topic_named(name),
        TopicRef::Id(id) => catalog.topic(*id),
    };
    let name = match &batch.topic {
        TopicRef::Name(name) => Some(name),
        TopicRef::Id(_) => topic.map(|topic| &topic.name),
    };
    if name.is_some_and(|name| is_internal(name)) {
        return Err(ProduceError::InternalTopic.into());
    }
    let topic = topic.ok_or(unknown(ProduceError::UnknownTopic))?;
    let at = TopicPartition { topic: topic.id, partition: batch.partition };
    if topic.has(batch.partition) { Ok(at) } else { Err(unknown(ProduceError::UnknownPartition)) }
}

/// What a partition knows of a transactional batch's producer.
enum ProducerStanding {
    /// It has a transaction of this epoch open here.
    Open,
    /// Its epoch went on, to this one.
    Stale(ProducerEpoch),
    /// Nothing that settles it.
    No,
}

fn owner(summary: &BatchSummary) -> (ProducerId, ProducerEpoch) {
    (summary.producer_id, summary.producer_epoch)
}

/// What a client's batch may never be, whatever the topic (T-49, T-57).
fn check_shape(batch: &BatchSummary) -> Result<(), Refusal> {
    let invalid = |rule, why| Err(Rejection::by(rule, ProduceError::Invalid(why), Facts::None));
    if batch.control {
        return invalid("T-49", "clients may not write control batches");
    }
    if batch.record_count < 1 || batch.last_offset_delta != batch.record_count - 1 {
        return invalid("T-40", "the last offset delta is not the number of records less one");
    }
    if !batch.producer_id.is_some() {
        let ok = !batch.transactional;
        return if ok { Ok(()) } else { invalid("T-57", "a transactional batch needs a producer id") };
    }
    if batch.base_sequence < 0 || batch.producer_epoch < ProducerEpoch(0) {
        return invalid("T-49", "a producer id needs an epoch and a sequence number from 0 on");
    }
    Ok(())
}

/// The topic's bounds on size, time and keys.
fn check_against_topic(now: Millis, topic: &Topic, batch: &ProduceBatch) -> Result<(), Refusal> {
    let settings = &topic.settings;
    let summary = &batch.summary;
    if i64::from(summary.size) > settings.max_message_bytes {
        let most = settings.max_message_bytes;
        return Err(Rejection::on(
            ProduceError::TooLarge { most },
            Facts::Most { given: summary.size.into(), most },
        ));
    }
    if settings.compact && batch.keyless {
        return Err(ProduceError::NeedsKeys.into());
    }
    check_times(now, settings, batch)
}

/// Timestamps of the producer lie near the broker's clock, each record's that has one.
fn check_times(now: Millis, settings: &TopicSettings, batch: &ProduceBatch) -> Result<(), Refusal> {
    let latest = batch.summary.max_timestamp;
    let appends = settings.timestamp_type == TimestampType::LogAppendTime;
    if batch.stamped && (appends || latest == Millis::NONE) {
        return Err(ProduceError::NotItsTime.into());
    }
    if appends {
        return Ok(());
    }
    let given = |time: Millis| Some(time).filter(|time| *time != Millis::NONE);
    let least = now.since(settings.timestamp_before_max);
    let most = now.after(settings.timestamp_after_max);
    let early = given(batch.earliest).filter(|time| *time < least);
    let late = given(latest).filter(|time| *time > most);
    let (given, span) = match (early, late) {
        (None, None) => return Ok(()),
        (Some(time), _) => (time, settings.timestamp_before_max),
        (None, Some(time)) => (time, settings.timestamp_after_max),
    };
    Err(Rejection::on(ProduceError::BadTimestamp { least, most }, Facts::Clock { given, now, most: span }))
}

/// The batch at the partition's end, with the timestamps it is stored with.
fn placed(
    (now, leader_epoch): (Millis, i32),
    topic: &Topic,
    (at, partition): (TopicPartition, &Partition),
    batch: ProduceBatch,
) -> (BatchAppended, AppendResult) {
    let ProduceBatch { mut summary, payload, .. } = batch;
    summary.timestamp_type = topic.settings.timestamp_type;
    let log_append_time = match topic.settings.timestamp_type {
        TimestampType::CreateTime => Millis::NONE,
        TimestampType::LogAppendTime => {
            summary.max_timestamp = now;
            now
        }
    };
    let base_offset = partition.next_offset();
    let record = BatchAppended { partition: at, base_offset, leader_epoch, at: now, summary, payload };
    let appended = AppendResult { base_offset, log_append_time, log_start: partition.log_start() };
    (record, appended)
}

fn already_there(partition: &Partition, original: &ProducerBatch) -> AppendResult {
    AppendResult {
        base_offset: original.first_offset,
        log_append_time: original.timestamp,
        log_start: partition.log_start(),
    }
}
