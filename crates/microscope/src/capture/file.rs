//! Capture files, pcap and pcapng, read from chunks of any size. Only what is not yet a whole packet is kept.

use crate::conversation::Time;
use pcap_parser::pcapng::{Block, InterfaceDescriptionBlock};
use pcap_parser::{PcapHeader, parse_block_be, parse_block_le, parse_pcap_header};
use std::ops::Range;

/// The largest packet or block that is read; no capture tool writes larger ones.
const MAX_BLOCK: usize = 16 << 20;
/// The block that opens a section; the same in both byte orders.
const SECTION: u32 = 0x0a0d_0d0a;
/// What stands in a section header of the other byte order.
const LITTLE_ENDIAN: [u8; 4] = [0x4d, 0x3c, 0x2b, 0x1a];
const BIG_ENDIAN: [u8; 4] = [0x1a, 0x2b, 0x3c, 0x4d];
/// Kinds of pcapng blocks that hold a packet.
const PACKETS: [u32; 3] = [2, 3, 6];
/// Interfaces of one section; more are not written by any tool.
const MAX_INTERFACES: usize = 1 << 16;
/// Bytes in front of the packet: of an enhanced and of a simple packet block.
const BEFORE_ENHANCED: usize = 28;
const BEFORE_SIMPLE: usize = 12;

/// Why a capture file cannot be read on.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CaptureError {
    /// It does not begin as pcap or pcapng.
    #[error("this is no capture file: it begins with {0:02x?}, neither pcap nor pcapng")]
    NotACapture(Vec<u8>),
    /// A packet or block that cannot be.
    #[error("the capture file is damaged at byte {at}: {what}; nothing after it can be read")]
    Damaged {
        /// Where in the file.
        at: u64,
        /// What is wrong there.
        what: String,
    },
    /// The file ends inside a packet.
    #[error("the capture file ends inside a packet that begins at byte {at}; everything before it was read")]
    Cut {
        /// Where the packet begins.
        at: u64,
    },
}

/// A packet of a capture file.
#[derive(Clone, Copy, Debug)]
pub struct Packet<'a> {
    /// When it was captured.
    pub time: Time,
    /// What it begins with, as the registry of link types numbers it.
    pub link: i32,
    /// Its bytes, as far as they were captured.
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

/// Reads a capture file. Hand in chunks with [`push`](Self::push), take packets with [`packet`](Self::packet) until there is
/// none, and close with [`finish`](Self::finish).
#[derive(Debug)]
pub struct FileReader {
    buffer: Vec<u8>,
    start: usize,
    /// Where in the file the buffer begins.
    offset: u64,
    /// Bytes to leave out.
    skip: u64,
    format: Format,
    time: Time,
}

impl Default for FileReader {
    fn default() -> FileReader {
        FileReader::new()
    }
}

/// What a step over the buffer found: its length, and a packet in it.
struct Step {
    length: usize,
    packet: Option<(Time, i32, Range<usize>)>,
}

impl FileReader {
    /// Before the first byte.
    pub fn new() -> FileReader {
        let (buffer, format) = (Vec::new(), Format::Unknown);
        FileReader { buffer, start: 0, offset: 0, skip: 0, format, time: Time(0) }
    }

    /// The next bytes of the file.
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

    /// The next packet of what was pushed; `None` when more bytes are needed.
    ///
    /// # Errors
    /// The file is no capture, or damaged. Every later call says the same.
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

    /// The end of the file.
    ///
    /// # Errors
    /// It ends inside a packet, or is no capture at all.
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

    /// The beginning of the file.
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

    /// A packet of a pcap file.
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

    /// A block of a pcapng file.
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
            // Blocks without packets may be damaged: nothing depends on them.
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
    /// Keeps what a block says about those after it; a packet comes back.
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
