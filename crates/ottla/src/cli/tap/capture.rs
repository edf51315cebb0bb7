//! `--pcapng`: writes the frames to a capture file for Wireshark and `ottla decode`.

use ottla::tap::RelayedFrame;
use ottla_microscope::capture::PcapngWriter;
use ottla_microscope::conversation::{Connection, Time};
use ottla_wire::tables::Direction;
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::net::SocketAddr;
use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

/// Zeros that are written at once in place of bytes that were not kept.
const ZEROS: usize = 1 << 20;

/// A capture file and its open connections.
pub(super) struct Capture {
    to: BufWriter<File>,
    writer: PcapngWriter,
    connections: BTreeMap<u64, Connection>,
}

impl Capture {
    /// Creates a file.
    pub(super) fn create(path: &Path) -> io::Result<Capture> {
        let writer = PcapngWriter::new();
        let mut to = BufWriter::new(File::create(path)?);
        to.write_all(&writer.header())?;
        Ok(Capture { to, writer, connections: BTreeMap::new() })
    }

    /// Remembers the addresses of a connection. It is written with its first frame.
    pub(super) fn opened(&mut self, number: u64, client: SocketAddr, server: SocketAddr) {
        self.connections.insert(number, Connection { number, client, server });
    }

    /// Writes a frame. Bytes that were not kept are written as zeros, so that the next frame begins where the size
    /// says.
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

    /// Flushes the file.
    pub(super) fn flush(&mut self) -> io::Result<()> {
        self.to.flush()
    }
}

fn time(at: SystemTime) -> Time {
    let since = at.duration_since(UNIX_EPOCH).unwrap_or_default();
    Time(i64::try_from(since.as_nanos()).unwrap_or(i64::MAX))
}
