//! `ssl.principal.mapping.rules`: from the subject of a certificate to the name of a principal (S-53 to S-58).
//!
//! The regular expressions are those of the crate fancy-regex, which knows look-arounds and back references. A match
//! that takes too many steps is an error, and the client is refused.

use fancy_regex::{Captures, Regex, RegexBuilder};
use std::fmt::Write;
use thiserror::Error;

/// Steps of backtracking that one match may take.
const MOST_STEPS: usize = 100_000;

/// The rules, in their order.
#[derive(Clone, Debug)]
pub struct MappingRules(Vec<Rule>);

#[derive(Clone, Debug)]
enum Rule {
    /// The name is the whole subject.
    Default,
    Replace(Box<Replacement>),
}

/// A rule with a pattern.
#[derive(Clone, Debug)]
struct Replacement {
    whole: Regex,
    pattern: Regex,
    pieces: Vec<Piece>,
    case: Case,
}

/// A piece of a replacement.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Piece {
    Text(String),
    Group(usize),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Case {
    Keep,
    Lower,
    Upper,
}

/// Why rules are refused, or a subject cannot be mapped.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum MappingError {
    /// The text is not a list of rules.
    #[error("'{0}' is not a rule: it must be DEFAULT or RULE:pattern/replacement/[L|U]")]
    Syntax(String),
    /// A pattern is not a regular expression that is served.
    #[error("the pattern '{pattern}' of a rule: {why}")]
    Pattern {
        /// The pattern.
        pattern: String,
        /// What is wrong with it.
        why: String,
    },
    /// A replacement is not legal.
    #[error("the replacement '{0}' of a rule is not legal")]
    Replacement(String),
    /// A match takes too many steps.
    #[error("matching the subject of the certificate takes too long")]
    TooManySteps,
}

impl MappingRules {
    /// The rules of Kafka's default: the name is the subject.
    pub fn subjects() -> MappingRules {
        MappingRules(vec![Rule::Default])
    }

    /// Reads a list of rules. An empty list gives no client a name.
    ///
    /// # Errors
    /// The text is not a list of rules.
    pub fn parse(text: &str) -> Result<MappingRules, MappingError> {
        let mut rules = Vec::new();
        let mut rest = text.trim();
        while !rest.is_empty() {
            let after = if let Some(after) = rest.strip_prefix("DEFAULT") {
                rules.push(Rule::Default);
                after
            } else {
                let (rule, after) = parse_rule(rest)?;
                rules.push(rule);
                after
            };
            rest = after.trim_start();
            match rest.strip_prefix(',') {
                Some(after) => rest = after.trim_start(),
                None if rest.is_empty() => {}
                None => return Err(MappingError::Syntax(rest.to_owned())),
            }
        }
        Ok(MappingRules(rules))
    }

    /// The name by the first rule whose pattern matches the whole subject; none if no rule matches (S-54).
    ///
    /// # Errors
    /// A match takes too many steps.
    pub fn apply(&self, subject: &str) -> Result<Option<String>, MappingError> {
        for rule in &self.0 {
            match rule {
                Rule::Default => return Ok(Some(subject.to_owned())),
                Rule::Replace(rule) => {
                    if rule.whole.is_match(subject).map_err(|_| MappingError::TooManySteps)? {
                        let name = replace_all(&rule.pattern, &rule.pieces, subject)?;
                        return Ok(Some(match rule.case {
                            Case::Keep => name,
                            Case::Lower => name.to_lowercase(),
                            Case::Upper => name.to_uppercase(),
                        }));
                    }
                }
            }
        }
        Ok(None)
    }
}

/// One rule, and the text after it.
fn parse_rule(text: &str) -> Result<(Rule, &str), MappingError> {
    let syntax = || MappingError::Syntax(text.to_owned());
    let rest = text.strip_prefix("RULE:").ok_or_else(syntax)?;
    let (pattern, rest) = until_slash(rest).ok_or_else(syntax)?;
    let (replacement, rest) = until_slash(rest).ok_or_else(syntax)?;
    let (case, rest) = match rest.chars().next() {
        Some('L') => (Case::Lower, &rest[1..]),
        Some('U') => (Case::Upper, &rest[1..]),
        _ => (Case::Keep, rest),
    };
    if !rest.is_empty() && !rest.starts_with([',', ' ', '\t', '\n', '\r']) {
        return Err(syntax());
    }
    let regex = |text: &str| {
        let built = RegexBuilder::new(text).backtrack_limit(MOST_STEPS).build();
        built.map_err(|error| MappingError::Pattern { pattern: pattern.clone(), why: error.to_string() })
    };
    let (whole, compiled) = (regex(&format!("^(?:{pattern})$"))?, regex(&pattern)?);
    let groups = compiled.captures_len() - 1;
    let pieces = parse_replacement(&replacement, groups);
    let pieces = pieces.ok_or(MappingError::Replacement(replacement))?;
    let rule = Replacement { whole, pattern: compiled, pieces, case };
    Ok((Rule::Replace(Box::new(rule)), rest))
}

/// The text up to a slash, in which "\/" is a slash; and the text after it.
fn until_slash(text: &str) -> Option<(String, &str)> {
    let mut found = String::new();
    let mut characters = text.char_indices();
    while let Some((at, character)) = characters.next() {
        match character {
            '/' => return Some((found, &text[at + 1..])),
            '\\' => match characters.next()?.1 {
                '/' => found.push('/'),
                other => found.extend(['\\', other]),
            },
            other => found.push(other),
        }
    }
    None
}

/// Reads Java's syntax of replacements: "$n" is a group, with the longest number that names one; a number that names
/// none is text (S-56).
fn parse_replacement(text: &str, groups: usize) -> Option<Vec<Piece>> {
    let mut pieces = Vec::new();
    let mut literal = String::new();
    let mut rest = text;
    while let Some(character) = rest.chars().next() {
        rest = &rest[character.len_utf8()..];
        match character {
            '\\' => {
                let escaped = rest.chars().next()?;
                literal.push(escaped);
                rest = &rest[escaped.len_utf8()..];
            }
            '$' => {
                let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
                let number = |digits: usize| rest.get(..digits)?.parse::<usize>().ok();
                let names = |digits: &usize| number(*digits).is_some_and(|number| number <= groups);
                match (1..=digits).rev().find(names).and_then(|digits| Some((digits, number(digits)?))) {
                    Some((digits, number)) => {
                        pieces.push(Piece::Text(std::mem::take(&mut literal)));
                        pieces.push(Piece::Group(number));
                        rest = &rest[digits..];
                    }
                    None if digits > 0 => literal.push('$'),
                    None => return None,
                }
            }
            other => literal.push(other),
        }
    }
    pieces.push(Piece::Text(literal));
    Some(pieces)
}

/// Replaces every match, also an empty one at the end of the one before, as Java does (S-55).
fn replace_all(pattern: &Regex, replacement: &[Piece], text: &str) -> Result<String, MappingError> {
    let mut result = String::new();
    let (mut copied, mut from) = (0, 0);
    while from <= text.len() {
        let found = pattern.captures_from_pos(text, from).map_err(|_| MappingError::TooManySteps)?;
        let Some(captures) = found else { break };
        let Some(whole) = captures.get(0) else { break };
        result.push_str(&text[copied..whole.start()]);
        push_replacement(replacement, &captures, &mut result);
        copied = whole.end();
        from = whole.end();
        if whole.start() == whole.end() {
            from += text[from..].chars().next().map_or(1, char::len_utf8);
        }
    }
    result.push_str(&text[copied..]);
    Ok(result)
}

fn push_replacement(replacement: &[Piece], captures: &Captures<'_>, result: &mut String) {
    for piece in replacement {
        let text = match piece {
            Piece::Text(text) => text,
            Piece::Group(group) => captures.get(*group).map_or("", |group| group.as_str()),
        };
        // Writing to a string cannot fail.
        let _ = result.write_str(text);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn map(rules: &str, subject: &str) -> Option<String> {
        MappingRules::parse(rules).unwrap().apply(subject).unwrap()
    }

    const SUBJECT: &str = "CN=Duke,OU=ServiceUsers,O=Org,C=US";

    #[test]
    fn s_53_s_54_the_first_rule_that_matches_the_whole_subject() {
        let rules = "RULE:^CN=(.*?),OU=ServiceUsers.*$/$1/L, RULE:^CN=(.*?),OU=(.*?)$/$1@$2/ ,DEFAULT";
        assert_eq!(map(rules, SUBJECT).as_deref(), Some("duke"));
        assert_eq!(map(rules, "CN=a,OU=b").as_deref(), Some("a@b"));
        assert_eq!(map(rules, "O=x").as_deref(), Some("O=x"));
        assert_eq!(map("RULE:CN=(.*?)/$1/", SUBJECT), Some("Duke,OU=ServiceUsers,O=Org,C=US".to_owned()));
        assert_eq!(map("RULE:^CN=x$/$0/", SUBJECT), None);
        assert_eq!(map("", SUBJECT), None);
        assert_eq!(map("DEFAULT", SUBJECT).as_deref(), Some(SUBJECT));
    }

    #[test]
    fn s_53_text_that_is_no_rule_is_refused() {
        for rules in [
            "default",
            "RULE:a/b",
            "RULE:a",
            "RULE:a/b/LU",
            "RULE:a/b/X",
            "RULE:(a/b/",
            "DEFAULT DEFAULT",
            "RULE:a/$x/",
            "RULE:a/\\",
            "x",
        ] {
            assert!(MappingRules::parse(rules).is_err(), "{rules}");
        }
    }

    #[test]
    fn s_55_a_pattern_that_matches_nothing_is_applied_twice() {
        assert_eq!(map("RULE:(.*)/x/", "CN=a").as_deref(), Some("xx"));
        assert_eq!(map("RULE:^(.*)$/x/", "CN=a").as_deref(), Some("x"));
        assert_eq!(map("RULE:.*/$0-/", "é").as_deref(), Some("é--"));
    }

    #[test]
    fn s_56_groups_and_literal_dollars() {
        assert_eq!(map("RULE:^(.)=(.*)$/$10/", "C=a").as_deref(), Some("C0"));
        assert_eq!(map("RULE:^(.)=(.*)$/$3/", "C=a").as_deref(), Some("$3"));
        assert_eq!(map("RULE:^(.)=(.*)$/\\$1/", "C=a").as_deref(), Some("$1"));
        assert_eq!(map("RULE:^(.)=(.*)$/$2\\/$1/", "C=a").as_deref(), Some("a/C"));
        assert_eq!(map("RULE:^(.)=(.*)$//", "C=a").as_deref(), Some(""));
    }

    #[test]
    fn s_57_case() {
        assert_eq!(map("RULE:^CN=(.*)$/$1/U", "CN=straße").as_deref(), Some("STRASSE"));
        assert_eq!(map("RULE:^CN=(.*)$/$1/L", "CN=ABC").as_deref(), Some("abc"));
    }

    #[test]
    fn s_58_a_match_that_takes_too_long_is_an_error() {
        let rules = MappingRules::parse("RULE:^(?=(a+)+b)(a|aa)+$/x/").unwrap();
        let subject = "a".repeat(60);
        assert!(matches!(rules.apply(&subject), Err(MappingError::TooManySteps) | Ok(None)));
    }
}
