//! The table of states and events of a transactional id (crates/core/tests/states/transaction.txt), tested over a
//! connection: the error code of each request at every version, and the state that DescribeTransactions returns after
//! it.
//!
//! States and events without a request are left out: expiry, an abort by an administrator, time.

use crate::ask::{Fixture, Owner};
use crate::peer::Connection;
use ottla::Broker;
use ottla_wire::messages::{AddPartitionsToTxnRequest, DescribeTransactionsRequest};
use ottla_wire::{ErrorCode, Text};
use std::ops::RangeInclusive;

const TABLE: &str = include_str!("../../../core/tests/states/transaction.txt");

/// The states that requests can reach; `T` has a timeout of a millisecond.
const STATES: [&str; 11] = ["-", "E", "E*", "O", "O*", "C", "C*", "A", "A*", "T", "F"];

/// The owner's epoch in every state, if there is an owner.
const EPOCH: i16 = 2;

/// The event of a row: the request, and its sender.
struct Event<'a> {
    what: Vec<&'a str>,
    who: &'a str,
}

/// The table's rows for requests: the event, and the cell of each column.
fn rows() -> Vec<(Event<'static>, Vec<(&'static str, &'static str)>)> {
    let lines = TABLE.lines().filter(|line| !line.trim().is_empty() && !line.starts_with('#'));
    let mut rows = lines.map(|line| {
        let parts: Vec<Vec<&str>> = line.split('|').map(|part| part.split_whitespace().collect()).collect();
        (parts[0].clone(), parts[1].clone())
    });
    let (_, columns) = rows.next().unwrap();
    let of_requests = rows.filter(|(event, _)| event.len() > 1 && event[0] != "forced");
    let cells = of_requests.map(|(mut event, cells)| {
        let who = event.pop().unwrap();
        (Event { what: event, who }, columns.iter().copied().zip(cells).collect())
    });
    cells.collect()
}

/// The versions of a request that are judged by the row's rules (T-05).
fn versions(event: &Event) -> RangeInclusive<i16> {
    match (event.what.as_slice(), event.who) {
        (["init"], "none") => 0..=5,
        (["init"], _) => 3..=5,
        (["add", _], _) => 0..=3,
        (["verify", _], _) => 4..=5,
        (["group", _], _) => 0..=4,
        (["stage", "0", _], _) => 0..=4,
        (["stage", "2", _], _) => 5..=6,
        (["send", "0", _], _) => 3..=11,
        (["send", "2", _], _) => 12..=13,
        (["commit" | "abort", "0"], _) => 0..=4,
        (["commit" | "abort", "2"], _) => 5..=5,
        (other, _) => panic!("{other:?}"),
    }
}

/// The code for a word of the table, at a version (T-38, T-85, T-152, T-163, T-220).
fn code(event: &Event, word: &str, version: i16) -> ErrorCode {
    let what = event.what[0];
    match word {
        "ok" | "new" => ErrorCode::NONE,
        "again" => ErrorCode::CONCURRENT_TRANSACTIONS,
        "owner" => ErrorCode::INVALID_PRODUCER_ID_MAPPING,
        "state" => ErrorCode::INVALID_TXN_STATE,
        "fenced" | "stale" => {
            let named_from = match what {
                "init" => 4,
                "send" | "stage" => i16::MAX,
                _ => 2,
            };
            if version >= named_from { ErrorCode::PRODUCER_FENCED } else { ErrorCode::INVALID_PRODUCER_EPOCH }
        }
        "out" => {
            let abortable_from = match what {
                "send" => 11,
                _ => 4,
            };
            match version >= abortable_from {
                true => ErrorCode::TRANSACTION_ABORTABLE,
                false => ErrorCode::INVALID_TXN_STATE,
            }
        }
        other => panic!("no word {other}"),
    }
}

/// A transactional id in a state.
struct TransactionFixture {
    place: Fixture,
    owner: Owner,
    /// The sequence number that partition 0 expects of the owner.
    next: i32,
}

impl TransactionFixture {
    async fn reach(peer: &mut Connection, place: &Fixture, state: &str, id: &str) -> TransactionFixture {
        let mut place =
            Fixture { id: Text::from(id), group: Text::from(format!("{id}-in")), ..place.clone() };
        if state == "-" {
            return TransactionFixture { place, owner: (1 << 40, EPOCH), next: 0 };
        }
        place.init(peer, None).await;
        if state == "T" {
            place.timeout = 1;
        }
        let before = place.init(peer, None).await;
        let (owner, next) = match state {
            "E" | "O" | "C" | "A" => (place.init(peer, None).await, 0),
            "E*" => (place.init(peer, Some(before)).await, 0),
            "O*" | "C*" => (place.transaction(peer, before, true).await, 0),
            "A*" => (place.transaction(peer, before, false).await, 0),
            "T" | "F" => {
                place.produce(peer, before, 12).await;
                if state == "F" {
                    let fenced = peer.call(&place.init_request(None), 5).await;
                    assert_eq!(ErrorCode(fenced.error_code), ErrorCode::CONCURRENT_TRANSACTIONS);
                }
                while describe(peer, &place.id).await.0 != "CompleteAbort" {
                    tokio::task::yield_now().await;
                }
                ((before.0, before.1 + 1), 0)
            }
            other => panic!("no state {other}"),
        };
        place.timeout = 60_000;
        let mut scene = TransactionFixture { place, owner, next };
        match state {
            "O" | "C" | "A" => scene.place.begin(peer, owner, 4).await,
            "O*" => scene.place.begin(peer, owner, 5).await,
            _ => return scene,
        }
        scene.next = 1;
        if let "C" | "A" = state {
            let end = scene.place.end_request(owner, state == "C");
            assert_eq!(peer.call(&end, 4).await.error_code, 0);
        }
        scene
    }

    /// Producer id and epoch of the sender.
    fn pair(&self, who: &str) -> Owner {
        let (id, epoch) = self.owner;
        match who {
            "before" => (id, epoch - 1),
            "older" => (id, epoch - 2),
            "ahead" => (id, epoch + 1),
            "other" => (id + (1 << 40), epoch),
            _ => (id, epoch),
        }
    }

    /// Sends the request of the event; returns the error code, and the producer id and epoch of InitProducerId and
    /// EndTxn.
    async fn ask(
        &self,
        peer: &mut Connection,
        event: &Event<'_>,
        version: i16,
    ) -> (ErrorCode, Option<Owner>) {
        let pair = self.pair(event.who);
        let mut place = self.place.clone();
        if event.what.last() == Some(&"out") {
            place.partition = 1;
            place.group = Text::from(format!("{}-out", place.id));
        }
        let current_in = event.who == "current" && event.what.last() == Some(&"in");
        place.sequence = if current_in { self.next } else { 0 };
        match event.what[0] {
            "init" => {
                let request = place.init_request((event.who != "none").then_some(pair));
                let answer = peer.call(&request, version).await;
                (ErrorCode(answer.error_code), Some((answer.producer_id, answer.producer_epoch)))
            }
            "add" => {
                let answer = peer.call(&place.add_request(pair, version), version).await;
                let results = &answer.results_by_topic_v3_and_below[0].results_by_partition;
                (ErrorCode(results[0].partition_error_code), None)
            }
            "verify" => {
                let mut request: AddPartitionsToTxnRequest = place.add_request(pair, version);
                request.transactions[0].verify_only = true;
                let answer = peer.call(&request, version).await;
                let results = &answer.results_by_transaction[0].topic_results[0].results_by_partition;
                (ErrorCode(results[0].partition_error_code), None)
            }
            "group" => {
                let answer = peer.call(&place.add_offsets_request(pair), version).await;
                (ErrorCode(answer.error_code), None)
            }
            "stage" => {
                let answer = peer.call(&place.stage(pair, version), version).await;
                (ErrorCode(answer.topics[0].partitions[0].error_code), None)
            }
            "send" => {
                let answer = peer.call(&place.produce_request(pair, true, version), version).await;
                (ErrorCode(answer.responses[0].partition_responses[0].error_code), None)
            }
            _ => {
                let request = place.end_request(pair, event.what[0] == "commit");
                let answer = peer.call(&request, version).await;
                let named = (version >= 5).then_some((answer.producer_id, answer.producer_epoch));
                (ErrorCode(answer.error_code), named)
            }
        }
    }
}

/// The name of the state and the owner, as DescribeTransactions returns them.
async fn describe(peer: &mut Connection, id: &Text) -> (String, Owner) {
    let ask = DescribeTransactionsRequest { transactional_ids: vec![id.clone()], ..Default::default() };
    let state = peer.call(&ask, 0).await.transaction_states.remove(0);
    (String::from(&state.transaction_state), (state.producer_id, state.producer_epoch))
}

fn state_name(code: &str) -> &'static str {
    match code.trim_end_matches('*') {
        "E" => "Empty",
        "O" => "Ongoing",
        "C" => "CompleteCommit",
        _ => "CompleteAbort",
    }
}

/// Runs a row in a state at a version, and checks the response, the producer id and epoch in it, and the state after
/// it.
async fn play(
    peer: &mut Connection,
    scene: &TransactionFixture,
    event: &Event<'_>,
    cell: &str,
    version: i16,
) {
    let name = format!("{} {} {version}: {cell}, {}", event.what.join(" "), event.who, scene.place.id);
    let (answer, next) = cell.split_once('>').unwrap_or((cell, ""));
    let (word, bumps) = (answer.trim_end_matches('+'), answer.ends_with('+'));
    let before = describe(peer, &scene.place.id).await;
    let (said, pair) = scene.ask(peer, event, version).await;
    assert_eq!(said, code(event, word, version), "{name}");
    let after = describe(peer, &scene.place.id).await;
    let expected_state = if next.is_empty() { before.0.as_str() } else { state_name(next) };
    assert_eq!(after.0, expected_state, "{name}");
    if word == "new" {
        assert_eq!(after.1.1, 0, "{name}");
    } else {
        assert_eq!(after.1, (before.1.0, before.1.1 + i16::from(bumps)), "{name}");
    }
    if let Some(pair) = pair {
        let expected = if said == ErrorCode::NONE { after.1 } else { (-1, -1) };
        assert_eq!(pair, expected, "{name}");
    }
}

#[tokio::test]
async fn t_005_t_220_the_table_of_states_at_every_version() {
    let broker = Broker::in_memory().start().unwrap();
    let mut peer = Connection::connect(&broker).await;
    let place = Fixture::create(&mut peer, "t").await;
    let (rows, mut played, mut scenes) = (rows(), 0, 0);
    for state in STATES {
        let mut scene = None;
        for (event, cells) in &rows {
            let cell = cells.iter().find(|(column, _)| *column == state).unwrap().1;
            // A transaction with a timeout of a millisecond would expire before it is checked.
            if state == "T" && cell.contains(">O") {
                continue;
            }
            for version in versions(event) {
                if scene.is_none() {
                    scenes += 1;
                    scene = Some(
                        TransactionFixture::reach(&mut peer, &place, state, &format!("{state}{scenes}"))
                            .await,
                    );
                }
                play(&mut peer, scene.as_ref().unwrap(), event, cell, version).await;
                played += 1;
                // A request that changed something needs a new fixture.
                if cell.contains('>') || cell == "ok" {
                    scene = None;
                }
            }
        }
    }
    assert!(played > 2000, "{played} requests in {scenes} scenes");
}
