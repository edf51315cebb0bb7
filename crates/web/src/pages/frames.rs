//! Live frames: what connections said last, each exchange with its stages and the broker's verdict, its frames as trees.

use super::text::{hex, moment, size};
use crate::App;
use crate::asked::{Asked, Refusal};
use crate::guard::{Form, see_other};
use crate::shell::Shell;
use askama::Template;
use axum::extract::State;
use axum::http::HeaderMap;
use axum::response::Response;
use bytes::Bytes;
use ottla_broker::{Ending, Exchange, TRACE_RING, TraceFilter, TracedFrame};
use ottla_wire::explain::{self, Explained, Options};
use ottla_wire::tables::TableSet;
use serde::Serialize;
use std::sync::Arc;

/// Exchanges that are listed at most.
const MOST_ROWS: usize = 200;
/// Exchanges of one connection that may be asked to be kept.
const MOST_KEPT: usize = 10_000;
/// Nodes of a tree that are shown at most, and bytes that records may be decompressed to.
const MOST_NODES: usize = 5000;
const MOST_OPENED: usize = 4 << 20;

/// The list of exchanges.
#[derive(Template, Serialize)]
#[template(path = "frames.html")]
pub(crate) struct FramesPage {
    #[serde(skip)]
    shell: Shell,
    /// Whether exchanges are recorded.
    on: bool,
    /// What is shown.
    filter: Filter,
    /// What is recorded.
    recorded: Filter,
    kept: usize,
    bytes: u64,
    limit_bytes: u64,
    /// Exchanges of one connection that are kept.
    ring: usize,
    /// Exchanges that were not recorded because too many were under way.
    missed: u64,
    /// Newest first.
    exchanges: Vec<Row>,
    /// Older ones that pass the filter and are not listed.
    left_out: usize,
    /// Goes back with a form.
    token: String,
}

/// A filter as texts; empty is any.
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
struct Row {
    seq: u64,
    connection: u64,
    peer: String,
    client: String,
    api: &'static str,
    api_key: i16,
    version: i16,
    correlation_id: i32,
    received_ms: i64,
    /// From the request's last byte to the response's.
    nanoseconds: Option<u64>,
    ending: String,
    errors: Vec<&'static str>,
    verdicts: Vec<VerdictRow>,
    more_verdicts: usize,
}

/// Why something was refused.
#[derive(Serialize)]
struct VerdictRow {
    subject: String,
    error: &'static str,
    rule: Option<&'static str>,
    words: String,
}

pub(crate) async fn frames(asked: Asked) -> Result<FramesPage, Refusal> {
    let trace = asked.app.broker.trace();
    let filter = Filter::read(|name| asked.text(name));
    let wanted = filter.parsed()?;
    let mut found = trace.snapshot(&wanted);
    found.reverse();
    let left_out = found.len().saturating_sub(MOST_ROWS);
    found.truncate(MOST_ROWS);
    let usage = trace.usage();
    Ok(FramesPage {
        shell: asked.shell("Live frames", "Frames"),
        on: trace.is_on(),
        filter,
        recorded: Filter::of(&trace.filter()),
        kept: usage.exchanges,
        bytes: (usage.bytes + usage.under_way) as u64,
        limit_bytes: usage.limit as u64,
        ring: usage.ring,
        missed: usage.missed,
        exchanges: found.iter().map(|exchange| Row::of(exchange)).collect(),
        left_out,
        token: asked.app.token.clone(),
    })
}

/// Starts, stops or empties the recording.
pub(crate) async fn control(
    State(app): State<Arc<App>>,
    headers: HeaderMap,
    body: String,
) -> Result<Response, Refusal> {
    let form = Form::read(&app, &headers, &body)?;
    let trace = app.broker.trace();
    match form.text("do")? {
        "start" => {
            let filter = Filter::read(|name| form.text(name).ok());
            trace.set_filter(filter.parsed()?);
            let ring = form.text("ring").map_or(Ok(TRACE_RING), |_| form.number("ring"))?;
            trace.start(ring.clamp(1, MOST_KEPT));
        }
        "stop" => trace.stop(),
        "clear" => trace.clear(),
        other => return Err(Refusal::bad(format!("{other:?} is neither start, stop nor clear"))),
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

    fn parsed(&self) -> Result<TraceFilter, Refusal> {
        let some = |text: &String| Some(text.clone()).filter(|text| !text.is_empty());
        let api = some(&self.api).map(|name| {
            let known = TableSet::built_in().api_named(&name).map(|info| info.key);
            known
                .ok_or_else(|| Refusal::bad(format!("there is no API named {name:?}; names are as in /apis")))
        });
        let connection = some(&self.connection).map(|text| {
            text.parse().map_err(|_| Refusal::bad(format!("connection is not a number: {text:?}")))
        });
        Ok(TraceFilter {
            connection: connection.transpose()?,
            client_id: some(&self.client),
            api: api.transpose()?,
            topic: some(&self.topic),
            transactional_id: some(&self.transactional_id),
        })
    }

    /// In words.
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

impl Row {
    fn of(exchange: &Exchange) -> Row {
        Row {
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
                Ending::Silent => "no answer was wished".to_owned(),
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
    shell: Shell,
    #[serde(flatten)]
    row: Row,
    topics: Vec<String>,
    groups: Vec<String>,
    transactional_ids: Vec<String>,
    stages: Vec<Stage>,
    request: Frame,
    response: Option<Frame>,
}

/// When a stage was reached.
#[derive(Serialize)]
struct Stage {
    name: &'static str,
    /// Since the request was there.
    nanoseconds: u64,
}

impl Stage {
    fn time(&self) -> String {
        micros(self.nanoseconds)
    }
}

/// A frame, explained.
#[derive(Serialize)]
struct Frame {
    bytes: usize,
    /// Whether bytes at its end were not kept.
    cut: bool,
    hex: String,
    tree: String,
    faults: Vec<String>,
}

pub(crate) async fn frame(asked: Asked) -> Result<FramePage, Refusal> {
    let seq = asked.number("seq")?.ok_or_else(|| Refusal::bad("say which exchange: /frame?seq=NUMBER"))?;
    let gone = || Refusal::missing(format!("exchange {seq} is not kept any more, or never was"));
    let exchange = asked.app.broker.trace().exchange(seq).ok_or_else(gone)?;
    let mut shell = asked.shell(format!("{} version {}", exchange.api.name(), exchange.version), "Frames");
    shell.refresh = false;
    let set = TableSet::built_in();
    let options = Options { cap: MOST_OPENED, most_nodes: MOST_NODES, ..Options::default() };
    let request = |bytes: &Bytes| explain::request(set, bytes, &options);
    let response = |bytes: &Bytes| explain::response(set, exchange.api, exchange.version, bytes, &options);
    let stages = exchange.stages.reached().map(|(name, nanoseconds)| Stage { name, nanoseconds });
    Ok(FramePage {
        shell,
        row: Row::of(&exchange),
        topics: exchange.topics.clone(),
        groups: exchange.groups.clone(),
        transactional_ids: exchange.transactional_ids.clone(),
        stages: stages.collect(),
        request: Frame::of(&exchange.request, request),
        response: exchange.response.as_ref().map(|frame| Frame::of(frame, response)),
    })
}

impl Frame {
    fn of(frame: &TracedFrame, explain: impl Fn(&Bytes) -> Explained) -> Frame {
        let explained = explain(&frame.bytes);
        Frame {
            bytes: frame.size,
            cut: frame.is_cut(),
            hex: hex(&frame.bytes),
            tree: explained.tree(),
            // Where bytes were not kept the tree ends early, which is no fault of the frame.
            faults: match frame.is_cut() {
                true => Vec::new(),
                false => explained.faults().iter().map(ToString::to_string).collect(),
            },
        }
    }

    /// Sixteen bytes in a line.
    fn lines(&self) -> String {
        let pairs: Vec<&str> =
            (0..self.hex.len() / 2).filter_map(|at| self.hex.get(2 * at..2 * at + 2)).collect();
        let line = |(number, bytes): (usize, &[&str])| format!("{:6}  {}\n", 16 * number, bytes.join(" "));
        pairs.chunks(16).enumerate().map(line).collect()
    }
}
