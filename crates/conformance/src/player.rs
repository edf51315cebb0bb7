//! Plays scripts on a broker and gives the exchanges, with names for what may differ.

use crate::mutate::mutants;
use crate::normal::{Names, Rules};
use crate::peer::{Outcome, Peer};
use crate::request::{Scope, pruned};
use crate::script::{Action, After, Ask, How, Script, Step, Version};
use ottla_microscope::json as codec;
use ottla_wire::tables::TableSet;
use ottla_wire::{ApiInfo, ErrorCode, Versions};
use serde_json::{Value, json};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// How long a request is repeated after retriable codes.
const PATIENCE: Duration = Duration::from_secs(10);
/// The retriable codes: a coordinator loads or moves, a transaction is still being ended.
const AGAIN: [ErrorCode; 4] = [
    ErrorCode::COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode::COORDINATOR_NOT_AVAILABLE,
    ErrorCode::NOT_COORDINATOR,
    ErrorCode::CONCURRENT_TRANSACTIONS,
];

/// A request and its answer, with names.
#[derive(Clone, Debug, PartialEq)]
pub struct Exchange {
    /// Script, version, line, and which of the line's requests.
    pub at: String,
    /// The API.
    pub api: String,
    /// The version.
    pub version: i16,
    /// A checksum of the request as the script has it, before values were filled in.
    pub asked: u32,
    /// The answer with names; `"closed"` or `"silence"` if there was none, `"none"` if there should be none.
    pub answer: Value,
    /// Error codes of answers before it that said to ask again.
    pub again: Vec<i16>,
}

impl Exchange {
    /// The name of the script it belongs to, without version.
    pub fn script(&self) -> &str {
        let script = self.at.split(':').next().unwrap_or_default();
        match script.rsplit_once("-v") {
            Some((name, version)) if version.bytes().all(|b| b.is_ascii_digit()) => name,
            _ => script,
        }
    }

    /// Whether it belongs to the script of that name.
    pub fn is_of(&self, name: &str) -> bool {
        self.script() == name
    }
}

/// How a broker is treated.
#[derive(Clone, Copy, Debug, Default)]
pub struct Manners {
    /// Pause after a change to topics or configuration: Kafka answers before its brokers know of the change.
    pub settle: Duration,
}

/// Stops the broker and starts it again; gives its new address, or nothing if it cannot be done.
pub type Restart<'a> = dyn FnMut() -> Result<Option<std::net::SocketAddr>, String> + 'a;

/// Plays scripts on one broker.
pub struct Player<'a> {
    peer: Peer,
    manners: Manners,
    rules: &'a Rules,
    served: &'a dyn Fn(&ApiInfo) -> Versions,
    restart: Box<Restart<'a>>,
    /// The base of the timestamps of records, in milliseconds since 1970.
    time: i64,
    /// A transaction of the script did not end in time.
    hangs: bool,
}

/// One run of a script.
struct Round<'a, 'b> {
    player: &'b mut Player<'a>,
    names: Names<'a>,
    scope: Scope,
    version: i16,
    sent: Vec<(String, PendingRequest)>,
    out: Vec<Exchange>,
    last: Value,
}

/// A request whose answer is waited for later.
#[derive(Clone)]
struct PendingRequest {
    at: String,
    api: &'static ApiInfo,
    version: i16,
    asked: u32,
}

fn clock() -> i64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_millis() as i64)
}

impl<'a> Player<'a> {
    /// Plays on that broker; `served` gives the versions that `all` stands for.
    pub fn new(
        peer: Peer,
        manners: Manners,
        rules: &'a Rules,
        served: &'a dyn Fn(&ApiInfo) -> Versions,
    ) -> Player<'a> {
        // A whole hour some hours ago, so that no timestamp of a record is taken for the current time.
        let time = (clock() / 3_600_000 - 4) * 3_600_000;
        Player { peer, manners, rules, served, restart: Box::new(|| Ok(None)), time, hangs: false }
    }

    /// Says how the broker is restarted.
    pub fn on_restart(&mut self, restart: Box<Restart<'a>>) {
        self.restart = restart;
    }

    /// Plays a script, once or once a version, and gives the exchanges.
    ///
    /// # Errors
    /// A step cannot be done: a value is missing, a message cannot be written, an answer cannot be read.
    pub fn play(&mut self, script: &Script) -> Result<Vec<Exchange>, String> {
        let rounds: Vec<i16> = match &script.versions {
            None => vec![-1],
            Some((_, versions)) => versions.iter().collect(),
        };
        let mut out = Vec::new();
        for version in rounds {
            out.append(&mut self.round(script, version)?);
            if self.hangs {
                return Err(format!("{}: a transaction does not end", script.name));
            }
        }
        Ok(out)
    }

    /// Plays a random history. If a transaction does not end, the exchanges before that, and true.
    ///
    /// # Errors
    /// As for [`Player::play`].
    pub fn play_history(&mut self, history: &Script) -> Result<(Vec<Exchange>, bool), String> {
        let exchanges = self.round(history, -1)?;
        Ok((exchanges, std::mem::take(&mut self.hangs)))
    }

    fn round(&mut self, script: &Script, version: i16) -> Result<Vec<Exchange>, String> {
        let prefix = match version {
            -1 => script.name.clone(),
            version => format!("{}-v{version}", script.name),
        };
        let (rules, time) = (self.rules, self.time);
        let mut scope = Scope { prefix: prefix.clone(), values: Default::default(), time };
        scope.values.insert("time".to_owned(), time.into());
        scope.values.insert("now".to_owned(), clock().into());
        let names = Names::new(rules, time);
        let mut round = Round {
            player: self,
            names,
            scope,
            version,
            sent: Vec::new(),
            out: Vec::new(),
            last: Value::Null,
        };
        for step in &script.steps {
            let applies = step.condition.is_none_or(|bound| (bound.min..=bound.max).contains(&version));
            if applies {
                round.step(step).map_err(|e| format!("{prefix}, line {}: {e}", step.line))?;
            }
            if round.player.hangs {
                break;
            }
        }
        let out = round.out;
        self.peer.hang_up();
        Ok(out)
    }
}

impl Round<'_, '_> {
    fn step(&mut self, step: &Step) -> Result<(), String> {
        let connection = step.connection.as_str();
        let at = format!("{}:{}", self.scope.prefix, step.line);
        match &step.action {
            Action::Topic(name, partitions) => self.topic(connection, name, *partitions),
            Action::Restart => self.restart(),
            Action::Sleep(millis) => {
                std::thread::sleep(Duration::from_millis(*millis));
                Ok(())
            }
            Action::Receive(after) => self.receive(connection, after),
            Action::Ask(ask) => {
                let versions: Vec<i16> = match ask.version {
                    Version::Fixed(version) => vec![version],
                    Version::Loop => vec![self.version],
                    Version::All => (self.player.served)(ask.api).iter().collect(),
                };
                for version in &versions {
                    let at = if versions.len() > 1 { format!("{at}/v{version}") } else { at.clone() };
                    self.ask(connection, ask, *version, &at)?;
                }
                Ok(())
            }
        }
    }

    fn restart(&mut self) -> Result<(), String> {
        if let Some(address) = (self.player.restart)()? {
            self.player.peer.moved(address);
        }
        Ok(())
    }

    /// Makes a topic, waits until each partition has a leader, and binds its id.
    fn topic(&mut self, connection: &str, name: &str, partitions: i32) -> Result<(), String> {
        let own = self.scope.own(name);
        let make = json!({ "timeoutMs": 5000, "topics": [
            { "name": own, "numPartitions": partitions, "replicationFactor": 1 }] });
        let made = self.call(connection, "CreateTopics", 7, &make)?;
        if made["topics"][0]["errorCode"] != 0 {
            return Err(format!("the topic {own} was not made: {made}"));
        }
        self.scope.values.insert(name.to_owned(), made["topics"][0]["topicId"].clone());
        let ask = json!({ "topics": [{ "name": own }], "allowAutoTopicCreation": false });
        let started = Instant::now();
        loop {
            let told = self.call(connection, "Metadata", 12, &ask)?;
            let topic = &told["topics"][0];
            let all = topic["partitions"].as_array().map_or(0, Vec::len) == partitions as usize;
            let led = topic["partitions"].as_array().into_iter().flatten().all(|p| p["errorCode"] == 0);
            if topic["errorCode"] == 0 && all && led {
                return self.readable(connection, &own, partitions);
            }
            if started.elapsed() > PATIENCE {
                return Err(format!("the topic {own} does not come: {told}"));
            }
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    /// Waits until the end of each partition can be asked for.
    fn readable(&mut self, connection: &str, own: &str, partitions: i32) -> Result<(), String> {
        let list: Vec<Value> =
            (0..partitions).map(|n| json!({ "partitionIndex": n, "timestamp": -1 })).collect();
        let ask = json!({ "replicaId": -1, "topics": [{ "name": own, "partitions": list }] });
        let started = Instant::now();
        while started.elapsed() < PATIENCE {
            let told = self.call(connection, "ListOffsets", 7, &ask)?;
            if told["topics"][0]["partitions"].as_array().into_iter().flatten().all(|p| p["errorCode"] == 0) {
                return Ok(());
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        Err(format!("the topic {own} cannot be read"))
    }

    /// A request of the player's own, whose answer is not compared.
    fn call(&mut self, connection: &str, api: &str, version: i16, json: &Value) -> Result<Value, String> {
        let info = TableSet::built_in().api_named(api).ok_or("no such API")?;
        let table = info.request.ok_or("no such request")?;
        let body = codec::encode(table, version, json).map_err(|e| e.to_string())?;
        self.player.peer.send(connection, (info, version), &body)?;
        match self.player.peer.receive(connection)? {
            Outcome::Answer(answer) => Ok(answer),
            other => Err(format!("{api} v{version} was not answered: {other:?}")),
        }
    }

    fn ask(&mut self, connection: &str, ask: &Ask, version: i16, at: &str) -> Result<(), String> {
        let table = ask.api.request.ok_or_else(|| format!("{} has no request", ask.api.name))?;
        let asked =
            crc32c::crc32c(format!("{} {version} {:?} {}", ask.api.name, ask.how, ask.json).as_bytes());
        let sent = PendingRequest { at: at.to_owned(), api: ask.api, version, asked };
        if let How::Raw(body) = &ask.how {
            return self.exchange(connection, &sent, body, &ask.after);
        }
        let filled = pruned(table, version, &self.scope.filled(&ask.json)?);
        let encode = |json: &Value| codec::encode(table, version, json).map_err(|e| e.to_string());
        match &ask.how {
            How::Call | How::Raw(_) => self.exchange(connection, &sent, &encode(&filled)?, &ask.after),
            How::Send => {
                self.player.peer.send(connection, (ask.api, version), &encode(&filled)?)?;
                self.sent.push((connection.to_owned(), sent));
                Ok(())
            }
            How::Mutate(except) => {
                for (number, mutant) in mutants(table.root, version, &filled, except).into_iter().enumerate()
                {
                    // A message that cannot be encoded is skipped, for example one with a null that the version does
                    // not allow.
                    let Ok(body) = encode(&numbered(&mutant.json, number)) else { continue };
                    let name = self.with_names(&mutant.name);
                    let sent = PendingRequest { at: format!("{at}/{name}"), ..sent.clone() };
                    self.exchange(connection, &sent, &body, &ask.after)?;
                }
                Ok(())
            }
            How::Cut => {
                let body = encode(&filled)?;
                for left in cuts(body.len()) {
                    let sent = PendingRequest { at: format!("{at}/{left}"), ..sent.clone() };
                    self.exchange(connection, &sent, body.get(..left).unwrap_or_default(), &ask.after)?;
                }
                Ok(())
            }
        }
    }

    /// Values of this broker do not belong in a place that both brokers share.
    fn with_names(&self, text: &str) -> String {
        text.split_once('=').map_or(text.to_owned(), |(path, value)| match value.starts_with(['{', '[']) {
            true if value.len() > 2 => format!("{path}=twice"),
            _ => text.to_owned(),
        })
    }

    /// Sends the request until the answer has no retriable code.
    fn exchange(
        &mut self,
        connection: &str,
        sent: &PendingRequest,
        body: &[u8],
        after: &After,
    ) -> Result<(), String> {
        let started = Instant::now();
        let mut again = Vec::new();
        loop {
            self.player.peer.send(connection, (sent.api, sent.version), body)?;
            if silent(sent, body) {
                self.player.peer.no_answer(connection);
                self.record(sent, after, json!("none"), again);
                return Ok(());
            }
            let outcome = self.player.peer.receive(connection)?;
            let patient = started.elapsed() < PATIENCE;
            if let Outcome::Answer(answer) = &outcome {
                let code = (!after.noretry).then(|| again_code(answer)).flatten();
                let unmet = after.until.as_ref().is_some_and(|(path, value)| at_path(answer, path) != value);
                if patient && (code.is_some() || unmet) {
                    again.extend(code);
                    std::thread::sleep(Duration::from_millis(20));
                    continue;
                }
            }
            return self.finish(connection, sent, (outcome, again), after);
        }
    }

    fn receive(&mut self, connection: &str, after: &After) -> Result<(), String> {
        let at = self.sent.iter().position(|(name, _)| name == connection);
        let at = at.ok_or_else(|| format!("nothing was sent on {connection}"))?;
        let (_, sent) = self.sent.remove(at);
        let outcome = self.player.peer.receive(connection)?;
        self.finish(connection, &sent, (outcome, Vec::new()), after)
    }

    fn finish(
        &mut self,
        connection: &str,
        sent: &PendingRequest,
        (outcome, again): (Outcome, Vec<i16>),
        after: &After,
    ) -> Result<(), String> {
        let answer = match outcome {
            Outcome::Answer(answer) => answer,
            Outcome::Closed => json!("closed"),
            Outcome::Silence => json!("silence"),
        };
        for (name, path) in &after.bind {
            let value = at_path(&answer, path).clone();
            let (name, optional) = name.strip_suffix('?').map_or((name.as_str(), false), |name| (name, true));
            if optional
                && value.as_i64().is_none_or(|value| value < 0)
                && self.scope.values.contains_key(name)
            {
                continue;
            }
            if value.is_null() {
                return Err(format!("{name} needs {path}, which is not in {answer}"));
            }
            self.scope.values.insert(name.to_owned(), value);
        }
        self.settle(connection, sent.api.name, &answer)?;
        self.record(sent, after, answer, again);
        Ok(())
    }

    fn record(&mut self, sent: &PendingRequest, after: &After, mut answer: Value, again: Vec<i16>) {
        for path in &after.only {
            keep_own(&mut answer, path, &self.scope.prefix);
        }
        let answer = self.names.named(sent.api.name, &answer, clock());
        self.last = answer.clone();
        if after.skip {
            return;
        }
        let api = sent.api.name.to_owned();
        let PendingRequest { at, version, asked, .. } = sent.clone();
        self.out.push(Exchange { at, api, version, asked, answer, again });
    }

    /// Waits until what was answered has happened: the markers of a transaction, a change of topics or configuration.
    fn settle(&mut self, connection: &str, api: &str, answer: &Value) -> Result<(), String> {
        match api {
            "CreateTopics"
            | "DeleteTopics"
            | "CreatePartitions"
            | "AlterConfigs"
            | "CreateAcls"
            | "DeleteAcls"
            | "AlterUserScramCredentials"
            | "IncrementalAlterConfigs" => {
                std::thread::sleep(self.player.manners.settle);
                Ok(())
            }
            "EndTxn" | "InitProducerId" if answer["errorCode"] == 0 => self.transactions_ended(connection),
            _ => Ok(()),
        }
    }

    /// Waits until no transaction of the script is between its decision and its end.
    fn transactions_ended(&mut self, connection: &str) -> Result<(), String> {
        let ask = json!({ "stateFilters": ["PrepareCommit", "PrepareAbort"] });
        let started = Instant::now();
        while started.elapsed() < PATIENCE {
            let told = self.call(connection, "ListTransactions", 0, &ask)?;
            let mut mine = told["transactionStates"].as_array().into_iter().flatten();
            if !mine.any(|one| is_own(&one["transactionalId"], &self.scope.prefix)) {
                return Ok(());
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        self.player.hangs = true;
        Ok(())
    }
}

/// The message with the mutant's number for each `%%`.
fn numbered(json: &Value, number: usize) -> Value {
    match json {
        Value::String(text) => text.replace("%%", &number.to_string()).into(),
        Value::Array(list) => list.iter().map(|one| numbered(one, number)).collect(),
        Value::Object(object) => {
            Value::Object(object.iter().map(|(key, value)| (key.clone(), numbered(value, number))).collect())
        }
        other => other.clone(),
    }
}

/// A Produce request with acks 0 is not answered.
fn silent(sent: &PendingRequest, body: &[u8]) -> bool {
    if sent.api.name != "Produce" {
        return false;
    }
    let mut r = ottla_wire::Reader::new(bytes::Bytes::copy_from_slice(body));
    let table = sent.api.request;
    let read =
        table.and_then(|table| codec::decode(table, sent.version, &mut r, codec::Options::default()).ok());
    read.is_some_and(|json| json["acks"] == 0)
}

/// Where a body of that length is cut off.
fn cuts(length: usize) -> Vec<usize> {
    let mut all: Vec<usize> = vec![0, 1, length / 2, length.saturating_sub(2), length.saturating_sub(1)];
    all.retain(|left| *left < length);
    all.dedup();
    all
}

/// The first code in an answer that says to ask again.
fn again_code(answer: &Value) -> Option<i16> {
    match answer {
        Value::Object(object) => object.iter().find_map(|(key, value)| match value.as_i64() {
            Some(code) if key == "errorCode" => {
                AGAIN.iter().find(|again| i64::from(again.0) == code).map(|again| again.0)
            }
            _ => again_code(value),
        }),
        Value::Array(list) => list.iter().find_map(again_code),
        _ => None,
    }
}

/// The value at a path of names and places, null if there is none.
pub fn at_path<'v>(value: &'v Value, path: &str) -> &'v Value {
    static NOTHING: Value = Value::Null;
    path.split('.').fold(value, |value, step| match value {
        Value::Array(list) => step.parse::<usize>().ok().and_then(|at| list.get(at)).unwrap_or(&NOTHING),
        Value::Object(object) => object.get(step).unwrap_or(&NOTHING),
        _ => &NOTHING,
    })
}

fn is_own(name: &Value, prefix: &str) -> bool {
    name.as_str().is_some_and(|name| name.strip_prefix(prefix).is_some_and(|rest| rest.starts_with('-')))
}

/// Leaves in the list at `path` only elements with a value that begins with the script's prefix.
fn keep_own(answer: &mut Value, path: &str, prefix: &str) {
    let mut at = answer;
    for step in path.split('.') {
        let Some(inner) = (match step.parse::<usize>() {
            Ok(index) => at.get_mut(index),
            Err(_) => at.get_mut(step),
        }) else {
            return;
        };
        at = inner;
    }
    if let Value::Array(list) = at {
        list.retain(|one| match one {
            Value::Object(object) => object.values().any(|value| is_own(value, prefix)),
            other => is_own(other, prefix),
        });
    }
}
