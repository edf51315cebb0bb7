//! Serves requests by the dispatch table: reads the header, finds the row, decodes the request, checks the
//! authorization, answers, counts, and charges the response budget.

use super::authorization::{self, Authorization, Verdict};
use super::{APIS, Api, MuteUse, Order, Outcome, Repeat, api_versions, sasl_authenticate};
use crate::ApiMetrics;
use crate::context::Context;
use crate::net::{
    BeginError, ConnectionEvent, ConnectionInfo, FrameBounds, Reply, ReplyFuture, RequestHandler,
};
use crate::session::{Listener, Session};
use crate::trace::{Arrival, Recording, Stage};
use bytes::Bytes;
use ottla_auth::distinguished_name::subject_name;
use ottla_types::TopicId;
use ottla_wire::frame::{self, RequestHeader};
use ottla_wire::{ApiKey, DecodeError, DecodeProblem, Reader, Response, Uuid, Versions};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Bytes that the arrays of a request may take in addition to its frame, at most: about ten thousand partitions.
const MOST_MEMORY: usize = 4 << 20;
/// Bytes of the length prefix of a frame.
const PREFIX: u64 = 4;

/// An API that is served.
pub(super) struct ApiRow {
    pub(super) key: ApiKey,
    repeat: Repeat,
    order: Order,
    begin: fn(Call, Reader) -> Result<ReplyFuture, DecodeError>,
}

impl ApiRow {
    pub(super) const fn of<A: Api>() -> ApiRow {
        ApiRow { key: A::KEY, repeat: A::REPEAT, order: A::ORDER, begin: begin::<A> }
    }

    pub(super) fn find(key: ApiKey) -> Option<&'static ApiRow> {
        let position = *ROWS.get(usize::try_from(key.0).ok()?)?;
        APIS.get(usize::from(position))
    }

    /// The versions that are served: all stable ones of Apache Kafka 4.4.
    pub(super) fn served(&self) -> Versions {
        self.key.info().map_or(Versions::NONE, |info| info.stable_versions())
    }

    /// The versions that ApiVersions shows. Produce starts at 0 there (T-08), because older librdkafka turns
    /// compression off otherwise.
    pub(super) fn advertised(&self) -> Versions {
        let served = self.served();
        if self.key == ApiKey::PRODUCE { Versions::new(0, served.max) } else { served }
    }
}

/// Numbers of APIs lie below this one.
const KEYS: usize = 128;

/// The position in [`APIS`] by the number of the API; past its end for an API that is not served. It is read several
/// times a request.
static ROWS: [u8; KEYS] = {
    let mut rows = [u8::MAX; KEYS];
    let mut position = 0;
    while position < APIS.len() {
        rows[APIS[position].key.0 as usize] = position as u8;
        position += 1;
    }
    rows
};

/// A request whose header has been read.
pub(super) struct Call {
    begun: Instant,
    ctx: Arc<Context>,
    session: Arc<Session>,
    version: i16,
    correlation_id: i32,
}

/// Decodes a request. Its answer begins with the first poll, so that overlapping requests keep their order.
fn begin<A: Api>(call: Call, mut body: Reader) -> Result<ReplyFuture, DecodeError> {
    let request = A::decode(&mut body, call.version)?;
    if let Some(notes) = &call.ctx.notes {
        notes.reach(Stage::Decoded);
    }
    Ok(Box::pin(serve(request, call)))
}

async fn serve<A: Api>(mut request: A, call: Call) -> Reply {
    let Call { begun, ctx, session, version, correlation_id } = call;
    let outcome = match authorize(&ctx, &session, &mut request, version) {
        Verdict::Allowed => request.answer(&ctx, &session, version).await,
        Verdict::Refused(response) => Outcome::Send(response),
        Verdict::Partly(completion) => {
            authorization::complete(request.answer(&ctx, &session, version).await, completion)
        }
        Verdict::Closed(why) => Outcome::Close(why.to_owned()),
    };
    let (outcome, mute) = outcome.split_mute(A::MUTE);
    let metrics = ctx.metrics().api(A::KEY);
    note_errors(&ctx, &outcome, metrics);
    let reply = reply(outcome, &session, correlation_id, version);
    count_reply(&reply, metrics, begun);
    note_reply(&ctx, &reply).await;
    if mute.is_zero() { reply } else { Reply::Muted(Box::new(reply), mute) }
}

/// Takes out of a request what the client may not do, by the API's row.
fn authorize<A: Api>(
    ctx: &Context,
    session: &Session,
    request: &mut A,
    version: i16,
) -> Verdict<A::Response> {
    let Authorization::Checked(check) = A::AUTHORIZATION else { return Verdict::Allowed };
    let rights = ctx.rights(session);
    if rights.is_unlimited() { Verdict::Allowed } else { check(request, &rights, version) }
}

impl<T> Outcome<T> {
    /// The outcome without its mute, and for how long the connection is muted.
    fn split_mute(self, mute: MuteUse) -> (Outcome<T>, Duration) {
        match (self, mute) {
            (Outcome::Muted(outcome, span), MuteUse::Mutes) => (*outcome, span),
            (Outcome::Muted(outcome, _), MuteUse::NoMute) => {
                debug_assert!(false, "the row of the API says that it does not mute");
                (*outcome, Duration::ZERO)
            }
            (outcome, _) => (outcome, Duration::ZERO),
        }
    }
}

/// Counts the error codes of a response, and notes them if the request is traced.
fn note_errors<T: Response>(ctx: &Context, outcome: &Outcome<T>, metrics: Option<&ApiMetrics>) {
    let (Outcome::Send(response) | Outcome::Charged(response, _) | Outcome::SendAndClose(response, _)) =
        outcome
    else {
        return;
    };
    if let Some(metrics) = metrics {
        response.error_codes(&mut |code| metrics.error(code));
    }
    if let Some(notes) = &ctx.notes {
        notes.errors(response);
    }
}

/// Notes the names in a request that is traced. Asks the shard for the names of topics that only have an id.
async fn note_reply(ctx: &Context, reply: &Reply) {
    let Some(notes) = &ctx.notes else { return };
    notes.reach(Stage::Answered);
    let response = if let Reply::Send(chunks, _) = reply { Some(&chunks[..]) } else { None };
    let subjects = notes.find_subjects(response);
    let unknown = ctx.trace.unknown_topics(&subjects.topic_ids);
    if !unknown.is_empty() {
        let look = ctx.shards.catalog().peek(move |shard, _, _| {
            let name = |id: &Uuid| Some((*id, shard.catalog().topic(TopicId(id.0))?.name.clone()));
            unknown.iter().filter_map(name).collect::<Vec<_>>()
        });
        ctx.trace.add_topic_names(look.await.unwrap_or_default().into_iter());
    }
    notes.set_subjects(&ctx.trace, subjects);
}

fn count_reply(reply: &Reply, metrics: Option<&ApiMetrics>, begun: Instant) {
    let Some(metrics) = metrics else { return };
    metrics.record_latency(begun.elapsed());
    match reply {
        Reply::Send(chunks, _) | Reply::SendAndClose(chunks, _) => {
            metrics.bytes_out.add(chunks.iter().map(|chunk| chunk.len() as u64).sum())
        }
        Reply::Nothing | Reply::Muted(..) => {}
        Reply::Close(_) => metrics.broken.add(1),
    }
}

/// Encodes the response of an outcome, whose mute has been split off.
fn reply<T: Response>(outcome: Outcome<T>, session: &Session, correlation_id: i32, version: i16) -> Reply {
    let mut close = None;
    let (response, charge) = match outcome {
        Outcome::Send(response) => (response, None),
        Outcome::SendAndClose(response, why) => {
            close = Some(log_line(session, T::KEY, version, why));
            (response, None)
        }
        Outcome::Charged(response, charge) => (response, Some(charge)),
        Outcome::Nothing => return Reply::Nothing,
        Outcome::Close(why) => return Reply::Close(log_line(session, T::KEY, version, why)),
        Outcome::Muted(outcome, _) => return reply(*outcome, session, correlation_id, version),
    };
    match frame::response(correlation_id, &response, version) {
        Ok(frame) => match close {
            None => Reply::Send(frame.into_chunks(), charge),
            Some(why) => Reply::SendAndClose(frame.into_chunks(), why),
        },
        Err(error) => {
            let why = format!("cannot encode the response, which is a bug in the broker: {error}");
            Reply::Close(log_line(session, T::KEY, version, why))
        }
    }
}

/// A line for the log: the client, the API, and why its connection is closed.
fn log_line(session: &Session, key: ApiKey, version: i16, why: impl std::fmt::Display) -> String {
    format!("client {:?}, {key} version {version}: {why}", session.client_id)
}

fn row(head: &[u8]) -> Option<&'static ApiRow> {
    head.first_chunk().and_then(|key| ApiRow::find(ApiKey(i16::from_be_bytes(*key))))
}

/// Answers the requests of connections with the APIs of the table.
#[derive(Clone)]
pub(crate) struct Dispatch {
    context: Arc<Context>,
    /// The listener whose connections are answered.
    listener: Arc<Listener>,
}

impl RequestHandler for Dispatch {
    type Session = Arc<Session>;

    fn open(&self, info: &ConnectionInfo, bounds: &Arc<FrameBounds>) -> Arc<Session> {
        let mut session = Session::before_login(Arc::clone(&self.listener), info.peer, bounds);
        if let Some(name) = &info.certificate_name {
            session.set_principal(&format!("User:{name}"));
        }
        Arc::new(session)
    }

    fn identify(&self, certificate: Option<&[u8]>) -> Result<Option<String>, String> {
        // With SASL the login says who the client is (S-27).
        let Some(certificate) = certificate.filter(|_| self.listener.login.is_none()) else {
            return Ok(None);
        };
        let subject = subject_name(certificate).map_err(|error| error.to_string())?;
        let Some(rules) = &self.listener.mapping_rules else { return Ok(Some(subject)) };
        match rules.apply(&subject) {
            Ok(Some(name)) if !name.is_empty() => Ok(Some(name)),
            Ok(_) => Err(format!("no rule of ssl.principal.mapping.rules gives a name to {subject:?}")),
            Err(error) => Err(format!("{error}: {subject:?}")),
        }
    }

    fn frame_bounds(&self) -> FrameBounds {
        let login = self.listener.login.as_ref();
        login.map_or_else(FrameBounds::of_requests, |login| FrameBounds::before_login(login.max_receive))
    }

    fn begin(
        &self,
        session: &mut Arc<Session>,
        frame: Bytes,
        memory: usize,
        recording: Option<&Recording>,
    ) -> Result<ReplyFuture, BeginError> {
        Session::take_principal(session);
        if session.login().is_some_and(|login| login.expects_raw_token()) {
            let (ctx, session) = (self.context(recording), Arc::clone(session));
            return Ok(Box::pin(async move { sasl_authenticate::answer_raw(&ctx, &session, &frame).await }));
        }
        let row = row(&frame);
        let repeated = row.is_some_and(|row| row.repeat == Repeat::Repeats).then(|| (frame.clone(), memory));
        let begun = self.decode(session, frame, memory, recording);
        if let Err(BeginError::Malformed(_)) = begun {
            self.context.metrics().malformed.add(1);
        }
        let begun = begun?;
        if row.is_some_and(|row| row.order == Order::Overlaps) {
            // The responses are smaller than the requests, which are charged.
            return Ok(begun);
        }
        let repeated = repeated.map(|(frame, memory)| (Arc::clone(session), frame, memory));
        let dispatch = self.clone();
        Ok(Box::pin(async move { dispatch.charge(begun.await, repeated).await }))
    }

    fn connection_event(&self, event: ConnectionEvent) {
        let metrics = self.context.metrics();
        match event {
            ConnectionEvent::Accepted => metrics.accepted.add(1),
            ConnectionEvent::Closed => metrics.closed.add(1),
            ConnectionEvent::Rejected => metrics.turned_away.add(1),
        }
    }

    fn max_connections(&self) -> Option<usize> {
        self.context.shards.settings().max_connections()
    }

    fn is_recording(&self) -> bool {
        self.context.trace.is_on()
    }

    fn record(&self, session: &Arc<Session>, arrival: Arrival, frame: &Bytes) -> Option<Box<Recording>> {
        // A token without a request header is a secret.
        let is_token = session.login().is_some_and(|login| login.expects_raw_token());
        if is_token { None } else { self.context.trace.record(arrival, frame) }
    }

    fn may_overlap(&self, head: &[u8]) -> bool {
        row(head).is_some_and(|row| row.order == Order::Overlaps)
    }
}

impl Dispatch {
    /// Answers requests with this context, and starts to count them.
    pub(crate) fn new(context: Arc<Context>, listener: Arc<Listener>) -> Dispatch {
        context.metrics().serve(APIS.iter().map(|api| api.key));
        Dispatch { context, listener }
    }

    /// Charges a response to the response budget. If it has to wait, the response of a request that may be repeated is
    /// dropped and made again later, so that it takes no memory meanwhile.
    async fn charge(&self, reply: Reply, repeated: Option<(Arc<Session>, Bytes, usize)>) -> Reply {
        let Reply::Send(chunks, None) = reply else { return reply };
        let size = chunks.iter().map(|chunk| chunk.len() as u64).sum();
        if let Some(charge) = self.context.response_budget.try_charge(size) {
            return Reply::Send(chunks, Some(charge));
        }
        let Some((mut session, frame, memory)) = repeated else {
            let charge = self.context.response_budget.charge(size).await;
            return Reply::Send(chunks, Some(charge));
        };
        drop(chunks);
        let charge = self.context.response_budget.charge(size).await;
        match self.decode(&mut session, frame, memory, None) {
            Ok(again) => match again.await {
                Reply::Send(chunks, None) => Reply::Send(chunks, Some(charge)),
                other => other,
            },
            Err(why) => Reply::Close(format!("a request that was decoded cannot be decoded again: {why:?}")),
        }
    }

    /// Decodes a request. The future answers it.
    fn decode(
        &self,
        session: &mut Arc<Session>,
        frame: Bytes,
        memory: usize,
        recording: Option<&Recording>,
    ) -> Result<ReplyFuture, BeginError> {
        let bad = |error: DecodeError| BeginError::Malformed(error.to_string());
        let (header, body) = frame::read_request_header(&frame).map_err(bad)?;
        let RequestHeader { api_key: key, api_version: version, correlation_id, client_id, .. } = header;
        Session::set_client_id(session, client_id.as_ref());
        if let Some(login) = session.login() {
            let admitted = login.admit(key, tokio::time::Instant::now());
            admitted.map_err(|why| BeginError::Malformed(log_line(session, key, version, why)))?;
        }
        let Some(row) = ApiRow::find(key) else {
            let why = "byte 4, field RequestApiKey: this API is not served";
            return Err(BeginError::Malformed(log_line(session, key, version, why)));
        };
        if !row.served().contains(version) {
            if key == ApiKey::API_VERSIONS {
                let response = Outcome::Send(api_versions::unknown_version());
                let reply = reply(response, session, correlation_id, 0);
                return Ok(Box::pin(std::future::ready(reply)));
            }
            let why = format!("byte 6, field RequestApiVersion: served are {}", row.served());
            return Err(BeginError::Malformed(log_line(session, key, version, why)));
        }
        if let Some(metrics) = self.context.metrics().api(key) {
            metrics.bytes_in.add(PREFIX + frame.len() as u64);
        }
        let call = Call {
            begun: Instant::now(),
            ctx: self.context(recording),
            session: Arc::clone(session),
            version,
            correlation_id,
        };
        (row.begin)(call, body.with_memory_limit(memory)).map_err(|error| match error.problem() {
            DecodeProblem::MemoryLimit(_) if memory < MOST_MEMORY => BeginError::NeedsMemory,
            _ => BeginError::Malformed(log_line(session, key, version, error)),
        })
    }

    fn context(&self, recording: Option<&Recording>) -> Arc<Context> {
        match recording {
            None => Arc::clone(&self.context),
            Some(recording) => Arc::new(self.context.traced(recording.notes())),
        }
    }
}
