//! JSON with comments, the format of Kafka's schema files.

/// Replaces `//` and `/* */` comments outside strings by spaces, so that positions in JSON errors stay correct.
pub(crate) fn strip_comments(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut chars = text.chars().peekable();
    let mut in_string = false;
    while let Some(c) = chars.next() {
        match c {
            '\\' if in_string => {
                out.push(c);
                out.extend(chars.next());
            }
            '"' => {
                in_string = !in_string;
                out.push(c);
            }
            '/' if !in_string && chars.peek() == Some(&'/') => {
                while chars.peek().is_some_and(|&c| c != '\n') {
                    chars.next();
                    out.push(' ');
                }
            }
            '/' if !in_string && chars.peek() == Some(&'*') => skip_block(&mut chars, &mut out),
            _ => out.push(c),
        }
    }
    out
}

fn skip_block(chars: &mut std::iter::Peekable<std::str::Chars<'_>>, out: &mut String) {
    let mut before = ' ';
    chars.next();
    for c in chars.by_ref() {
        if c == '\n' {
            out.push('\n');
        }
        if before == '*' && c == '/' {
            return;
        }
        before = c;
    }
}

#[cfg(test)]
mod tests {
    use super::strip_comments;

    #[test]
    fn strips_comments_but_not_urls_in_strings() {
        let text = "{ \"a\": \"http://x \\\" // y\", // gone\n /* gone\n too */ \"b\": 1 }";
        let value: serde_json::Value = serde_json::from_str(&strip_comments(text)).unwrap();
        assert_eq!(value["a"], "http://x \" // y");
        assert_eq!(value["b"], 1);
    }
}
