//! The log of `ottla serve`: lines on standard error, written by a thread of their own.
//!
//! A thread that serves clients never waits for the reader of standard error. It puts its line into a bounded queue;
//! when the queue is full the line is dropped and counted, and [`Logging::report_dropped`] logs how many were dropped.

use crate::terminal::{escape_coloured, last_output};
use ottla::BadConfig;
use std::io::{self, IsTerminal, Write};
use std::time::Duration;
use tracing_appender::non_blocking::{ErrorCounter, NonBlocking, NonBlockingBuilder, WorkerGuard};
use tracing_subscriber::filter::{ParseError, Targets};
use tracing_subscriber::prelude::*;

/// Lines that wait to be written.
const QUEUED_LINES: usize = 1024;
/// How often dropped lines are reported.
const REPORT_EVERY: Duration = Duration::from_secs(1);

/// The log while the broker runs. Dropping it writes the queued lines, and gives up if standard error is not read.
pub(crate) struct Logging {
    dropped: ErrorCounter,
    writer: Option<WorkerGuard>,
}

impl Drop for Logging {
    fn drop(&mut self) {
        let writer = self.writer.take();
        // It waits for the writer, and prints that it gave up; either can block.
        last_output(move || drop(writer));
    }
}

impl Logging {
    /// Starts to log what `filter` lets through.
    ///
    /// # Errors
    /// The filter is malformed.
    pub(crate) fn start(filter: &str) -> Result<Logging, BadConfig> {
        let filter: Targets =
            filter.parse().map_err(|error: ParseError| BadConfig::new("--log", error.to_string()))?;
        let colours = io::stderr().is_terminal();
        let (queue, writer) = NonBlockingBuilder::default()
            .lossy(true)
            .buffered_lines_limit(QUEUED_LINES)
            .thread_name("ottla-log-lines")
            .finish(io::stderr());
        let dropped = queue.error_counter();
        let lines =
            tracing_subscriber::fmt::layer().with_ansi(colours).with_writer(move || Lines(queue.clone()));
        tracing_subscriber::registry().with(lines.with_filter(filter)).init();
        Ok(Logging { dropped, writer: Some(writer) })
    }

    /// Logs every second how many lines were dropped since the last report, if any were. Never returns.
    pub(crate) async fn report_dropped(&self) {
        let mut reported = 0;
        loop {
            tokio::time::sleep(REPORT_EVERY).await;
            let dropped = self.dropped.dropped_lines();
            if dropped == reported {
                continue;
            }
            let lines = dropped - reported;
            tracing::warn!(lines, "log lines were dropped: standard error was not read fast enough");
            // The report can be dropped itself: then the next one has its lines too.
            if self.dropped.dropped_lines() == dropped {
                reported = dropped;
            }
        }
    }
}

/// Takes one event at a time, and queues it as one line without control characters.
struct Lines(NonBlocking);

impl Write for Lines {
    fn write(&mut self, event: &[u8]) -> io::Result<usize> {
        self.0.write_all(line(event).as_bytes())?;
        Ok(event.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}

/// An event as one line; only the sequences that set colours stay.
fn line(event: &[u8]) -> String {
    let text = String::from_utf8_lossy(event);
    let text = text.strip_suffix('\n').unwrap_or(&text);
    let mut line = escape_coloured(text).replace('\n', "\\n");
    line.push('\n');
    line
}

#[cfg(test)]
mod tests {
    use super::line;

    #[test]
    fn an_event_is_one_line_whatever_a_client_chose() {
        let event = "\u{1b}[32m INFO\u{1b}[0m client=a\n2026 INFO forged \u{202e}\u{1b}]0;x\u{7}\n";
        let expected = "\u{1b}[32m INFO\u{1b}[0m client=a\\n2026 INFO forged \\u{202e}\\u{1b}]0;x\\u{7}\n";
        assert_eq!(line(event.as_bytes()), expected);
        assert_eq!(line(b"a\xff\n"), "a\u{fffd}\n");
    }
}
