//! Escapes text that a client chose, for terminals, log lines and pages.

use std::borrow::Cow;

/// True for a character that changes the direction in which the text around it is shown, or embeds such a change.
pub fn is_bidi_control(c: char) -> bool {
    matches!(c, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

/// True for a character that a terminal acts on instead of showing it: control characters, line and paragraph
/// separators, and characters that change the direction of text.
pub fn is_unprintable(c: char) -> bool {
    c.is_control() || is_bidi_control(c) || matches!(c, '\u{2028}' | '\u{2029}')
}

/// The text on one line, each character that [`is_unprintable`] written as Rust writes it: `\n`, `\u{1b}`.
pub fn escape_line(text: &str) -> Cow<'_, str> {
    escape(text, is_unprintable)
}

/// As [`escape_line`], but line ends and tabs stay: for text of several lines whose values were escaped before.
pub fn escape_lines(text: &str) -> Cow<'_, str> {
    escape(text, |c| !matches!(c, '\n' | '\t') && is_unprintable(c))
}

fn escape(text: &str, is_escaped: impl Fn(char) -> bool) -> Cow<'_, str> {
    if !text.contains(&is_escaped) {
        return text.into();
    }
    let mut out = String::with_capacity(text.len() + 16);
    for c in text.chars() {
        if is_escaped(c) {
            out.extend(c.escape_default());
        } else {
            out.push(c);
        }
    }
    out.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_terminal_acts_on_is_escaped() {
        for (text, escaped) in [
            ("plain é 漢 😀", "plain é 漢 😀"),
            ("\u{1b}]0;title\u{7}", "\\u{1b}]0;title\\u{7}"),
            ("a\r\nb\tc", "a\\r\\nb\\tc"),
            ("\u{9b}2J", "\\u{9b}2J"),
            ("\u{7f}", "\\u{7f}"),
            ("\u{202e}gnp.exe", "\\u{202e}gnp.exe"),
            ("\u{2066}x\u{2069}", "\\u{2066}x\\u{2069}"),
            ("\u{2028}", "\\u{2028}"),
        ] {
            assert_eq!(escape_line(text), escaped);
        }
        assert_eq!(escape_lines("a\n\tb\r\n"), "a\n\tb\\r\n");
        assert!(matches!(escape_line("plain"), Cow::Borrowed(_)));
    }
}
