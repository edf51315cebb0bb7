//! Live frames: the last exchanges of each connection, each with its stages, the broker's verdict, and its frames as
//! trees.

use crate::App;
use crate::error::HttpError;
use crate::format::{hex, moment, size};
use crate::guard::{Form, see_other};
use crate::layout::Layout;
use crate::request::PageRequest;
use askama::Template;
use axum::extract::State;
use axum::http::HeaderMap;
use axum::response::Response;
use bytes::Bytes;
use ottla_broker::{Ending, Exchange, TRACE_RING, TraceFilter, TracedFrame};
use ottla_wire::explain::{self, Explanation, Options};
use ottla_wire::tables::TableSet;
use serde::Serialize;
use std::sync::Arc;

/// The most exchanges that are listed.
const MAX_ROWS: usize = 200;
/// The most exchanges of a connection that can be kept.
const MAX_RING: usize = 10_000;
/// The most nodes of a tree that are shown, and the most bytes of decompressed records.
const MAX_NODES: usize = 5000;
const MAX_DECOMPRESSED: usize = 4 << 20;

/// The list of exchanges.
#[derive(Template, Serialize)]
#[template(path = "frames.html")]
pub(crate) struct FramesPage {
    #[serde(skip)]
    layout: Layout,
    /// Whether exchanges are recorded.
    on: bool,
    /// The filter of the list.
    filter: Filter,
    /// The filter of the recording.
    recorded: Filter,
    kept: usize,
    bytes: u64,
    limit_bytes: u64,
    /// The most exchanges of a connection that are kept.
    ring: usize,
    /// Exchanges that were not recorded because too many were under way.
    missed: u64,
    /// Newest first.
    exchanges: Vec<ExchangeRow>,
    /// Older exchanges that pass the filter and are not listed.
    left_out: usize,
    /// The token that the forms send back.
    token: String,
}

/// A filter as texts; an empty text matches anything.
#[derive(Default, Serialize)]
struct Filter {
    connection: String,
    client: String,
    api: String,
    topic: String,
    transactional_id: String,
}

/// An exchange in the list.
#[derive(Serialize)]
struct ExchangeRow {
    seq: u64,
    connection: u64,
    peer: String,
    client: String,
    api: &'static str,
    api_key: i16,
    version: i16,
    correlation_id: i32,
    received_ms: i64,
    /// From the last byte of the request to the last byte of the response.
    nanoseconds: Option<u64>,
    ending: String,
    errors: Vec<&'static str>,
    verdicts: Vec<VerdictRow>,
    more_verdicts: usize,
}

/// Why a request or a part of it was refused.
#[derive(Serialize)]
struct VerdictRow {
    subject: String,
    error: &'static str,
    rule: Option<&'static str>,
    words: String,
}

pub(crate) async fn frames(request: PageRequest) -> Result<FramesPage, HttpError> {
    let trace = request.app.broker.trace();
    let filter = Filter::read(|name| request.query_param(name));
    let mut found = trace.snapshot(&filter.parse()?);
    found.reverse();
    let left_out = found.len().saturating_sub(MAX_ROWS);
    found.truncate(MAX_ROWS);
    let usage = trace.usage();
    Ok(FramesPage {
        layout: request.layout("Live frames", "Frames"),
        on: trace.is_on(),
        filter,
        recorded: Filter::of(&trace.filter()),
        kept: usage.exchanges,
        bytes: (usage.bytes + usage.under_way) as u64,
        limit_bytes: usage.limit as u64,
        ring: usage.ring,
        missed: usage.missed,
        exchanges: found.iter().map(|exchange| ExchangeRow::of(exchange)).collect(),
        left_out,
        token: request.app.token.clone(),
    })
}

/// Starts or stops the recording, or drops what was recorded.
pub(crate) async fn control(
    State(app): State<Arc<App>>,
    headers: HeaderMap,
    body: String,
) -> Result<Response, HttpError> {
    let form = Form::read(&app, &headers, &body)?;
    let trace = app.broker.trace();
    match form.text("do")? {
        "start" => {
            let filter = Filter::read(|name| form.text(name).ok());
            trace.set_filter(filter.parse()?);
            let ring = form.text("ring").map_or(Ok(TRACE_RING), |_| form.number("ring"))?;
            trace.start(ring.clamp(1, MAX_RING));
        }
        "stop" => trace.stop(),
        "clear" => trace.clear(),
        other => return Err(HttpError::bad_request(format!("{other:?} is neither start, stop nor clear"))),
    }
    Ok(see_other("/frames"))
}

impl Filter {
    fn read<'a>(value: impl Fn(&str) -> Option<&'a str>) -> Filter {
        let text = |name| value(name).unwrap_or_default().trim().to_owned();
        Filter {
            connection: text("connection"),
            client: text("client"),
            api: text("api"),
            topic: text("topic"),
            transactional_id: text("transactional_id"),
        }
    }

    fn of(filter: &TraceFilter) -> Filter {
        let text = |value: &Option<String>| value.clone().unwrap_or_default();
        Filter {
            connection: filter.connection.map(|number| number.to_string()).unwrap_or_default(),
            client: text(&filter.client_id),
            api: filter.api.map(|key| key.name().to_owned()).unwrap_or_default(),
            topic: text(&filter.topic),
            transactional_id: text(&filter.transactional_id),
        }
    }

    fn parse(&self) -> Result<TraceFilter, HttpError> {
        let some = |text: &String| Some(text.clone()).filter(|text| !text.is_empty());
        let api = some(&self.api).map(|name| {
            let known = TableSet::built_in().api_named(&name).map(|info| info.key);
            known.ok_or_else(|| {
                HttpError::bad_request(format!("there is no API named {name:?}; names are as in /reference"))
            })
        });
        let connection = some(&self.connection).map(|text| {
            text.parse().map_err(|_| HttpError::bad_request(format!("connection is not a number: {text:?}")))
        });
        Ok(TraceFilter {
            connection: connection.transpose()?,
            client_id: some(&self.client),
            api: api.transpose()?,
            topic: some(&self.topic),
            transactional_id: some(&self.transactional_id),
        })
    }

    /// The filter in words.
    fn words(&self) -> String {
        let all = [
            ("connection", &self.connection),
            ("client", &self.client),
            ("API", &self.api),
            ("topic", &self.topic),
            ("transactional id", &self.transactional_id),
        ];
        let given = all.iter().filter(|(_, value)| !value.is_empty());
        given.map(|(name, value)| format!("{name} {value}")).collect::<Vec<_>>().join(", ")
    }
}

impl ExchangeRow {
    fn of(exchange: &Exchange) -> ExchangeRow {
        ExchangeRow {
            seq: exchange.seq,
            connection: exchange.connection,
            peer: exchange.peer.to_string(),
            client: exchange.client_id.clone(),
            api: exchange.api.name(),
            api_key: exchange.api.0,
            version: exchange.version,
            correlation_id: exchange.correlation_id,
            received_ms: exchange.received_at,
            nanoseconds: exchange.stages.written,
            ending: match &exchange.ending {
                Ending::Answered => "answered".to_owned(),
                Ending::Silent => "no response requested".to_owned(),
                Ending::Closed(why) => format!("closed: {why}"),
                Ending::Lost => "the connection ended before the answer was written".to_owned(),
            },
            errors: exchange.errors.iter().map(|code| code.name()).collect(),
            verdicts: exchange.verdicts.iter().map(VerdictRow::of).collect(),
            more_verdicts: exchange.more_verdicts,
        }
    }

    fn time(&self) -> String {
        self.nanoseconds.map(micros).unwrap_or_default()
    }
}

impl VerdictRow {
    fn of(verdict: &ottla_broker::Verdict) -> VerdictRow {
        VerdictRow {
            subject: verdict.subject.clone(),
            error: verdict.code.name(),
            rule: verdict.rule,
            words: verdict.words.clone(),
        }
    }
}

fn micros(nanoseconds: u64) -> String {
    format!("{}.{:03} ms", nanoseconds / 1_000_000, nanoseconds / 1000 % 1000)
}

/// One exchange.
#[derive(Template, Serialize)]
#[template(path = "frame.html")]
pub(crate) struct FramePage {
    #[serde(skip)]
    layout: Layout,
    #[serde(flatten)]
    row: ExchangeRow,
    topics: Vec<String>,
    groups: Vec<String>,
    transactional_ids: Vec<String>,
    stages: Vec<StageRow>,
    request: FrameRow,
    response: Option<FrameRow>,
}

/// When the request reached a stage.
#[derive(Serialize)]
struct StageRow {
    name: &'static str,
    /// Since the last byte of the request arrived.
    nanoseconds: u64,
}

impl StageRow {
    fn time(&self) -> String {
        micros(self.nanoseconds)
    }
}

/// A frame as tree and hex.
#[derive(Serialize)]
struct FrameRow {
    bytes: usize,
    /// Whether the end of the frame was not kept.
    cut: bool,
    hex: String,
    tree: String,
    faults: Vec<String>,
}

pub(crate) async fn frame(request: PageRequest) -> Result<FramePage, HttpError> {
    let seq = request
        .number("seq")?
        .ok_or_else(|| HttpError::bad_request("say which exchange: /frame?seq=NUMBER"))?;
    let gone = || HttpError::not_found(format!("exchange {seq} is not kept any more, or never was"));
    let exchange = request.app.broker.trace().exchange(seq).ok_or_else(gone)?;
    let mut layout =
        request.layout(format!("{} version {}", exchange.api.name(), exchange.version), "Frames");
    layout.refresh = false;
    let set = TableSet::built_in();
    let options = Options { cap: MAX_DECOMPRESSED, max_nodes: MAX_NODES, ..Options::default() };
    let explain_request = |bytes: &Bytes| explain::request(set, bytes, &options);
    let explain_response =
        |bytes: &Bytes| explain::response(set, exchange.api, exchange.version, bytes, &options);
    let stages = exchange.stages.reached().map(|(name, nanoseconds)| StageRow { name, nanoseconds });
    Ok(FramePage {
        layout,
        row: ExchangeRow::of(&exchange),
        topics: exchange.topics.clone(),
        groups: exchange.groups.clone(),
        transactional_ids: exchange.transactional_ids.clone(),
        stages: stages.collect(),
        request: FrameRow::of(&exchange.request, explain_request),
        response: exchange.response.as_ref().map(|frame| FrameRow::of(frame, explain_response)),
    })
}

impl FrameRow {
    fn of(frame: &TracedFrame, explain: impl Fn(&Bytes) -> Explanation) -> FrameRow {
        let explained = explain(&frame.bytes);
        FrameRow {
            bytes: frame.size,
            cut: frame.is_cut(),
            hex: hex(&frame.bytes),
            tree: explained.tree(),
            // A frame whose end was not kept ends early, which is no fault of the client.
            faults: match frame.is_cut() {
                true => Vec::new(),
                false => explained.faults().iter().map(ToString::to_string).collect(),
            },
        }
    }

    /// The bytes in hex, sixteen a line.
    fn lines(&self) -> String {
        let pairs: Vec<&str> =
            (0..self.hex.len() / 2).filter_map(|at| self.hex.get(2 * at..2 * at + 2)).collect();
        let line = |(number, bytes): (usize, &[&str])| format!("{:6}  {}\n", 16 * number, bytes.join(" "));
        pairs.chunks(16).enumerate().map(line).collect()
    }
}
