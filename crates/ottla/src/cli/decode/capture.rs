//! Capture files: every frame of every connection, as `ottla tap` would have shown it.

use super::{FrameCount, described};
use crate::cli::failure::Failure;
use crate::cli::out::Out;
use crate::cli::tap::filter::Filters;
use crate::cli::tap::inspect::{Inspector, names_topics};
use crate::cli::tap::print::{FramePrinter, utc};
use crate::terminal::say;
use ottla::tap::RelayedFrame;
use ottla_microscope::capture::{CaptureReader, Summary};
use ottla_microscope::conversation::{Connection, Event, Frame, Kind, Time, Topics};
use ottla_microscope::schemas::Schemas;
use ottla_wire::explain::Options;
use ottla_wire::tables::Direction;
use serde_json::Value;
use std::io::Read;
use std::time::{Duration, UNIX_EPOCH};

/// Bytes that are read at once.
const CHUNK: usize = 1 << 18;

/// Prints the frames of a capture file.
pub(super) struct CaptureInput<'a> {
    pub(super) schemas: &'a Schemas,
    pub(super) filters: Filters,
    pub(super) inspector: Inspector,
    pub(super) printer: FramePrinter,
    pub(super) json: bool,
    pub(super) count: FrameCount,
    pub(super) out: &'a mut Out,
}

impl CaptureInput<'_> {
    /// Reads the capture to its end, or up to damage.
    pub(super) fn read(
        mut self,
        from: &mut dyn Read,
        mut reading: CaptureReader,
    ) -> Result<FrameCount, Failure> {
        let mut chunk = vec![0; CHUNK];
        let summary = loop {
            let length = from
                .read(&mut chunk)
                .map_err(|error| Failure::new(format!("cannot read the capture: {error}")))?;
            let mut shown = Ok(());
            let mut sink = |_: &Topics, connection: &Connection, time: Time, event: Event| {
                if shown.is_ok() {
                    shown = self.event(connection, time, event);
                }
            };
            let read = match chunk.get(..length) {
                Some(bytes) if !bytes.is_empty() => match reading.push(bytes, &mut sink) {
                    Ok(()) => Ok(None),
                    // Frames before the damage are still printed.
                    Err(error) => reading.finish(&mut sink).and(Err(error)),
                },
                _ => reading.finish(&mut sink).map(Some),
            };
            shown?;
            if let Some(summary) = read.map_err(|error| Failure::new(error.to_string()))? {
                break summary;
            }
        };
        self.left_out(&summary);
        Ok(self.count)
    }

    /// Reports packets that were left out.
    fn left_out(&self, summary: &Summary) {
        for (link, packets) in &summary.unknown_links {
            say(format!("{packets} packets left out: link type {link} is not supported"));
        }
        if summary.fragments > 0 {
            say(format!("{} packets left out: fragments of IP packets", summary.fragments));
        }
        if summary.frames == 0 {
            let Summary { packets, connections, other_ports, .. } = summary;
            say(format!(
                "no frames in {packets} packets, {connections} connections; {other_ports} packets of other ports"
            ));
        }
    }

    fn event(&mut self, connection: &Connection, time: Time, event: Event) -> Result<(), Failure> {
        match event {
            Event::Opened => {}
            Event::Frame(frame) => self.frame(connection, time, &frame)?,
            Event::Notice(direction, notice) => {
                let side = match direction {
                    Direction::Request => "requests",
                    Direction::Response => "responses",
                };
                say(format!("connection {connection}, {side}: {notice}"));
            }
            Event::Closed => self.filters.closed(connection.number),
        }
        Ok(())
    }

    fn frame(&mut self, connection: &Connection, time: Time, frame: &Frame) -> Result<(), Failure> {
        let seen = seen(connection.number, time, frame);
        let may_fit = self.filters.may_fit(&seen);
        if !may_fit && !names_topics(&seen) {
            return Ok(());
        }
        let inspection = self.inspector.inspect(&seen);
        if !may_fit || !self.filters.fits(&seen, &inspection.topics) {
            return Ok(());
        }
        self.count.frame(inspection.faults.is_empty());
        if self.json {
            return Ok(self.out.json_line(&self.object(connection, &seen, frame))?);
        }
        Ok(self.printer.frame(self.out, &seen, &inspection)?)
    }
}

impl CaptureInput<'_> {
    /// A frame as JSON: time and connection, then the fields of any frame.
    fn object(&self, connection: &Connection, seen: &RelayedFrame, frame: &Frame) -> Value {
        let mut object = serde_json::Map::new();
        object.insert("time".to_owned(), utc(seen.at).into());
        object.insert("connection".to_owned(), connection.number.into());
        object.insert("client".to_owned(), connection.client.to_string().into());
        object.insert("server".to_owned(), connection.server.to_string().into());
        if let Some(latency) = seen.latency {
            let micros = u64::try_from(latency.as_micros()).unwrap_or(u64::MAX);
            object.insert("latencyUs".to_owned(), micros.into());
        }
        if let Some(note) = &seen.note {
            object.insert("note".to_owned(), note.as_str().into());
        }
        let tables = self.schemas.tables();
        let api = frame.head.as_ref().map(|head| (head.key, head.version));
        let explained = frame.explain(tables, &Options::default());
        object.extend(described(self.schemas, frame.direction, api, &frame.bytes, explained.as_ref()));
        Value::Object(object)
    }
}

/// The frame as the tap would have reported it.
fn seen(connection: u64, time: Time, frame: &Frame) -> RelayedFrame {
    let is_request = frame.direction == Direction::Request;
    let at = UNIX_EPOCH + Duration::from_nanos(u64::try_from(time.0).unwrap_or(0));
    let mut seen = RelayedFrame::from_capture(connection, is_request, at, frame.bytes.clone());
    seen.head = frame.head.clone();
    seen.latency = frame.latency;
    seen.note = match frame.kind {
        Kind::Message | Kind::Unknown => None,
        Kind::Token => Some("SASL token".to_owned()),
        Kind::Orphan => Some("its request was not captured".to_owned()),
    };
    seen
}
