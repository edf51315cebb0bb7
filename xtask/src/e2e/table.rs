//! What a run shows: the table on the terminal, the closing line, and docs/evidence/clients.md.

use super::clients::{Client, Mark, Verdict};
use std::fmt::Write;

/// All verdicts against one broker, by scenario and client in the order of the run.
pub(crate) struct Results {
    /// The broker's name and version.
    pub(crate) broker: String,
    pub(crate) scenarios: Vec<&'static str>,
    /// A row for each scenario, a verdict for each client.
    pub(crate) rows: Vec<Vec<Verdict>>,
}

/// One verdict of a client, for one or more scenarios.
struct Remark<'a> {
    title: &'a str,
    scenarios: String,
    verdict: &'a Verdict,
}

/// Enough of a detail for a table; the whole of it was shown when the scenario failed.
fn shortened(detail: &str) -> String {
    let mut text: String = detail.chars().take(200).collect();
    if text.len() < detail.len() {
        text.push_str(" ...");
    }
    text
}

fn word(mark: Mark) -> &'static str {
    match mark {
        Mark::Pass => "pass",
        Mark::Fail => "FAIL",
        Mark::Cannot => "cannot",
        Mark::Skip => "skip",
    }
}

impl Results {
    /// How many verdicts carry one of the marks.
    pub(crate) fn count(&self, marks: &[Mark]) -> usize {
        let all = self.rows.iter().flatten();
        all.filter(|verdict| marks.contains(&verdict.mark)).count()
    }

    /// A plain table with aligned columns.
    pub(crate) fn plain(&self, clients: &[Client]) -> String {
        let wide = self.scenarios.iter().map(|s| s.len()).max().unwrap_or(0);
        let mut text = format!("{:wide$}", self.broker);
        for client in clients {
            let _ = write!(text, "  {:>6}", client.name);
        }
        text.push('\n');
        for (scenario, row) in self.scenarios.iter().zip(&self.rows) {
            let _ = write!(text, "{scenario:wide$}");
            for (client, verdict) in clients.iter().zip(row) {
                let column = client.name.len().max(6);
                let _ = write!(text, "  {:>column$}", word(verdict.mark));
            }
            text.push('\n');
        }
        for Remark { title, scenarios, verdict } in self.remarks(clients) {
            let _ = writeln!(
                text,
                "{title}, {scenarios}, {}: {}",
                word(verdict.mark),
                shortened(&verdict.detail)
            );
        }
        text
    }

    /// Verdicts with something to say, by client; scenarios with the same verdict share a remark.
    fn remarks<'a>(&'a self, clients: &'a [Client]) -> Vec<Remark<'a>> {
        let mut remarks: Vec<Remark> = Vec::new();
        for (index, client) in clients.iter().enumerate() {
            for (scenario, row) in self.scenarios.iter().zip(&self.rows) {
                let Some(verdict) = row.get(index).filter(|v| !v.detail.is_empty()) else {
                    continue;
                };
                let title = client.title.as_str();
                match remarks.last_mut().filter(|r| r.title == title && r.verdict == verdict) {
                    Some(remark) => remark.scenarios = format!("{}, {scenario}", remark.scenarios),
                    None => remarks.push(Remark { title, scenarios: (*scenario).to_owned(), verdict }),
                }
            }
        }
        remarks
    }

    fn markdown(&self, clients: &[Client]) -> String {
        let mut text = format!("\n## {}\n\n| scenario |", self.broker);
        for client in clients {
            let _ = write!(text, " {} |", client.name);
        }
        let _ = writeln!(text, "\n|---|{}", "---|".repeat(clients.len()));
        for (scenario, row) in self.scenarios.iter().zip(&self.rows) {
            let _ = write!(text, "| {scenario} |");
            for verdict in row {
                let _ = write!(text, " {} |", word(verdict.mark));
            }
            text.push('\n');
        }
        text
    }
}

/// The whole of docs/evidence/clients.md.
pub(crate) fn page(clients: &[Client], results: &[Results]) -> String {
    let mut text = String::from(
        "# Results of the client tests\n\n\
         Written by `cargo xtask e2e --docs`. [e2e/README.md](../../e2e/README.md) describes the scenarios and what they assert.\n\
         `cannot` means that the client lacks a feature that the scenario needs.\n\n\
         | client | version | language |\n|---|---|---|\n",
    );
    for client in clients {
        let Client { name, title, language, .. } = client;
        let _ = writeln!(text, "| {name} | {title} | {language} |");
    }
    for result in results {
        text.push_str(&result.markdown(clients));
    }
    for (brokers, rows) in remark_tables(clients, results) {
        let _ = write!(text, "\n## Remarks, {brokers}\n\n");
        let _ = write!(text, "| client | scenario | result | |\n|---|---|---|---|\n{rows}");
    }
    text
}

/// The rows of remarks, with the names of the brokers that have the same rows.
fn remark_tables(clients: &[Client], results: &[Results]) -> Vec<(String, String)> {
    let mut tables: Vec<(String, String)> = Vec::new();
    for result in results {
        let mut rows = String::new();
        for Remark { title, scenarios, verdict } in result.remarks(clients) {
            let detail = shortened(&verdict.detail).replace('|', "\\|");
            let mark = word(verdict.mark);
            let _ = writeln!(rows, "| {title} | {scenarios} | {mark} | {detail} |");
        }
        match tables.iter_mut().find(|(_, known)| *known == rows) {
            Some((brokers, _)) => *brokers = format!("{brokers} and {}", result.broker),
            None if rows.is_empty() => {}
            None => tables.push((result.broker.clone(), rows)),
        }
    }
    tables
}
