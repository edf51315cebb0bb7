//! The start page: how the broker is, in a few numbers.

use super::text::{size, span};
use crate::asked::{Asked, Refusal};
use crate::health::readiness;
use crate::shell::Shell;
use askama::Template;
use ottla_core::Shard;
use serde::Serialize;

/// What the start page shows.
#[derive(Template, Serialize)]
#[template(path = "overview.html")]
pub(crate) struct Overview {
    #[serde(skip)]
    shell: Shell,
    version: &'static str,
    cluster_id: String,
    node_id: i32,
    advertised: String,
    /// The data folder, or "memory".
    data: String,
    ready: bool,
    /// Why it is not ready.
    why_not: Option<String>,
    uptime_ms: u64,
    log_end: u64,
    log_durable: u64,
    disk_free_bytes: Option<u64>,
    connections: u64,
    requests: u64,
    /// None if the shard does not answer.
    state: Option<State>,
}

/// What the shard holds.
#[derive(Serialize)]
struct State {
    topics: usize,
    partitions: usize,
    records: i64,
    bytes: u64,
    groups: usize,
    members: usize,
    transactional_ids: usize,
    open_transactions: usize,
    /// Partitions whose last stable offset is held back.
    held_partitions: usize,
}

impl State {
    fn of(shard: &Shard) -> State {
        let partitions = || shard.partitions().iter().map(|(_, partition)| partition);
        State {
            topics: shard.catalog().topics().count(),
            partitions: partitions().count(),
            records: partitions().map(|one| one.high_watermark().0 - one.log_start().0).sum(),
            bytes: partitions().map(|one| one.bytes()).sum(),
            groups: shard.groups().list().count(),
            members: shard.groups().list().map(|group| group.members).sum(),
            transactional_ids: shard.transactions().count(),
            open_transactions: shard.transactions().open_count(),
            held_partitions: partitions().filter(|one| one.holder().is_some()).count(),
        }
    }
}

pub(crate) async fn overview(asked: Asked) -> Result<Overview, Refusal> {
    let broker = &asked.app.broker;
    let why_not = readiness(&asked.app).await.err();
    let state = match why_not {
        None => Some(broker.host().read(|shard, _| State::of(shard)).await?),
        Some(_) => None,
    };
    let metrics = broker.metrics();
    let advertised = broker.advertised();
    Ok(Overview {
        shell: asked.shell("Overview", "Overview"),
        version: env!("CARGO_PKG_VERSION"),
        cluster_id: broker.cluster_id().to_owned(),
        node_id: broker.node_id(),
        advertised: format!("{}:{}", advertised.host, advertised.port),
        data: broker.data_folder().to_owned(),
        ready: why_not.is_none(),
        why_not,
        uptime_ms: u64::try_from(asked.app.started.elapsed().as_millis()).unwrap_or(u64::MAX),
        log_end: broker.reader().end().0,
        log_durable: broker.reader().durable().0,
        disk_free_bytes: asked.app.disk_free(),
        connections: metrics.accepted.get().saturating_sub(metrics.closed.get()),
        requests: metrics.apis().map(|(_, api)| api.latency().count()).sum(),
        state,
    })
}

impl Overview {
    fn uptime(&self) -> String {
        span(i64::try_from(self.uptime_ms).unwrap_or(i64::MAX))
    }
}
