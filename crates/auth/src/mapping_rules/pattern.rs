//! The pattern of a mapping rule, compiled for the engine that runs it (S-54, S-58).

use super::RuleError;
use fancy_regex::{Captures, Regex, RegexBuilder};
use std::collections::BTreeMap;
use translation::{EndAnchor, Translation};

mod class;
mod refusal;
mod translation;

/// How often the engine may go back to an earlier choice in one search. A pattern without look-ahead, atomic groups and
/// possessive quantifiers never needs that: it runs in time proportional to the length of the name.
pub(super) const STEP_LIMIT: usize = 1_000_000;

/// The size that a pattern may have when compiled, in bytes.
const COMPILED_SIZE_LIMIT: usize = 1 << 20;

/// A compiled pattern.
#[derive(Debug, Clone)]
pub(super) struct Pattern {
    text: String,
    /// For names without a line terminator. In them, Java's `$` is the end of the name.
    usual: Engine,
    with_line_terminators: Engine,
    group_count: usize,
    group_names: BTreeMap<String, usize>,
}

#[derive(Debug, Clone)]
struct Engine {
    /// Matches only the whole name.
    whole: Regex,
    /// Matches anywhere in it.
    anywhere: Regex,
}

impl Pattern {
    /// Compiles a pattern in Java's syntax.
    pub(super) fn parse(text: &str) -> Result<Pattern, RuleError> {
        let error = |reason: String| RuleError::Pattern { pattern: text.to_owned(), reason };
        let usual =
            Translation::of(text, EndAnchor::EndOfText).map_err(|reason| error(reason.to_string()))?;
        let other = Translation::of(text, EndAnchor::BeforeLastTerminator)
            .map_err(|reason| error(reason.to_string()))?;
        Ok(Pattern {
            text: text.to_owned(),
            usual: Engine::compile(&usual.regex).map_err(error)?,
            with_line_terminators: Engine::compile(&other.regex).map_err(error)?,
            group_count: usual.group_count,
            group_names: usual.group_names,
        })
    }

    /// The pattern as the setting has it.
    pub(super) fn text(&self) -> &str {
        &self.text
    }

    /// The number of capturing groups.
    pub(super) fn group_count(&self) -> usize {
        self.group_count
    }

    /// The number of the group with this name.
    pub(super) fn group_named(&self, name: &str) -> Option<usize> {
        self.group_names.get(name).copied()
    }

    /// Whether the pattern matches the whole name (S-54).
    pub(super) fn matches_whole(&self, name: &str) -> Result<bool, RuleError> {
        self.engine(name).whole.is_match(name).map_err(|_| self.step_limit())
    }

    /// The first match that starts at byte `start` or later.
    pub(super) fn find_from<'a>(
        &self,
        name: &'a str,
        start: usize,
    ) -> Result<Option<Captures<'a, str>>, RuleError> {
        self.engine(name).anywhere.captures_from_pos(name, start).map_err(|_| self.step_limit())
    }

    /// Whether the pattern matches the empty text at the end of a name.
    pub(super) fn matches_empty_end(&self) -> bool {
        let name = "CN=x";
        self.find_from(name, name.len()).is_ok_and(|found| found.is_some())
    }

    fn engine(&self, name: &str) -> &Engine {
        match name.contains(['\n', '\r', '\u{85}', '\u{2028}', '\u{2029}']) {
            true => &self.with_line_terminators,
            false => &self.usual,
        }
    }

    /// The only error that a search has.
    fn step_limit(&self) -> RuleError {
        RuleError::StepLimit { pattern: self.text.clone() }
    }
}

impl Engine {
    fn compile(regex: &str) -> Result<Engine, String> {
        let build = |regex: &str| {
            let mut builder = RegexBuilder::new(regex);
            // With its optimizations, fancy-regex 0.20.2 matches `(.+?)*` on `aab` one character long instead of three.
            builder.optimize(false).backtrack_limit(STEP_LIMIT).delegate_size_limit(COMPILED_SIZE_LIMIT);
            builder.build().map_err(|error| error.to_string())
        };
        Ok(Engine { whole: build(&format!(r"\A(?:{regex})\z"))?, anywhere: build(regex)? })
    }
}
