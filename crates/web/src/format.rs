//! Times, sizes and bytes as text for people.

use serde::Serialize;
use std::borrow::Borrow;

/// Bytes of a record: as text if they are printable UTF-8, else in hex.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct ByteText {
    /// The text, or the hex digits.
    pub(crate) content: String,
    /// `text` or `hex`.
    pub(crate) form: &'static str,
    /// The number of bytes, those left out included.
    pub(crate) bytes: usize,
    /// Whether the end is left out.
    pub(crate) cut: bool,
}

impl ByteText {
    /// Shows the first `max` bytes.
    pub(crate) fn new(bytes: &[u8], max: usize) -> ByteText {
        let head = &bytes[..bytes.len().min(max)];
        let cut = head.len() < bytes.len();
        // A character may be cut in two: up to three bytes of it are left out.
        let text = match std::str::from_utf8(head) {
            Ok(text) => Some(text),
            Err(error) if cut && error.error_len().is_none() => {
                std::str::from_utf8(&head[..error.valid_up_to()]).ok()
            }
            Err(_) => None,
        };
        let is_plain = |c: char| !c.is_control() || matches!(c, '\n' | '\r' | '\t');
        match text.filter(|text| text.chars().all(is_plain)) {
            Some(text) => ByteText { content: text.to_owned(), form: "text", bytes: bytes.len(), cut },
            None => ByteText { content: hex(head), form: "hex", bytes: bytes.len(), cut },
        }
    }
}

/// Bytes as hex digits.
pub(crate) fn hex(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let digit = |nibble: u8| char::from(DIGITS[usize::from(nibble & 15)]);
    bytes.iter().flat_map(|byte| [digit(byte >> 4), digit(*byte)]).collect()
}

/// A number of bytes: `1.5 MiB`.
pub(crate) fn size(bytes: impl Borrow<u64>) -> String {
    let bytes = *bytes.borrow();
    const UNITS: [&str; 5] = ["KiB", "MiB", "GiB", "TiB", "PiB"];
    if bytes < 1024 {
        return format!("{bytes} B");
    }
    let mut value = bytes as f64 / 1024.0;
    let mut unit = 0;
    while value >= 1024.0 && unit + 1 < UNITS.len() {
        value /= 1024.0;
        unit += 1;
    }
    format!("{value:.1} {}", UNITS[unit])
}

/// A duration in milliseconds: `12.3 s`, `4 min 5 s`, `3 h 20 min`, `2 d 1 h`.
pub(crate) fn span(millis: impl Borrow<i64>) -> String {
    let millis = (*millis.borrow()).max(0);
    let seconds = millis / 1000;
    match seconds {
        0..60 => format!("{}.{} s", seconds, millis % 1000 / 100),
        60..3600 => format!("{} min {} s", seconds / 60, seconds % 60),
        3600..86_400 => format!("{} h {} min", seconds / 3600, seconds % 3600 / 60),
        _ => format!("{} d {} h", seconds / 86_400, seconds % 86_400 / 3600),
    }
}

/// Milliseconds since 1970 as date and time in UTC: `2026-11-30 05:20:09.123`; as a number outside the years 1970 to
/// 9999.
pub(crate) fn moment(millis: impl Borrow<i64>) -> String {
    const LAST: i64 = 253_402_300_799_999;
    let millis = *millis.borrow();
    if !(0..=LAST).contains(&millis) {
        return millis.to_string();
    }
    let (days, rest) = (millis / 86_400_000, millis % 86_400_000);
    let (year, month, day) = civil(days);
    let (hour, minute, second) = (rest / 3_600_000, rest / 60_000 % 60, rest / 1000 % 60);
    format!("{year:04}-{month:02}-{day:02} {hour:02}:{minute:02}:{second:02}.{:03}", rest % 1000)
}

/// Year, month and day of a number of days since 1970-01-01. Years are counted from March, so that the leap day is
/// their last.
fn civil(days: i64) -> (i64, i64, i64) {
    let days = days + 719_468;
    let (era, day) = (days / 146_097, days % 146_097);
    let year = (day - day / 1460 + day / 36_524 - day / 146_096) / 365;
    let day = day - (365 * year + year / 4 - year / 100);
    let from_march = (5 * day + 2) / 153;
    let month = if from_march < 10 { from_march + 3 } else { from_march - 9 };
    (era * 400 + year + i64::from(month <= 2), month, day - (153 * from_march + 2) / 5 + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moments_are_dates_in_utc() {
        assert_eq!(moment(0), "1970-01-01 00:00:00.000");
        assert_eq!(moment(951_782_400_000), "2000-02-29 00:00:00.000");
        assert_eq!(moment(1_796_016_009_123), "2026-11-30 05:20:09.123");
        assert_eq!(moment(253_402_300_799_999), "9999-12-31 23:59:59.999");
        assert_eq!(moment(-1), "-1");
        assert_eq!(moment(i64::MAX), i64::MAX.to_string());
    }

    #[test]
    fn spans_and_sizes_are_short() {
        assert_eq!(
            [0, 61_000, 7_260_000, 90_000_000].map(span),
            ["0.0 s", "1 min 1 s", "2 h 1 min", "1 d 1 h"]
        );
        assert_eq!([0, 1023, 1536, 5 << 30].map(size), ["0 B", "1023 B", "1.5 KiB", "5.0 GiB"]);
    }

    #[test]
    fn bytes_are_text_if_they_can_be() {
        let show = |bytes: &[u8], max| {
            let shown = ByteText::new(bytes, max);
            (shown.content, shown.form, shown.cut)
        };
        assert_eq!(show("öl".as_bytes(), 100), ("öl".to_owned(), "text", false));
        assert_eq!(show("öl".as_bytes(), 1), (String::new(), "text", true));
        assert_eq!(show(&[0, 0xff], 100), ("00ff".to_owned(), "hex", false));
        assert_eq!(show(&[b'a', 0xc3], 100), ("61c3".to_owned(), "hex", false));
    }
}
