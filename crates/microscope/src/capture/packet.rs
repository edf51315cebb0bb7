//! The TCP segment in a captured packet.

use etherparse::{EtherType, LaxNetSlice, LaxSlicedPacket, TransportSlice};
use std::net::{IpAddr, SocketAddr};

/// A TCP segment.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Segment<'a> {
    pub(crate) from: SocketAddr,
    pub(crate) to: SocketAddr,
    pub(crate) seq: u32,
    pub(crate) ack: Option<u32>,
    pub(crate) syn: bool,
    pub(crate) fin: bool,
    pub(crate) rst: bool,
    pub(crate) payload: &'a [u8],
    /// Bytes of payload that were sent but not captured.
    pub(crate) cut: u32,
}

/// Why a packet has no segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NoSegment {
    /// An unsupported link type.
    Link(i32),
    /// An IP fragment.
    Fragment,
    /// Not TCP, or not IP.
    Other,
}

/// The supported link types, by their numbers in the registry.
mod link {
    pub(super) const NULL: i32 = 0;
    pub(super) const ETHERNET: i32 = 1;
    pub(super) const RAW_BSD: i32 = 12;
    pub(super) const RAW_OPENBSD: i32 = 14;
    pub(super) const RAW: i32 = 101;
    pub(super) const LOOP: i32 = 108;
    pub(super) const LINUX_SLL: i32 = 113;
    pub(super) const IPV4: i32 = 228;
    pub(super) const IPV6: i32 = 229;
    pub(super) const LINUX_SLL2: i32 = 276;
}

/// The segment in a packet of that link type.
pub(crate) fn segment(link_type: i32, data: &[u8]) -> Result<Segment<'_>, NoSegment> {
    let packet = match link_type {
        link::ETHERNET => LaxSlicedPacket::from_ethernet(data).map_err(|_| NoSegment::Other)?,
        link::RAW | link::RAW_BSD | link::RAW_OPENBSD | link::IPV4 | link::IPV6 => ip(data)?,
        // The first four bytes are the address family in either byte order. The IP header repeats it.
        link::NULL | link::LOOP => ip(data.get(4..).unwrap_or_default())?,
        link::LINUX_SLL => ether(data.get(14..16), data.get(16..))?,
        link::LINUX_SLL2 => ether(data.get(..2), data.get(20..))?,
        other => return Err(NoSegment::Link(other)),
    };
    of(&packet)
}

fn ip(data: &[u8]) -> Result<LaxSlicedPacket<'_>, NoSegment> {
    LaxSlicedPacket::from_ip(data).map_err(|_| NoSegment::Other)
}

fn ether<'a>(kind: Option<&[u8]>, data: Option<&'a [u8]>) -> Result<LaxSlicedPacket<'a>, NoSegment> {
    let (Some(&[high, low]), Some(data)) = (kind, data) else { return Err(NoSegment::Other) };
    Ok(LaxSlicedPacket::from_ether_type(EtherType(u16::from_be_bytes([high, low])), data))
}

fn of<'a>(packet: &LaxSlicedPacket<'a>) -> Result<Segment<'a>, NoSegment> {
    let (from, to, declared, payload): (IpAddr, IpAddr, usize, _) = match &packet.net {
        Some(LaxNetSlice::Ipv4(ip)) => {
            let header = ip.header();
            let declared = usize::from(header.total_len()).saturating_sub(header.slice().len());
            (header.source_addr().into(), header.destination_addr().into(), declared, ip.payload())
        }
        Some(LaxNetSlice::Ipv6(ip)) => {
            let header = ip.header();
            let declared = usize::from(header.payload_length()).saturating_sub(ip.extensions().slice().len());
            (header.source_addr().into(), header.destination_addr().into(), declared, ip.payload())
        }
        _ => return Err(NoSegment::Other),
    };
    if payload.fragmented {
        return Err(NoSegment::Fragment);
    }
    let Some(TransportSlice::Tcp(tcp)) = &packet.transport else { return Err(NoSegment::Other) };
    let cut = if payload.incomplete { declared.saturating_sub(payload.payload.len()) } else { 0 };
    Ok(Segment {
        from: SocketAddr::new(from, tcp.source_port()),
        to: SocketAddr::new(to, tcp.destination_port()),
        seq: tcp.sequence_number(),
        ack: tcp.ack().then(|| tcp.acknowledgment_number()),
        syn: tcp.syn(),
        fin: tcp.fin(),
        rst: tcp.rst(),
        payload: tcp.payload(),
        cut: u32::try_from(cut).unwrap_or(0),
    })
}
