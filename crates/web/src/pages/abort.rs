//! An administrator aborts an open transaction: a page that says what would be lost, and a form that does it. The form names
//! exactly the transaction that the page showed, and is answered when the abort is durable.

use super::text::{moment, span};
use super::transactions::{Seen, find};
use crate::App;
use crate::asked::{Asked, Refusal};
use crate::guard::{Form, see_other};
use crate::shell::Shell;
use askama::Template;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use axum::response::Response;
use ottla_core::ops::{AbortTransaction, NotOpen};
use ottla_types::{Millis, ProducerEpoch, ProducerId};
use serde::Serialize;
use std::sync::Arc;

/// Asks whether to abort a transaction.
#[derive(Template, Serialize)]
#[template(path = "abort.html")]
pub(crate) struct AbortPage {
    #[serde(skip)]
    shell: Shell,
    #[serde(flatten)]
    seen: Seen,
    /// Goes back with the form.
    token: String,
}

pub(crate) async fn confirm(asked: Asked) -> Result<AbortPage, Refusal> {
    let seen = find(&asked).await?;
    let mut shell = asked.shell(format!("Abort the transaction of {}?", seen.id), "Transactions");
    shell.refresh = false;
    Ok(AbortPage { shell, token: asked.app.token.clone(), seen })
}

/// Aborts the transaction that a form names.
pub(crate) async fn abort(
    State(app): State<Arc<App>>,
    headers: HeaderMap,
    body: String,
) -> Result<Response, Refusal> {
    let form = Form::read(&app, &headers, &body)?;
    let id = form.text("id")?.to_owned();
    let (transactional_id, producer_id) = (id.clone(), ProducerId(form.number("producer_id")?));
    let (producer_epoch, started) =
        (ProducerEpoch(form.number("epoch")?), Millis(form.number("started_ms")?));
    let abort = AbortTransaction { transactional_id, producer_id, producer_epoch, started };
    match app.broker.host().submit(abort).await? {
        Ok(()) => {
            tracing::info!(transactional_id = %id, producer_id = producer_id.0, "an administrator aborted a transaction");
            Ok(see_other(&format!("/transaction?id={}", encode(&id))))
        }
        Err(NotOpen) => Err(changed("this transaction is not open any more: it ended, or another began")),
    }
}

fn encode(text: &str) -> String {
    form_urlencoded::byte_serialize(text.as_bytes()).collect()
}

fn changed(why: &str) -> Refusal {
    Refusal::new(StatusCode::CONFLICT, format!("{why}; nothing was done"))
}
