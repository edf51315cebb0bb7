//! Prints a frame as a line, as a line with a tree below it, or as a JSON object.

use super::inspect::Inspection;
use crate::cli::out::Out;
use ottla::tap::RelayedFrame;
use ottla_wire::ErrorCode;
use serde_json::{Value, json};
use std::io;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// How frames are shown.
pub(in crate::cli) struct FramePrinter {
    /// As JSON objects, else as lines.
    json: bool,
    /// With their bytes.
    bytes: bool,
    /// The heading is not printed yet.
    heading: bool,
}

impl FramePrinter {
    pub(in crate::cli) fn new(json: bool, bytes: bool) -> FramePrinter {
        FramePrinter { json, bytes, heading: !json }
    }

    pub(in crate::cli) fn frame(
        &mut self,
        out: &mut Out,
        frame: &RelayedFrame,
        inspection: &Inspection,
    ) -> io::Result<()> {
        if self.json {
            let mut object = object(frame, inspection);
            if self.bytes {
                object["hex"] = Value::String(hex(&frame.bytes));
            }
            return out.json_line(&object);
        }
        if std::mem::take(&mut self.heading) {
            out.line(
                "TIME (UTC)       CONN     API                          ID  CLIENT                BYTES",
            )?;
        }
        out.line(line(frame, inspection))?;
        if self.bytes {
            out.line(hex(&frame.bytes))?;
        }
        match &inspection.tree {
            Some(tree) => {
                out.text(tree)?;
                out.line("")
            }
            None => Ok(()),
        }
    }
}

fn hex(bytes: &[u8]) -> String {
    let digit = |four: u8| char::from_digit(u32::from(four), 16).unwrap_or_default();
    bytes.iter().flat_map(|byte| [digit(byte >> 4), digit(byte & 15)]).collect()
}

fn line(frame: &RelayedFrame, inspection: &Inspection) -> String {
    let time = utc(frame.at);
    let time = time.get(11..26).unwrap_or_default();
    let arrow = if frame.is_request { "->" } else { "<-" };
    let (api, id, client) = match &frame.head {
        Some(head) => (
            api(head.key.0, head.key.name(), head.version),
            head.correlation_id.to_string(),
            head.client_id.as_deref().unwrap_or_default(),
        ),
        None => ("no header".to_owned(), String::new(), ""),
    };
    let connection = format!("#{}", frame.connection);
    let size = frame.size;
    let mut line = format!("{time}  {connection:<5} {arrow} {api:<22} {id:>8}  {client:<16} {size:>10}");
    for word in words(frame, inspection) {
        line.push_str("  ");
        line.push_str(&word);
    }
    line
}

fn api(key: i16, name: &str, version: i16) -> String {
    if name == "unknown" { format!("API {key} v{version}") } else { format!("{name} v{version}") }
}

/// The remarks at the end of the line.
fn words(frame: &RelayedFrame, inspection: &Inspection) -> Vec<String> {
    let mut words: Vec<String> = frame.latency.map(millis).into_iter().collect();
    for (code, count) in &inspection.errors {
        let name = ErrorCode(*code).name();
        words.push(if *count == 1 { name.to_owned() } else { format!("{count}x {name}") });
    }
    if frame.rewritten {
        words.push("addresses rewritten".to_owned());
    }
    words.extend(frame.note.clone());
    words.extend(inspection.faults.iter().cloned());
    words
}

fn millis(time: Duration) -> String {
    format!("{:.2} ms", time.as_secs_f64() * 1e3)
}

fn object(frame: &RelayedFrame, inspection: &Inspection) -> Value {
    let errors: Vec<_> = inspection
        .errors
        .iter()
        .map(|(code, count)| json!({"code": code, "name": ErrorCode(*code).name(), "count": count}))
        .collect();
    let head = frame.head.as_ref();
    json!({
        "time": utc(frame.at),
        "connection": frame.connection,
        "direction": if frame.is_request { "request" } else { "response" },
        "api_key": head.map(|head| head.key.0),
        "api": head.map(|head| head.key.name()),
        "version": head.map(|head| head.version),
        "correlation_id": head.map(|head| head.correlation_id),
        "client_id": head.and_then(|head| head.client_id.as_deref()),
        "bytes": frame.size,
        "latency_us": frame.latency.map(|time| u64::try_from(time.as_micros()).unwrap_or(u64::MAX)),
        "topics": inspection.topics,
        "errors": errors,
        "rewritten": frame.rewritten,
        "faults": inspection.faults,
        "note": frame.note,
    })
}

/// A time in UTC as in RFC 3339, with microseconds.
pub(in crate::cli) fn utc(at: SystemTime) -> String {
    let since = at.duration_since(UNIX_EPOCH).unwrap_or_default();
    let (days, seconds) = (since.as_secs() / 86_400, since.as_secs() % 86_400);
    let (year, month, day) = date(days);
    let (hour, minute, second) = (seconds / 3600, seconds / 60 % 60, seconds % 60);
    let micros = since.subsec_micros();
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{micros:06}Z")
}

/// Year, month and day, given the days since 1970-01-01.
fn date(days: u64) -> (u64, u64, u64) {
    let is_leap =
        |year: u64| year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400));
    let (mut year, mut left) = (1970, days);
    loop {
        let length = 365 + u64::from(is_leap(year));
        if left < length {
            break;
        }
        left -= length;
        year += 1;
    }
    let lengths = [31, 28 + u64::from(is_leap(year)), 31, 30, 31, 30, 31, 31, 30, 31, 30, 31];
    let mut month = 1;
    for length in lengths {
        if left < length {
            break;
        }
        left -= length;
        month += 1;
    }
    (year, month, left + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_written_in_utc() {
        let at = |seconds, micros: u32| utc(UNIX_EPOCH + Duration::new(seconds, micros * 1000));
        assert_eq!(at(0, 0), "1970-01-01T00:00:00.000000Z");
        assert_eq!(at(951_827_696, 5), "2000-02-29T12:34:56.000005Z");
        assert_eq!(at(1_735_689_599, 999_999), "2024-12-31T23:59:59.999999Z");
        assert_eq!(at(4_107_542_400, 0), "2100-03-01T00:00:00.000000Z");
    }
}
