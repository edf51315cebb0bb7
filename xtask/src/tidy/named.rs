//! Tests that pages name exist: a page that says which test shows something must not outlive the test.

use super::Finding;
use std::collections::BTreeSet;
use std::path::Path;

/// A name in backquotes of so many words is that of a test; settings and fields have fewer. Metrics have more, but
/// begin with a product's name.
const WORDS: usize = 5;

pub(super) fn check(root: &Path, files: &[String]) -> Result<Vec<Finding>, String> {
    let read = |file: &String| std::fs::read_to_string(root.join(file)).map_err(|e| format!("{file}: {e}"));
    let mut functions = BTreeSet::new();
    for file in files.iter().filter(|file| file.ends_with(".rs")) {
        functions.extend(defined(&read(file)?));
    }
    let mut findings = Vec::new();
    for file in files.iter().filter(|file| file.starts_with("docs/") && file.ends_with(".md")) {
        for (number, line) in (1..).zip(read(file)?.lines()) {
            for name in named(line).filter(|name| !functions.contains(*name)) {
                let what = format!("names a test that does not exist: {name}");
                findings.push(Finding { place: format!("{file}:{number}"), what });
            }
        }
    }
    Ok(findings)
}

/// The functions that a source defines.
fn defined(text: &str) -> impl Iterator<Item = String> {
    let name = |line: &str| {
        let (before, rest) = line.split_once("fn ")?;
        let begins = before
            .trim()
            .split(' ')
            .all(|word| word.is_empty() || word.starts_with(|c: char| c.is_lowercase()));
        begins.then(|| rest.split(['(', '<']).next().map(str::to_owned))?
    };
    text.lines().filter_map(name).collect::<Vec<_>>().into_iter()
}

/// The names in backquotes that look like tests.
fn named(line: &str) -> impl Iterator<Item = &str> {
    let is_name = |word: &&str| {
        let of_words = word.split('_').filter(|part| !part.is_empty()).count() >= WORDS;
        of_words
            && !word.starts_with("ottla_")
            && !word.starts_with("kafka_")
            && word.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_')
    };
    line.split('`').skip(1).step_by(2).filter(is_name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_tests_are_told_from_others() {
        let line = "`a_test_of_five_words`, `transaction.max.timeout.ms`, a_word_that_stands_outside, `fn a_b_c_d_e()`, `read_committed`";
        assert_eq!(named(line).collect::<Vec<_>>(), ["a_test_of_five_words"]);
        let source = "    async fn one_test() {\npub(super) fn two<T>(x: T) {}\n// no fn three() {}\n";
        assert_eq!(defined(source).collect::<Vec<_>>(), ["one_test", "two"]);
    }
}
