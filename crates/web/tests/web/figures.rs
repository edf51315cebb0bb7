//! Metrics, health, and a broker that is not ready.

use crate::world::{HOSTILE, World, open_transaction};
use axum::http::StatusCode;
use std::collections::BTreeMap;

/// The series of a scrape, each with its value.
fn series(text: &str) -> BTreeMap<&str, f64> {
    let lines = text.lines().filter(|line| !line.starts_with('#'));
    lines
        .map(|line| line.rsplit_once(' ').unwrap())
        .map(|(name, value)| (name, value.parse().unwrap()))
        .collect()
}

#[tokio::test]
async fn figures_are_told_in_the_text_format_of_prometheus() {
    let world = World::new().await;
    let mut producer = open_transaction(&world).await;
    let answer = world.get("/metrics").await;
    assert!(answer.headers["content-type"].to_str().unwrap().starts_with("text/plain; version=0.0.4"));
    let before = series(&answer.text);
    assert_eq!(before["ottla_transactions_open"], 1.0);
    assert_eq!(before["ottla_partition_last_stable_offset_lag{topic=\"letters\",partition=\"0\"}"], 1.0);
    assert_eq!(before["ottla_topic_produced_records_total{topic=\"letters\"}"], 1.0);
    producer.commit().await.unwrap();
    let answer = world.get("/metrics").await;
    let after = series(&answer.text);
    assert_eq!(after["ottla_transactions_ended_total{result=\"commit\"}"], 1.0);
    assert_eq!(after["ottla_transactions_open"], 0.0);
    assert_eq!(after["kafka_topic_partition_current_offset{topic=\"letters\",partition=\"0\"}"], 2.0);
    assert_eq!(after["ottla_requests_total{api=\"EndTxn\"}"], 1.0);
    assert_eq!(after["ottla_request_duration_seconds_count{api=\"EndTxn\"}"], 1.0);
    assert_eq!(after["ottla_request_duration_seconds_bucket{api=\"EndTxn\",le=\"+Inf\"}"], 1.0);
    assert!(after["ottla_log_group_records_count"] >= after["ottla_log_sync_duration_seconds_count"]);
    assert_eq!(after["ottla_log_end_bytes"], after["ottla_log_durable_bytes"]);
    let escaped = HOSTILE.replace('"', "\\\"");
    let lag =
        format!("kafka_consumergroup_lag{{consumergroup=\"{escaped}\",topic=\"letters\",partition=\"1\"}}");
    assert_eq!(after[lag.as_str()], 0.0);
}

#[tokio::test]
async fn every_family_is_described_once() {
    let world = World::new().await;
    let _producer = open_transaction(&world).await;
    let text = world.get("/metrics").await.text;
    let mut seen = BTreeMap::new();
    for line in text.lines().filter_map(|line| line.strip_prefix("# TYPE ")) {
        let (name, kind) = line.split_once(' ').unwrap();
        assert_eq!(seen.insert(name, kind), None, "{name}");
    }
    for name in series(&text).keys() {
        let name = name.split('{').next().unwrap();
        let family = ["_bucket", "_sum", "_count"].iter().find_map(|end| name.strip_suffix(end));
        assert!(
            seen.contains_key(name) || family.is_some_and(|family| seen[family] == "histogram"),
            "{name}"
        );
    }
}

#[tokio::test]
async fn errors_are_counted_by_api_and_code() {
    let world = World::new().await;
    world.create("letters", 1).await;
    let mut old = world.producer(Some("t")).await;
    let _new = world.producer(Some("t")).await;
    old.begin().await.unwrap();
    let fenced = old.send("letters", Some(0), vec![crate::world::record("k", "v")]).await;
    assert!(fenced.is_err());
    let answer = world.get("/metrics").await;
    let after = series(&answer.text);
    assert!(after["ottla_request_errors_total{api=\"Produce\",error=\"INVALID_PRODUCER_EPOCH\"}"] >= 1.0);
}

#[tokio::test]
async fn a_broker_whose_log_failed_is_alive_but_not_ready() {
    let world = World::new().await;
    assert_eq!(world.get("/ready").await.status, StatusCode::OK);
    world.failure.send(Some("syncing log-00000000: no such device".to_owned())).unwrap();
    assert_eq!(world.get("/health").await.status, StatusCode::OK);
    let ready = world.get("/ready").await;
    assert_eq!(ready.status, StatusCode::SERVICE_UNAVAILABLE);
    assert!(ready.json()["error"].as_str().unwrap().contains("no such device"));
    assert!(world.page("/").await.contains("Not ready:"));
    let answer = world.get("/metrics").await;
    assert_eq!(series(&answer.text)["ottla_log_failed"], 1.0);
}

#[tokio::test]
async fn a_shard_that_is_gone_leaves_what_can_be_said_without_it() {
    let world = World::new().await;
    world.host.stop();
    while world.host.settled().await.is_ok() {}
    assert_eq!(world.get("/ready").await.status, StatusCode::SERVICE_UNAVAILABLE);
    assert_eq!(world.get("/topics").await.status, StatusCode::SERVICE_UNAVAILABLE);
    assert_eq!(world.get("/api/v1/topics").await.status, StatusCode::SERVICE_UNAVAILABLE);
    let answer = world.get("/metrics").await;
    assert_eq!(answer.status, StatusCode::OK);
    assert!(series(&answer.text).contains_key("ottla_uptime_seconds"));
    assert!(!answer.text.contains("ottla_transactions_open"));
}
