//! Metrics of the broker since it started. Any thread counts, with a few atomic additions.
//! It must not know how metrics are named or exported.

use ottla_store::{DURATIONS, Histogram, HistogramView};
use ottla_types::TopicId;
use ottla_types::record::{CatalogRecord, LogRecord, PartitionRecord, TransactionRecord};
use ottla_wire::{ApiKey, ErrorCode};
use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, RwLock};
use std::time::Duration;

/// A number that only increases.
#[derive(Debug, Default)]
pub struct Counter(AtomicU64);

impl Counter {
    pub(crate) fn add(&self, more: u64) {
        self.0.fetch_add(more, Relaxed);
    }

    /// The number now.
    pub fn get(&self) -> u64 {
        self.0.load(Relaxed)
    }
}

/// A number that increases and decreases.
#[derive(Debug, Default)]
pub struct Level(AtomicU64);

impl Level {
    pub(crate) fn set(&self, now: u64) {
        self.0.store(now, Relaxed);
    }

    /// The number now.
    pub fn get(&self) -> u64 {
        self.0.load(Relaxed)
    }
}

/// Metrics of the broker since it started.
#[derive(Debug)]
pub struct Metrics {
    /// By API number; none for an API that is not served. Set when the server starts.
    apis: OnceLock<Vec<Option<ApiMetrics>>>,
    /// Requests of an API or version that is not served, and malformed requests. Their connections were closed.
    pub malformed: Counter,
    /// Connections that were accepted.
    pub accepted: Counter,
    /// Connections that ended.
    pub closed: Counter,
    /// Connections that were closed at once because `max.connections` were open.
    pub turned_away: Counter,
    /// Transactions that committed.
    pub committed: Counter,
    /// Transactions that aborted, whether by their producer, by fencing, by timeout or by an administrator.
    pub aborted: Counter,
    /// Bytes of the log from the first batch that is in no run to the end.
    pub tail_bytes: Level,
    /// Batches and markers that are in no run.
    pub tail_batches: Level,
    /// Sorted runs.
    pub runs: Level,
    /// Bytes of batches written into runs. A batch counts each time it is rewritten.
    pub rewritten: Counter,
    /// Failed attempts to write runs.
    pub rewrites_failed: Counter,
    /// Produce requests whose connection was muted because the tail of the log was nearly full.
    pub throttled: Counter,
    /// Produce requests that waited because the tail of the log was full.
    pub waited: Counter,
    /// Producers that a partition forgot: idle for `producer.id.expiration.ms`, or the least recently used above
    /// `ottla.producers.max`.
    pub producers_forgotten: Counter,
    topics: RwLock<HashMap<TopicId, Arc<TopicMetrics>>>,
}

/// Metrics of one API.
#[derive(Debug)]
pub struct ApiMetrics {
    latency: Histogram,
    /// Bytes of requests, length prefixes included.
    pub bytes_in: Counter,
    /// Bytes of responses, length prefixes included.
    pub bytes_out: Counter,
    /// Requests whose connection was closed instead of a response.
    pub broken: Counter,
    errors: Mutex<BTreeMap<i16, u64>>,
}

/// Metrics of one topic.
#[derive(Debug, Default)]
pub struct TopicMetrics {
    /// Bytes of batches that were appended, without duplicates.
    pub produced_bytes: Counter,
    /// Records that were appended.
    pub produced_records: Counter,
    /// Bytes of batches that were sent to consumers.
    pub fetched_bytes: Counter,
    /// Offsets that those batches span.
    pub fetched_records: Counter,
}

impl Metrics {
    pub(crate) fn new() -> Metrics {
        Metrics {
            apis: OnceLock::new(),
            malformed: Counter::default(),
            accepted: Counter::default(),
            closed: Counter::default(),
            turned_away: Counter::default(),
            committed: Counter::default(),
            aborted: Counter::default(),
            tail_bytes: Level::default(),
            tail_batches: Level::default(),
            runs: Level::default(),
            rewritten: Counter::default(),
            rewrites_failed: Counter::default(),
            throttled: Counter::default(),
            waited: Counter::default(),
            producers_forgotten: Counter::default(),
            topics: RwLock::default(),
        }
    }

    /// Starts to count the requests of these APIs. Has no effect the second time.
    pub(crate) fn serve(&self, served: impl Iterator<Item = ApiKey>) {
        self.apis.get_or_init(|| {
            let mut apis = Vec::new();
            for number in served.filter_map(|key| usize::try_from(key.0).ok()) {
                apis.resize_with(apis.len().max(number + 1), || None);
                apis[number] = Some(ApiMetrics::new());
            }
            apis
        });
    }

    /// The APIs that are served, by number.
    pub fn apis(&self) -> impl Iterator<Item = (ApiKey, &ApiMetrics)> {
        let numbered = (0_i16..).zip(self.apis.get().into_iter().flatten());
        numbered.filter_map(|(key, api)| Some((ApiKey(key), api.as_ref()?)))
    }

    /// One API, if it is served.
    pub fn api(&self, key: ApiKey) -> Option<&ApiMetrics> {
        self.apis.get()?.get(usize::try_from(key.0).ok()?)?.as_ref()
    }

    /// The topics that had traffic since the start and were not deleted.
    pub fn topics(&self) -> Vec<(TopicId, Arc<TopicMetrics>)> {
        let topics = self.topics.read().unwrap_or_else(PoisonError::into_inner);
        topics.iter().map(|(id, topic)| (*id, Arc::clone(topic))).collect()
    }

    /// Counts a record that was appended to the log.
    pub(crate) fn appended(&self, record: &LogRecord) {
        match record {
            LogRecord::Partitions(PartitionRecord::BatchAppended(batch)) => {
                self.of_topic(batch.partition.topic, |topic| {
                    topic.produced_bytes.add(u64::from(batch.summary.size));
                    topic.produced_records.add(u64::try_from(batch.summary.record_count).unwrap_or(0));
                })
            }
            LogRecord::Transactions(TransactionRecord::TransactionEnded(ended)) => {
                let counter = if ended.marker.commit { &self.committed } else { &self.aborted };
                counter.add(1);
            }
            LogRecord::Partitions(PartitionRecord::ProducersExpired(expired)) => {
                self.producers_forgotten.add(expired.producers.len() as u64);
            }
            LogRecord::Catalog(CatalogRecord::TopicDeleted(deleted)) => {
                self.topics.write().unwrap_or_else(PoisonError::into_inner).remove(&deleted.id);
            }
            LogRecord::Partitions(_) | LogRecord::Transactions(_) | LogRecord::Catalog(_) => {}
            LogRecord::Groups(_) | LogRecord::Offsets(_) | LogRecord::SnapshotReached(_) => {}
            LogRecord::Acls(_) | LogRecord::Users(_) | LogRecord::Quotas(_) => {}
        }
    }

    /// Counts batches of a topic that are sent to a consumer.
    pub(crate) fn fetched(&self, topic: TopicId, bytes: u64, records: u64) {
        self.of_topic(topic, |topic| {
            topic.fetched_bytes.add(bytes);
            topic.fetched_records.add(records);
        });
    }

    fn of_topic(&self, id: TopicId, count: impl FnOnce(&TopicMetrics)) {
        if let Some(topic) = self.topics.read().unwrap_or_else(PoisonError::into_inner).get(&id) {
            return count(topic);
        }
        count(self.topics.write().unwrap_or_else(PoisonError::into_inner).entry(id).or_default());
    }
}

impl ApiMetrics {
    fn new() -> ApiMetrics {
        ApiMetrics {
            latency: Histogram::new(DURATIONS),
            bytes_in: Counter::default(),
            bytes_out: Counter::default(),
            broken: Counter::default(),
            errors: Mutex::default(),
        }
    }

    /// The time from the moment a request began until its response was ready, in nanoseconds. It includes the time that
    /// a request asked to wait, as Fetch does.
    pub fn latency(&self) -> HistogramView {
        self.latency.view()
    }

    /// The number of responses by error code, without NONE.
    pub fn errors(&self) -> Vec<(ErrorCode, u64)> {
        self.lock().iter().map(|(code, count)| (ErrorCode(*code), *count)).collect()
    }

    pub(crate) fn record_latency(&self, time: Duration) {
        self.latency.record(u64::try_from(time.as_nanos()).unwrap_or(u64::MAX));
    }

    pub(crate) fn error(&self, code: ErrorCode) {
        if code != ErrorCode::NONE {
            *self.lock().entry(code.0).or_default() += 1;
        }
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<i16, u64>> {
        self.errors.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
