//! JSON against the typed codec: for every message and version, random JSON becomes bytes by the tables, which the
//! typed codec reads and writes again as the same bytes, and which become the same JSON again.
#![expect(clippy::unwrap_used, reason = "a test stops where it cannot go on")]

use dispatch::recode;
use ottla_microscope::json::{self, Options};
use ottla_wire::tables::{Default, FieldTable, MessageKind, MessageTable, StructTable, TableSet, Type};
use ottla_wire::{Message, Reader, Uuid, Writer};
use proptest::prelude::*;
use proptest::test_runner::TestRunner;
use serde_json::{Map, Value, json};

/// Reads a message and writes it again.
fn typed<M: Message>(version: i16, r: &mut Reader, w: &mut Writer) -> Result<String, String> {
    let message = M::decode(r, version).map_err(|why| why.to_string())?;
    message.encode(w, version).map_err(|why| why.to_string())?;
    Ok(String::new())
}

mod dispatch {
    use super::typed;
    use ottla_wire::{Reader, Writer};
    include!(concat!(env!("OUT_DIR"), "/dispatch.rs"));
}

/// Decisions drawn from random bytes; zero when there are no more, so that shrinking gives small messages.
struct Choices<'a>(std::slice::Iter<'a, u8>);

impl Choices<'_> {
    fn byte(&mut self) -> u8 {
        self.0.next().copied().unwrap_or_default()
    }

    fn below(&mut self, bound: u8) -> usize {
        usize::from(self.byte() % bound)
    }

    /// A whole number of a range, often one of its ends.
    fn int(&mut self, min: i64, max: i64) -> Value {
        let value = match self.below(6) {
            0 => 0,
            1 => min,
            2 => max,
            3 => (-1_i64).clamp(min, max),
            _ => i64::from_be_bytes(std::array::from_fn(|_| self.byte())).rem_euclid(max.saturating_add(1)),
        };
        value.into()
    }

    fn base64(&mut self) -> Value {
        // Four characters are three bytes.
        let groups = self.below(5);
        (0..4 * groups).map(|_| ['A', 'z', '7', '+', '/'][self.below(5)]).collect::<String>().into()
    }

    fn text(&mut self) -> Value {
        let length = if self.below(16) == 1 { 200 } else { self.below(6) };
        (0..length)
            .map(|_| ['a', '"', '\\', '\u{1}', 'ß', '漢', '🌻'][self.below(7)])
            .collect::<String>()
            .into()
    }
}

/// What is given to the encoder, and what must come out of the decoder.
struct Pair {
    given: Value,
    expected: Value,
}

impl From<Value> for Pair {
    fn from(value: Value) -> Pair {
        Pair { given: value.clone(), expected: value }
    }
}

struct Maker<'a> {
    message: &'static MessageTable,
    version: i16,
    choices: Choices<'a>,
}

impl Maker<'_> {
    fn structure(&mut self, table: &StructTable) -> Pair {
        let (mut given, mut expected) = (Map::new(), Map::new());
        for field in table.fields {
            let name = lower(field.name);
            let default = default_of(field, self.version);
            let tagged = field.is_tagged(self.version);
            if !tagged && !field.is_plain(self.version) {
                continue;
            }
            let may_be_null = field.nullable.contains(self.version);
            if self.choices.below(if tagged { 2 } else { 8 }) == 1 && (may_be_null || !default.is_null()) {
                if !tagged {
                    expected.insert(name, default);
                }
                continue;
            }
            let value = if may_be_null && self.choices.below(3) == 1 {
                Value::Null.into()
            } else {
                self.value(field.ty)
            };
            if !tagged || value.expected != default {
                expected.insert(name.clone(), value.expected);
            }
            let spelling = if self.choices.below(4) == 1 { field.name.to_owned() } else { name };
            given.insert(spelling, value.given);
        }
        self.extras(table, &mut given, &mut expected);
        Pair { given: given.into(), expected: expected.into() }
    }

    /// Comments, and unknown tags.
    fn extras(
        &mut self,
        table: &StructTable,
        given: &mut Map<String, Value>,
        expected: &mut Map<String, Value>,
    ) {
        if self.choices.below(8) == 1 {
            given.insert("_comment".to_owned(), json!({ "of": ["no", "consequence"] }));
        }
        if self.message.flexible.contains(self.version) {
            let known = table.fields.iter().filter_map(|field| field.tag).max().map_or(0, |tag| tag + 1);
            let count = self.choices.below(8).saturating_sub(5);
            let tags: Vec<Value> = (known..)
                .step_by(100)
                .take(count)
                .map(|tag| json!({ "tag": tag, "data": self.choices.base64() }))
                .collect();
            if !tags.is_empty() {
                expected.insert("_unknownTaggedFields".to_owned(), tags.clone().into());
                given.insert("_unknownTaggedFields".to_owned(), tags.into());
            }
        }
    }

    fn value(&mut self, ty: Type) -> Pair {
        let choices = &mut self.choices;
        match ty {
            Type::Bool => Value::from(choices.below(2) == 1),
            Type::Int8 => choices.int(i8::MIN.into(), i8::MAX.into()),
            Type::Int16 => choices.int(i16::MIN.into(), i16::MAX.into()),
            Type::Uint16 => choices.int(0, u16::MAX.into()),
            Type::Int32 => choices.int(i32::MIN.into(), i32::MAX.into()),
            Type::Uint32 => choices.int(0, u32::MAX.into()),
            Type::Int64 => choices.int(i64::MIN, i64::MAX),
            Type::Float64 => {
                [json!(0.1), json!(-1e300), json!("NaN"), json!("-Infinity")][choices.below(4)].clone()
            }
            Type::Uuid => Uuid(std::array::from_fn(|_| choices.byte())).to_string().into(),
            Type::String => choices.text(),
            Type::Bytes | Type::Records => choices.base64(),
            Type::Struct(table) => return self.structure(table),
            Type::Array(element) => {
                let count = choices.below(4);
                let pairs: Vec<Pair> = (0..count).map(|_| self.value(*element)).collect();
                let (given, expected) = pairs.into_iter().map(|pair| (pair.given, pair.expected)).unzip();
                return Pair { given: Value::Array(given), expected: Value::Array(expected) };
            }
        }
        .into()
    }
}

fn lower(name: &str) -> String {
    let (first, rest) = name.split_at(1);
    first.to_lowercase() + rest
}

/// The default of a field as the decoder shows it, which for a struct is every field of the version that is not tagged.
fn default_of(field: &FieldTable, version: i16) -> Value {
    match (field.default, field.ty) {
        (Default::Null, _) => Value::Null,
        (Default::Bool(value), _) => value.into(),
        (Default::Int(value), _) => value.into(),
        (Default::Float(value), _) => value.into(),
        (Default::Text(text), _) => text.into(),
        (Default::Uuid(id), _) => id.to_string().into(),
        (Default::Empty, Type::Struct(table)) => {
            table.plain(version).map(|inner| (lower(inner.name), default_of(inner, version))).collect()
        }
        (Default::Empty, Type::Array(_)) => json!([]),
        (Default::Empty, _) => "".into(),
    }
}

fn check(message: &'static MessageTable, version: i16, entropy: &[u8]) -> Result<(), TestCaseError> {
    let mut maker = Maker { message, version, choices: Choices(entropy.iter()) };
    let Pair { given, expected } = maker.structure(message.root);
    // As text, which is how it comes.
    let given: Value = serde_json::from_str(&given.to_string()).unwrap();
    let fail = |why: String| TestCaseError::fail(format!("{} {version}: {why}\n{given}", message.name));
    let bytes = json::encode(message, version, &given).map_err(|why| fail(why.to_string()))?;
    if !matches!(message.kind, MessageKind::CoordinatorKey | MessageKind::CoordinatorValue) {
        let (mut reader, mut writer) = (Reader::new(bytes.clone()), Writer::new());
        recode(message.name, version, &mut reader, &mut writer).map_err(fail)?;
        prop_assert_eq!(reader.remaining(), 0, "{}", given);
        prop_assert_eq!(&writer.into_bytes(), &bytes, "{}", given);
    }
    let mut reader = Reader::new(bytes.clone());
    let shown = json::decode(message, version, &mut reader, Options::default());
    let shown = shown.map_err(|why| fail(why.to_string()))?;
    prop_assert_eq!(reader.remaining(), 0, "{}", given);
    prop_assert_eq!(shown, expected, "{}", given);
    Ok(())
}

#[test]
fn random_json_of_every_message_and_version_survives_the_typed_codec() {
    let config = ProptestConfig { cases: 16, failure_persistence: None, ..ProptestConfig::default() };
    let entropy = proptest::collection::vec(any::<u8>(), 0..300);
    for &message in TableSet::built_in().messages() {
        for version in message.versions.iter() {
            let mut runner = TestRunner::new(config.clone());
            let outcome = runner.run(&entropy, |entropy| check(message, version, &entropy));
            assert!(outcome.is_ok(), "{} version {version}: {outcome:?}", message.name);
        }
    }
}
