//! `/health`: the process answers. `/ready`: the shard answers, and its log takes records.

use crate::App;
use crate::asked::{Refusal, json};
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Response;
use serde::Serialize;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::timeout;

/// How long the log may take to write what it has before it counts as stuck.
const PATIENCE: Duration = Duration::from_secs(5);

#[derive(Serialize)]
struct Status {
    status: &'static str,
}

/// The process is alive: that it answers says so.
pub(crate) async fn health() -> Response {
    json(&Status { status: "alive" })
}

/// The broker takes and gives records, or 503 and why it does not.
pub(crate) async fn ready(State(app): State<Arc<App>>) -> Response {
    match readiness(&app).await {
        Ok(()) => json(&Status { status: "ready" }),
        Err(why) => Refusal::new(StatusCode::SERVICE_UNAVAILABLE, why).as_json(),
    }
}

/// Whether the log is open and everything in it gets on disk; else why not.
pub(crate) async fn readiness(app: &App) -> Result<(), String> {
    if let Some(why) = app.failure.borrow().clone() {
        return Err(format!("the log failed, nothing more is acknowledged: {why}"));
    }
    match timeout(PATIENCE, app.broker.host().settled()).await {
        Ok(Ok(())) => Ok(()),
        Ok(Err(gone)) => Err(gone.to_string()),
        Err(_) => Err(format!("the log wrote nothing for {} s", PATIENCE.as_secs())),
    }
}
