//! Retries of every request of a transaction, at every version: the response is lost, the broker restarts in some
//! cases, and the client sends the request again. The second response equals the first, or is what the rule says, and
//! the second request changes nothing.
#![expect(
    clippy::unwrap_used,
    reason = "helpers of tests; clippy.toml lets tests unwrap, but not their helpers"
)]

mod ask;
mod late;
mod lost;
mod network;
mod peer;
mod state;
mod table;

use ask::{Fixture, RequestCase, RequestKind};
use ottla::Broker;
use peer::Connection;

/// The response to the second of two equal requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum RepeatedAnswer {
    /// Equal to the first.
    Same,
    /// The epoch is one higher (T-30).
    NextEpoch,
    /// Equal except for the timestamp, which is that of the original (T-41).
    Original,
    /// A marker of versions 0 and 1 is written again (T-236).
    OneMoreMarker,
}

/// The APIs with all their versions, and the response to a retry.
fn cases() -> Vec<(RequestKind, std::ops::RangeInclusive<i16>, RepeatedAnswer)> {
    vec![
        (RequestKind::InitNone, 0..=5, RepeatedAnswer::NextEpoch),
        (RequestKind::InitPair, 3..=5, RepeatedAnswer::Same),
        (RequestKind::AddPartitions, 0..=5, RepeatedAnswer::Same),
        (RequestKind::AddOffsets, 0..=4, RepeatedAnswer::Same),
        (RequestKind::Stage, 0..=6, RepeatedAnswer::Same),
        (RequestKind::Produce, 3..=13, RepeatedAnswer::Original),
        (RequestKind::ProducePlain, 3..=13, RepeatedAnswer::Original),
        (RequestKind::Commit, 0..=5, RepeatedAnswer::Same),
        (RequestKind::Abort, 0..=5, RepeatedAnswer::Same),
        (RequestKind::AbortNothing, 5..=5, RepeatedAnswer::Same),
        (RequestKind::Marker, 1..=1, RepeatedAnswer::OneMoreMarker),
        (RequestKind::Marker, 2..=2, RepeatedAnswer::Same),
    ]
}

/// A request, the state before it and after it, and its first response.
struct Case {
    ask: RequestCase,
    again: RepeatedAnswer,
    /// The first response, which the client did not receive.
    lost: String,
}

async fn lose_answers(broker: &Broker) -> Vec<Case> {
    let mut out = Vec::new();
    for (what, versions, again) in cases() {
        for version in versions {
            let mut peer = Connection::connect(broker).await;
            let place = Fixture::create(&mut peer, &format!("{what:?}-{version}").to_lowercase()).await;
            let owner = place.prepare(&mut peer, what, version).await;
            let ask = RequestCase { what, version, place, owner };
            let lost = ask.send(&mut peer).await;
            // The connection is closed, so the client has no response.
            out.push(Case { ask, again, lost });
        }
    }
    out
}

async fn ask_again(broker: &Broker, case: &Case) {
    let Case { ask, again, lost } = case;
    let name = format!("{:?} version {}", ask.what, ask.version);
    let mut peer = Connection::connect(broker).await;
    let before = ask.place.state(&mut peer).await;
    let answer = ask.send(&mut peer).await;
    let after = ask.place.state(&mut peer).await;
    match again {
        RepeatedAnswer::Same => {
            assert_eq!((&answer, &after), (lost, &before), "{name}");
        }
        RepeatedAnswer::Original => {
            let original =
                lost.replace("log_append_time_ms: -1", &format!("log_append_time_ms: {}", ask::TIME));
            assert_ne!(&original, lost, "{name}: the answer has a timestamp");
            assert_eq!((&answer, &after), (&original, &before), "{name}");
        }
        RepeatedAnswer::NextEpoch => {
            let next = lost.replace("producer_epoch: 1,", "producer_epoch: 2,");
            assert_ne!(&next, lost, "{name}: the answer has an epoch");
            assert_eq!(answer, next, "{name}");
        }
        RepeatedAnswer::OneMoreMarker => {
            assert_eq!(&answer, lost, "{name}");
            assert_eq!(after.ends.map(|end| end - 1), before.ends, "{name}");
        }
    }
    ask.finish(&mut peer, &answer).await;
}

#[tokio::test]
async fn t_031_t_041_t_083_t_102_t_125_what_is_asked_again_is_answered_again() {
    let broker = Broker::in_memory().start().unwrap();
    let cases = lose_answers(&broker).await;
    for case in &cases {
        ask_again(&broker, case).await;
    }
    assert_eq!(cases.len(), 64, "requests times versions");
}

#[tokio::test]
async fn t_250_t_259_and_so_it_is_by_a_broker_that_started_again() {
    let folder = tempfile::tempdir().unwrap();
    let broker = Broker::on_folder(folder.path()).start().unwrap();
    let cases = lose_answers(&broker).await;
    broker.stop().unwrap();
    let broker = Broker::on_folder(folder.path()).start().unwrap();
    for case in &cases {
        ask_again(&broker, case).await;
    }
}
