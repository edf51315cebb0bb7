//! Random histories: right ones are clean, and a planted fault is always found.

mod common;

use common::{FAULTS, Fault, World};
use ottla_checker::{Class, check, lines};

/// The classes of which a fault must show at least one.
fn classes_of(fault: Fault) -> &'static [Class] {
    match fault {
        Fault::AppendedTwice => &[Class::Duplicate],
        Fault::AckedLost => &[Class::LostWrite, Class::Unseen],
        // If the client does not know that it was aborted, it looks like a commit that went wrong.
        Fault::AbortedShown => &[Class::G1a, Class::TornData, Class::TornOffsets, Class::TransformedTwice],
        Fault::DataTorn => &[Class::TornData, Class::LostWrite, Class::Unseen],
        Fault::OffsetsLeftOut => &[Class::TornOffsets, Class::TransformedTwice, Class::OffsetBack],
        Fault::DataLeftOut => &[Class::TornOffsets, Class::NotTransformed],
        Fault::OtherValue => &[Class::InconsistentOffsets, Class::Unwritten],
        Fault::GoneAfterRead => &[Class::Vanished],
        Fault::ReaderSkips => &[Class::IntPollSkip],
        Fault::ReaderBack => &[Class::IntNonmonotonicPoll],
        Fault::StableBack => &[Class::StableBack],
        Fault::ZombieCommits => &[Class::G1a, Class::AbortedOffset],
        Fault::OwnRead => &[Class::PrecommittedRead],
    }
}

#[test]
fn right_histories_are_clean() {
    for seed in 0..100 {
        let world = World::live(seed, 20 + 3 * seed, None);
        let found = check(&world.history);
        assert!(found.is_empty(), "seed {seed}: {found:#?}");
    }
}

#[test]
fn a_planted_fault_is_always_found() {
    for fault in FAULTS {
        let mut planted = 0;
        for seed in 0..80 {
            let world = World::live(seed, 100, Some(fault));
            if !world.planted {
                continue;
            }
            planted += 1;
            let found = check(&world.history);
            let named = found.iter().any(|finding| classes_of(fault).contains(&finding.class));
            assert!(named, "{fault:?}, seed {seed}: {found:#?}");
        }
        assert!(planted >= 15, "{fault:?} was planted {planted} times only");
    }
}

#[test]
fn lines_give_the_same_history() {
    for seed in 0..50 {
        let world = World::live(seed, 100, None);
        let text = lines::write(&world.history);
        let mut reader = lines::Reader::new();
        reader.add(&text).expect("what was written is read");
        let back = reader.finish();
        assert!(
            world
                .history
                .ops()
                .map(|(_, op)| (op.begin, op.end, op.actions.len()))
                .eq(back.ops().map(|(_, op)| (op.begin, op.end, op.actions.len())))
        );
        assert_eq!(text, lines::write(&back), "seed {seed}");
    }
}

#[test]
fn lines_that_are_no_history_are_refused_by_number() {
    let begin = r#"{"event":"begin","process":"w1","op":7,"kind":"txn","at":1000}"#;
    let end = r#"{"event":"end","process":"w1","op":7,"outcome":"ok","at":1400}"#;
    let error = |text: &str| lines::Reader::new().add(text).unwrap_err().to_string();
    assert_eq!(
        error(&format!("{begin}\n{begin}\n")).split(';').next(),
        Some("line 2: process w1 began operation 7 before")
    );
    assert_eq!(error(&format!("\n{end}\n")), "line 2: process w1 has not begun operation 7");
    assert!(error(&format!("{begin}\n{{\n")).starts_with("line 2: "));
}

#[test]
fn a_last_line_that_was_cut_off_is_left_out() {
    let begin = r#"{"event":"begin","process":"w1","op":7,"kind":"send","at":1000}"#;
    let mut reader = lines::Reader::new();
    reader.add(&format!("{begin}\n{}", &begin[..30])).unwrap();
    // The file of another process continues the same history.
    reader.add(&begin.replace("w1", "w2")).unwrap();
    assert_eq!(reader.finish().len(), 2);
}

#[test]
fn the_shapes_in_the_documentation_are_read() {
    let lines = [
        r#"{"event":"begin","process":"w1","op":7,"kind":"txn","at":1000}"#,
        r#"{"event":"assigned","process":"w1","op":7,"key":"in/0"}"#,
        r#"{"event":"read","process":"w1","op":7,"key":"in/0","offset":4,"value":"v4"}"#,
        r#"{"event":"write","process":"w1","op":7,"key":"out/0","value":"w1-7","from":{"key":"in/0","offset":4}}"#,
        r#"{"event":"ack","process":"w1","op":7,"value":"w1-7","offset":12}"#,
        r#"{"event":"offset","process":"w1","op":7,"group":"g","key":"in/0","offset":5}"#,
        r#"{"event":"committed","process":"w1","op":7,"group":"g","key":"in/0","offset":null}"#,
        r#"{"event":"ends","process":"w1","op":7,"key":"in/0","high":9,"stable":7}"#,
        r#"{"event":"drained","process":"w1","op":7,"key":"in/0"}"#,
        r#"{"event":"impossible","process":"w1","op":7,"text":"45"}"#,
        r#"{"event":"ending","process":"w1","op":7,"ending":"commit"}"#,
        r#"{"event":"end","process":"w1","op":7,"outcome":"ok","at":1400}"#,
    ];
    let mut reader = lines::Reader::new();
    reader.add(&lines.join("\n")).unwrap();
    let history = reader.finish();
    let (_, op) = history.ops().next().unwrap();
    assert_eq!((op.actions.len(), op.end), (8, Some(1400)));
}

#[test]
fn long_histories_are_judged_in_a_moment() {
    let world = World::live(1, 20_000, None);
    assert!(world.history.len() > 10_000);
    assert!(check(&world.history).is_empty());
}
