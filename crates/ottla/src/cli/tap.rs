//! `ottla tap`: prints the frames that pass the proxy of `ottla-tap`.

mod capture;
pub(super) mod filter;
pub(super) mod inspect;
pub(super) mod print;
mod summary;

use super::failure::Failure;
use super::out::Out;
use crate::signals::stop_signal;
use crate::terminal::say;
use capture::Capture;
use clap::Args;
use filter::{Filter, Filters};
use inspect::Inspector;
use ottla::tap::{Event, RelayedFrame, Tap as Proxy};
use ottla_wire::tables::TableSet;
use print::FramePrinter;
use std::path::{Path, PathBuf};
use summary::Summary;
use tokio::sync::mpsc::Receiver;

/// Relay frames between clients and a cluster, and show them.
///
/// Point clients at the address of --listen. In responses that name brokers, each address is replaced by that of the
/// tap, with the next free port for each further broker, so that all connections go through the tap. Everything else is
/// relayed as it is. Frames are shown as they were received. Ctrl-C ends it with a table of counts.
#[derive(Args)]
pub(crate) struct Tap {
    /// Address that clients connect to; port 0 takes a free port. Further brokers get the next free ports.
    #[arg(long, value_name = "HOST:PORT", default_value = "127.0.0.1:19092")]
    listen: String,
    /// A broker of the cluster; the others are found in its responses.
    #[arg(long, value_name = "HOST:PORT", default_value = "127.0.0.1:9092")]
    to: String,
    /// Show only matching frames: api=Fetch, client=ID, topic=NAME, several separated by commas. A name may end in *.
    /// Conditions with the same key are alternatives; with different keys all must hold.
    #[arg(long, value_name = "KEY=VALUE,...", value_delimiter = ',')]
    filter: Vec<Filter>,
    /// Show each frame as a tree, every byte explained.
    #[arg(long, conflicts_with = "json")]
    tree: bool,
    /// Show the bytes of each frame in hexadecimal, its size in front included.
    #[arg(long)]
    bytes: bool,
    /// Print one JSON object per frame and line.
    #[arg(long)]
    json: bool,
    /// Also write the frames to a capture file for Wireshark and `ottla decode`.
    #[arg(long, value_name = "FILE")]
    pcapng: Option<PathBuf>,
}

/// The state of a running command.
struct Session<'a> {
    out: &'a mut Out,
    filters: Filters,
    inspector: Inspector,
    printer: FramePrinter,
    summary: Summary,
    /// The capture file, and its path for error messages.
    capture: Option<(Capture, PathBuf)>,
}

impl Tap {
    pub(super) async fn run(self, out: &mut Out) -> Result<(), Failure> {
        let capture = match self.pcapng {
            Some(path) => Some((Capture::create(&path).map_err(|e| unwritten(&path, &e))?, path)),
            None => None,
        };
        let (tap, events) =
            Proxy::start(&self.listen, &self.to).await.map_err(|error| Failure::new(error.to_string()))?;
        say(format!("clients connect to {}, the tap to {}; Ctrl-C ends it", tap.address(), self.to));
        let printer = FramePrinter::new(self.json, self.bytes);
        let mut session = Session {
            out,
            filters: Filters::new(self.filter),
            inspector: Inspector::new(TableSet::built_in(), self.tree),
            printer,
            summary: Summary::default(),
            capture,
        };
        tokio::select! {
            ended = session.follow(events) => ended?,
            () = stop_signal() => {}
        }
        drop(tap);
        session.end(self.json)
    }
}

impl Session<'_> {
    async fn follow(&mut self, mut events: Receiver<Event>) -> Result<(), Failure> {
        while let Some(event) = events.recv().await {
            self.event(event)?;
            if events.is_empty() {
                self.out.flush()?;
                self.captured(Capture::flush)?;
            }
        }
        Ok(())
    }

    fn event(&mut self, event: Event) -> Result<(), Failure> {
        match event {
            Event::Frame(frame) => self.frame(&frame)?,
            Event::ConnectionOpened { connection, client, local, .. } => {
                self.captured(|capture| {
                    capture.opened(connection, client, local);
                    Ok(())
                })?;
            }
            Event::ConnectionClosed { connection } => {
                self.filters.closed(connection);
                self.captured(|capture| capture.closed(connection))?;
            }
            Event::PortOpened { local, broker } => say(format!("{local} stands for the broker {broker}")),
            Event::Note { connection: Some(number), text } => say(format!("connection {number}: {text}")),
            Event::Note { connection: None, text } => say(text),
        }
        Ok(())
    }

    fn frame(&mut self, frame: &RelayedFrame) -> Result<(), Failure> {
        let may_fit = self.filters.may_fit(frame);
        if !may_fit && !inspect::names_topics(frame) {
            return Ok(());
        }
        let inspection = self.inspector.inspect(frame);
        if !may_fit || !self.filters.fits(frame, &inspection.topics) {
            return Ok(());
        }
        self.summary.count(frame, &inspection);
        self.captured(|capture| capture.frame(frame))?;
        Ok(self.printer.frame(self.out, frame, &inspection)?)
    }

    /// Calls `act` with the capture file, if there is one.
    fn captured(&mut self, act: impl FnOnce(&mut Capture) -> std::io::Result<()>) -> Result<(), Failure> {
        match &mut self.capture {
            Some((capture, path)) => act(capture).map_err(|error| unwritten(path, &error)),
            None => Ok(()),
        }
    }

    fn end(mut self, json: bool) -> Result<(), Failure> {
        self.captured(Capture::flush)?;
        let table = self.summary.table();
        if json {
            eprint!("{table}");
        } else {
            self.out.line("")?;
            self.out.text(&table)?;
        }
        Ok(())
    }
}

fn unwritten(path: &Path, error: &std::io::Error) -> Failure {
    Failure::new(format!("cannot write {}: {error}", path.display()))
}
