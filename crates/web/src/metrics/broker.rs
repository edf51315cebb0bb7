//! Figures of the process: requests, connections, memory, the log.

use super::{Labels, MetricsEncoder};
use crate::App;
use ottla_broker::{ApiMetrics, Metrics};
use ottla_wire::ApiKey;
use std::fmt;
use std::time::SystemTime;

const NANOS: f64 = 1e9;

pub(super) fn process(app: &App, encoder: &mut MetricsEncoder<'_>) -> fmt::Result {
    let version = vec![("version", env!("CARGO_PKG_VERSION").into())];
    encoder.gauges("ottla_build_info", "The version that runs", [(version, 1_u32)])?;
    let up = app.started.elapsed();
    let started =
        SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default().saturating_sub(up);
    encoder.gauge(
        "process_start_time_seconds",
        "When the broker started, in seconds since the Unix epoch",
        started.as_secs_f64(),
    )?;
    encoder.gauge("ottla_uptime_seconds", "How long the broker has run", up.as_secs_f64())?;
    encoder.gauge("kafka_brokers", "Brokers in the cluster", 1_u32)
}

pub(super) fn requests(metrics: &Metrics, encoder: &mut MetricsEncoder<'_>) -> fmt::Result {
    let name = |key: ApiKey| -> Labels<'static> { vec![("api", key.name().into())] };
    let used: Vec<(ApiKey, &ApiMetrics)> = metrics.apis().filter(|(_, api)| api.bytes_in.get() > 0).collect();
    let by_api =
        |figure: fn(&ApiMetrics) -> u64| used.iter().map(move |(key, api)| (name(*key), figure(api)));
    encoder.counters("ottla_requests", "Requests that were answered", by_api(|api| api.latency().count()))?;
    let errors = used.iter().flat_map(|(key, api)| {
        let row = move |(code, count): (ottla_wire::ErrorCode, u64)| {
            let mut labels = name(*key);
            labels.push(("error", code.name().into()));
            (labels, count)
        };
        api.errors().into_iter().map(row)
    });
    encoder.counters(
        "ottla_request_errors",
        "Error codes in responses, those of topics and partitions too",
        errors,
    )?;
    encoder.histograms(
        "ottla_request_duration_seconds",
        "From the beginning of a request until its answer was ready, waits that the request used for included",
        NANOS,
        used.iter().map(|(key, api)| (name(*key), api.latency())),
    )?;
    encoder.counters("ottla_request_bytes", "Bytes of requests", by_api(|api| api.bytes_in.get()))?;
    encoder.counters("ottla_response_bytes", "Bytes of responses", by_api(|api| api.bytes_out.get()))?;
    encoder.counters(
        "ottla_requests_broken",
        "Requests that got no response, and whose connection was closed",
        by_api(|api| api.broken.get()),
    )?;
    encoder.counter(
        "ottla_requests_malformed",
        "Requests that could not be read, or of an API or version that is not served; their connections were closed",
        metrics.malformed.get(),
    )
}

pub(super) fn connections(app: &App, encoder: &mut MetricsEncoder<'_>) -> fmt::Result {
    let metrics = app.broker.metrics();
    let accepted = metrics.accepted.get();
    let open = accepted.saturating_sub(metrics.closed.get());
    encoder.gauge("ottla_connections", "Open connections of Kafka clients", open)?;
    encoder.counter("ottla_connections_accepted", "Connections that were accepted", accepted)?;
    encoder.counter(
        "ottla_connections_turned_away",
        "Connections that were closed at once, for there were max.connections already",
        metrics.turned_away.get(),
    )?;
    let memory = app.broker.memory();
    let budget =
        |name: &'static str, bytes: u64| -> (Labels<'static>, u64) { (vec![("of", name.into())], bytes) };
    encoder.gauges(
        "ottla_memory_held_bytes",
        "Bytes held by requests under way, and by answers with records that their peers have not taken",
        [budget("requests", memory.requests_held), budget("responses", memory.answers_held)],
    )?;
    encoder.gauges(
        "ottla_memory_limit_bytes",
        "The most bytes they may hold",
        [budget("requests", memory.requests_limit), budget("responses", memory.answers_limit)],
    )?;
    let ended = |result: &'static str, count: u64| -> (Labels<'static>, u64) {
        (vec![("result", result.into())], count)
    };
    encoder.counters(
        "ottla_transactions_ended",
        "Transactions that committed, and that aborted for whatever reason",
        [ended("commit", metrics.committed.get()), ended("abort", metrics.aborted.get())],
    )
}

pub(super) fn log(app: &App, encoder: &mut MetricsEncoder<'_>) -> fmt::Result {
    let reader = app.broker.reader();
    let failed = u32::from(app.failure.borrow().is_some());
    encoder.gauge(
        "ottla_log_failed",
        "1 once the log has failed and nothing more is acknowledged",
        failed,
    )?;
    encoder.gauge("ottla_log_end_bytes", "Position of the end of the log", reader.end().0)?;
    encoder.gauge(
        "ottla_log_durable_bytes",
        "Position up to which the log is durable",
        reader.durable().0,
    )?;
    let stats = reader.stats();
    encoder.histograms(
        "ottla_log_sync_duration_seconds",
        "How long a sync of the log took; its count is the number of syncs",
        NANOS,
        [(Labels::new(), stats.syncs.view())],
    )?;
    encoder.histograms(
        "ottla_log_group_bytes",
        "Bytes that were written and synced at once",
        1.0,
        [(Labels::new(), stats.group_bytes.view())],
    )?;
    encoder.histograms(
        "ottla_log_group_records",
        "Records of the log that were written and synced at once",
        1.0,
        [(Labels::new(), stats.group_records.view())],
    )?;
    tail(app.broker.metrics(), encoder)?;
    let free = app.disk_free().map(|free| (Labels::new(), free));
    encoder.gauges("ottla_disk_free_bytes", "Bytes that can still be written where the data is", free)
}

fn tail(metrics: &Metrics, encoder: &mut MetricsEncoder<'_>) -> fmt::Result {
    encoder.gauge(
        "ottla_tail_bytes",
        "Bytes from the first batch that is in no run to the end of the log",
        metrics.tail_bytes.get(),
    )?;
    encoder.gauge(
        "ottla_tail_batches",
        "Batches and markers that are in no run",
        metrics.tail_batches.get(),
    )?;
    encoder.gauge("ottla_runs", "Runs", metrics.runs.get())?;
    encoder.counter(
        "ottla_rewritten_bytes",
        "Bytes of batches that were written into runs, each time that they were",
        metrics.rewritten.get(),
    )?;
    encoder.counter(
        "ottla_rewrites_failed",
        "Times that runs could not be written; it is tried again",
        metrics.rewrites_failed.get(),
    )?;
    encoder.counter(
        "ottla_produce_throttled",
        "Produce requests whose connection was muted because the tail was nearly full",
        metrics.throttled.get(),
    )?;
    encoder.counter(
        "ottla_produce_waited",
        "Produce requests that waited because the tail was full",
        metrics.waited.get(),
    )?;
    encoder.counter(
        "ottla_producers_forgotten",
        "Producers that a partition forgot, idle or above ottla.producers.max: a batch that one sends again is appended again",
        metrics.producers_forgotten.get(),
    )
}
