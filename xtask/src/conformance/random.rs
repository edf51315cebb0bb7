//! Random histories, judged by both brokers. Ottla is killed and started again where a history says so; Kafka is left
//! alone, so that no client may notice.

use super::Options;
use super::brokers::{Kafka, Ottla};
use crate::process;
use ottla_conformance::parting::{adjust, parting};
use ottla_conformance::random::history;
use ottla_conformance::script::parse;
use ottla_conformance::suite::{Suite, summary};
use ottla_wire::{ApiInfo, Versions};
use std::collections::BTreeMap;
use std::fs;

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
    let kafka = Kafka::start(false)?;
    let mut theirs = kafka.player(&suite.rules, served);
    let mut ours = ottla.player(&suite.rules, served);
    for script in suite.files.iter().flat_map(|(_, scripts)| scripts).filter(|one| one.name == "warm-up") {
        theirs.play(script)?;
    }
    let (mut pairs, mut unlike, mut parted) = (0, 0, 0);
    for number in options.first..options.first + count {
        let text = history(options.seed, number, options.steps);
        let path = process::root().join(format!("target/random-{}-{number}.txt", options.seed));
        fs::write(&path, &text).map_err(|e| format!("{}: {e}", path.display()))?;
        let scripts = parse("random", &text, served, &mut BTreeMap::new()).map_err(|e| e.to_string())?;
        for script in &scripts {
            let (mut left, hangs) = theirs.play_history(script)?;
            let (mut right, ours_hangs) = ours.play_history(script)?;
            if ours_hangs {
                return Err(format!("{}: a transaction of Ottla does not end", script.name));
            }
            if hangs {
                // Kafka writes no marker below an epoch that the producer itself has raised, and tries again without
                // end.
                right.truncate(left.len());
            }
            let at = parting(&left, &right);
            parted += usize::from(hangs || at.is_some());
            if let Some(at) = at {
                left.truncate(at);
                right.truncate(at);
            }
            adjust(&mut left, &right);
            pairs += left.len();
            let findings = suite.compare(&left, &right)?;
            if findings.is_empty() {
                continue;
            }
            unlike += 1;
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
        "{count} histories of seed {}, {pairs} pairs, {unlike} histories unlike, {parted} judged up to a difference only",
        options.seed
    );
    match unlike {
        0 => Ok(()),
        _ => Err(format!("{unlike} histories are unlike")),
    }
}
