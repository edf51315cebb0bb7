//! Ending what is open, by an administrator: a transaction of an id, or one that hangs on a partition and no id knows. Each has a
//! page that says what would be lost, with a form that does it; what it does is answered when it is durable.

use super::text::{moment, span};
use super::transactions::{Seen, find};
use crate::App;
use crate::asked::{Asked, Refusal};
use crate::guard::check_form;
use crate::shell::Shell;
use askama::Template;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};
use ottla_core::ops::{AbortTransaction, TxnMarker, WriteTxnMarkers};
use ottla_core::partition::Holder;
use ottla_core::{Answer, Input};
use ottla_types::{Millis, ProducerEpoch, ProducerId, TopicPartition};
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
    let ask = move |ticket| {
        Input::AbortTransaction(AbortTransaction {
            ticket,
            transactional_id,
            producer_id,
            producer_epoch,
            started,
        })
    };
    match app.broker.host().ask(ask).await? {
        Answer::TransactionAborted(Ok(())) => {
            tracing::info!(transactional_id = %id, producer_id = producer_id.0, "an administrator aborted a transaction");
            Ok(see_other(&format!("/transaction?id={}", encode(&id))))
        }
        Answer::TransactionAborted(Err(_)) => {
            Err(changed("this transaction is not open any more: it ended, or another began"))
        }
        _ => Err(other_answer()),
    }
}

/// Asks whether to end a transaction that hangs on a partition.
#[derive(Template, Serialize)]
#[template(path = "hanging.html")]
pub(crate) struct HangingPage {
    #[serde(skip)]
    shell: Shell,
    topic: String,
    partition: i32,
    offset: i64,
    producer_id: i64,
    epoch: i16,
    /// Offsets that read_committed readers wait for.
    waiting: i64,
    /// Goes back with the form.
    token: String,
}

pub(crate) async fn confirm_hanging(asked: Asked) -> Result<HangingPage, Refusal> {
    let missing = || Refusal::bad("say where it hangs: ?topic=NAME&partition=NUMBER&offset=ITS FIRST OFFSET");
    let topic = asked.text("topic").ok_or_else(missing)?.to_owned();
    let partition = asked.number("partition")?.ok_or_else(missing)?;
    let offset = asked.number("offset")?.ok_or_else(missing)?;
    let hanging = hanging(&asked.app, topic.clone(), partition, offset).await?;
    let mut shell = asked
        .shell(format!("End the hanging transaction on {topic}, partition {partition}?"), "Transactions");
    shell.refresh = false;
    Ok(HangingPage {
        shell,
        topic,
        partition,
        offset,
        producer_id: hanging.producer_id.0,
        epoch: hanging.epoch.0,
        waiting: hanging.waiting,
        token: asked.app.token.clone(),
    })
}

/// Ends the hanging transaction that a form names, by an abort marker on its partition (T-234).
pub(crate) async fn abort_hanging(
    State(app): State<Arc<App>>,
    headers: HeaderMap,
    body: String,
) -> Result<Response, Refusal> {
    let form = Form::read(&app, &headers, &body)?;
    let (topic, partition) = (form.text("topic")?.to_owned(), form.number("partition")?);
    let found = hanging(&app, topic.clone(), partition, form.number("offset")?).await?;
    if found.producer_id.0 != form.number::<i64>("producer_id")? {
        return Err(changed("another producer's transaction begins there now"));
    }
    let marker = TxnMarker {
        producer_id: found.producer_id,
        producer_epoch: found.epoch,
        coordinator_epoch: found.coordinator_epoch.max(0),
        commit: false,
        bumped: false,
        partitions: vec![found.at],
    };
    let ask = move |ticket| Input::WriteTxnMarkers(WriteTxnMarkers { ticket, markers: vec![marker] });
    match app.broker.host().ask(ask).await? {
        Answer::MarkersWritten(results) => match results.first().and_then(|results| results.first()) {
            Some(Ok(())) => {
                tracing::info!(%topic, partition, producer_id = found.producer_id.0, "an administrator ended a hanging transaction");
                Ok(see_other(&format!("/topics/{}", encode(&topic))))
            }
            _ => Err(changed("the producer has gone on meanwhile")),
        },
        _ => Err(other_answer()),
    }
}

/// A transaction that no transactional id knows.
struct Hanging {
    at: TopicPartition,
    producer_id: ProducerId,
    epoch: ProducerEpoch,
    coordinator_epoch: i32,
    waiting: i64,
}

/// The transaction that holds a partition back from this offset on, if no transactional id knows it.
async fn hanging(app: &App, topic: String, partition: i32, offset: i64) -> Result<Hanging, Refusal> {
    let look = app.broker.host().read(move |shard, _| {
        let at = shard.catalog().partition_named(&topic, partition)?;
        let partition = shard.partitions().get(at)?;
        let Holder::Open { first_offset, producer_id } = partition.holder()? else { return None };
        let known = shard.transactions().open().any(|one| one.state().producer_id == producer_id);
        let state = partition.producers().find(|state| state.producer_id == producer_id)?;
        (first_offset.0 == offset && !known).then(|| Hanging {
            at,
            producer_id,
            epoch: state.epoch,
            coordinator_epoch: state.coordinator_epoch,
            waiting: partition.high_watermark().0 - partition.last_stable().0,
        })
    });
    look.await?
        .ok_or_else(|| Refusal::missing("no transaction that no id knows hangs there; it may have ended"))
}

/// A form that one of our own pages sent.
struct Form(Vec<(String, String)>);

impl Form {
    fn read(app: &App, headers: &HeaderMap, body: &str) -> Result<Form, Refusal> {
        let form = Form(form_urlencoded::parse(body.as_bytes()).into_owned().collect());
        check_form(app, headers, form.text("token").ok())?;
        Ok(form)
    }

    fn text(&self, name: &str) -> Result<&str, Refusal> {
        let found = self.0.iter().find(|(key, _)| key == name);
        found.map(|(_, value)| value.as_str()).ok_or_else(|| Refusal::bad(format!("the form lacks {name}")))
    }

    fn number<T: std::str::FromStr>(&self, name: &str) -> Result<T, Refusal> {
        self.text(name)?.parse().map_err(|_| Refusal::bad(format!("{name} is not a number that fits")))
    }
}

fn encode(text: &str) -> String {
    form_urlencoded::byte_serialize(text.as_bytes()).collect()
}

fn see_other(place: &str) -> Response {
    (StatusCode::SEE_OTHER, [(header::LOCATION, place.to_owned())]).into_response()
}

fn changed(why: &str) -> Refusal {
    Refusal::new(StatusCode::CONFLICT, format!("{why}; nothing was done"))
}

fn other_answer() -> Refusal {
    Refusal::new(
        StatusCode::INTERNAL_SERVER_ERROR,
        "the shard answered another question, which is a bug in the broker",
    )
}
