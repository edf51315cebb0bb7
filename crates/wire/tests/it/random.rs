//! The typed codec against the tables: for every message and version, random legal bytes made from the table alone are
//! read by the typed codec, print as the table says they must, and are encoded to the same bytes.

use crate::support::recode;
use bytes::{BufMut, Bytes, BytesMut};
use ottla_wire::messages::MESSAGE_TABLES;
use ottla_wire::tables::{Default, FieldTable, MessageKind, MessageTable, StructTable, Type};
use ottla_wire::{Reader, Uuid, Writer};
use proptest::prelude::*;
use proptest::test_runner::TestRunner;

/// Decisions drawn from random bytes; zero when there are no more, so that shrinking gives small messages.
struct Choices<'a> {
    bytes: std::slice::Iter<'a, u8>,
}

impl Choices<'_> {
    fn byte(&mut self) -> u8 {
        self.bytes.next().copied().unwrap_or_default()
    }

    fn below(&mut self, bound: u8) -> usize {
        usize::from(self.byte() % bound)
    }

    fn array<const N: usize>(&mut self) -> [u8; N] {
        // Extreme values are more frequent than in a uniform distribution.
        match self.byte() % 8 {
            0 => [0; N],
            1 => [0xff; N],
            2 => std::array::from_fn(|place| if place == 0 { 0x80 } else { 0 }),
            _ => std::array::from_fn(|_| self.byte()),
        }
    }

    fn length(&mut self) -> usize {
        match self.below(16) {
            0 => 200,
            n => n % 5,
        }
    }
}

/// Bytes, and how the typed struct that is read from them must print.
type Made = (BytesMut, String);

fn uvarint(out: &mut BytesMut, mut value: usize) {
    while value >= 0x80 {
        out.put_u8(value as u8 | 0x80);
        value >>= 7;
    }
    out.put_u8(value as u8);
}

struct Maker<'a> {
    message: &'static MessageTable,
    version: i16,
    choices: Choices<'a>,
}

impl Maker<'_> {
    fn flexible(&self) -> bool {
        self.message.flexible.contains(self.version)
    }

    fn structure(&mut self, table: &StructTable) -> Made {
        let (mut out, mut text) = (BytesMut::new(), format!("{} {{ ", table.name));
        let mut tagged: Vec<(u32, BytesMut)> = Vec::new();
        for field in table.fields {
            let default = default_text(field);
            let printed = if field.is_plain(self.version) {
                let (bytes, printed) = self.nullable(field, false);
                out.unsplit(bytes);
                printed
            } else if field.is_tagged(self.version) && self.choices.below(2) == 1 {
                let (bytes, printed) = self.nullable(field, true);
                // A value that equals the default is not written.
                if printed != default {
                    tagged.extend(field.tag.map(|tag| (tag, bytes)));
                }
                printed
            } else {
                default
            };
            text.push_str(&format!("{}: {printed}, ", snake(field.name)));
        }
        let mut unknown = String::new();
        if self.flexible() {
            let known = table.fields.iter().filter_map(|field| field.tag).max().map_or(0, |tag| tag + 1);
            for tag in (known..).step_by(3).take(self.choices.below(8).saturating_sub(5)) {
                let value = self.raw();
                unknown.push_str(if unknown.is_empty() { "" } else { ", " });
                unknown.push_str(&format!("{tag}: {value:?}"));
                tagged.push((tag, BytesMut::from(&value[..])));
            }
            tagged.sort_by_key(|(tag, _)| *tag);
            uvarint(&mut out, tagged.len());
            for (tag, value) in tagged {
                uvarint(&mut out, tag as usize);
                uvarint(&mut out, value.len());
                out.unsplit(value);
            }
        }
        (out, format!("{text}unknown_tags: {{{unknown}}} }}"))
    }

    fn raw(&mut self) -> Bytes {
        let length = self.choices.length();
        (0..length).map(|_| self.choices.byte()).collect()
    }

    fn nullable(&mut self, field: &FieldTable, tagged: bool) -> Made {
        let flexible = tagged || field.has_compact_length(self.message, self.version);
        let is_struct = matches!(field.ty, Type::Struct(_));
        let may_be_null = field.nullable.contains(self.version);
        if may_be_null && self.choices.below(3) == 1 {
            let null: &[u8] = match field.ty {
                Type::Struct(_) if !tagged => &[0xff],
                _ if flexible || is_struct => &[0],
                Type::String => &[0xff; 2],
                _ => &[0xff; 4],
            };
            return (BytesMut::from(null), "None".to_owned());
        }
        let mut out = BytesMut::new();
        if may_be_null && is_struct {
            out.put_u8(1);
        }
        let (bytes, text) = self.value(&field.ty, flexible);
        out.unsplit(bytes);
        (out, if field.nullable.is_empty() { text } else { format!("Some({text})") })
    }

    fn value(&mut self, ty: &Type, flexible: bool) -> Made {
        macro_rules! number {
            ($ty:ty) => {{
                let raw = self.choices.array();
                (BytesMut::from(&raw[..]), format!("{:?}", <$ty>::from_be_bytes(raw)))
            }};
        }
        match ty {
            Type::Bool => {
                let on = self.choices.below(2);
                (BytesMut::from(&[on as u8][..]), (on == 1).to_string())
            }
            Type::Int8 => number!(i8),
            Type::Int16 => number!(i16),
            Type::Uint16 => number!(u16),
            Type::Int32 => number!(i32),
            Type::Uint32 => number!(u32),
            Type::Int64 => number!(i64),
            Type::Float64 => number!(f64),
            Type::Uuid => {
                let raw = self.choices.array();
                (BytesMut::from(&raw[..]), Uuid(raw).to_string())
            }
            Type::String => {
                let length = self.choices.length();
                let text: String =
                    (0..length).map(|_| ['a', '"', 'ß', '漢', '0'][self.choices.below(5)]).collect();
                (lengthy(text.as_bytes(), flexible, true), format!("{text:?}"))
            }
            Type::Bytes => {
                let raw = self.raw();
                (lengthy(&raw, flexible, false), format!("{raw:?}"))
            }
            Type::Records => {
                let raw = self.raw();
                (lengthy(&raw, flexible, false), format!("Records({} bytes)", raw.len()))
            }
            Type::Struct(table) => self.structure(table),
            Type::Array(element) => self.list(element, flexible),
        }
    }

    fn list(&mut self, element: &Type, flexible: bool) -> Made {
        let count = self.choices.below(4);
        let mut out = prefix(count, flexible, false);
        let mut texts = Vec::new();
        for _ in 0..count {
            let (bytes, text) = self.value(element, flexible);
            out.unsplit(bytes);
            texts.push(text);
        }
        (out, format!("[{}]", texts.join(", ")))
    }
}

fn prefix(length: usize, flexible: bool, short: bool) -> BytesMut {
    let mut out = BytesMut::new();
    match (flexible, short) {
        (true, _) => uvarint(&mut out, length + 1),
        (false, true) => out.put_u16(length as u16),
        (false, false) => out.put_u32(length as u32),
    }
    out
}

fn lengthy(bytes: &[u8], flexible: bool, short: bool) -> BytesMut {
    let mut out = prefix(bytes.len(), flexible, short);
    out.put_slice(bytes);
    out
}

fn default_text(field: &FieldTable) -> String {
    let text = match (&field.default, &field.ty) {
        (Default::Null, _) if !field.nullable.is_empty() => return "None".to_owned(),
        (Default::Null, _) => "Records(0 bytes)".to_owned(),
        (Default::Bool(value), _) => value.to_string(),
        (Default::Int(value), _) => value.to_string(),
        (Default::Float(value), _) => format!("{value:?}"),
        (Default::Text(text), _) => format!("{text:?}"),
        (Default::Uuid(id), _) => id.to_string(),
        (Default::Empty, Type::Bytes) => "b\"\"".to_owned(),
        (Default::Empty, Type::Struct(table)) => {
            let fields: String = table
                .fields
                .iter()
                .map(|field| format!("{}: {}, ", snake(field.name), default_text(field)))
                .collect();
            format!("{} {{ {fields}unknown_tags: {{}} }}", table.name)
        }
        (Default::Empty, _) => "[]".to_owned(),
    };
    if field.nullable.is_empty() { text } else { format!("Some({text})") }
}

/// `TopicId` to `topic_id`, `KRaftVersion` to `k_raft_version`: where a word starts, by its neighbours.
fn snake(name: &str) -> String {
    let chars: Vec<char> = name.chars().collect();
    let mut out = String::new();
    for (place, c) in chars.iter().enumerate() {
        let starts = place > 0
            && c.is_uppercase()
            && (!chars[place - 1].is_uppercase()
                || chars.get(place + 1).is_some_and(|next| next.is_lowercase()));
        if starts {
            out.push('_');
        }
        out.push(c.to_ascii_lowercase());
    }
    out
}

fn check(message: &'static MessageTable, version: i16, entropy: &[u8]) -> Result<(), TestCaseError> {
    let mut maker = Maker { message, version, choices: Choices { bytes: entropy.iter() } };
    let (bytes, text) = maker.structure(message.root);
    let bytes = bytes.freeze();
    let mut reader = Reader::new(bytes.clone());
    let mut writer = Writer::new();
    let printed = recode(message.name, version, &mut reader, &mut writer);
    let printed = printed.map_err(|why| TestCaseError::fail(format!("{} {version}: {why}", message.name)))?;
    prop_assert_eq!(printed, text);
    prop_assert_eq!(reader.remaining(), 0);
    prop_assert_eq!(writer.into_bytes(), bytes);
    Ok(())
}

/// The messages that have codecs: all but the records of Kafka's coordinators.
fn coded() -> impl Iterator<Item = &'static MessageTable> {
    let tabled = [MessageKind::CoordinatorKey, MessageKind::CoordinatorValue];
    MESSAGE_TABLES.iter().copied().filter(move |message| !tabled.contains(&message.kind))
}

#[test]
fn every_message_and_version_reads_and_writes_what_the_tables_say() {
    let config = ProptestConfig { cases: 24, failure_persistence: None, ..ProptestConfig::default() };
    let entropy = proptest::collection::vec(any::<u8>(), 0..400);
    for message in coded() {
        for version in message.versions.iter() {
            let mut runner = TestRunner::new(config.clone());
            let outcome = runner.run(&entropy, |entropy| check(message, version, &entropy));
            assert!(outcome.is_ok(), "{} version {version}: {outcome:?}", message.name);
        }
    }
}

/// One random message of every kind and version, made from the tables. Apache Kafka's own classes have read and written
/// each of them: `cargo xtask schemas judge`.
const SAMPLES: &str = include_str!("../golden/samples.tsv");

fn unhex(text: &str) -> Bytes {
    let digits: Vec<u8> = text.chars().filter_map(|c| c.to_digit(16)).map(|digit| digit as u8).collect();
    digits.chunks(2).map(|pair| pair[0] << 4 | pair[1]).collect()
}

#[test]
fn the_samples_come_back() {
    for row in SAMPLES.lines().skip(1) {
        let columns: Vec<&str> = row.split('\t').collect();
        let bytes = unhex(columns[3]);
        let (mut reader, mut writer) = (Reader::new(bytes.clone()), Writer::new());
        recode(columns[0], columns[2].parse().unwrap(), &mut reader, &mut writer).unwrap();
        assert_eq!(writer.into_bytes(), bytes, "{row}");
    }
    let versions: usize = coded().map(|message| message.versions.iter().count()).sum();
    assert_eq!(SAMPLES.lines().skip(1).count(), versions);
}

#[test]
#[ignore = "writes the samples anew: run it when the schemas change, then cargo xtask schemas judge"]
#[expect(clippy::disallowed_methods, reason = "a tool for the developer, not a test")]
fn write_the_samples() {
    let mut out = String::from("name\tkind\tversion\tmessage_hex\n");
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    let mut random = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 32) as u8
    };
    for message in coded() {
        for version in message.versions.iter() {
            let entropy: Vec<u8> = (0..64).map(|_| random()).collect();
            let mut maker = Maker { message, version, choices: Choices { bytes: entropy.iter() } };
            let (bytes, _) = maker.structure(message.root);
            let kind = match message.kind {
                MessageKind::Request | MessageKind::Response | MessageKind::Header => "message",
                _ => "data",
            };
            let hex: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
            out.push_str(&format!("{}\t{kind}\t{version}\t{hex}\n", message.name));
        }
    }
    std::fs::write(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/golden/samples.tsv"), out).unwrap();
}
