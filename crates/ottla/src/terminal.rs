//! Output on standard error, and escaping for terminals. All output goes through this module or `cli::out`.

use ottla_wire::explain::{escape_line, escape_lines};
use std::sync::mpsc;
use std::time::Duration;

/// How long the last output of a process may take.
const LAST_WAIT: Duration = Duration::from_secs(2);

/// Prints a sentence of this program on standard error.
pub(crate) fn say(text: impl AsRef<str>) {
    eprintln!("ottla: {}", escape_line(text.as_ref()));
}

/// Does the last output of a process on a thread of its own, and gives up after two seconds: standard output or error
/// may be a pipe without a reader.
pub(crate) fn last_output(output: impl FnOnce() + Send + 'static) {
    let (done, ended) = mpsc::channel();
    std::thread::spawn(move || {
        output();
        // The other end may have given up.
        let _ = done.send(());
    });
    let _ = ended.recv_timeout(LAST_WAIT);
}

/// Escapes text of several lines, but not line ends, tabs, and the sequences that set colours.
pub(crate) fn escape_coloured(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find('\u{1b}') {
        let (before, from) = rest.split_at(at);
        out.push_str(&escape_lines(before));
        let length = colour(from);
        if length == 0 {
            // An escape character that begins no such sequence.
            out.push_str(&escape_lines(&from[..1]));
            rest = &from[1..];
        } else {
            out.push_str(&from[..length]);
            rest = &from[length..];
        }
    }
    out.push_str(&escape_lines(rest));
    out
}

/// Bytes of the sequence that sets colours at the start of a text; 0 if there is none.
fn colour(text: &str) -> usize {
    let Some(parameters) = text.strip_prefix("\u{1b}[") else { return 0 };
    let end = parameters.find(|c: char| !c.is_ascii_digit() && c != ';');
    match end {
        Some(end) if parameters[end..].starts_with('m') => 2 + end + 1,
        _ => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn colours_and_line_ends_stay_and_nothing_else() {
        for (text, escaped) in [
            ("\u{1b}[1;31mred\u{1b}[0m\n", "\u{1b}[1;31mred\u{1b}[0m\n"),
            ("\u{1b}[2J", "\\u{1b}[2J"),
            ("\u{1b}]0;title\u{7}", "\\u{1b}]0;title\\u{7}"),
            ("\u{1b}", "\\u{1b}"),
            ("\u{1b}\u{1b}[m\u{1b}[1", "\\u{1b}\u{1b}[m\\u{1b}[1"),
            ("a\r\n\u{202e}b", "a\\r\n\\u{202e}b"),
        ] {
            assert_eq!(escape_coloured(text), escaped, "{text:?}");
        }
    }
}
