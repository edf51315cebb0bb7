//! One cell on one side: the topic, the load program, its line of figures.

use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use super::Pace;
use super::cells::{Cell, Load, Work};
use super::figures::Sample;
use super::sides::Running;
use crate::bench::txn::brokers::raw_binary;
use crate::process;

/// A topic's name that was not used before: what is said of one that was deleted must not be taken for it.
fn fresh_topic() -> String {
    static NUMBER: AtomicU32 = AtomicU32::new(0);
    format!("load-{}", NUMBER.fetch_add(1, Ordering::Relaxed))
}

/// Measures a cell.
pub(super) fn measure(cell: &Cell, broker: &Running, pace: &Pace) -> Result<Sample, String> {
    let topic = fresh_topic();
    let outcome = match &cell.work {
        Work::Produce(load) => {
            broker.create(&topic, load.partitions, "")?;
            produce(load, &topic, broker, pace)
        }
    };
    broker.delete(&topic)?;
    if broker.side.leaves_dirty_pages() {
        // What the system still has to write would slow down the side that comes next.
        rustix::fs::sync();
    }
    outcome
}

fn produce(load: &Load, topic: &str, broker: &Running, pace: &Pace) -> Result<Sample, String> {
    let Load { record, batch, producers, in_flight, partitions } = load;
    let mut command = load_program("produce", broker, pace);
    command.args([
        format!("topic={topic}"),
        format!("record={record}"),
        format!("batch={batch}"),
        format!("connections={producers}"),
        format!("inflight={in_flight}"),
        format!("partitions={partitions}"),
        format!("bytes={}", pace.bytes),
    ]);
    finish(&mut command, pace)
}

fn load_program(kind: &str, broker: &Running, pace: &Pace) -> Command {
    let mut command = Command::new(raw_binary());
    command.args([
        kind,
        &format!("broker={}", broker.address),
        &format!("pid={}", broker.process),
        &format!("millis={}", pace.millis),
        &format!("warm={}", pace.warm),
    ]);
    command
}

fn finish(command: &mut Command, pace: &Pace) -> Result<Sample, String> {
    let patience = Duration::from_millis(pace.millis + pace.warm) + Duration::from_secs(60);
    let output = process::capture(command, patience)?;
    match output.status {
        Some(status) if status.success() => Sample::read(&output.stdout),
        Some(_) => Err(output.stderr.trim().to_owned()),
        None => Err("the load program does not come to an end".to_owned()),
    }
}
