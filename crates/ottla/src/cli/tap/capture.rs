//! `--pcapng`: the frames as a capture file, which Wireshark and `ottla decode` read.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::net::SocketAddr;
use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

use ottla::tap::RelayedFrame;
use ottla_microscope::capture::PcapngWriter;
use ottla_microscope::conversation::{Connection, Time};
use ottla_wire::tables::Direction;

/// Zeros that are written at a time for bytes that were not kept.
const ZEROS: usize = 1 << 20;

/// The file and the connections in it.
pub(super) struct Capture {
    to: BufWriter<File>,
    writer: PcapngWriter,
    connections: BTreeMap<u64, Connection>,
}

impl Capture {
    /// Begins a file.
    pub(super) fn create(path: &Path) -> io::Result<Capture> {
        let writer = PcapngWriter::new();
        let mut to = BufWriter::new(File::create(path)?);
        to.write_all(&writer.header())?;
        Ok(Capture { to, writer, connections: BTreeMap::new() })
    }

    /// Remembers who speaks; the connection is in the file once a frame of it is.
    pub(super) fn opened(&mut self, number: u64, client: SocketAddr, server: SocketAddr) {
        self.connections.insert(number, Connection { number, client, server });
    }

    /// Writes a frame. Bytes of it that were not kept are zeros, so that the next one is where its size says.
    pub(super) fn frame(&mut self, frame: &RelayedFrame) -> io::Result<()> {
        let Some(connection) = self.connections.get(&frame.connection) else { return Ok(()) };
        let direction = if frame.is_request { Direction::Request } else { Direction::Response };
        let time = time(frame.at);
        self.to.write_all(&self.writer.data(connection, direction, time, &frame.bytes))?;
        let mut left = frame.size.saturating_sub(frame.bytes.len());
        while left > 0 {
            let zeros = vec![0; left.min(ZEROS)];
            self.to.write_all(&self.writer.data(connection, direction, time, &zeros))?;
            left -= zeros.len();
        }
        Ok(())
    }

    /// Writes the end of a connection.
    pub(super) fn closed(&mut self, number: u64) -> io::Result<()> {
        let Some(connection) = self.connections.remove(&number) else { return Ok(()) };
        self.to.write_all(&self.writer.close(&connection, time(SystemTime::now())))
    }

    /// Shows other programs what was written so far.
    pub(super) fn flush(&mut self) -> io::Result<()> {
        self.to.flush()
    }
}

fn time(at: SystemTime) -> Time {
    let since = at.duration_since(UNIX_EPOCH).unwrap_or_default();
    Time(i64::try_from(since.as_nanos()).unwrap_or(i64::MAX))
}
