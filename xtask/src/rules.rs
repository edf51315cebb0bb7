//! `cargo xtask rules`: which test shows which rule of transactions, and which bug report of other brokers cannot
//! happen here. The rules and reports, with a title in our words, are data/rules.tsv; the tests name them: `fn
//! t_102_b_08_what_is_shown`.

mod page;
mod tests;

use crate::process;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use tests::{Outcome, Test};

const PAGE: &str = "docs/evidence/rules.md";
const DATA: &str = include_str!("../data/rules.tsv");

/// What to do.
#[derive(clap::Args)]
pub(crate) struct Options {
    /// Run no test; fail if the page is not up to date.
    #[arg(long, conflicts_with = "page")]
    check: bool,
    /// Run no test; write the page.
    #[arg(long)]
    page: bool,
}

/// A rule of transactions (`T-102`), a bug report (`B-08`) or a rule of security (`S-20`). The order is that of the
/// page.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Id {
    kind: Kind,
    number: u16,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Kind {
    Rule,
    Report,
    Security,
}

impl std::fmt::Display for Id {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.kind {
            Kind::Rule => write!(f, "T-{:02}", self.number),
            Kind::Report => write!(f, "B-{:02}", self.number),
            Kind::Security => write!(f, "S-{:02}", self.number),
        }
    }
}

/// One line of the data.
#[derive(Debug)]
struct Rule {
    id: Id,
    title: &'static str,
    /// Why no test can show it, or which part of it none shows; empty if there is nothing to say.
    note: &'static str,
}

/// Runs the tests and prints the table, or writes or checks the page.
pub(crate) fn run(options: &Options) -> Result<(), String> {
    let rules = rules(DATA)?;
    let tests = tests::gather(&process::root())?;
    complain(&gaps(&rules, &tests))?;
    let text = page::text(&rules, &tests);
    let path = process::root().join(PAGE);
    if options.check {
        let current = fs::read_to_string(&path).is_ok_and(|found| found == text);
        return if current {
            Ok(())
        } else {
            Err(format!("{PAGE} is not up to date: run `cargo xtask rules`"))
        };
    }
    if !options.page {
        let outcomes = tests::run(&tests)?;
        print(&rules, &tests, &outcomes);
        let bad = tests.iter().filter(|test| outcomes.get(&test.key()) != Some(&Outcome::Passed));
        complain(&bad.map(|test| format!("{} did not pass", test.name)).collect::<Vec<_>>())?;
    }
    fs::write(&path, text).map_err(|e| format!("cannot write {PAGE}: {e}"))
}

fn complain(faults: &[String]) -> Result<(), String> {
    if faults.is_empty() { Ok(()) } else { Err(faults.join("\n       ")) }
}

/// The lines `id, title, note`, separated by tabs, each id once.
fn rules(data: &'static str) -> Result<Vec<Rule>, String> {
    let mut seen = BTreeSet::new();
    let mut rules = Vec::new();
    for line in data.lines() {
        let mut fields = line.split('\t');
        let (Some(id), Some(title), Some(note), None) =
            (fields.next(), fields.next(), fields.next(), fields.next())
        else {
            return Err(format!("rules.tsv: {line:?} has not three fields"));
        };
        let id = parse_id(id).ok_or_else(|| format!("rules.tsv: {id:?} is no rule's id"))?;
        if title.is_empty() || !seen.insert(id) {
            return Err(format!("rules.tsv: {id} has no title, or stands there twice"));
        }
        rules.push(Rule { id, title, note });
    }
    Ok(rules)
}

/// `T-102`, `B-08` or `S-20`.
fn parse_id(text: &str) -> Option<Id> {
    let (letter, number) = text.split_once('-')?;
    let kind = match letter {
        "T" => Kind::Rule,
        "B" => Kind::Report,
        "S" => Kind::Security,
        _ => return None,
    };
    Some(Id { kind, number: number.parse().ok()? })
}

/// What is wrong between rules and tests: neither test nor reason, or a test of a rule that is none.
fn gaps(rules: &[Rule], tests: &[Test]) -> Vec<String> {
    let known: BTreeSet<Id> = rules.iter().map(|rule| rule.id).collect();
    let shown: BTreeSet<Id> = tests.iter().flat_map(|test| test.ids.iter().copied()).collect();
    let bare = rules.iter().filter(|rule| rule.note.is_empty() && !shown.contains(&rule.id));
    let bare = bare.map(|rule| format!("{} ({}) has neither a test nor a reason", rule.id, rule.title));
    let stray = tests.iter().flat_map(|test| test.ids.iter().map(move |id| (test, id)));
    let stray = stray.filter(|(_, id)| !known.contains(id));
    bare.chain(stray.map(|(test, id)| format!("{} names {id}, which is no rule", test.name))).collect()
}

fn print(rules: &[Rule], tests: &[Test], outcomes: &BTreeMap<String, Outcome>) {
    for rule in rules {
        println!("{} {}", rule.id, rule.title);
        for test in tests.iter().filter(|test| test.ids.contains(&rule.id)) {
            let outcome = outcomes.get(&test.key()).copied().unwrap_or(Outcome::NotRun);
            println!("     {outcome} {}: {}", test.crate_name, test.name);
        }
        if !rule.note.is_empty() {
            println!("     -- {}", rule.note);
        }
    }
    println!("{}", page::summary(rules, tests));
}

#[cfg(test)]
mod unit {
    use super::*;

    #[test]
    fn every_rule_has_a_test_or_a_reason() {
        let rules = rules(DATA).unwrap();
        assert_eq!(rules.len(), 187 + 40 + 99);
        let tests = tests::gather(&process::root()).unwrap();
        assert_eq!(gaps(&rules, &tests), Vec::<String>::new());
    }

    #[test]
    fn gaps_are_named() {
        let rules = rules("T-01\tone\t\nT-02\ttwo\twhy not\nB-03\tthree\t\n").unwrap();
        let test = |ids: &[&str]| Test {
            ids: ids.iter().map(|id| parse_id(id).unwrap()).collect(),
            name: "name".to_owned(),
            crate_name: "core".to_owned(),
            path: "a.rs".to_owned(),
        };
        assert_eq!(gaps(&rules, &[test(&["T-01", "B-03"])]), Vec::<String>::new());
        let found = gaps(&rules, &[test(&["T-01", "T-09"])]);
        let expected = ["B-03 (three) has neither a test nor a reason", "name names T-09, which is no rule"];
        assert_eq!(found, expected);
    }

    #[test]
    fn data_that_is_not_three_fields_or_repeats_is_refused() {
        for bad in ["T-01\tone", "X-01\tone\t", "T-x\tone\t", "T-01\t\t", "T-01\tone\t\nT-1\tone\t"] {
            assert!(rules(bad).is_err(), "{bad:?}");
        }
    }
}
