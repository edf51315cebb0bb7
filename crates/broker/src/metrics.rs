//! Figures of the broker since it started, for whoever watches: counted by any thread with a few additions, read at leisure.
//! It must not know how figures are named or written: that is the affair of whoever shows them.

use ottla_store::{DURATIONS, Histogram, HistogramView};
use ottla_types::TopicId;
use ottla_types::record::LogRecord;
use ottla_wire::{ApiKey, ErrorCode};
use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};
use std::time::Duration;

/// A number that only grows.
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

/// A number that goes up and down.
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

/// Figures of the broker since it started.
#[derive(Debug)]
pub struct Metrics {
    /// By number; none for an API that is not served.
    apis: Vec<Option<ApiMetrics>>,
    /// Requests that no API could answer: of another API or version, or malformed. Their connections were closed.
    pub malformed: Counter,
    /// Connections that were accepted.
    pub accepted: Counter,
    /// Connections that ended.
    pub closed: Counter,
    /// Connections that were closed at once because there were too many.
    pub turned_away: Counter,
    /// Transactions that committed.
    pub committed: Counter,
    /// Transactions that aborted: by their producer, by fencing, by timeout or by an administrator.
    pub aborted: Counter,
    /// Bytes from the first batch that is in no run to the end of the log.
    pub tail_bytes: Level,
    /// Batches and markers that are in no run.
    pub tail_batches: Level,
    /// Runs.
    pub runs: Level,
    /// Bytes of batches that were written into runs, each time that they were.
    pub rewritten: Counter,
    /// Times that runs could not be written.
    pub rewrites_failed: Counter,
    /// Produce requests whose connection was muted because the tail was nearly full.
    pub throttled: Counter,
    /// Produce requests that waited because the tail was full.
    pub waited: Counter,
    topics: RwLock<HashMap<TopicId, Arc<TopicMetrics>>>,
}

/// Figures of one API.
#[derive(Debug)]
pub struct ApiMetrics {
    latency: Histogram,
    /// Bytes of requests, length prefixes included.
    pub bytes_in: Counter,
    /// Bytes of responses, length prefixes included.
    pub bytes_out: Counter,
    /// Requests that got no response and whose connection was closed.
    pub broken: Counter,
    errors: Mutex<BTreeMap<i16, u64>>,
}

/// Figures of one topic.
#[derive(Debug, Default)]
pub struct TopicMetrics {
    /// Bytes of batches that were appended; repetitions are not counted.
    pub produced_bytes: Counter,
    /// Records that were appended.
    pub produced_records: Counter,
    /// Bytes of batches that were sent to consumers.
    pub fetched_bytes: Counter,
    /// Offsets in those batches.
    pub fetched_records: Counter,
}

impl Metrics {
    /// Nothing is counted yet. `served` are the APIs that are.
    pub(crate) fn new(served: impl Iterator<Item = ApiKey>) -> Metrics {
        let mut apis = Vec::new();
        for place in served.filter_map(|key| usize::try_from(key.0).ok()) {
            apis.resize_with(apis.len().max(place + 1), || None);
            apis[place] = Some(ApiMetrics::new());
        }
        Metrics {
            apis,
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
            topics: RwLock::default(),
        }
    }

    /// The APIs that are served, by number.
    pub fn apis(&self) -> impl Iterator<Item = (ApiKey, &ApiMetrics)> {
        let numbered = (0_i16..).zip(&self.apis);
        numbered.filter_map(|(key, api)| Some((ApiKey(key), api.as_ref()?)))
    }

    /// One API, if it is served.
    pub fn api(&self, key: ApiKey) -> Option<&ApiMetrics> {
        self.apis.get(usize::try_from(key.0).ok()?)?.as_ref()
    }

    /// The topics that had traffic and were not deleted since.
    pub fn topics(&self) -> Vec<(TopicId, Arc<TopicMetrics>)> {
        let topics = self.topics.read().unwrap_or_else(PoisonError::into_inner);
        topics.iter().map(|(id, topic)| (*id, Arc::clone(topic))).collect()
    }

    /// The log took a record.
    pub(crate) fn appended(&self, record: &LogRecord) {
        match record {
            LogRecord::BatchAppended(batch) => self.of_topic(batch.partition.topic, |topic| {
                topic.produced_bytes.add(u64::from(batch.summary.size));
                topic.produced_records.add(u64::try_from(batch.summary.record_count).unwrap_or(0));
            }),
            LogRecord::TransactionEnded(ended) => {
                let counter = if ended.marker.commit { &self.committed } else { &self.aborted };
                counter.add(1);
            }
            LogRecord::TopicDeleted(deleted) => {
                self.topics.write().unwrap_or_else(PoisonError::into_inner).remove(&deleted.id);
            }
            _ => {}
        }
    }

    /// Batches of a topic go to a consumer.
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

    /// How long requests took from the moment they began until their answer was ready, in nanoseconds. What a request waited for
    /// by its own wish counts too, as with Fetch.
    pub fn latency(&self) -> HistogramView {
        self.latency.view()
    }

    /// How often each error code but none was answered.
    pub fn errors(&self) -> Vec<(ErrorCode, u64)> {
        self.lock().iter().map(|(code, count)| (ErrorCode(*code), *count)).collect()
    }

    pub(crate) fn took(&self, time: Duration) {
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
