//! An administrator aborts an open transaction: a page that says what is lost, and a form that does it. The form names
//! exactly the transaction that the page showed. Its response is sent when the abort is durable.

use super::transactions::find;
use crate::App;
use crate::error::HttpError;
use crate::format::{moment, span};
use crate::guard::{Form, see_other};
use crate::layout::Layout;
use crate::request::PageRequest;
use crate::shard::abort::{self, Target};
use crate::shard::transactions::TransactionDetail;
use askama::Template;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use axum::response::Response;
use serde::Serialize;
use std::sync::Arc;

/// The page that asks for confirmation.
#[derive(Template, Serialize)]
#[template(path = "abort.html")]
pub(crate) struct AbortPage {
    #[serde(skip)]
    layout: Layout,
    #[serde(flatten)]
    detail: TransactionDetail,
    /// The token that the form sends back.
    token: String,
}

pub(crate) async fn confirm(request: PageRequest) -> Result<AbortPage, HttpError> {
    let detail = find(&request).await?;
    let mut layout = request.layout(format!("Abort the transaction of {}?", detail.id), "Transactions");
    layout.refresh = false;
    Ok(AbortPage { layout, token: request.app.token.clone(), detail })
}

/// Aborts the transaction that a form names.
pub(crate) async fn abort(
    State(app): State<Arc<App>>,
    headers: HeaderMap,
    body: String,
) -> Result<Response, HttpError> {
    let form = Form::read(&app, &headers, &body)?;
    let id = form.text("id")?.to_owned();
    let target = Target {
        transactional_id: id.clone(),
        producer_id: form.number("producer_id")?,
        epoch: form.number("epoch")?,
        started_ms: form.number("started_ms")?,
    };
    let producer_id = target.producer_id;
    if !abort::abort(&app.broker, target).await? {
        let why = "this transaction is not open any more: it ended, or another began; nothing was done";
        return Err(HttpError::new(StatusCode::CONFLICT, why));
    }
    tracing::info!(transactional_id = %id, producer_id, "an administrator aborted a transaction");
    Ok(see_other(&format!("/transaction?id={}", url_encode(&id))))
}

fn url_encode(text: &str) -> String {
    form_urlencoded::byte_serialize(text.as_bytes()).collect()
}
