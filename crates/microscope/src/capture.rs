//! Capture files: read as conversations, and written.
//!
//! [`CaptureReader`] takes a pcap or pcapng file in chunks of any size and emits the events of the Kafka connections in
//! it:
//!
//! ```
//! use ottla_microscope::capture::{CaptureReader, Settings};
//! use ottla_microscope::conversation::Event;
//! # fn read(chunks: &[&[u8]]) -> Result<(), ottla_microscope::capture::CaptureError> {
//! let mut reading = CaptureReader::new(Settings { port: Some(9092), ..Settings::default() });
//! for chunk in chunks {
//!     reading.push(chunk, &mut |topics, connection, time, event| {
//!         if let Event::Frame(frame) = event {
//!             // frame.head says API, version and client; frame.explain(...) opens it, given topics.names().
//!         }
//!     })?;
//! }
//! let summary = reading.finish(&mut |_, _, _, _| {})?;
//! # Ok(())
//! # }
//! ```
//!
//! Memory does not grow with the file. The reader keeps the current packet, the bytes behind a gap (at most 8 MiB for
//! each direction of a connection), the current frame of each direction, and a few hundred bytes for each connection.
//! [`PcapngWriter`] writes a capture file of connections that were not captured, such as those of the tap.

mod file;
mod flows;
mod packet;
mod stream;
mod write;

pub use file::{CaptureError, FileReader, Packet};
pub use write::PcapngWriter;

use crate::conversation::{Connection, Event, LARGEST_FRAME, Time, Topics};
use flows::Flows;
use packet::NoSegment;
use std::collections::BTreeMap;

/// How to read a capture.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The broker's port: other connections are skipped. With `None` all connections are read, and the client is the
    /// side that opens the connection or sends what can be a request.
    pub port: Option<u16>,
    /// The largest frame in bytes, including the size field. Larger frames are skipped.
    pub largest_frame: usize,
}

impl Default for Settings {
    fn default() -> Settings {
        Settings { port: None, largest_frame: LARGEST_FRAME }
    }
}

/// The counts of a capture.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Summary {
    /// Packets of any kind.
    pub packets: u64,
    /// TCP connections that were read.
    pub connections: u64,
    /// Frames emitted.
    pub frames: u64,
    /// TCP packets of other ports than [`Settings::port`].
    pub other_ports: u64,
    /// Packets that are not TCP.
    pub not_tcp: u64,
    /// IP fragments, which are not reassembled.
    pub fragments: u64,
    /// Packets of unsupported link types, by link type.
    pub unknown_links: BTreeMap<i32, u64>,
}

/// Whether a file with these first bytes is a capture: pcap in either byte order, with micro- or nanoseconds, or
/// pcapng.
pub fn is_capture(head: &[u8]) -> bool {
    const BEGINNINGS: [u32; 5] = [0xa1b2_c3d4, 0xa1b2_3c4d, 0xd4c3_b2a1, 0x4d3c_b2a1, 0x0a0d_0d0a];
    head.first_chunk().is_some_and(|head| BEGINNINGS.contains(&u32::from_be_bytes(*head)))
}

/// The receiver of events. It also gets the names of topics that the capture contained so far.
pub type CaptureSink<'a> = &'a mut dyn FnMut(&Topics, &Connection, Time, Event);

/// Reads a capture file as conversations; see the module.
#[derive(Debug)]
pub struct CaptureReader {
    settings: Settings,
    file: FileReader,
    flows: Flows,
    topics: Topics,
    summary: Summary,
    time: Time,
}

impl CaptureReader {
    /// A reader before the first byte of the file.
    pub fn new(settings: Settings) -> CaptureReader {
        CaptureReader {
            settings,
            file: FileReader::new(),
            flows: Flows::default(),
            topics: Topics::default(),
            summary: Summary::default(),
            time: Time::default(),
        }
    }

    /// Reads the next bytes of the file.
    ///
    /// # Errors
    /// The file is no capture, or is damaged. [`finish`](Self::finish) still emits what remains of the packets before.
    pub fn push(&mut self, chunk: &[u8], out: CaptureSink<'_>) -> Result<(), CaptureError> {
        self.file.push(chunk);
        let CaptureReader { settings, file, flows, topics, summary, time } = self;
        while let Some(packet) = file.packet()? {
            summary.packets += 1;
            *time = packet.time;
            match packet::segment(packet.link, packet.data) {
                Ok(segment) => {
                    let mut frames = 0;
                    {
                        let mut learn = learning(topics, &mut frames, out);
                        flows.segment(&segment, packet.time, settings, (summary, &mut learn));
                    }
                    summary.frames += frames;
                }
                Err(NoSegment::Link(link)) => *summary.unknown_links.entry(link).or_default() += 1,
                Err(NoSegment::Fragment) => summary.fragments += 1,
                Err(NoSegment::Other) => summary.not_tcp += 1,
            }
        }
        Ok(())
    }

    /// Ends the file: emits the remaining events and returns the counts.
    ///
    /// # Errors
    /// The file ends inside a packet, or is no capture. The remaining events were emitted all the same.
    pub fn finish(&mut self, out: CaptureSink<'_>) -> Result<Summary, CaptureError> {
        let CaptureReader { settings, flows, topics, summary, time, .. } = self;
        let mut frames = 0;
        flows.finish(*time, settings, &mut learning(topics, &mut frames, out));
        summary.frames += frames;
        self.file.finish()?;
        Ok(self.summary.clone())
    }

    /// The counts so far.
    pub fn summary(&self) -> &Summary {
        &self.summary
    }

    /// The names of topics so far.
    pub fn topics(&self) -> &Topics {
        &self.topics
    }
}

/// Takes topic names from each event before it is emitted.
fn learning<'a>(
    topics: &'a mut Topics,
    frames: &'a mut u64,
    out: CaptureSink<'a>,
) -> impl FnMut(&Connection, Time, Event) + 'a {
    move |connection, time, event| {
        if let Event::Frame(frame) = &event {
            *frames += 1;
            topics.learn(frame);
        }
        out(topics, connection, time, event);
    }
}

/// Reads arbitrary bytes as a capture and explains every frame in it, for fuzzing. Returns the number of frames.
pub fn exercise(data: &[u8]) -> u64 {
    use ottla_wire::{explain::Options, tables::TableSet};
    let mut reading = CaptureReader::new(Settings::default());
    let mut on_event = |topics: &Topics, _: &Connection, _: Time, event: Event| {
        if let Event::Frame(frame) = &event {
            let options = Options { cap: 1 << 20, topics: topics.names().clone(), ..Options::default() };
            frame.explain(TableSet::built_in(), &options);
        }
        if let Event::Notice(_, notice) = &event {
            let _ = notice.to_string();
        }
    };
    for chunk in data.chunks(1_000) {
        if reading.push(chunk, &mut on_event).is_err() {
            break;
        }
    }
    let _ = reading.finish(&mut on_event);
    reading.summary().frames
}
