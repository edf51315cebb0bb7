//! An entry in one line.

use bytes::Bytes;
use ottla_layout::explain::{FieldSpan, FieldValue};
use ottla_salvage::TopicNames;
use ottla_types::ProducerId;
use ottla_types::record::BatchAppended;
use ottla_wire::Uuid;
use ottla_wire::batch::{Batch, BatchHeader};
use ottla_wire::explain::{format_timestamp, quote, show_bytes};

/// Elements of a list that a line shows.
const SHOWN: usize = 6;
/// Bytes that the records of a batch may take when decompressed.
pub(super) const CAP: usize = 64 << 20;

/// The fields of an entry without kind and version, as `name=value`; fields inside another field stand in braces.
pub(super) fn fields(pieces: &[FieldSpan], names: &TopicNames) -> String {
    let fields = siblings(pieces, 2, 0).into_iter().map(|id| field(pieces, id, names));
    fields.collect::<Vec<_>>().join(" ")
}

/// The pieces directly inside one.
pub(super) fn children(pieces: &[FieldSpan], id: usize) -> Vec<usize> {
    let depth = pieces.get(id).map_or(0, |piece| piece.depth);
    siblings(pieces, id + 1, depth + 1)
}

/// The pieces of a depth from `first` on, up to the first shallower one.
pub(super) fn siblings(pieces: &[FieldSpan], first: usize, depth: usize) -> Vec<usize> {
    let rest = pieces.iter().enumerate().skip(first);
    let inside = rest.take_while(|(_, piece)| piece.depth >= depth);
    inside.filter(|(_, piece)| piece.depth == depth).map(|(id, _)| id).collect()
}

fn field(pieces: &[FieldSpan], id: usize, names: &TopicNames) -> String {
    let name = pieces.get(id).map_or("", |piece| piece.name);
    format!("{name}={}", value(pieces, id, names))
}

/// The value of a piece, with all pieces in it.
fn value(pieces: &[FieldSpan], id: usize, names: &TopicNames) -> String {
    let Some(piece) = pieces.get(id) else { return String::new() };
    let below = children(pieces, id);
    match (piece.word, below.as_slice()) {
        ("TopicPartition", [topic, partition]) => {
            format!("{}-{}", value(pieces, *topic, names), value(pieces, *partition, names))
        }
        ("list", [_count, elements @ ..]) => {
            let mut texts: Vec<_> =
                elements.iter().take(SHOWN).map(|element| value(pieces, *element, names)).collect();
            if elements.len() > SHOWN {
                texts.push(format!("and {} more", elements.len() - SHOWN));
            }
            format!("[{}]", texts.join(", "))
        }
        ("if any", [_present]) => "none".to_owned(),
        ("if any", [_present, found]) => value(pieces, *found, names),
        ("pair" | "triple", parts) => {
            parts.iter().map(|part| value(pieces, *part, names)).collect::<Vec<_>>().join(" ")
        }
        ("time", []) => match piece.value {
            FieldValue::Time(millis) => time(millis),
            _ => String::new(),
        },
        ("topic id", []) if piece.name == "id" => match piece.value {
            FieldValue::Topic(id) => format!("{} ({})", names.topic(id), topic_id(id)),
            _ => String::new(),
        },
        (_, []) => said(piece, &[], names),
        (_, parts) => {
            let fields = parts.iter().map(|part| field(pieces, *part, names));
            format!("{{{}}}", fields.collect::<Vec<_>>().join(" "))
        }
    }
}

/// A time as a date, or as a number if it is no plausible date, such as a timeout.
pub(super) fn time(millis: i64) -> String {
    const YEAR_2000: i64 = 946_684_800_000;
    let text = format_timestamp(millis);
    let date = text.split_once('(').and_then(|(_, date)| date.strip_suffix(')'));
    match date {
        Some(date) if millis >= YEAR_2000 => date.to_owned(),
        _ => millis.to_string(),
    }
}

/// The value of a piece alone. `bytes` are its own bytes, or empty.
pub(super) fn said(piece: &FieldSpan, bytes: &[u8], names: &TopicNames) -> String {
    match &piece.value {
        FieldValue::Nothing => String::new(),
        FieldValue::Number(number) => number.to_string(),
        FieldValue::Named(number, name) => format!("{number} ({name})"),
        FieldValue::Bool(value) => value.to_string(),
        FieldValue::Time(millis) if time(*millis).contains('T') => format_timestamp(*millis),
        FieldValue::Time(millis) => millis.to_string(),
        FieldValue::Hex(value) => format!("{value:0width$x}", width = 2 * piece.size),
        FieldValue::Text(text) => quote(text.as_bytes()),
        FieldValue::Bytes(length) => {
            let content = bytes.get(bytes.len().saturating_sub(*length)..).unwrap_or_default();
            format!("{}{}", counted(*length, "byte"), show_bytes(content))
        }
        FieldValue::Elements(count) => counted(*count as usize, "element"),
        FieldValue::Topic(id) => names.topic(*id),
    }
}

pub(super) fn counted(count: usize, what: &str) -> String {
    format!("{count} {what}{}", if count == 1 { "" } else { "s" })
}

/// A batch: partition, offsets, sizes, producer.
pub(super) fn batch(record: &BatchAppended, bytes: &[u8], names: &TopicNames) -> String {
    let summary = &record.summary;
    let last = record.base_offset.plus(i64::from(summary.last_offset_delta));
    let mut text = format!(
        "{} offsets {} to {}, {}, {}",
        names.partition(record.partition),
        record.base_offset.0,
        last.0,
        counted(usize::try_from(summary.record_count).unwrap_or(0), "record"),
        counted(summary.size as usize, "byte"),
    );
    if let Ok(codec) = BatchHeader::parse(bytes).and_then(|header| header.compression())
        && codec.number() != 0
    {
        text += &format!(", {}", codec.name());
    }
    if summary.max_timestamp.0 >= 0 {
        text += &format!(", up to {}", time(summary.max_timestamp.0));
    }
    if summary.producer_id != ProducerId::NONE {
        let (id, epoch) = (summary.producer_id.0, summary.producer_epoch.0);
        text += &format!(", producer {id} epoch {epoch} sequence {}", summary.base_sequence);
    }
    for (is, word) in [(summary.transactional, "transactional"), (summary.control, "control")] {
        if is {
            text += &format!(", {word}");
        }
    }
    text
}

/// The records of a batch, one line each, or the reason why they cannot be read.
pub(super) fn records(bytes: &Bytes) -> Vec<String> {
    let read = Batch::only(bytes).and_then(|batch| batch.records(CAP).map(|set| (*batch.header(), set)));
    let (header, set) = match read {
        Ok(read) => read,
        Err(error) => return vec![error.to_string()],
    };
    let text = |bytes: Option<&[u8]>| bytes.map_or("null".to_owned(), quote);
    let lines = set.iter().map(|record| match record {
        Ok(record) => {
            let offset = header.base_offset + i64::from(record.offset_delta);
            let time = time(header.timestamp(record.timestamp_delta));
            let mut line = format!("@{offset} {time} key={} value={}", text(record.key), text(record.value));
            for one in record.headers.clone() {
                line += &format!(" {}={}", String::from_utf8_lossy(one.key), text(one.value));
            }
            line
        }
        Err(error) => error.to_string(),
    });
    lines.collect()
}

/// An id as Kafka writes it.
pub(super) fn topic_id(id: ottla_types::TopicId) -> String {
    Uuid(id.0).to_string()
}
