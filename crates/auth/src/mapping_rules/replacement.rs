//! The replacement of a mapping rule in Java's syntax with Kafka's addition (S-56).

use super::{RuleError, pattern::Pattern};
use fancy_regex::Captures;

/// A parsed replacement.
#[derive(Debug, Clone)]
pub(super) struct Replacement(Vec<Part>);

#[derive(Debug, Clone, PartialEq, Eq)]
enum Part {
    Text(String),
    /// The text of a group of the pattern; 0 is the whole match.
    Group(usize),
}

impl Replacement {
    /// Parses a replacement: `$n`, `${name}`, and a backslash before any character that stands for itself.
    pub(super) fn parse(text: &str, pattern: &Pattern) -> Result<Replacement, RuleError> {
        let mut parts = Vec::new();
        let mut rest = text;
        while let Some(character) = rest.chars().next() {
            rest = &rest[character.len_utf8()..];
            let parsed = match character {
                '$' => parse_reference(rest, pattern),
                '\\' => match rest.chars().next() {
                    Some(escaped) => Ok((Part::Text(escaped.into()), &rest[escaped.len_utf8()..])),
                    None => Err("a backslash ends it"),
                },
                literal => Ok((Part::Text(literal.into()), rest)),
            };
            let (part, after) = parsed.map_err(|reason| RuleError::Replacement {
                replacement: text.to_owned(),
                reason: reason.to_owned(),
            })?;
            parts.push(part);
            rest = after;
        }
        Ok(Replacement(parts))
    }

    /// Appends the replacement of one match.
    pub(super) fn append_to(&self, result: &mut String, captures: &Captures<'_, str>) {
        for part in &self.0 {
            match part {
                Part::Text(text) => result.push_str(text),
                // A group that took no part in the match adds nothing.
                Part::Group(group) => {
                    result.push_str(captures.get(*group).map_or("", |found| found.as_str()))
                }
            }
        }
    }
}

/// Parses what follows a `$`, and returns the text after it.
fn parse_reference<'a>(rest: &'a str, pattern: &Pattern) -> Result<(Part, &'a str), &'static str> {
    if let Some(name_and_rest) = rest.strip_prefix('{') {
        let (name, rest) = name_and_rest.split_once('}').ok_or("a `${` has no `}`")?;
        let group = pattern.group_named(name).ok_or("the pattern has no group with the name after a `$`")?;
        return Ok((Part::Group(group), rest));
    }
    let digits = &rest[..rest.len() - rest.trim_start_matches(|digit: char| digit.is_ascii_digit()).len()];
    if digits.is_empty() {
        return Err("a `$` has no group number; write `\\$` for a dollar sign");
    }
    if digits.parse::<i32>().is_err() {
        return Err("a group number is too large");
    }
    // Java takes the first digit, then each further one as long as the number still names a group.
    let prefixes =
        (1..=digits.len()).map_while(|length| digits[..length].parse::<usize>().ok().map(|n| (n, length)));
    match prefixes.take_while(|(group, _)| *group <= pattern.group_count()).last() {
        Some((group, length)) => Ok((Part::Group(group), &rest[length..])),
        None if pattern.group_count() == 0 => {
            Err("the pattern has no groups, so a `$n` other than `$0` has no meaning")
        }
        None => Ok((Part::Text(format!("${digits}")), &rest[digits.len()..])),
    }
}
