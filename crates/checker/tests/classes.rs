//! Of each class the smallest history that shows it, and one that nearly does.
//!
//! Histories are written in short lines, one operation each: `PROCESS KIND OUTCOME [ACTION]...`, in the order of time.
//! Outcomes are `ok`, `fail`, `info`, and of a transaction also `abort` (it was aborted) and `lost` (its commit was
//! requested, with unknown outcome).

#![expect(clippy::unwrap_used, reason = "tests")]

use ottla_checker::{Action, Class, Ending, History, Kind, OpId, Outcome, check};
use std::collections::BTreeSet;

fn history(text: &str) -> History {
    let mut history = History::new();
    for (index, line) in text.lines().map(str::trim).filter(|line| !line.is_empty()).enumerate() {
        let words: Vec<&str> = line.split_whitespace().collect();
        let kind = match words[1] {
            "send" => Kind::Send,
            "poll" => Kind::Poll,
            "peek" => Kind::Peek,
            "txn" => Kind::Txn,
            "drain" => Kind::Drain,
            other => panic!("{other}"),
        };
        let process = history.process(words[0]);
        let at = index as u64 * 10;
        let op = history.begin(process, kind, at);
        for word in &words[3..] {
            act(&mut history, op, word);
        }
        let (ending, outcome) = match words[2] {
            "ok" => (Ending::Commit, Some(Outcome::Ok)),
            "fail" => (Ending::Commit, Some(Outcome::Fail)),
            "abort" => (Ending::Abort, Some(Outcome::Ok)),
            "info" | "lost" => (Ending::Commit, None),
            other => panic!("{other}"),
        };
        if kind == Kind::Txn && words[2] != "info" {
            history.ending(op, ending);
        }
        if let Some(outcome) = outcome {
            history.end(op, outcome, at + 5);
        }
    }
    history
}

/// `x:v@3` reads v at offset 3 of x, `x+v` writes v to x, `x+v@3` writes it and learns offset 3, `x+v<in:4` was made
/// from offset 4 of in, `g/x=5` commits offset 5, `g/x?5` reads it, `x|5|4` sees the ends, `x*` is assigned anew, `x$`
/// is drained, `!text` is impossible.
fn act(history: &mut History, op: OpId, word: &str) {
    let number = |text: &str| text.parse::<i64>().unwrap();
    if let Some(text) = word.strip_prefix('!') {
        history.push(op, Action::Impossible { text: text.to_owned() });
    } else if let Some((key, rest)) = word.split_once('+') {
        let key = history.key(key);
        let (value, place) =
            rest.split_once('@').map_or((rest, None), |(value, place)| (value, Some(number(place))));
        if let Some((name, from)) = value.split_once('<') {
            let (input, offset) = from.split_once(':').unwrap();
            let (value, from) = (history.value(name), (history.key(input), number(offset)));
            history.write_from(op, key, value, from);
        } else {
            let value = history.value(value);
            history.write(op, key, value);
        }
        if let Some(place) = place {
            let value = history.value(value.split('<').next().unwrap());
            history.ack(op, value, place);
        }
    } else if let Some((key, rest)) = word.split_once(':') {
        let (value, offset) = rest.split_once('@').unwrap();
        let (key, value) = (history.key(key), history.value(value));
        history.read(op, key, number(offset), value);
    } else if let Some((group, rest)) = word.split_once('/') {
        let group = history.group(group);
        if let Some((key, offset)) = rest.split_once('=') {
            let key = history.key(key);
            history.push(op, Action::Offset { group, key, offset: number(offset) });
        } else {
            let (key, offset) = rest.split_once('?').unwrap();
            let key = history.key(key);
            history.push(op, Action::Committed { group, key, offset: offset.parse().ok() });
        }
    } else if let Some((key, rest)) = word.split_once('|') {
        let (high, stable) = rest.split_once('|').unwrap();
        let key = history.key(key);
        history.push(op, Action::Ends { key, high: number(high), stable: number(stable) });
    } else if let Some(key) = word.strip_suffix('*') {
        let key = history.key(key);
        history.push(op, Action::Assigned { key });
    } else {
        let key = history.key(word.strip_suffix('$').unwrap());
        history.push(op, Action::Drained { key });
    }
}

fn found(text: &str) -> BTreeSet<Class> {
    check(&history(text)).into_iter().map(|finding| finding.class).collect()
}

/// The history shows exactly these classes.
#[track_caller]
fn shows<const N: usize>(text: &str, classes: [Class; N]) {
    assert_eq!(found(text), classes.into_iter().collect(), "{:#?}", check(&history(text)));
}

#[track_caller]
fn clean(text: &str) {
    shows(text, []);
}

#[test]
fn an_empty_history_is_clean() {
    clean("");
}

#[test]
fn inconsistent_offsets() {
    let sent = "p send ok x+a@0\n q send ok x+b\n";
    shows(&format!("{sent} c poll ok x:b@0"), [Class::InconsistentOffsets, Class::LostWrite]);
    clean(&format!("{sent} c poll ok x:a@0 x:b@1"));
    // An acknowledgement is as good a witness as a reader.
    shows("p send ok x+a@0\n q send ok x+b@0", [Class::InconsistentOffsets]);
    clean("p send ok x+a@0\n q send ok y+b@0");
}

#[test]
fn duplicate() {
    shows("p send ok x+a\n c poll ok x:a@0 x:a@1", [Class::Duplicate]);
    clean("p send ok x+a x+b\n c poll ok x:a@0 x:b@1");
    // Two readers of the same place are no duplicate.
    clean("p send ok x+a@0\n c poll ok x:a@0\n d poll ok x:a@0");
}

#[test]
fn g1a() {
    let read = "c poll ok x:a@0";
    shows(&format!("p txn abort x+a\n {read}"), [Class::G1a]);
    shows(&format!("p txn fail x+a\n {read}"), [Class::G1a]);
    shows(&format!("p send fail x+a\n {read}"), [Class::G1a]);
    // No client asked for this one to be committed.
    shows(&format!("p txn info x+a\n {read}"), [Class::G1a]);
    clean(&format!("p txn lost x+a\n {read}"));
    clean(&format!("p txn ok x+a\n {read}"));
    clean("p txn abort x+a\n c peek ok x:a@0");
}

#[test]
fn g1c() {
    shows("p txn ok x+a y:b@0\n q txn ok y+b x:a@0", [Class::G1c]);
    clean("p txn ok x+a\n q txn ok y+b x:a@0\n r txn ok y:b@0 x:a@0");
    let three = "p txn ok x+a z:c@0\n q txn ok y+b x:a@0\n r txn ok z+c y:b@0\n s txn ok x:a@0";
    let found = check(&history(three));
    assert_eq!(found.len(), 1, "{found:?}");
    assert_eq!(found[0].ops.len(), 3, "{found:?}");
    // Who sends outside of transactions commits at once.
    clean("p txn ok x+a y:b@0\n q send ok y+b\n q poll ok x:a@0");
}

#[test]
fn precommitted_read() {
    shows("p txn ok x+a x:a@0", [Class::PrecommittedRead]);
    clean("p txn ok x+a\n p txn ok x:a@0");
}

#[test]
fn unwritten() {
    shows("c poll ok x:a@0", [Class::Unwritten]);
    shows("p send ok x+a\n c poll ok y:a@0", [Class::Unwritten]);
    shows("p send ok x+a\n c peek ok y:a@0", [Class::Unwritten]);
    clean("p send ok x+a\n c peek ok x:a@0");
}

#[test]
fn written_twice() {
    shows("p send ok x+a\n q send ok x+a", [Class::WrittenTwice]);
    clean("p send ok x+a\n q send ok x+b");
}

#[test]
fn lost_write() {
    let others = "q send ok x+b\n c poll ok x:b@1";
    shows(&format!("p send ok x+a@0\n {others}"), [Class::LostWrite]);
    shows(&format!("p txn ok x+a@0\n {others}"), [Class::LostWrite]);
    // Another write of it was read, so it is committed.
    shows(&format!("p txn lost x+a@0 y+d\n d poll ok y:d@0\n {others}"), [Class::LostWrite]);
    clean(&format!("p txn lost x+a@0 y+d\n {others}"));
    clean(&format!("p send info x+a\n {others}"));
    clean(&format!("p txn abort x+a@0\n {others}"));
    clean("p send ok x+a@2\n q send ok x+b\n c poll ok x:b@1");
}

#[test]
fn unseen() {
    shows("p send ok x+a\n z drain ok x$", [Class::Unseen]);
    shows("p txn ok x+a\n z drain ok x$", [Class::Unseen]);
    clean("p send ok x+a\n z drain ok x:a@0 x$");
    clean("p send info x+a\n z drain ok x$");
    clean("p send ok x+a\n z drain ok y$");
    // What was sent after the drain began is no business of it.
    clean("z drain ok x$\n p send ok x+a");
}

#[test]
fn vanished() {
    let read = "p send info x+a\n c poll ok x:a@0\n";
    shows(&format!("{read} z drain ok x$"), [Class::Vanished]);
    clean(&format!("{read} z drain ok x:a@0 x$"));
    // One drain is not enough if the other has lost it.
    shows(&format!("{read} y drain ok x:a@0 x$\n z drain ok x$"), [Class::Vanished]);
    clean("p txn lost x+a\n c peek ok x:a@0\n z drain ok x$");
}

#[test]
fn torn_data() {
    let txn = "p txn lost x+a y+b\n";
    shows(&format!("{txn} z drain ok x:a@0 x$ y$"), [Class::TornData, Class::Unseen]);
    clean(&format!("{txn} z drain ok x:a@0 x$ y:b@0 y$"));
    clean(&format!("{txn} z drain ok x$ y$"));
    clean("p send info x+a y+b\n z drain ok x:a@0 x$ y$");
}

#[test]
fn poll_skip() {
    let sent = "p send ok x+a x+b x+c\n c poll ok x:a@0\n";
    shows(&format!("{sent} d poll ok x:b@1\n c poll ok x:c@2"), [Class::PollSkip]);
    clean(&format!("{sent} d poll ok x:b@1\n c poll ok x* x:c@2"));
    // No operation claims the offset between: it may be a control record.
    clean(&format!("{sent} c poll ok x:c@2"));
    // An aborted value is no value.
    clean("p txn abort x+a@1\n q send ok x+b x+c\n c poll ok x:b@0\n c poll ok x:c@2");
}

#[test]
fn int_poll_skip() {
    let sent = "p send ok x+a x+b x+c\n d poll ok x:b@1\n";
    shows(&format!("{sent} c poll ok x:a@0 x:c@2"), [Class::IntPollSkip]);
    clean(&format!("{sent} c poll ok x:a@0 x* x:c@2"));
    shows(
        "p send ok x+a\n q txn ok x+b@1\n r send ok x+c\n c poll ok x:a@0 x:c@2",
        [Class::IntPollSkip, Class::LostWrite],
    );
}

#[test]
fn nonmonotonic_poll() {
    let sent = "p send ok x+a x+b\n c poll ok x:a@0 x:b@1\n";
    shows(&format!("{sent} c poll ok x:b@1"), [Class::NonmonotonicPoll]);
    shows(&format!("{sent} c poll ok x:a@0"), [Class::NonmonotonicPoll]);
    clean(&format!("{sent} c poll ok x* x:a@0"));
    clean(&format!("{sent} d poll ok x:a@0"));
    // A drain begins at the beginning.
    clean(&format!("{sent} c drain ok x:a@0 x:b@1 x$"));
}

#[test]
fn int_nonmonotonic_poll() {
    let sent = "p send ok x+a x+b\n";
    shows(&format!("{sent} c poll ok x:b@1 x:a@0"), [Class::IntNonmonotonicPoll]);
    clean(&format!("{sent} c poll ok x:b@1 x* x:a@0"));
    shows(&format!("{sent} c drain ok x:b@1 x:a@0"), [Class::IntNonmonotonicPoll]);
}

#[test]
fn nonmonotonic_send() {
    shows("p send ok x+a@1\n p send ok x+b@0", [Class::NonmonotonicSend]);
    clean("p send ok x+a@1\n q send ok x+b@0");
    clean("p send ok x+a@1\n p send ok y+b@0");
}

#[test]
fn int_nonmonotonic_send() {
    shows("p send ok x+a@1 x+b@0", [Class::IntNonmonotonicSend]);
    clean("p send ok x+a@0 x+b@1");
}

#[test]
fn torn_offsets() {
    let txn = "f send ok in+i@0\n p txn lost out+a<in:0 g/in=1\n";
    // Offsets without data.
    shows(&format!("{txn} z drain ok in:i@0 in$ out$ g/in?1"), [Class::TornOffsets, Class::NotTransformed]);
    // Data without offsets.
    shows(&format!("{txn} z drain ok in:i@0 in$ out:a@0 out$ g/in?-"), [Class::TornOffsets]);
    clean(&format!("{txn} z drain ok in:i@0 in$ out:a@0 out$ g/in?1"));
    clean(&format!("{txn} z drain ok in:i@0 in$ out$ g/in?-"));
    // Another transaction committed the same offset.
    clean(&format!("{txn} q txn ok out+b<in:0 g/in=1\n z drain ok in:i@0 in$ out:b@0 out$ g/in?1"));
}

#[test]
fn aborted_offset() {
    shows("p txn abort g/x=1\n c poll ok g/x?1", [Class::AbortedOffset]);
    shows("c poll ok g/x?1", [Class::AbortedOffset]);
    clean("p txn abort g/x=1\n c poll ok g/x?-");
    clean("p txn lost g/x=1\n c poll ok g/x?1");
    clean("p txn abort g/x=1\n q send ok g/x=1\n c poll ok g/x?1");
}

#[test]
fn offset_back() {
    shows("p send ok g/x=2\n c poll ok g/x?-", [Class::OffsetBack]);
    shows("p txn lost g/x=1\n p txn lost g/x=2\n c poll ok g/x?2\n c poll ok g/x?1", [Class::OffsetBack]);
    clean("p send ok g/x=2\n c poll ok g/x?2");
    clean("c poll ok g/x?-\n p send ok g/x=2");
    clean("p txn lost g/x=2\n c poll ok g/x?-");
    clean("p send ok h/x=2\n p send ok g/y=2\n c poll ok g/x?-");
}

#[test]
fn transformed_twice() {
    let first = "f send ok in+i@0\n p txn ok out+a<in:0 g/in=1\n";
    shows(&format!("{first} q txn ok out+b<in:0 g/in=1"), [Class::TransformedTwice]);
    clean(&format!("{first} q txn abort out+b<in:0 g/in=1"));
    clean(&format!("{first} q txn ok out+b<in:0 h/in=1"));
    // One transaction may make two outputs of an input.
    clean("f send ok in+i@0\n p txn ok out+a<in:0 out+b<in:0 g/in=1");
}

#[test]
fn not_transformed() {
    let fed = "f send ok in+i@0 in+j@1\n p txn ok out+a<in:0 g/in=1\n";
    let end = "z drain ok in:i@0 in:j@1 in$";
    shows(&format!("{fed} p txn ok g/in=2\n {end} g/in?2"), [Class::NotTransformed]);
    clean(&format!("{fed} {end} g/in?1"));
    clean(&format!("{fed} p txn ok out+b<in:1 g/in=2\n {end} g/in?2"));
    // A group that transforms nothing may commit what it likes.
    clean(&format!("{fed} c send ok h/in=2\n {end} g/in?1 h/in?2"));
}

#[test]
fn high_back() {
    shows("c poll ok x|5|5\n d poll ok x|4|4", [Class::HighBack, Class::StableBack]);
    clean("c poll ok x|5|5\n d poll ok x|5|5");
    clean("c poll ok x|5|5\n d poll ok y|4|4");
    shows("p send ok x+a@7\n c peek ok x|7|7", [Class::HighBack]);
    clean("p send ok x+a@7\n c peek ok x|8|8");
    // The other did not end before this one began.
    clean("c poll info x|5|5\n d poll ok x|4|4");
}

#[test]
fn stable_back() {
    shows("c poll ok x|9|5\n d poll ok x|9|4", [Class::StableBack]);
    clean("c poll ok x|9|5\n d poll ok x|9|5");
    shows("p send ok x+a\n c poll ok x:a@5\n d poll ok x|9|5", [Class::StableBack]);
    clean("p send ok x+a\n c poll ok x:a@5\n d poll ok x|9|6");
    clean("p send ok x+a\n c peek ok x:a@5\n d poll ok x|9|5");
}

#[test]
fn stable_above_high() {
    shows("c poll ok x|4|5", [Class::StableAboveHigh]);
    clean("c poll ok x|5|4");
}

#[test]
fn hanging_transaction() {
    shows("z drain ok x|5|4", [Class::HangingTransaction]);
    shows("z drain ok x|5|5 y|5|4", [Class::HangingTransaction]);
    clean("c poll ok x|5|4\n z drain ok x|5|5");
    // It had to wait for it.
    clean("z drain ok x|5|4 x|5|5");
}

#[test]
fn impossible_answer() {
    shows("p send fail !45", [Class::ImpossibleAnswer]);
    clean("p send fail");
}

#[test]
fn a_finding_names_who_saw_what_where() {
    let history = history("p send ok x+a@0\n q send ok x+b\n c poll ok x:b@0");
    let found = check(&history);
    let inconsistent = found.iter().find(|finding| finding.class == Class::InconsistentOffsets).unwrap();
    assert_eq!(
        inconsistent.to_string(),
        "inconsistent-offsets: x offset 0 is a to op 0 of p and b to op 2 of c"
    );
    assert_eq!(inconsistent.places.len(), 1);
    assert_eq!(inconsistent.values.len(), 2);
}

#[test]
fn every_class_has_a_name_of_its_own() {
    let names: BTreeSet<&str> = ottla_checker::classes().map(Class::name).collect();
    assert_eq!(names.len(), ottla_checker::classes().count());
}
