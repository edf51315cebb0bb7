//! The start page: the state of the broker in a few numbers.

use crate::error::HttpError;
use crate::format::{size, span};
use crate::health::readiness;
use crate::layout::Layout;
use crate::request::PageRequest;
use crate::shard::summary::{Summary, summary};
use askama::Template;
use serde::Serialize;

/// The start page.
#[derive(Template, Serialize)]
#[template(path = "overview.html")]
pub(crate) struct Overview {
    #[serde(skip)]
    layout: Layout,
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
    /// None if the broker is not ready.
    state: Option<Summary>,
}

pub(crate) async fn overview(request: PageRequest) -> Result<Overview, HttpError> {
    let broker = &request.app.broker;
    let why_not = readiness(&request.app).await.err();
    let state = match why_not {
        None => Some(summary(broker).await?),
        Some(_) => None,
    };
    let metrics = broker.metrics();
    let advertised = broker.advertised();
    Ok(Overview {
        layout: request.layout("Overview", "Overview"),
        version: env!("CARGO_PKG_VERSION"),
        cluster_id: broker.cluster_id().to_owned(),
        node_id: broker.node_id(),
        advertised: format!("{}:{}", advertised.host, advertised.port),
        data: broker.data_folder().to_owned(),
        ready: why_not.is_none(),
        why_not,
        uptime_ms: u64::try_from(request.app.started.elapsed().as_millis()).unwrap_or(u64::MAX),
        log_end: broker.reader().end().0,
        log_durable: broker.reader().durable().0,
        disk_free_bytes: request.app.disk_free(),
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
