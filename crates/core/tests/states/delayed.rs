//! Requests that arrive late, or twice, in a later transaction of the same producer: every request of a life of three
//! transactions, at every later place. At version 2 none of them does anything. At versions 0 and 1 the epoch is that
//! of the next transaction as well, so some of them do: which ones, and no others, is what the tests here say.

mod life;

use crate::delayed::life::{Fault, Life, STEPS, What, step};

/// Everything that can arrive late, and where; `None` for the fault-free life.
fn faults() -> impl Iterator<Item = Fault> {
    let places = (0..STEPS).flat_map(|of| (of..STEPS).map(move |after| (of, after)));
    places.flat_map(|(of, after)| {
        let late = (step(of).1 != What::End).then_some(Fault { of, after, twice: false });
        [Some(Fault { of, after, twice: true }), late].into_iter().flatten()
    })
}

/// Which transactions the client wants to commit.
const WISHES: [[bool; 3]; 4] =
    [[true, true, true], [true, false, true], [false, true, false], [false, false, true]];

/// The lives of clients. One of version 2 need not name its partitions first, and its producer id may rotate on the
/// way.
fn lives(version_2: bool) -> impl Iterator<Item = Life> {
    let kinds: &[_] = if version_2 { &[(true, 0), (false, 0), (false, 32764)] } else { &[(true, 0)] };
    WISHES.into_iter().flat_map(move |commits| {
        kinds.iter().map(move |(adds, epoch)| Life {
            version_2,
            adds: *adds,
            commits,
            epoch: *epoch,
            renews: false,
        })
    })
}

#[test]
fn lives_without_a_fault_are_whole() {
    for life in lives(true).chain(lives(false)) {
        let verdict = life.play(None);
        assert!(verdict.torn.is_empty() && verdict.refused.is_none(), "{life:?} {verdict:?}");
        assert_eq!(verdict.visible, life.wanted(), "{life:?}");
    }
}

#[test]
fn t_102_t_104_at_version_2_nothing_late_does_anything() {
    let mut later = 0;
    for life in lives(true) {
        for fault in faults() {
            let verdict = life.play(Some(fault));
            assert!(verdict.torn.is_empty(), "{life:?} {fault:?} {verdict:?}");
            assert!(verdict.refused.is_none(), "the client is disturbed: {life:?} {fault:?} {verdict:?}");
            if fault.is_past_its_transaction() && verdict.delivered.is_some() {
                assert_eq!(verdict.records, 0, "{life:?} {fault:?} {verdict:?}");
                later += 1;
            }
        }
    }
    assert!(later > 1000, "{later}");
}

#[test]
fn t_101_at_versions_0_and_1_only_these_tear_the_next_transaction() {
    let mut torn = [0; 4];
    for life in lives(false) {
        for fault in faults() {
            let verdict = life.play(Some(fault));
            let what = step(fault.of).1;
            let may = match what {
                // It ends what is open now.
                What::End => fault.is_past_its_transaction(),
                // The client gave the batch up, and uses its sequence number for another one: whichever arrives second
                // is taken for a repetition of the first.
                What::Send(_) => !fault.twice,
                // Offsets carry no sequence number: the last one staged wins.
                What::Stage => fault.is_past_its_transaction(),
                What::Add(_) | What::Group => false,
            };
            assert!(may || verdict.torn.is_empty(), "{life:?} {fault:?} {verdict:?}");
            let class = match what {
                What::End => 0,
                What::Send(_) => 1,
                What::Stage => 2,
                What::Add(_) | What::Group => 3,
            };
            torn[class] += usize::from(!verdict.torn.is_empty());
        }
    }
    assert!(torn[..3].iter().all(|count| *count > 0), "what is inherent shows: {torn:?}");
    assert_eq!(torn[3], 0);
}

#[test]
fn t_064_at_versions_0_and_1_nothing_late_joins_a_transaction_that_has_not_added_its_place() {
    for life in lives(false) {
        for fault in faults() {
            let verdict = life.play(Some(fault));
            let place_is_in = match step(fault.of).1 {
                What::Send(_) | What::Stage => fault.finds_its_place_added(),
                _ => true,
            };
            if !place_is_in && fault.is_past_its_transaction() && verdict.delivered.is_some() {
                assert_eq!(verdict.records, 0, "{life:?} {fault:?} {verdict:?}");
                assert!(
                    verdict.torn.is_empty() && verdict.refused.is_none(),
                    "{life:?} {fault:?} {verdict:?}"
                );
            }
        }
    }
}

#[test]
fn t_041_at_versions_0_and_1_a_batch_that_arrives_twice_is_there_once() {
    for life in lives(false) {
        for fault in faults().filter(|fault| fault.twice && matches!(step(fault.of).1, What::Send(_))) {
            let verdict = life.play(Some(fault));
            assert_eq!((verdict.records, verdict.refused), (0, None), "{life:?} {fault:?}");
            assert_eq!(verdict.visible, life.wanted(), "{life:?} {fault:?}");
        }
    }
}

#[test]
fn t_031_a_client_of_versions_0_and_1_that_renews_its_epoch_meets_none_of_its_late_requests_again() {
    for life in lives(false) {
        let life = Life { renews: true, ..life };
        for fault in faults().filter(|fault| !fault.twice) {
            let verdict = life.play(Some(fault));
            assert!(verdict.torn.is_empty() && verdict.refused.is_none(), "{life:?} {fault:?} {verdict:?}");
            if fault.is_past_its_transaction() {
                assert_eq!(verdict.records, 0, "{life:?} {fault:?} {verdict:?}");
            }
        }
    }
}

#[test]
fn t_140_what_a_late_request_opens_by_itself_is_closed_by_the_timeout() {
    let life = Life { version_2: false, adds: true, commits: [true; 3], epoch: 0, renews: false };
    // The first AddPartitionsToTxn of the last transaction, again, after its end.
    let fault = Fault { of: STEPS - life::PER_TRANSACTION, after: STEPS - 1, twice: true };
    let verdict = life.play(Some(fault));
    assert_eq!((verdict.records, verdict.torn.len()), (1, 0), "{verdict:?}");
    assert_eq!(verdict.open_after_timeout, 0);
    assert_eq!(verdict.visible, life.wanted());
}
