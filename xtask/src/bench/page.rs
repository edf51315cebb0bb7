//! docs/evidence/benchmarks.md has a section for each bench. A run replaces its own section and keeps the others. Text
//! written by hand between the markers of [`by_hand`] is kept too.

use crate::process;
use std::fs;

/// Puts a section, its title included, in the place of the one with the same title, or at the end.
pub(super) fn write(title: &str, text: &str) -> Result<(), String> {
    let path = process::root().join("docs/evidence/benchmarks.md");
    let told = |e: std::io::Error| format!("{}: {e}", path.display());
    let page = fs::read_to_string(&path).map_err(told)?;
    fs::write(&path, replaced(&page, title, text)).map_err(told)
}

/// Where a section has room for text written by hand.
pub(super) fn by_hand(name: &str) -> String {
    format!("<!-- by hand: {name} -->\n{END}")
}

const END: &str = "<!-- end -->\n";

/// The new section with what is written by hand in the old one; what has no place any more comes last.
fn with_hands(old: &str, new: &str) -> String {
    let mut text = new.to_owned();
    for found in old.split_inclusive(END).filter_map(|part| part.find("<!-- by hand: ").map(|at| &part[at..]))
    {
        let head = found.split_inclusive('\n').next().unwrap_or_default();
        let empty = format!("{head}{END}");
        if text.contains(&empty) {
            text = text.replacen(&empty, found, 1);
        } else if found != empty {
            text = format!("{}\n\n{found}", text.trim_end());
        }
    }
    text
}

fn replaced(page: &str, title: &str, text: &str) -> String {
    let head = format!("## {title}\n");
    let mut parts: Vec<String> = Vec::new();
    for line in page.split_inclusive('\n') {
        match parts.last_mut() {
            Some(part) if !line.starts_with("## ") => part.push_str(line),
            _ => parts.push(line.to_owned()),
        }
    }
    let old = parts.iter().find(|part| part.starts_with(&head)).map_or("", String::as_str);
    let section = format!("{head}\n{}\n", with_hands(old, text).trim_end());
    match parts.iter().position(|part| part.starts_with(&head)) {
        Some(place) => {
            let last = place + 1 == parts.len();
            parts[place] = if last { section } else { section + "\n" };
        }
        None => parts.push(format!("\n{section}")),
    }
    parts.concat()
}

#[cfg(test)]
mod tests {
    use super::{by_hand, replaced};

    #[test]
    fn what_is_written_by_hand_stays() {
        let hand = |name: &str, text: &str| by_hand(name).replace("-->\n<", &format!("-->\n{text}<"));
        let page = format!("# P\n\n## A\n\nold\n\n{}\nmore\n{}", hand("x", "why\n"), hand("y", "lost?\n"));
        let text = format!("new\n\n{}\n{}\nend\n", by_hand("z"), by_hand("x"));
        let expected = format!(
            "# P\n\n## A\n\nnew\n\n{}\n{}\nend\n\n{}",
            by_hand("z"),
            hand("x", "why\n"),
            hand("y", "lost?\n")
        );
        assert_eq!(replaced(&page, "A", &text), expected);
        assert_eq!(replaced(&expected, "A", &text), expected);
    }

    #[test]
    fn a_section_is_replaced_and_the_others_stay() {
        let page = "# P\n\nall\n\n## A\n\nold\n\n## B\n\nb\n";
        assert_eq!(replaced(page, "A", "new\n"), "# P\n\nall\n\n## A\n\nnew\n\n## B\n\nb\n");
        assert_eq!(replaced(page, "B", "new\n\n"), "# P\n\nall\n\n## A\n\nold\n\n## B\n\nnew\n");
        assert_eq!(replaced(page, "C", "new"), format!("{page}\n## C\n\nnew\n"));
    }
}
