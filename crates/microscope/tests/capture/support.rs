//! Frames, packets and captures to test with.

use bytes::Bytes;
use ottla_microscope::capture::{CaptureError, CaptureReader, PcapngWriter, Settings, Summary};
use ottla_microscope::conversation::{Connection, Event, Frame, Notice, Time};
use ottla_wire::messages::{HeartbeatRequest, HeartbeatResponse};
use ottla_wire::tables::Direction;
use ottla_wire::{Request, Response, Text, frame};

pub(crate) const SECOND: i64 = 1_000_000_000;

pub(crate) fn request<M: Request>(message: &M, version: i16, id: i32) -> Bytes {
    frame::request(id, Some(&Text::from_static("me")), message, version).unwrap().to_bytes()
}

pub(crate) fn response<M: Response>(message: &M, version: i16, id: i32) -> Bytes {
    frame::response(id, message, version).unwrap().to_bytes()
}

pub(crate) fn ping(id: i32) -> Bytes {
    let member_id = Text::from(format!("member {id}"));
    request(
        &HeartbeatRequest { group_id: Text::from_static("group"), member_id, ..Default::default() },
        4,
        id,
    )
}

pub(crate) fn pong(id: i32) -> Bytes {
    response(&HeartbeatResponse { throttle_time_ms: id, ..Default::default() }, 4, id)
}

pub(crate) fn connection(number: u64) -> Connection {
    let client = format!("10.0.0.1:{}", 40_000 + number).parse().unwrap();
    Connection { number, client, server: "10.0.0.2:9092".parse().unwrap() }
}

/// A capture of requests and responses, each with the direction it goes.
pub(crate) fn capture(said: &[(Direction, Bytes)]) -> Vec<u8> {
    let mut writer = PcapngWriter::new();
    let mut file = writer.header();
    file.extend(writer.open(&connection(1), Time(SECOND)));
    for (number, (direction, bytes)) in said.iter().enumerate() {
        let time = Time(SECOND + number as i64 * 1_000);
        file.extend(writer.data(&connection(1), *direction, time, bytes));
    }
    file.extend(writer.close(&connection(1), Time(2 * SECOND)));
    file
}

/// What the capture reader reported: its events, the number of topic names, and how it ended.
#[derive(Default)]
pub(crate) struct CaptureResult {
    pub(crate) events: Vec<(Connection, Time, Event)>,
    pub(crate) topics: usize,
    pub(crate) end: Option<Result<Summary, CaptureError>>,
}

impl CaptureResult {
    pub(crate) fn frames(&self) -> Vec<&Frame> {
        let mut frames = Vec::new();
        for (_, _, event) in &self.events {
            if let Event::Frame(frame) = event {
                frames.push(frame);
            }
        }
        frames
    }

    pub(crate) fn bytes(&self, direction: Direction) -> Vec<Bytes> {
        let frames = self.frames();
        frames.iter().filter(|frame| frame.direction == direction).map(|frame| frame.bytes.clone()).collect()
    }

    pub(crate) fn notices(&self) -> Vec<Notice> {
        let notice = |event: &Event| match event {
            Event::Notice(_, notice) => Some(notice.clone()),
            _ => None,
        };
        self.events.iter().filter_map(|(_, _, event)| notice(event)).collect()
    }
}

pub(crate) fn read_with(settings: Settings, file: &[u8], chunk: usize) -> CaptureResult {
    let mut result = CaptureResult::default();
    let mut reading = CaptureReader::new(settings);
    let mut events = Vec::new();
    let mut sink = |_: &_, connection: &Connection, time, event| events.push((*connection, time, event));
    let pushed = file.chunks(chunk).try_for_each(|chunk| reading.push(chunk, &mut sink));
    let end = reading.finish(&mut sink);
    result.end = Some(pushed.and(end));
    result.topics = reading.topics().names().len();
    result.events = events;
    result
}

pub(crate) fn read(file: &[u8]) -> CaptureResult {
    read_with(Settings::default(), file, 4_096)
}

/// The blocks of a little-endian pcapng file.
pub(crate) fn blocks(file: &[u8]) -> Vec<Vec<u8>> {
    let (mut blocks, mut at) = (Vec::new(), 0);
    while at < file.len() {
        let length = u32::from_le_bytes(file[at + 4..at + 8].try_into().unwrap()) as usize;
        blocks.push(file[at..at + length].to_vec());
        at += length;
    }
    blocks
}

/// The packets of a pcapng file: time and bytes.
pub(crate) fn packets(file: &[u8]) -> Vec<(i64, Vec<u8>)> {
    let number = |block: &[u8], at: usize| u32::from_le_bytes(block[at..at + 4].try_into().unwrap());
    blocks(file)
        .iter()
        .filter(|block| block[0] == 6)
        .map(|block| {
            let time = i64::from(number(block, 12)) << 32 | i64::from(number(block, 16));
            (time, block[28..28 + number(block, 20) as usize].to_vec())
        })
        .collect()
}

/// A pcap file of packets.
pub(crate) fn pcap(packets: &[(i64, Vec<u8>)], link: u32, big_endian: bool, nanos: bool) -> Vec<u8> {
    let word = |n: u32| if big_endian { n.to_be_bytes() } else { n.to_le_bytes() };
    let half = |n: u16| if big_endian { n.to_be_bytes() } else { n.to_le_bytes() };
    let mut file = word(if nanos { 0xa1b2_3c4d } else { 0xa1b2_c3d4 }).to_vec();
    file.extend([half(2), half(4)].concat());
    file.extend([word(0), word(0), word(65_535), word(link)].concat());
    for (time, bytes) in packets {
        let part = (time % SECOND) as u32 / if nanos { 1 } else { 1_000 };
        let length = word(bytes.len() as u32);
        file.extend([word((time / SECOND) as u32), word(part), length, length].concat());
        file.extend(bytes);
    }
    file
}
