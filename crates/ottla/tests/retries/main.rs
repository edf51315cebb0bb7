//! Every request that works in a transaction, at every version: its answer gets lost, the broker is perhaps started
//! again, and the client sends it again. It is answered the same, or as the rule for it says, and the second one
//! changes nothing.
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

use ask::{Ask, Place, What};
use ottla::Broker;
use peer::Peer;

/// What the second of two equal requests is answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Again {
    /// The very same.
    Same,
    /// A new owner took over from a new owner (T-30): the epoch goes up once more.
    NextEpoch,
    /// A duplicate carries its original's timestamp (T-41), all else being the same.
    Original,
    /// A marker of versions 0 and 1 is written once more (T-236).
    OneMoreMarker,
}

/// The APIs with all their versions, and what the rules say of a repetition.
fn cases() -> Vec<(What, std::ops::RangeInclusive<i16>, Again)> {
    vec![
        (What::InitNone, 0..=5, Again::NextEpoch),
        (What::InitPair, 3..=5, Again::Same),
        (What::AddPartitions, 0..=5, Again::Same),
        (What::AddOffsets, 0..=4, Again::Same),
        (What::Stage, 0..=6, Again::Same),
        (What::Produce, 3..=13, Again::Original),
        (What::ProducePlain, 3..=13, Again::Original),
        (What::Commit, 0..=5, Again::Same),
        (What::Abort, 0..=5, Again::Same),
        (What::AbortNothing, 5..=5, Again::Same),
        (What::Marker, 1..=1, Again::OneMoreMarker),
        (What::Marker, 2..=2, Again::Same),
    ]
}

/// One request on its way: before, once answered, and what the answer was.
struct Case {
    ask: Ask,
    again: Again,
    /// What the first answer said; the client never saw it.
    lost: String,
}

async fn lose_answers(broker: &Broker) -> Vec<Case> {
    let mut out = Vec::new();
    for (what, versions, again) in cases() {
        for version in versions {
            let mut peer = Peer::connect(broker).await;
            let place = Place::create(&mut peer, &format!("{what:?}-{version}").to_lowercase()).await;
            let owner = place.prepare(&mut peer, what, version).await;
            let ask = Ask { what, version, place, owner };
            let lost = ask.send(&mut peer).await;
            // The connection ends here, and with it what the client could have learned.
            out.push(Case { ask, again, lost });
        }
    }
    out
}

async fn ask_again(broker: &Broker, case: &Case) {
    let Case { ask, again, lost } = case;
    let name = format!("{:?} version {}", ask.what, ask.version);
    let mut peer = Peer::connect(broker).await;
    let before = ask.place.state(&mut peer).await;
    let answer = ask.send(&mut peer).await;
    let after = ask.place.state(&mut peer).await;
    match again {
        Again::Same => {
            assert_eq!((&answer, &after), (lost, &before), "{name}");
        }
        Again::Original => {
            let original =
                lost.replace("log_append_time_ms: -1", &format!("log_append_time_ms: {}", ask::TIME));
            assert_ne!(&original, lost, "{name}: the answer has a timestamp");
            assert_eq!((&answer, &after), (&original, &before), "{name}");
        }
        Again::NextEpoch => {
            let next = lost.replace("producer_epoch: 1,", "producer_epoch: 2,");
            assert_ne!(&next, lost, "{name}: the answer has an epoch");
            assert_eq!(answer, next, "{name}");
        }
        Again::OneMoreMarker => {
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
