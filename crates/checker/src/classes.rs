//! Every class as a function of its own.

use crate::finding::{Class, Finding};
use crate::history::{History, Key, OpId, Value};
use crate::view::View;

mod claims;
mod cycles;
mod groups;
mod logs;
mod missing;
mod order;
mod reads;
mod transforms;
mod watermarks;

/// How many findings of one class are kept: one fault can have a great many.
const KEPT: usize = 100;

type Judge = fn(&View<'_>) -> Vec<Finding>;

const JUDGES: [(Class, Judge); 27] = [
    (Class::WrittenTwice, reads::written_twice),
    (Class::InconsistentOffsets, logs::inconsistent_offsets),
    (Class::Duplicate, logs::duplicate),
    (Class::G1a, reads::g1a),
    (Class::G1c, cycles::g1c),
    (Class::PrecommittedRead, reads::precommitted_read),
    (Class::Unwritten, reads::unwritten),
    (Class::LostWrite, missing::lost_write),
    (Class::Unseen, missing::unseen),
    (Class::Vanished, missing::vanished),
    (Class::TornData, missing::torn_data),
    (Class::PollSkip, order::poll_skip),
    (Class::NonmonotonicPoll, order::nonmonotonic_poll),
    (Class::IntPollSkip, order::int_poll_skip),
    (Class::IntNonmonotonicPoll, order::int_nonmonotonic_poll),
    (Class::NonmonotonicSend, order::nonmonotonic_send),
    (Class::IntNonmonotonicSend, order::int_nonmonotonic_send),
    (Class::TornOffsets, groups::torn_offsets),
    (Class::AbortedOffset, groups::aborted_offset),
    (Class::OffsetBack, groups::offset_back),
    (Class::TransformedTwice, transforms::transformed_twice),
    (Class::NotTransformed, transforms::not_transformed),
    (Class::HighBack, watermarks::high_back),
    (Class::StableBack, watermarks::stable_back),
    (Class::StableAboveHigh, watermarks::stable_above_high),
    (Class::HangingTransaction, watermarks::hanging_transaction),
    (Class::ImpossibleAnswer, reads::impossible_answer),
];

/// Judges a history; nothing found means that every promise held. At most 100 findings of a class are given.
pub fn check(history: &History) -> Vec<Finding> {
    let view = View::new(history);
    JUDGES.iter().flat_map(|(_, judge)| judge(&view).into_iter().take(KEPT)).collect()
}

/// Every class that is looked for.
pub fn classes() -> impl Iterator<Item = Class> {
    JUDGES.iter().map(|(class, _)| *class)
}

/// Findings of one class in the making.
struct Findings<'a> {
    class: Class,
    history: &'a History,
    found: Vec<Finding>,
}

impl<'a> Findings<'a> {
    fn new(class: Class, view: &View<'a>) -> Findings<'a> {
        Findings { class, history: view.history, found: Vec::new() }
    }

    /// Adds one. `ops`, `values` and `places` are those the text speaks of.
    fn add(&mut self, text: String, ops: &[OpId], values: &[Value], places: &[(Key, i64)]) {
        if self.found.len() < KEPT {
            let (ops, values, places) = (ops.to_vec(), values.to_vec(), places.to_vec());
            self.found.push(Finding { class: self.class, text, ops, values, places });
        }
    }

    fn key(&self, key: Key) -> &'a str {
        self.history.key_name(key)
    }

    fn value(&self, value: Value) -> &'a str {
        self.history.value_name(value)
    }

    /// An operation in words: its number in the history, and whose it is.
    fn op(&self, op: OpId) -> String {
        let process = self.history.op(op).map_or("?", |op| self.history.process_name(op.process));
        format!("op {} of {process}", op.0)
    }
}
