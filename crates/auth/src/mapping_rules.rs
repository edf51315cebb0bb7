//! `ssl.principal.mapping.rules`: which principal name a certificate's subject maps to (S-53 to S-58).
//!
//! [`MappingRules::parse`] reads the setting once at startup and refuses what Java cannot compile, and what this module
//! would not match as Java does. [`MappingRules::apply`] then maps one subject. `tests/data/mapping_rules.tsv` records
//! what Kafka answers.
//!
//! # Patterns
//!
//! Patterns have Java's syntax and meaning: `\d`, `\w`, `\s` and `(?i)` cover ASCII only, `.` excludes Java's five line
//! terminators, and `$` also matches before a line terminator at the end of the name. These constructs of Java are
//! refused at startup (S-58):
//!
//! - look-behind, back references, `\b`, `\B`, `\G`, `\R`, `\X`, `\N`, `\h`, `\v`, `\c`, and octal escapes
//! - the inline flags other than `i` and `s`
//! - in a character class: `&&`, a nested class, an unescaped `]` as the first member, and an unescaped `-` that is
//!   neither the first nor the last member nor the middle of a range
//! - `\p` with a name other than Lower, Upper, Alpha, Digit, Alnum, L, Lu, Ll, N and Nd, and every `\p` after `(?i)`
//! - a quantifier after `^`, `$`, a look-ahead or another quantifier, except `?` and `+` that make it lazy or
//!   possessive
//! - a capturing group inside `(?>)`, `(?=)` or `(?!)`, or with a possessive quantifier, and a repeated one that can
//!   match the empty text, as `(a*)*`: Java then reports other captures
//!
//! # Replacements
//!
//! A replacement with which Kafka fails at each name is refused at startup: a `$` without a group, an unknown
//! `${name}`, or `$1` after a pattern without groups.

use pattern::Pattern;
use replacement::Replacement;

mod pattern;
mod replacement;

/// Why mapping rules were refused at startup (S-53), or why they could not map one name.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RuleError {
    /// The setting is not a list of rules.
    #[error("expected DEFAULT or RULE:pattern/replacement/[L|U] and then a comma or the end at `{rest}`")]
    Syntax {
        /// The setting from the place on that cannot be read.
        rest: String,
    },
    /// A pattern is no regular expression, or contains a construct that this module refuses.
    #[error("pattern `{pattern}`: {reason}")]
    Pattern {
        /// The pattern of the rule.
        pattern: String,
        /// What is wrong with it.
        reason: String,
    },
    /// A replacement cannot be applied to any name.
    #[error("replacement `{replacement}`: {reason}")]
    Replacement {
        /// The replacement of the rule.
        replacement: String,
        /// What is wrong with it.
        reason: String,
    },
    /// Matching took more steps than allowed. The name has no mapping: refuse the connection and log the pattern.
    #[error("pattern `{pattern}` took more than {} steps on a name", pattern::STEP_LIMIT)]
    StepLimit {
        /// The pattern of the rule.
        pattern: String,
    },
}

/// The rules of `ssl.principal.mapping.rules` in their order (S-53).
#[derive(Debug, Clone)]
pub struct MappingRules(Vec<MappingRule>);

#[derive(Debug, Clone)]
enum MappingRule {
    /// `DEFAULT`: the name itself.
    Default,
    Replace {
        pattern: Box<Pattern>,
        replacement: Replacement,
        case: LetterCase,
    },
}

/// What the flag of a rule does to the letters of its result (S-57).
#[derive(Debug, Clone, Copy)]
enum LetterCase {
    Unchanged,
    Lower,
    Upper,
}

impl MappingRules {
    /// Parses the setting (S-53). Blanks around commas and empty list items are allowed; without any rule, no name has
    /// a mapping.
    ///
    /// # Errors
    ///
    /// [`RuleError::Syntax`], [`RuleError::Pattern`] or [`RuleError::Replacement`] for the first faulty rule.
    pub fn parse(text: &str) -> Result<MappingRules, RuleError> {
        let mut rules = Vec::new();
        let mut rest = skip_blanks(text);
        loop {
            let start = rest;
            if let Some(after) = rest.strip_prefix("DEFAULT") {
                rules.push(MappingRule::Default);
                rest = after;
            } else if let Some(after) = rest.strip_prefix("RULE:") {
                let (rule, after) = parse_rule(after).ok_or_else(|| syntax_error(start))?;
                rules.push(rule?);
                rest = after;
            }
            rest = skip_blanks(rest);
            if rest.is_empty() {
                return Ok(MappingRules(rules));
            }
            rest = skip_blanks(rest.strip_prefix(',').ok_or_else(|| syntax_error(start))?);
        }
    }

    /// Returns the principal name for a subject (S-54 to S-57), or `None` if no rule matches. The name may be empty
    /// (S-57); the caller refuses both.
    ///
    /// # Errors
    ///
    /// [`RuleError::StepLimit`] if a pattern is too slow on this subject. Later rules are not tried.
    pub fn apply(&self, distinguished_name: &str) -> Result<Option<String>, RuleError> {
        for rule in &self.0 {
            match rule {
                MappingRule::Default => return Ok(Some(distinguished_name.to_owned())),
                MappingRule::Replace { pattern, replacement, case } => {
                    if pattern.matches_whole(distinguished_name)? {
                        let name = replace_all(pattern, replacement, distinguished_name)?;
                        return Ok(Some(case.apply(name)));
                    }
                }
            }
        }
        Ok(None)
    }

    /// Lists the patterns that match the empty text at the end of a name. A rule with such a pattern writes its
    /// replacement a second time at the end of the result (S-55), which its author rarely wants.
    pub fn patterns_matching_twice(&self) -> impl Iterator<Item = &str> {
        self.0.iter().filter_map(|rule| match rule {
            MappingRule::Replace { pattern, .. } if pattern.matches_empty_end() => Some(pattern.text()),
            MappingRule::Replace { .. } | MappingRule::Default => None,
        })
    }
}

impl LetterCase {
    fn apply(self, name: String) -> String {
        match self {
            LetterCase::Unchanged => name,
            LetterCase::Lower => name.to_lowercase(),
            LetterCase::Upper => name.to_uppercase(),
        }
    }
}

/// Skips what Java's `\s` matches.
fn skip_blanks(text: &str) -> &str {
    text.trim_start_matches(|character| matches!(character, '\t'..='\r' | ' '))
}

fn syntax_error(rest: &str) -> RuleError {
    RuleError::Syntax { rest: rest.to_owned() }
}

/// Parses `pattern/replacement/[L|U]` and returns the rule and the text after it, or `None` if a slash is missing.
fn parse_rule(text: &str) -> Option<(Result<MappingRule, RuleError>, &str)> {
    let (pattern, text) = split_at_slash(text)?;
    let (replacement, text) = split_at_slash(text)?;
    let (case, rest) = if let Some(rest) = text.strip_prefix('L') {
        (LetterCase::Lower, rest)
    } else if let Some(rest) = text.strip_prefix('U') {
        (LetterCase::Upper, rest)
    } else {
        (LetterCase::Unchanged, text)
    };
    let rule = Pattern::parse(&pattern).and_then(|pattern| {
        let replacement = Replacement::parse(&replacement, &pattern)?;
        Ok(MappingRule::Replace { pattern: Box::new(pattern), replacement, case })
    });
    Some((rule, rest))
}

/// Splits a text at its first slash that has no backslash before it. `\/` becomes a slash; other escapes stay.
fn split_at_slash(text: &str) -> Option<(String, &str)> {
    let mut part = String::new();
    let mut characters = text.chars();
    loop {
        match characters.next()? {
            '/' => return Some((part, characters.as_str())),
            '\\' => match characters.next()? {
                '/' => part.push('/'),
                escaped => part.extend(['\\', escaped]),
            },
            character => part.push(character),
        }
    }
}

/// Replaces every match in the name as Java does (S-55): after a match, the next one may be empty and start at its end.
/// Empty matches inside a character over U+FFFF, where Java splits it into two surrogates, do not exist here.
fn replace_all(pattern: &Pattern, replacement: &Replacement, name: &str) -> Result<String, RuleError> {
    let mut result = String::new();
    let mut copied = 0;
    let mut from = Some(0);
    while let Some(start) = from {
        let Some(captures) = pattern.find_from(name, start)? else { break };
        let Some(matched) = captures.get(0) else { break };
        result.push_str(name.get(copied..matched.start()).unwrap_or_default());
        replacement.append_to(&mut result, &captures);
        copied = matched.end();
        from = match matched.range().is_empty() {
            true => {
                name.get(copied..).and_then(|rest| rest.chars().next()).map(|next| copied + next.len_utf8())
            }
            false => Some(copied),
        };
    }
    result.push_str(name.get(copied..).unwrap_or_default());
    Ok(result)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn map(rules: &str, name: &str) -> Option<String> {
        MappingRules::parse(rules).unwrap().apply(name).unwrap()
    }

    /// Reads a text of the data file, in which `<U+0041>` stands for the character A.
    fn unescape(text: &str) -> String {
        let mut parts = text.split("<U+");
        let mut result = parts.next().unwrap().to_owned();
        for part in parts {
            let (digits, rest) = part.split_once('>').unwrap();
            result.push(char::from_u32(u32::from_str_radix(digits, 16).unwrap()).unwrap());
            result.push_str(rest);
        }
        result
    }

    /// What Ottla answers, in the words of the data file.
    fn answer(rules: &str, name: &str) -> (&'static str, String) {
        match MappingRules::parse(rules).map(|rules| rules.apply(name)) {
            Ok(Ok(Some(name))) => ("name", name),
            Ok(Ok(None)) => ("none", String::new()),
            Ok(Err(_)) => ("applyerror", String::new()),
            Err(_) => ("ruleerror", String::new()),
        }
    }

    #[test]
    fn s_53_rules_map_names_as_kafka_maps_them() {
        let file = include_str!("../tests/data/mapping_rules.tsv");
        let lines: Vec<_> = file.lines().filter(|line| !line.starts_with('#')).collect();
        assert!(lines.len() > 40);
        for line in lines {
            let fields: Vec<_> = line.split('\t').map(unescape).collect();
            let [rules, name, kind, result] = fields.as_slice() else { panic!("{line}") };
            let (own_kind, own_result) = answer(rules, name);
            // Where Kafka fails at each name, Ottla refuses the rule at startup, or takes `\$` literally.
            let refused_early = kind == "applyerror" && (own_kind == "ruleerror" || rules.contains("\\$"));
            assert!(
                refused_early || (own_kind == kind && own_result == *result),
                "{line}: {own_kind} {own_result}"
            );
        }
    }

    #[test]
    fn s_53_faulty_settings_are_refused() {
        for rules in
            ["default", "DEFAULT DEFAULT", "RULE:a", "RULE:a/b", "RULE:a/b/LU", "RULE:a/b/l", "RULE:a/b/ L"]
        {
            assert!(matches!(MappingRules::parse(rules), Err(RuleError::Syntax { .. })), "{rules}");
        }
        assert!(matches!(MappingRules::parse("RULE:(a/b/"), Err(RuleError::Pattern { .. })));
    }

    #[test]
    fn s_53_no_rules_give_no_name() {
        assert_eq!(map("", "CN=a"), None);
        assert_eq!(map(" , ", "CN=a"), None);
    }

    #[test]
    fn s_54_first_rule_that_matches_the_whole_name_wins() {
        let rules = r"RULE:CN=a/part/, RULE:^CN=(.*),O=x$/$1/ , DEFAULT";
        assert_eq!(map(rules, "CN=a,O=x").as_deref(), Some("a"));
        assert_eq!(map(rules, "CN=a").as_deref(), Some("part"));
        assert_eq!(map(rules, "O=x").as_deref(), Some("O=x"));
    }

    #[test]
    fn s_55_every_match_is_replaced() {
        assert_eq!(map("RULE:(.*)/x/", "CN=a").as_deref(), Some("xx"));
        assert_eq!(map("RULE:a|ab/x/", "ab").as_deref(), Some("xb"));
        assert_eq!(map("RULE:(|.*)/x/", "aé").as_deref(), Some("xaxéx"));
    }

    #[test]
    fn s_55_patterns_that_match_twice_are_listed() {
        let rules = MappingRules::parse("RULE:(.*)/x/,RULE:^(.*)$/x/,RULE:CN=(.*)/x/,DEFAULT").unwrap();
        assert_eq!(rules.patterns_matching_twice().collect::<Vec<_>>(), ["(.*)"]);
    }

    #[test]
    fn s_56_longest_digits_that_name_a_group_are_taken() {
        assert_eq!(map("RULE:^(.)(.)$/$10-$2-$3-$0-\\$1/", "ab").as_deref(), Some("a0-b-$3-ab-$1"));
        assert_eq!(map("RULE:^(?<first>.)(.)$/${first}/", "ab").as_deref(), Some("a"));
    }

    #[test]
    fn s_56_replacements_that_always_fail_are_refused() {
        for rules in
            ["RULE:^(a)$/$/", "RULE:^(a)$/$x/", "RULE:^a$/$1/", "RULE:^(a)$/${n}/", "RULE:^(a)$/${n/"]
        {
            assert!(matches!(MappingRules::parse(rules), Err(RuleError::Replacement { .. })), "{rules}");
        }
    }

    #[test]
    fn s_57_flags_change_the_case_of_the_whole_result() {
        assert_eq!(map("RULE:^CN=(.*)$/X$1/L", "CN=İAΣ").as_deref(), Some("xi\u{307}aς"));
        assert_eq!(map("RULE:^CN=(.*)$/x$1/U", "CN=straße").as_deref(), Some("XSTRASSE"));
        assert_eq!(map("RULE:^CN=(.*)$//", "CN=a").as_deref(), Some(""));
    }

    #[test]
    fn s_58_constructs_with_another_meaning_are_refused() {
        let patterns = [
            r"(?<=a)b",
            r"(?<!a)b",
            r"(a)\\1",
            r"\\ba",
            r"\\R",
            r"\\h",
            r"\\v",
            r"(?m)a",
            r"(?x)a",
            r"[a&&b]",
            r"[a[b]]",
            r"[]a]",
            r"[a-b-c]",
            r"\\p{Space}",
            r"(?i)\\p{L}",
            r"^*",
            r"a{2}{3}",
            r"(a*)*",
            r"(a)*+",
            r"(?=(a))",
            r"(?>(a))",
            r"a{,2}",
        ];
        for pattern in patterns {
            let pattern = pattern.replace("\\\\", "\\");
            let parsed = MappingRules::parse(&format!("RULE:{pattern}/x/"));
            assert!(matches!(parsed, Err(RuleError::Pattern { .. })), "{pattern}");
        }
    }

    #[test]
    fn s_58_classes_and_flags_cover_ascii_only() {
        assert_eq!(map(r"RULE:\w+/x/", "é"), None);
        assert_eq!(map(r"RULE:\d/x/", "٣"), None);
        assert_eq!(map("RULE:(?i)é|k/x/", "É"), None);
        assert_eq!(map("RULE:(?i)[^a-f]/x/", "C"), None);
        assert_eq!(map("RULE:(?i)k/x/", "\u{212a}"), None);
    }

    #[test]
    fn s_58_dot_and_dollar_know_line_terminators() {
        for terminator in ["\n", "\r", "\r\n", "\u{85}", "\u{2028}", "\u{2029}"] {
            let name = format!("a{terminator}");
            assert_eq!(map("RULE:.*/x/", &name), None);
            assert_eq!(map("RULE:(?s)^(.*?)$.*/[$1]/", &name).as_deref(), Some("[a]"));
        }
    }

    #[test]
    fn s_58_step_limit_is_an_error() {
        let rules = MappingRules::parse("RULE:^(?=(?:(?:a|a)*b)+c)(.*)$|(?:a|a)*(?!c)b/x/,DEFAULT").unwrap();
        assert!(matches!(rules.apply(&"a".repeat(60)), Err(RuleError::StepLimit { .. })));
    }

    proptest! {
        #[test]
        fn s_53_arbitrary_text_never_panics(rules: String, name: String) {
            let _ = answer(&rules, &name);
            let _ = answer(&format!("RULE:{rules}/$1/L"), &name);
        }

        #[test]
        fn s_53_texts_of_special_characters_never_panic(
            pattern in r"[\\(){}\[\]?*+|^$.a1,<=!:>i&-]{0,12}",
            replacement in r"[\\${}a1]{0,6}",
            name: String,
        ) {
            let _ = answer(&format!("RULE:{pattern}/{replacement}/"), &name);
        }
    }
}
