//! docs/evidence/traffic.md for people, crates/microscope/data/traffic.tsv for pages.

use super::super::clients::Client;
use super::{Counts, Traffic};
use std::fmt::Write;

/// A row for each API, version and client.
pub(super) fn table(traffic: &Traffic) -> String {
    let mut text =
        String::from("api_key\tapi\tversion\tclient\trequests\trequest_bytes\tresponses\tresponse_bytes\n");
    for ((key, version), clients) in &traffic.counts {
        for (client, counts) in clients {
            let Counts { requests, request_bytes, responses, response_bytes } = counts;
            let (number, name) = (key.0, key.name());
            let _ = writeln!(
                text,
                "{number}\t{name}\t{version}\t{client}\t{requests}\t{request_bytes}\t{responses}\t{response_bytes}"
            );
        }
    }
    text
}

/// The page: what was checked, and a table of APIs and versions by client.
pub(super) fn markdown(traffic: &Traffic, clients: &[Client]) -> String {
    let Traffic { counts, frames, bytes, mistakes, .. } = traffic;
    let mut text = format!(
        "# API versions used by clients\n\n\
         Written by `cargo xtask e2e --through-tap`, which runs every client of [clients.md](clients.md) through every scenario, with\n\
         `ottla tap` between the client and Ottla. For every frame it checks that `explain` names every byte and finds no fault, and that\n\
         decoding and encoding gives the same bytes, both with the typed codec and with JSON: {frames} frames, {bytes} bytes, {} APIs and\n\
         versions. A frame that fails makes the run fail, except for known mistakes of clients. The same counts, with bytes, are in\n\
         crates/microscope/data/traffic.tsv.\n\n\
         A cell is the number of requests. Requests whose answer a scenario drops on purpose count too.\n\n\
         | API | version | bytes |",
        counts.len()
    );
    for client in clients {
        let _ = write!(text, " {} |", client.name);
    }
    let _ = writeln!(text, "\n|---|---:|---:|{}", "---:|".repeat(clients.len()));
    for ((key, version), by_client) in counts {
        let bytes: usize = by_client.values().map(|all| all.request_bytes + all.response_bytes).sum();
        let _ = write!(text, "| {} | {version} | {bytes} |", key.name());
        for client in clients {
            match by_client.get(&client.name) {
                Some(counts) => {
                    let _ = write!(text, " {} |", counts.requests);
                }
                None => text.push_str("  |"),
            }
        }
        text.push('\n');
    }
    if !mistakes.is_empty() {
        text.push_str("\n## Known mistakes\n\n| client | frames | |\n|---|---:|---|\n");
    }
    for ((client, why), count) in mistakes {
        let _ = writeln!(text, "| {client} | {count} | {why} |");
    }
    text
}
