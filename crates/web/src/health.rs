//! `/health`: the process responds. `/ready`: the shard responds, and its log accepts records.

use crate::App;
use crate::error::HttpError;
use crate::respond::json;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Response;
use serde::Serialize;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::timeout;

/// The longest time that the log may take to make its records durable before it counts as stuck.
const LOG_TIMEOUT: Duration = Duration::from_secs(5);

#[derive(Serialize)]
struct Status {
    status: &'static str,
}

/// Always 200: a process that responds is alive.
pub(crate) async fn health() -> Response {
    json(&Status { status: "alive" })
}

/// 200 if the broker accepts and serves records, else 503 with the reason.
pub(crate) async fn ready(State(app): State<Arc<App>>) -> Response {
    match readiness(&app).await {
        Ok(()) => json(&Status { status: "ready" }),
        Err(why) => HttpError::new(StatusCode::SERVICE_UNAVAILABLE, why).as_json(),
    }
}

/// Waits until all records of the log are durable; an error says why they cannot be.
pub(crate) async fn readiness(app: &App) -> Result<(), String> {
    if let Some(why) = app.failure.borrow().clone() {
        return Err(format!("the log failed, nothing more is acknowledged: {why}"));
    }
    match timeout(LOG_TIMEOUT, app.broker.shards().catalog().settled()).await {
        Ok(Ok(())) => Ok(()),
        Ok(Err(gone)) => Err(gone.to_string()),
        Err(_) => Err(format!("the log wrote nothing for {} s", LOG_TIMEOUT.as_secs())),
    }
}
