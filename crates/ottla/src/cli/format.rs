//! Formats records: by patterns like those of kcat, and as JSON.

use ottla_client::{ConsumedRecord, Header};
use ottla_wire::explain::escape_line;
use serde_json::{Map, Value, json};

/// A parsed pattern.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Pattern(Vec<Part>);

#[derive(Clone, Debug, PartialEq, Eq)]
enum Part {
    Text(Vec<u8>),
    Topic,
    Partition,
    Offset,
    Key,
    Value,
    Headers,
    Timestamp,
}

/// The default pattern: value and line end.
pub(super) const DEFAULT: &str = "%s\\n";

impl std::str::FromStr for Pattern {
    type Err = String;

    /// `%t %p %o %k %s %h %T %%`, and `\n \t \r \\ \0 \xNN`.
    fn from_str(text: &str) -> Result<Pattern, String> {
        let mut parts = Vec::new();
        let mut plain = Vec::new();
        let mut rest = text.chars();
        while let Some(c) = rest.next() {
            match c {
                '%' => match part(rest.next())? {
                    Part::Text(percent) => plain.extend(percent),
                    part => {
                        if !plain.is_empty() {
                            parts.push(Part::Text(std::mem::take(&mut plain)));
                        }
                        parts.push(part);
                    }
                },
                '\\' => plain.push(escaped(&mut rest)?),
                other => plain.extend(other.encode_utf8(&mut [0; 4]).as_bytes()),
            }
        }
        if !plain.is_empty() {
            parts.push(Part::Text(plain));
        }
        Ok(Pattern(parts))
    }
}

fn part(letter: Option<char>) -> Result<Part, String> {
    Ok(match letter {
        Some('t') => Part::Topic,
        Some('p') => Part::Partition,
        Some('o') => Part::Offset,
        Some('k') => Part::Key,
        Some('s') => Part::Value,
        Some('h') => Part::Headers,
        Some('T') => Part::Timestamp,
        Some('%') => Part::Text(b"%".to_vec()),
        Some(other) => return Err(format!("%{other} is not known; there are %t %p %o %k %s %h %T and %%")),
        None => return Err("the pattern ends with %; write %% for a percent sign".to_owned()),
    })
}

fn escaped(rest: &mut std::str::Chars<'_>) -> Result<u8, String> {
    Ok(match rest.next() {
        Some('n') => b'\n',
        Some('t') => b'\t',
        Some('r') => b'\r',
        Some('0') => 0,
        Some('\\') => b'\\',
        Some('x') => {
            let digits: String = rest.by_ref().take(2).collect();
            let number = u8::from_str_radix(&digits, 16).ok().filter(|_| digits.len() == 2);
            number.ok_or_else(|| format!("\\x{digits} is not a byte; write two hexadecimal digits"))?
        }
        other => {
            let other = other.map(String::from).unwrap_or_default();
            return Err(format!("\\{other} is not known; there are \\n \\t \\r \\0 \\\\ and \\xNN"));
        }
    })
}

impl Pattern {
    /// The record as bytes. A missing key or value is empty. With `escape`, control characters of the record are
    /// escaped; those of the pattern are not.
    pub(super) fn print(&self, record: &ConsumedRecord, escape: bool) -> Vec<u8> {
        let mut out = Vec::new();
        for part in &self.0 {
            let part: Vec<u8> = match part {
                Part::Text(text) => {
                    out.extend(text);
                    continue;
                }
                Part::Topic => record.topic.as_bytes().to_vec(),
                Part::Partition => record.partition.to_string().into(),
                Part::Offset => record.offset.to_string().into(),
                Part::Timestamp => record.timestamp.to_string().into(),
                Part::Key => record.key.as_deref().unwrap_or_default().to_vec(),
                Part::Value => record.value.as_deref().unwrap_or_default().to_vec(),
                Part::Headers => headers(&record.headers),
            };
            if escape {
                out.extend(escape_line(&String::from_utf8_lossy(&part)).as_bytes());
            } else {
                out.extend(part);
            }
        }
        out
    }
}

/// `name=value`, separated by commas.
fn headers(headers: &[Header]) -> Vec<u8> {
    let one = |(name, value): &Header| {
        let mut text = format!("{name}=").into_bytes();
        text.extend(value.iter().flatten());
        text
    };
    headers.iter().map(one).collect::<Vec<_>>().join(&b',')
}

/// The record as a JSON object. Bytes that are not UTF-8 become `{"hex": "…"}`.
pub(super) fn json(record: &ConsumedRecord) -> Value {
    let headers = record.headers.iter().map(|(name, value)| json!([name, bytes(value.as_deref())]));
    json!({
        "topic": &*record.topic,
        "partition": record.partition,
        "offset": record.offset,
        "timestamp": record.timestamp,
        "key": bytes(record.key.as_deref()),
        "value": bytes(record.value.as_deref()),
        "headers": headers.collect::<Vec<_>>(),
    })
}

/// Bytes as a JSON value: a string if they are UTF-8, else `{"hex": "…"}`.
pub(super) fn bytes(bytes: Option<&[u8]>) -> Value {
    match bytes.map(std::str::from_utf8) {
        None => Value::Null,
        Some(Ok(text)) => Value::from(text),
        Some(Err(_)) => {
            let hex = bytes.unwrap_or_default().iter().map(|byte| format!("{byte:02x}")).collect::<String>();
            Value::Object(Map::from_iter([("hex".to_owned(), Value::from(hex))]))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn record() -> ConsumedRecord {
        ConsumedRecord {
            topic: "t".into(),
            partition: 3,
            offset: 42,
            timestamp: 1_700_000_000_000,
            key: Some("k".into()),
            value: Some("v".into()),
            headers: vec![("a".to_owned(), Some("1".into())), ("b".to_owned(), None)],
        }
    }

    fn print(pattern: &str) -> String {
        String::from_utf8(pattern.parse::<Pattern>().unwrap().print(&record(), false)).unwrap()
    }

    #[test]
    fn every_letter_prints_its_part() {
        assert_eq!(print("%t/%p@%o %k=%s [%h] %T %%"), "t/3@42 k=v [a=1,b=] 1700000000000 %");
        assert_eq!(print(r"\t%s\r\n\\\x41"), "\tv\r\n\\A");
        assert_eq!(print(DEFAULT), "v\n");
        assert_eq!(print(""), "");
    }

    #[test]
    fn on_a_terminal_a_record_cannot_forge_another() {
        let mut odd = record();
        odd.key = Some("\u{1b}[2J".into());
        odd.value = Some("v\nforged \u{202e}".into());
        let pattern = r"%k %s\n".parse::<Pattern>().unwrap();
        let shown = String::from_utf8(pattern.print(&odd, true)).unwrap();
        assert_eq!(shown, "\\u{1b}[2J v\\nforged \\u{202e}\n");
        assert_eq!(pattern.print(&odd, false), "\u{1b}[2J v\nforged \u{202e}\n".as_bytes());
    }

    #[test]
    fn a_wrong_pattern_says_what_there_is() {
        for wrong in ["%", "%z", r"\q", r"\x4", r"\xzz", "\\"] {
            let error = wrong.parse::<Pattern>().unwrap_err();
            assert!(!error.is_empty(), "{wrong}");
        }
        assert!("%z".parse::<Pattern>().unwrap_err().contains("%t"));
    }

    #[test]
    fn json_has_every_part_and_shows_bytes_as_hex() {
        let mut odd = record();
        odd.value = Some(bytes::Bytes::from_static(b"\xff\x00"));
        odd.key = None;
        assert_eq!(
            json(&odd).to_string(),
            r#"{"topic":"t","partition":3,"offset":42,"timestamp":1700000000000,"key":null,"value":{"hex":"ff00"},"headers":[["a","1"],["b",null]]}"#
        );
    }

    proptest! {
        #[test]
        fn text_without_marks_prints_as_it_is(text in "[^%\\\\]{0,40}") {
            prop_assert_eq!(print(&text), text);
        }

        #[test]
        fn no_pattern_makes_it_panic(text in ".{0,20}") {
            if let Ok(pattern) = text.parse::<Pattern>() {
                pattern.print(&record(), true);
            }
        }
    }
}
