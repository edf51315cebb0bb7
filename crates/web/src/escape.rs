//! How pages escape text: as HTML, and characters that change the direction of text are written out.
//!
//! Values of form fields must stay as they are, because they are sent back: templates write those as
//! `value|escape("xml")`.

use askama::filters::{Escaper, Html};
use ottla_wire::explain::is_bidi_control;
use std::fmt::{self, Write};

/// The escaper of every template (askama.toml).
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Page;

impl Escaper for Page {
    fn write_escaped_str<W: Write>(&self, mut dest: W, text: &str) -> fmt::Result {
        let mut rest = text;
        while let Some((at, c)) = rest.char_indices().find(|(_, c)| is_bidi_control(*c)) {
            Html.write_escaped_str(&mut dest, &rest[..at])?;
            write!(dest, "{}", c.escape_default())?;
            rest = &rest[at + c.len_utf8()..];
        }
        Html.write_escaped_str(&mut dest, rest)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn directions_of_text_are_written_out_and_html_is_escaped() {
        let mut page = String::new();
        Page.write_escaped_str(&mut page, "<\u{202e}gnp.exe\u{2069}>é").unwrap();
        assert_eq!(page, "&#60;\\u{202e}gnp.exe\\u{2069}&#62;é");
    }
}
