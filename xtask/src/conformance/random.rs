//! Random histories, judged by both brokers. Ottla is killed and started again where a history says so; Kafka is left alone, so
//! that nobody may notice.

use std::collections::BTreeMap;
use std::fs;

use ottla_conformance::random::history;
use ottla_conformance::script::parse;
use ottla_conformance::suite::{Suite, summary};
use ottla_wire::{ApiInfo, Versions};

use super::Options;
use super::brokers::{Kafka, Ottla};
use crate::process;

/// Findings shown of a history: what follows from the first is noise.
const SHOWN: usize = 3;

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
    let (mut pairs, mut unlike) = (0, 0);
    for number in options.first..options.first + count {
        let text = history(options.seed, number, options.steps);
        let scripts = parse("random", &text, served, &mut BTreeMap::new()).map_err(|e| e.to_string())?;
        for script in &scripts {
            let (left, right) = (theirs.play(script)?, ours.play(script)?);
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
    println!("{count} histories of seed {}, {pairs} pairs, {unlike} histories unlike", options.seed);
    match unlike {
        0 => Ok(()),
        _ => Err(format!("{unlike} histories are unlike")),
    }
}
