//! CPU time of processes, as Linux counts it.

use std::fs;

/// Seconds of CPU that a process has used with all its threads; 0 without a process id.
pub(crate) fn cpu(process: u32) -> f64 {
    if process == 0 { 0.0 } else { read(&process.to_string()).unwrap_or(0.0) }
}

/// Seconds of CPU of this program.
pub(crate) fn own() -> f64 {
    read("self").unwrap_or(0.0)
}

fn read(process: &str) -> Option<f64> {
    let stat = fs::read_to_string(format!("/proc/{process}/stat")).ok()?;
    // The name, in brackets, may hold blanks; user and system time are the 12th and 13th word behind it, in hundredths.
    let mut words = stat.rsplit(')').next()?.split_whitespace().skip(11);
    let mut ticks = || words.next()?.parse::<f64>().ok();
    Some((ticks()? + ticks()?) / 100.0)
}

/// The CPU time that broker and client had used at a moment.
pub(crate) struct Mark {
    process: u32,
    broker: f64,
    client: f64,
}

impl Mark {
    pub(crate) fn now(process: u32) -> Mark {
        Mark { process, broker: cpu(process), client: own() }
    }

    /// What was used since, as a part of a line of figures.
    pub(crate) fn figures(&self) -> String {
        format!("broker_cpu={:.3} client_cpu={:.3}", cpu(self.process) - self.broker, own() - self.client)
    }
}
