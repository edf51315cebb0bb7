//! A classic group: every state, every event, every relation of the asker's generation to the group's.

mod events;
mod scene;

use crate::group::events::{Event, State, events};
use crate::group::scene::Scene;
use crate::table::{Row, Table};
use ottla_core::groups::GroupState;

fn table() -> Table {
    Table::parse(include_str!("group.txt"))
}

#[test]
fn no_pair_of_state_and_event_is_missing() {
    let table = table();
    assert_eq!(table.columns, State::ALL.map(State::column), "the states and their order");
    let events = events();
    for event in &events {
        table.row(&event.words());
    }
    assert_eq!(table.rows.len(), events.len(), "a row for an event that does not exist");
}

fn play_all(states: &[State]) {
    let table = table();
    for state in states {
        for event in events() {
            let row = table.row(&event.words());
            let cell = table.cell(row, state.column());
            let restarts: &[bool] = if state.is_durable() { &[false, true] } else { &[false] };
            for restart in restarts {
                play(row, cell, *state, event, *restart);
            }
        }
    }
}

#[test]
fn groups_that_are_not_there() {
    play_all(&[State::None, State::Dead]);
}

#[test]
fn t_165_empty_groups() {
    play_all(&[State::Empty]);
}

#[test]
fn t_165_groups_in_their_join_phase() {
    play_all(&[State::Preparing]);
}

#[test]
fn t_165_groups_that_wait_for_their_leader() {
    play_all(&[State::Completing, State::Waiting]);
}

#[test]
fn t_165_stable_groups() {
    play_all(&[State::Stable]);
}

/// Splits a cell: answer, change of the generation, next state.
fn parts(cell: &str) -> (&str, i32, Option<&str>) {
    let (answer, next) = match cell.split_once('>') {
        Some((answer, next)) => (answer, Some(next)),
        None => (cell, None),
    };
    match answer.strip_suffix('+') {
        Some(answer) => (answer, 1, next),
        None if answer == "-" && next.is_some() => ("-", -1, next),
        None => (answer, 0, next),
    }
}

fn play(row: &Row, cell: &str, state: State, event: Event, restart: bool) {
    let name = format!("{state:?} {} {restart}", event.words());
    let mut scene = Scene::reach(state);
    if restart {
        scene.restart();
    }
    let from = scene.world.log.len();
    let before = (scene.state(), scene.generation());
    let said = scene.happen(event);
    let (answer, by, next) = parts(cell);
    assert_eq!(said, if answer.is_empty() { "-" } else { answer }, "{name}");
    let now = scene.state();
    let expected = match next {
        None => before.0,
        Some("E") => Some(GroupState::Empty),
        Some("P") => Some(GroupState::PreparingRebalance),
        Some("C") => Some(GroupState::CompletingRebalance),
        Some("S") => Some(GroupState::Stable),
        Some("X") => None,
        Some(other) => panic!("no state {other}"),
    };
    assert_eq!(now, expected, "{name}");
    scene.check_generation(before.1 + by, &name);
    assert!(!row.rules.is_empty());
    scene.world.check_law(from);
    scene.check_everybody_is_answered(&name);
    scene.world.check_law(from);
}
