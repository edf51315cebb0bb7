//! docs/benchmarks.md, a section for each bench: a run replaces its own section and leaves the others.

use crate::process;
use std::fs;

/// Puts a section, its title included, in the place of the one with the same title, or at the end.
pub(super) fn write(title: &str, text: &str) -> Result<(), String> {
    let path = process::root().join("docs/benchmarks.md");
    let told = |e: std::io::Error| format!("{}: {e}", path.display());
    let page = fs::read_to_string(&path).map_err(told)?;
    fs::write(&path, replaced(&page, title, text)).map_err(told)
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
    let section = format!("{head}\n{}\n", text.trim_end());
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
    use super::replaced;

    #[test]
    fn a_section_is_replaced_and_the_others_stay() {
        let page = "# P\n\nall\n\n## A\n\nold\n\n## B\n\nb\n";
        assert_eq!(replaced(page, "A", "new\n"), "# P\n\nall\n\n## A\n\nnew\n\n## B\n\nb\n");
        assert_eq!(replaced(page, "B", "new\n\n"), "# P\n\nall\n\n## A\n\nold\n\n## B\n\nnew\n");
        assert_eq!(replaced(page, "C", "new"), format!("{page}\n## C\n\nnew\n"));
    }
}
