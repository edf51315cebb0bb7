//! What the targets share: a message chosen by the first bytes of the input, the typed codec by name, the cover check, and
//! capture files made of what is said.

use bytes::Bytes;
use ottla_microscope::capture::PcapngWriter;
use ottla_microscope::conversation::{Connection, Time};
use ottla_wire::explain::{Explanation, Value};
use ottla_wire::tables::{Direction, MessageKind, MessageTable, TableSet};
use ottla_wire::{Message, Reader, Writer};
use std::net::SocketAddr;

/// Reads a message, writes it again, reads that again: the two values must print the same and write the same.
/// Returns the message in its canonical bytes.
fn typed<M: Message + PartialEq + std::fmt::Debug>(
    version: i16,
    r: &mut Reader,
    w: &mut Writer,
) -> Result<String, String> {
    let message = M::decode(r, version).map_err(|why| why.to_string())?;
    message
        .encode(w, version)
        .unwrap_or_else(|why| panic!("what was read cannot be written: {why}\n{message:?}"));
    let written = message.to_bytes(version).unwrap();
    let mut again = Reader::new(written.clone());
    let second = M::decode(&mut again, version).unwrap_or_else(|why| panic!("{why}\n{message:?}"));
    assert_eq!(again.remaining(), 0, "{message:?}");
    // Floating point numbers that are none do not equal themselves, and print the same.
    if second != message {
        assert_eq!(format!("{second:?}"), format!("{message:?}"));
    }
    assert_eq!(second.to_bytes(version).unwrap(), written, "{message:?}");
    Ok(String::new())
}

mod dispatch {
    use super::typed;
    use ottla_wire::{Reader, Writer};
    include!(concat!(env!("OUT_DIR"), "/dispatch.rs"));
}

/// A message and a version of it, chosen by the first three bytes, and the rest.
pub fn choose(data: &[u8]) -> Option<(&'static MessageTable, i16, &[u8])> {
    let ([high, low, version], rest) = data.split_first_chunk()?;
    let messages = TableSet::built_in().messages();
    let table = messages[usize::from(u16::from_be_bytes([*high, *low])) % messages.len()];
    let versions = (table.versions.max - table.versions.min) as u8 + 1;
    Some((table, table.versions.min + i16::from(version % versions), rest))
}

/// What the typed codec makes of a body: the number of bytes behind it and the canonical bytes, or why it is none.
pub type Typed = Result<(usize, Bytes), String>;

/// Reads a body with the typed codec; `None` for the records of Kafka's coordinators, which only have tables.
pub fn recode(table: &MessageTable, version: i16, body: &Bytes) -> Option<Typed> {
    if matches!(table.kind, MessageKind::CoordinatorKey | MessageKind::CoordinatorValue) {
        return None;
    }
    let (mut r, mut w) = (Reader::new(body.clone()), Writer::new());
    let outcome = dispatch::recode(table.name, version, &mut r, &mut w);
    Some(outcome.map(|_| (r.remaining(), w.into_bytes())))
}

/// The children of every node lie in it, side by side, and fill it; in what is opened they fill its content.
pub fn check_cover(explained: &Explanation) {
    assert_eq!(explained.nodes()[0].size as usize, explained.source(0).len());
    for (id, node) in explained.nodes().iter().enumerate() {
        let mut at = node.at + node.size - explained.content(node).len() as u32;
        let mut any = false;
        for child in explained.children(id).map(|id| &explained.nodes()[id]) {
            any = true;
            if child.source != node.source {
                continue;
            }
            // A tagged section is its count and then its fields.
            at = if node.name == "tagged_fields" && at == node.at { child.at } else { at };
            assert_eq!(child.at, at, "{} in\n{}", child.name, explained.tree());
            at += child.size;
        }
        if any && !explained.is_cut() && !matches!(node.value, Value::Compressed { .. }) {
            assert_eq!(at, node.at + node.size, "{} in\n{}", node.name, explained.tree());
        }
    }
}

/// The three bytes from which [`choose`] selects this message and version.
pub fn chosen_by(name: &str, version: i16) -> Option<Vec<u8>> {
    let messages = TableSet::built_in().messages();
    let place = messages.iter().position(|table| table.name == name)?;
    let [high, low] = u16::try_from(place).ok()?.to_be_bytes();
    Some(vec![high, low, (version - messages[place].versions.min) as u8])
}

/// A message as JSON, for seeds.
pub fn as_json(table: &'static MessageTable, version: i16, body: Vec<u8>) -> serde_json::Value {
    let mut r = Reader::new(Bytes::from(body));
    ottla_microscope::json::decode(table, version, &mut r, Default::default()).unwrap()
}

/// Bytes from their hexadecimal digits; nothing if there is anything else.
pub fn unhex(text: &str) -> Vec<u8> {
    let digits: Option<Vec<u8>> = text.chars().map(|c| c.to_digit(16).map(|digit| digit as u8)).collect();
    digits.unwrap_or_default().chunks_exact(2).map(|pair| pair[0] << 4 | pair[1]).collect()
}

/// A capture file of two connections. The bytes are turns: a byte that says who speaks on which connection and whether the
/// turn is lost, two for the length, and what is said.
pub fn captured(mut said: &[u8]) -> Vec<u8> {
    let mut writer = PcapngWriter::new();
    let mut file = writer.header();
    let server = SocketAddr::from(([127, 0, 0, 1], 9092));
    let connection = |number: u8| Connection {
        number: number.into(),
        client: SocketAddr::from(([127, 0, 0, 1], 40_000 + u16::from(number))),
        server,
    };
    let mut time = 0;
    while let Some(([turn, high, low], rest)) = said.split_first_chunk() {
        let length = usize::from(u16::from_be_bytes([*high, *low])).min(rest.len());
        let (bytes, rest) = rest.split_at(length);
        said = rest;
        time += 1_000_000;
        let connection = connection(turn >> 1 & 1);
        let direction = if turn & 1 == 0 { Direction::Request } else { Direction::Response };
        let packets = writer.data(&connection, direction, Time(time), bytes);
        if turn >> 2 & 7 != 7 {
            file.extend_from_slice(&packets);
        }
        if *turn == 0xff {
            file.extend_from_slice(&writer.close(&connection, Time(time)));
        }
    }
    file
}
