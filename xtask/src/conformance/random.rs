//! Random histories, judged by both brokers. Ottla is killed and started again where a history says so; Kafka is left
//! alone, so that no client may notice.

use super::Options;
use super::brokers::{Kafka, Ottla};
use crate::process;
use ottla_conformance::player::{Exchange, at_path};
use ottla_conformance::random::history;
use ottla_conformance::script::parse;
use ottla_conformance::suite::{Suite, summary};
use ottla_wire::{ApiInfo, ErrorCode, Versions};
use std::collections::BTreeMap;
use std::fs;

/// Findings shown of a history: what follows from the first is noise.
const SHOWN: usize = 3;

/// Where the brokers part because Kafka remembers the sequence number of a batch that it refused: one takes a batch
/// that is out of order to the other, as docs/guide/differences.md says. What follows has other offsets.
fn parting(kafka: &[Exchange], ottla: &[Exchange]) -> Option<usize> {
    let code = |one: &Exchange| {
        let path = "responses.0.partitionResponses.0.errorCode";
        (one.api == "Produce").then(|| at_path(&one.answer, path).as_i64()).flatten()
    };
    let out_of_order = Some(i64::from(ErrorCode::OUT_OF_ORDER_SEQUENCE_NUMBER.0));
    let mut both = kafka.iter().zip(ottla).map(|(left, right)| (code(left), code(right)));
    both.position(|pair| pair == (out_of_order, Some(0)) || pair == (Some(0), out_of_order))
}

/// Plays so many histories to both brokers.
pub(super) fn run(
    options: &Options,
    count: u64,
    suite: &Suite,
    ottla: &mut Ottla,
    served: &dyn Fn(&ApiInfo) -> Versions,
) -> Result<(), String> {
    let kafka = Kafka::start()?;
    let mut theirs = kafka.player(&suite.rules, served);
    let mut ours = ottla.player(&suite.rules, served);
    for script in suite.files.iter().flat_map(|(_, scripts)| scripts).filter(|one| one.name == "warm-up") {
        theirs.play(script)?;
    }
    let (mut pairs, mut unlike, mut parted) = (0, 0, 0);
    for number in options.first..options.first + count {
        let text = history(options.seed, number, options.steps);
        let scripts = parse("random", &text, served, &mut BTreeMap::new()).map_err(|e| e.to_string())?;
        for script in &scripts {
            let (mut left, mut right) = (theirs.play(script)?, ours.play(script)?);
            if let Some(at) = parting(&left, &right) {
                left.truncate(at);
                right.truncate(at);
                parted += 1;
            }
            pairs += left.len();
            let findings = suite.compare(&left, &right)?;
            if findings.is_empty() {
                continue;
            }
            unlike += 1;
            let path = process::root().join(format!("target/{}.txt", script.name));
            fs::write(&path, &text).map_err(|e| format!("{}: {e}", path.display()))?;
            println!(
                "{} of {} pairs are unlike; the history is in {}",
                findings.len(),
                left.len(),
                path.display()
            );
            print!("{}", summary(&findings[..findings.len().min(SHOWN)]));
        }
    }
    println!(
        "{count} histories of seed {}, {pairs} pairs, {unlike} histories unlike, {parted} judged up to a refused batch only",
        options.seed
    );
    match unlike {
        0 => Ok(()),
        _ => Err(format!("{unlike} histories are unlike")),
    }
}
