//! Words that the glossary bans from comments, documents and texts for users, each with its replacement in
//! xtask/tidy.toml.

use super::pending::settle;
use super::source::unit;
use super::{Finding, Lists, Source, rust_text};
use std::collections::BTreeMap;
use std::path::Path;

/// Other files whose words are checked.
const TEXTS: &[&str] = &[".md", ".toml", ".py", ".js", ".mjs", ".go", ".java", ".c", ".html"];
/// The list itself.
const LIST: &str = "xtask/tidy.toml";

pub(super) fn check(
    root: &Path,
    files: &[String],
    sources: &[Source],
    lists: &Lists,
) -> Result<Vec<Finding>, String> {
    let mut findings = Vec::new();
    for source in sources {
        for piece in rust_text::pieces(&source.text) {
            report(&source.file, piece.line, piece.text, &lists.words, &mut findings);
        }
    }
    for file in files.iter().filter(|file| *file != LIST) {
        let stem = file.rsplit('/').next().unwrap_or_default().split('.').next().unwrap_or_default();
        report(file, 1, stem, &lists.words, &mut findings);
    }
    for file in files.iter().filter(|file| is_text(file)) {
        let text = std::fs::read_to_string(root.join(file)).map_err(|e| format!("{file}: {e}"))?;
        for (number, line) in (1..).zip(text.lines()) {
            report(file, number, line, &lists.words, &mut findings);
        }
    }
    Ok(settle("words", &lists.pending.words, findings))
}

fn is_text(file: &str) -> bool {
    TEXTS.iter().any(|ending| file.ends_with(ending)) && file != LIST
}

type Words = BTreeMap<String, String>;

fn report(file: &str, number: usize, line: &str, words: &Words, findings: &mut Vec<(String, Finding)>) {
    for (word, better) in banned(line, words) {
        let what = format!("\"{word}\": {better}");
        findings.push((unit(file), Finding { place: format!("{file}:{number}"), what }));
    }
}

/// The banned words of a line outside backquotes, each with its replacement.
fn banned<'a>(line: &str, words: &'a Words) -> Vec<(&'a str, &'a str)> {
    let prose: String = line.split('`').step_by(2).collect::<Vec<_>>().join("`").to_ascii_lowercase();
    let found = words.iter().filter(|(word, _)| has_word(&prose, word));
    found.map(|(word, better)| (word.as_str(), better.as_str())).collect()
}

/// Whether a text has a word or phrase that is not part of a longer word or of an identifier.
fn has_word(text: &str, word: &str) -> bool {
    let inside = |c: char| c.is_alphanumeric() || c == '_';
    text.match_indices(word).any(|(at, _)| {
        let before = text[..at].chars().next_back();
        let after = text[at + word.len()..].chars().next();
        !before.is_some_and(inside) && !after.is_some_and(inside)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn banned_words_are_found_as_whole_words_outside_backquotes() {
        let words: Words =
            [("lemma".to_owned(), "rule".to_owned()), ("ab ovo".to_owned(), "first".to_owned())].into();
        assert_eq!(banned("The Lemma begins ab ovo.", &words), [("ab ovo", "first"), ("lemma", "rule")]);
        assert!(banned("lemmas lemma_name `lemma` dab ovo", &words).is_empty());
    }
}
