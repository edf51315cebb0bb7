//! Writes a capture file of connections that were not captured. Their bytes get Ethernet, IP and TCP headers, so that
//! every tool reads them as TCP.

use crate::conversation::{Connection, Time};
use etherparse::PacketBuilder;
use ottla_wire::tables::Direction;
use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};

/// The most bytes of payload in a packet. With all headers this is less than the size limit of an IP packet.
const PAYLOAD: usize = 32 << 10;
const CLIENT_MAC: [u8; 6] = [2, 0, 0, 0, 0, 1];
const SERVER_MAC: [u8; 6] = [2, 0, 0, 0, 0, 2];
const WINDOW: u16 = u16::MAX;
const HOPS: u8 = 64;
const FIRST_SEQUENCE: u32 = 1_000;

/// Writes pcapng: a section, an interface of the kind Ethernet with times in nanoseconds, and packets. Every call
/// returns the bytes to append to the file.
#[derive(Debug, Default)]
pub struct PcapngWriter {
    /// The next sequence numbers, of the client and of the server.
    connections: BTreeMap<u64, [u32; 2]>,
}

/// The TCP flag of a packet.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Flag {
    Syn,
    Data,
    Fin,
}

impl PcapngWriter {
    /// A writer. Start the file with [`header`](Self::header).
    pub fn new() -> PcapngWriter {
        PcapngWriter::default()
    }

    /// The beginning of the file.
    pub fn header(&self) -> Vec<u8> {
        const TIME_RESOLUTION: u16 = 9;
        const ETHERNET: u32 = 1;
        let mut out = Vec::new();
        let section = [&0x1a2b_3c4d_u32.to_le_bytes()[..], &[1, 0, 0, 0], &(-1_i64).to_le_bytes()].concat();
        block(&mut out, 0x0a0d_0d0a, &section);
        let nanoseconds =
            [&TIME_RESOLUTION.to_le_bytes()[..], &[1, 0], &[9, 0, 0, 0], &[0, 0, 0, 0]].concat();
        let interface = [&ETHERNET.to_le_bytes()[..], &0_u32.to_le_bytes(), &nanoseconds].concat();
        block(&mut out, 1, &interface);
        out
    }

    /// The handshake of a connection. [`data`](Self::data) adds it if it is missing.
    pub fn open(&mut self, connection: &Connection, time: Time) -> Vec<u8> {
        let mut out = Vec::new();
        self.connections.insert(connection.number, [FIRST_SEQUENCE; 2]);
        self.packet(&mut out, (connection, time), Direction::Request, Flag::Syn, &[]);
        self.packet(&mut out, (connection, time), Direction::Response, Flag::Syn, &[]);
        self.packet(&mut out, (connection, time), Direction::Request, Flag::Data, &[]);
        out
    }

    /// Bytes of one direction.
    pub fn data(
        &mut self,
        connection: &Connection,
        direction: Direction,
        time: Time,
        bytes: &[u8],
    ) -> Vec<u8> {
        let mut out = if self.connections.contains_key(&connection.number) {
            Vec::with_capacity(bytes.len() + bytes.len() / 256 + 128)
        } else {
            self.open(connection, time)
        };
        for payload in bytes.chunks(PAYLOAD) {
            self.packet(&mut out, (connection, time), direction, Flag::Data, payload);
        }
        out
    }

    /// The end of a connection.
    pub fn close(&mut self, connection: &Connection, time: Time) -> Vec<u8> {
        let mut out = Vec::new();
        if self.connections.contains_key(&connection.number) {
            self.packet(&mut out, (connection, time), Direction::Request, Flag::Fin, &[]);
            self.packet(&mut out, (connection, time), Direction::Response, Flag::Fin, &[]);
            self.packet(&mut out, (connection, time), Direction::Request, Flag::Data, &[]);
            self.connections.remove(&connection.number);
        }
        out
    }

    fn packet(
        &mut self,
        out: &mut Vec<u8>,
        (connection, time): (&Connection, Time),
        direction: Direction,
        flag: Flag,
        payload: &[u8],
    ) {
        let Some(sequences) = self.connections.get_mut(&connection.number) else { return };
        let is_request = direction == Direction::Request;
        let (from, to) = match is_request {
            true => (connection.client, connection.server),
            false => (connection.server, connection.client),
        };
        let (mine, theirs) = (usize::from(!is_request), usize::from(is_request));
        let (seq, ack) = (sequences[mine], sequences[theirs]);
        let takes = payload.len() as u32 + u32::from(flag != Flag::Data);
        sequences[mine] = seq.wrapping_add(takes);
        let macs = if is_request { (CLIENT_MAC, SERVER_MAC) } else { (SERVER_MAC, CLIENT_MAC) };
        let is_first = flag == Flag::Syn && is_request;
        let step = addressed(macs, from, to).tcp(from.port(), to.port(), seq, WINDOW);
        let step = if flag == Flag::Syn { step.syn() } else { step };
        let step = if flag == Flag::Fin { step.fin() } else { step };
        let step = if is_first { step } else { step.ack(ack) };
        let step = if payload.is_empty() { step } else { step.psh() };
        let mut bytes = Vec::with_capacity(step.size(payload.len()));
        // A payload of this size always fits, and writing to memory cannot fail.
        if step.write(&mut bytes, payload).is_ok() {
            enhanced(out, time, &bytes);
        }
    }
}

/// Ethernet and IP headers. If only one endpoint has an IPv4 address, that address is mapped to IPv6.
fn addressed(
    (from_mac, to_mac): ([u8; 6], [u8; 6]),
    from: SocketAddr,
    to: SocketAddr,
) -> etherparse::PacketBuilderStep<etherparse::IpHeaders> {
    let ethernet = PacketBuilder::ethernet2(from_mac, to_mac);
    let wide = |ip: IpAddr| match ip {
        IpAddr::V4(ip) => ip.to_ipv6_mapped().octets(),
        IpAddr::V6(ip) => ip.octets(),
    };
    match (from.ip(), to.ip()) {
        (IpAddr::V4(from), IpAddr::V4(to)) => ethernet.ipv4(from.octets(), to.octets(), HOPS),
        (from, to) => ethernet.ipv6(wide(from), wide(to), HOPS),
    }
}

fn enhanced(out: &mut Vec<u8>, time: Time, packet: &[u8]) {
    let ticks = u64::try_from(time.0).unwrap_or(0);
    let length = (packet.len() as u32).to_le_bytes();
    let mut content = Vec::with_capacity(20 + packet.len() + 3);
    content.extend_from_slice(&0_u32.to_le_bytes());
    content.extend_from_slice(&((ticks >> 32) as u32).to_le_bytes());
    content.extend_from_slice(&(ticks as u32).to_le_bytes());
    content.extend_from_slice(&length);
    content.extend_from_slice(&length);
    content.extend_from_slice(packet);
    content.resize(content.len().next_multiple_of(4), 0);
    block(out, 6, &content);
}

/// A block: kind, length, content, length.
fn block(out: &mut Vec<u8>, kind: u32, content: &[u8]) {
    let length = (content.len() as u32 + 12).to_le_bytes();
    out.extend_from_slice(&kind.to_le_bytes());
    out.extend_from_slice(&length);
    out.extend_from_slice(content);
    out.extend_from_slice(&length);
}
