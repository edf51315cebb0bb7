//! Capture files, pcap and pcapng, read from chunks of any size. Only the bytes of an incomplete packet are kept.

use crate::conversation::Time;
use pcap_parser::pcapng::{Block, InterfaceDescriptionBlock};
use pcap_parser::{PcapHeader, parse_block_be, parse_block_le, parse_pcap_header};
use std::ops::Range;

/// The largest packet or block in bytes; capture tools write smaller ones.
const MAX_BLOCK: usize = 16 << 20;
/// The type of a section header block; the same in both byte orders.
const SECTION: u32 = 0x0a0d_0d0a;
/// The byte order marks of a section header.
const LITTLE_ENDIAN: [u8; 4] = [0x4d, 0x3c, 0x2b, 0x1a];
const BIG_ENDIAN: [u8; 4] = [0x1a, 0x2b, 0x3c, 0x4d];
/// The types of pcapng blocks that contain a packet.
const PACKETS: [u32; 3] = [2, 3, 6];
/// The most interfaces of a section; capture tools write fewer.
const MAX_INTERFACES: usize = 1 << 16;
/// The bytes before the packet in an enhanced and in a simple packet block.
const BEFORE_ENHANCED: usize = 28;
const BEFORE_SIMPLE: usize = 12;

/// Why the rest of a capture file cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CaptureError {
    /// It does not begin like pcap or pcapng.
    #[error("this is no capture file: it begins with {0:02x?}, neither pcap nor pcapng")]
    NotACapture(Vec<u8>),
    /// An impossible packet or block.
    #[error("the capture file is damaged at byte {at}: {what}; nothing after it can be read")]
    Damaged {
        /// The position in the file.
        at: u64,
        /// The problem at that position.
        what: String,
    },
    /// The file ends inside a packet.
    #[error("the capture file ends inside a packet that begins at byte {at}; everything before it was read")]
    Cut {
        /// The start of the packet.
        at: u64,
    },
}

/// A packet of a capture file.
#[derive(Clone, Copy, Debug)]
pub struct Packet<'a> {
    /// When it was captured.
    pub time: Time,
    /// Its link type, by the number in the registry of link types.
    pub link: i32,
    /// The captured part of its bytes.
    pub data: &'a [u8],
}

#[derive(Clone, Copy, Debug)]
struct Interface {
    link: i32,
    snap: u32,
    /// Units per second, and seconds to add.
    units: u64,
    offset: i64,
}

#[derive(Debug)]
enum Format {
    Unknown,
    Pcap { header: PcapHeader },
    PcapNg { big_endian: bool, interfaces: Vec<Interface> },
}

/// Reads a capture file. Pass chunks to [`push`](Self::push), call [`packet`](Self::packet) until it returns none, and
/// call [`finish`](Self::finish) at the end.
#[derive(Debug)]
pub struct FileReader {
    buffer: Vec<u8>,
    start: usize,
    /// The position of the buffer in the file.
    offset: u64,
    /// Bytes to skip.
    skip: u64,
    format: Format,
    time: Time,
}

impl Default for FileReader {
    fn default() -> FileReader {
        FileReader::new()
    }
}

/// The result of a step over the buffer: the bytes to advance, and a packet in them.
struct Step {
    length: usize,
    packet: Option<(Time, i32, Range<usize>)>,
}

impl FileReader {
    /// A reader before the first byte.
    pub fn new() -> FileReader {
        let (buffer, format) = (Vec::new(), Format::Unknown);
        FileReader { buffer, start: 0, offset: 0, skip: 0, format, time: Time(0) }
    }

    /// Adds the next bytes of the file.
    pub fn push(&mut self, mut chunk: &[u8]) {
        if self.skip > 0 {
            let left_out = chunk.len().min(usize::try_from(self.skip).unwrap_or(usize::MAX));
            chunk = &chunk[left_out..];
            self.skip -= left_out as u64;
            self.offset += left_out as u64;
        }
        self.buffer.drain(..self.start);
        self.offset += self.start as u64;
        self.start = 0;
        self.buffer.extend_from_slice(chunk);
    }

    /// The next packet; `None` if more bytes are needed.
    ///
    /// # Errors
    /// The file is no capture, or is damaged. Every later call returns the same error.
    pub fn packet(&mut self) -> Result<Option<Packet<'_>>, CaptureError> {
        loop {
            let Some(step) = self.step()? else { return Ok(None) };
            let from = self.start;
            self.advance(step.length);
            if let Some((time, link, range)) = step.packet {
                self.time = time;
                let data = self.buffer.get(from + range.start..from + range.end).unwrap_or_default();
                return Ok(Some(Packet { time, link, data }));
            }
        }
    }

    /// Ends the file.
    ///
    /// # Errors
    /// The file ends inside a packet, or is no capture.
    pub fn finish(&self) -> Result<(), CaptureError> {
        let rest = &self.buffer[self.start..];
        match self.format {
            Format::Unknown => Err(CaptureError::NotACapture(rest.iter().take(4).copied().collect())),
            _ if self.skip > 0 || !rest.is_empty() => Err(CaptureError::Cut { at: self.at() }),
            _ => Ok(()),
        }
    }

    fn at(&self) -> u64 {
        self.offset + self.start as u64
    }

    fn advance(&mut self, length: usize) {
        let there = length.min(self.buffer.len() - self.start);
        self.start += there;
        self.skip += (length - there) as u64;
    }

    fn damaged(&self, what: impl Into<String>) -> CaptureError {
        CaptureError::Damaged { at: self.at(), what: what.into() }
    }

    fn step(&mut self) -> Result<Option<Step>, CaptureError> {
        if let Format::Unknown = self.format {
            return self.file_header();
        }
        match &self.format {
            Format::Pcap { header } => self.pcap_packet(header),
            _ => self.pcapng_block(),
        }
    }

    /// Reads the header of the file.
    fn file_header(&mut self) -> Result<Option<Step>, CaptureError> {
        let rest = &self.buffer[self.start..];
        let Some(magic) = rest.first_chunk::<4>() else { return Ok(None) };
        if u32::from_le_bytes(*magic) == SECTION {
            self.format = Format::PcapNg { big_endian: false, interfaces: Vec::new() };
            return Ok(Some(Step { length: 0, packet: None }));
        }
        match parse_pcap_header(rest) {
            Ok((_, header)) => {
                self.format = Format::Pcap { header };
                Ok(Some(Step { length: 24, packet: None }))
            }
            Err(e) if e.is_incomplete() => Ok(None),
            Err(_) => Err(CaptureError::NotACapture(magic.to_vec())),
        }
    }

    /// Reads a packet of a pcap file.
    fn pcap_packet(&self, header: &PcapHeader) -> Result<Option<Step>, CaptureError> {
        let before = if header.is_modified_format() { 24 } else { 16 };
        let rest = &self.buffer[self.start..];
        let Some(head) = rest.get(..before) else { return Ok(None) };
        let number = |at: usize| {
            let bytes = head.get(at..).and_then(<[u8]>::first_chunk::<4>).copied().unwrap_or_default();
            if header.is_bigendian() { u32::from_be_bytes(bytes) } else { u32::from_le_bytes(bytes) }
        };
        let captured = number(8) as usize;
        if captured > MAX_BLOCK {
            return Err(self.damaged(format!("a packet of {captured} bytes")));
        }
        if rest.len() < before + captured {
            return Ok(None);
        }
        let scale = if header.is_nanosecond_precision() { 1 } else { 1_000 };
        let time = Time(i64::from(number(0)) * 1_000_000_000 + i64::from(number(4)) * scale);
        let link = header.network.0 & 0xffff;
        Ok(Some(Step { length: before + captured, packet: Some((time, link, before..before + captured)) }))
    }

    /// Reads a block of a pcapng file.
    fn pcapng_block(&mut self) -> Result<Option<Step>, CaptureError> {
        let Format::PcapNg { big_endian, .. } = self.format else { return Ok(None) };
        let rest = &self.buffer[self.start..];
        let Some([kind @ .., _, _, _, _, _, _, _, _]) = rest.first_chunk::<12>() else { return Ok(None) };
        let kind: [u8; 4] = *kind;
        let order = rest.get(8..12).unwrap_or_default();
        let big_endian = match u32::from_le_bytes(kind) == SECTION {
            true if order == BIG_ENDIAN => true,
            true if order == LITTLE_ENDIAN => false,
            true => return Err(self.damaged(format!("a section with the byte order mark {order:02x?}"))),
            false => big_endian,
        };
        let number = |b: [u8; 4]| if big_endian { u32::from_be_bytes(b) } else { u32::from_le_bytes(b) };
        let length =
            number(rest.get(4..).and_then(<[u8]>::first_chunk).copied().unwrap_or_default()) as usize;
        let kind = number(kind);
        if length < 12 || !length.is_multiple_of(4) {
            return Err(self.damaged(format!("a block of {length} bytes")));
        }
        if length > MAX_BLOCK {
            if kind == SECTION || PACKETS.contains(&kind) || kind == 1 {
                return Err(self.damaged(format!("a block of {length} bytes")));
            }
            return Ok(Some(Step { length, packet: None }));
        }
        let Some(block) = self.buffer.get(self.start..self.start + length) else { return Ok(None) };
        let parsed = if big_endian { parse_block_be(block) } else { parse_block_le(block) };
        let Ok((_, block)) = parsed else {
            // A damaged block without packets is skipped, because nothing depends on it.
            if kind == SECTION || PACKETS.contains(&kind) || kind == 1 {
                return Err(self.damaged(format!("a block of kind {kind} that cannot be read")));
            }
            return Ok(Some(Step { length, packet: None }));
        };
        let found = self.format.take(&block, big_endian, self.time);
        found.map(|packet| Some(Step { length, packet })).map_err(|what| self.damaged(what))
    }
}

impl Format {
    /// Keeps the facts in a block that later blocks depend on, and returns its packet.
    fn take(
        &mut self,
        block: &Block<'_>,
        is_big_endian: bool,
        last: Time,
    ) -> Result<Option<(Time, i32, Range<usize>)>, String> {
        let Format::PcapNg { big_endian, interfaces } = self else { return Ok(None) };
        match block {
            Block::SectionHeader(_) => {
                *big_endian = is_big_endian;
                interfaces.clear();
                Ok(None)
            }
            Block::InterfaceDescription(_) if interfaces.len() >= MAX_INTERFACES => {
                Err("too many interfaces".into())
            }
            Block::InterfaceDescription(block) => {
                interfaces.push(Interface::of(block));
                Ok(None)
            }
            Block::EnhancedPacket(packet) => {
                let Some(interface) = interfaces.get(packet.if_id as usize) else {
                    return Err(format!("a packet of interface {}, which is not described", packet.if_id));
                };
                let ticks = u64::from(packet.ts_high) << 32 | u64::from(packet.ts_low);
                let length = (packet.caplen as usize).min(packet.data.len());
                let range = BEFORE_ENHANCED..BEFORE_ENHANCED + length;
                Ok(Some((interface.time(ticks), interface.link, range)))
            }
            Block::SimplePacket(packet) => {
                let Some(interface) = interfaces.first() else {
                    return Err("a packet without an interface".into());
                };
                let snap = if interface.snap == 0 { u32::MAX } else { interface.snap };
                let length = (packet.origlen.min(snap) as usize).min(packet.data.len());
                Ok(Some((last, interface.link, BEFORE_SIMPLE..BEFORE_SIMPLE + length)))
            }
            _ => Ok(None),
        }
    }
}

impl Interface {
    fn of(block: &InterfaceDescriptionBlock<'_>) -> Interface {
        let exponent = u32::from(block.if_tsresol & 0x7f);
        let units = match block.if_tsresol & 0x80 {
            0 => 10_u64.checked_pow(exponent),
            _ => 1_u64.checked_shl(exponent),
        };
        Interface {
            link: block.linktype.0,
            snap: block.snaplen,
            units: units.filter(|units| *units > 0).unwrap_or(1_000_000),
            offset: block.if_tsoffset,
        }
    }

    fn time(&self, ticks: u64) -> Time {
        const NANOS: u64 = 1_000_000_000;
        let seconds = i64::try_from(ticks / self.units).unwrap_or(i64::MAX).saturating_add(self.offset);
        let part = u128::from(ticks % self.units) * u128::from(NANOS) / u128::from(self.units);
        Time(seconds.saturating_mul(NANOS as i64).saturating_add(part as i64))
    }
}
