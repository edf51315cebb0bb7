//! Rewrites a regular expression of Java for the crate fancy-regex, and refuses what the two do not share (S-58).
//!
//! The rewriting goes through the pattern once. Everything whose meaning differs between the two dialects is spelled
//! out: literals as code points, `\d` as `[0-9]`, a letter after `(?i)` as a class of both cases. So the result uses no
//! flags.

use super::{
    class::{self, Flags},
    refusal::Refusal,
};
use std::{collections::BTreeMap, str::Chars};

/// What `$` and `\Z` mean.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum EndAnchor {
    /// The end of the text: right for texts without line terminators, and fast.
    EndOfText,
    /// Java's meaning: also the place before a line terminator that ends the text.
    BeforeLastTerminator,
}

impl EndAnchor {
    fn regex(self) -> &'static str {
        match self {
            EndAnchor::EndOfText => r"\z",
            EndAnchor::BeforeLastTerminator => {
                r"(?:\z|(?=(?:\r\n|[\r\x{85}\x{2028}\x{2029}])\z)|(?<!\r)(?=\n\z))"
            }
        }
    }
}

/// A rewritten pattern.
#[derive(Debug, Default)]
pub(super) struct Translation {
    pub(super) regex: String,
    pub(super) group_count: usize,
    pub(super) group_names: BTreeMap<String, usize>,
}

impl Translation {
    /// Rewrites a pattern of Java.
    pub(super) fn of(pattern: &str, end_anchor: EndAnchor) -> Result<Translation, Refusal> {
        let mut translator = Translator {
            input: pattern.chars(),
            output: Translation::default(),
            end_anchor,
            flags: Flags::default(),
            open_groups: Vec::new(),
            sequence: Sequence::default(),
            last_item: None,
        };
        while let Some(character) = translator.input.next() {
            translator.step(character)?;
        }
        if translator.open_groups.is_empty() { Ok(translator.output) } else { Err(Refusal::Parenthesis) }
    }
}

/// Something that a quantifier may follow.
#[derive(Clone, Copy)]
struct Item {
    /// Whether it can match the empty text.
    nullable: bool,
    has_captures: bool,
}

/// What a quantifier means for its item.
#[derive(Clone, Copy)]
struct Repetition {
    /// Whether the item may be absent.
    optional: bool,
    /// Whether the item may match twice or more.
    repeats: bool,
}

/// What is known of the alternatives of one group up to the current place.
#[derive(Clone, Copy, Default)]
struct Sequence {
    /// Whether something in the current alternative must match at least one character.
    consumes: bool,
    /// The same without its last item.
    consumes_before_item: bool,
    /// Whether an earlier alternative can match the empty text.
    nullable_alternative: bool,
    has_captures: bool,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum GroupKind {
    Capturing,
    Plain,
    Atomic,
    LookAhead,
}

/// A group whose `)` has not been reached.
struct OpenGroup {
    kind: GroupKind,
    /// The flags before the group, which apply again after it.
    flags: Flags,
    /// The sequence that the group is an item of.
    outer: Sequence,
}

struct Translator<'a> {
    input: Chars<'a>,
    output: Translation,
    end_anchor: EndAnchor,
    flags: Flags,
    open_groups: Vec<OpenGroup>,
    sequence: Sequence,
    /// What a quantifier would apply to.
    last_item: Option<Item>,
}

impl Translator<'_> {
    fn step(&mut self, character: char) -> Result<(), Refusal> {
        match character {
            '\\' => self.escape()?,
            '[' => {
                let class = class::bracketed(&mut self.input, self.flags)?;
                self.emit(&class);
            }
            '.' if self.flags.dot_all => self.emit("(?s:.)"),
            '.' => self.emit(r"[^\n\r\x{85}\x{2028}\x{2029}]"),
            '^' => self.emit_assertion(r"\A"),
            '$' => self.emit_assertion(self.end_anchor.regex()),
            '|' => {
                self.emit_assertion("|");
                self.sequence.nullable_alternative |= !self.sequence.consumes;
                self.sequence.consumes = false;
            }
            '(' => self.open_group()?,
            ')' => self.close_group()?,
            '*' => self.quantify("*", Repetition { optional: true, repeats: true })?,
            '+' => self.quantify("+", Repetition { optional: false, repeats: true })?,
            '?' => self.quantify("?", Repetition { optional: true, repeats: false })?,
            '{' => {
                let start = self.input.as_str();
                let repetition = self.braces()?;
                let counts = &start[..start.len() - self.input.as_str().len()];
                self.quantify(&format!("{{{counts}"), repetition)?;
            }
            literal => self.literal(literal),
        }
        Ok(())
    }

    /// Writes something that matches one character.
    fn emit(&mut self, regex: &str) {
        self.emit_item(regex, Item { nullable: false, has_captures: false });
    }

    fn emit_item(&mut self, regex: &str, item: Item) {
        self.output.regex.push_str(regex);
        self.sequence.consumes_before_item = self.sequence.consumes;
        self.sequence.consumes |= !item.nullable;
        self.sequence.has_captures |= item.has_captures;
        self.last_item = Some(item);
    }

    /// Writes something that no quantifier may follow.
    fn emit_assertion(&mut self, regex: &str) {
        self.output.regex.push_str(regex);
        self.last_item = None;
    }

    fn literal(&mut self, character: char) {
        let regex = class::literal(character, self.flags);
        self.emit(&regex);
    }

    /// Consumes `text` if the input continues with it.
    fn take(&mut self, text: &str) -> bool {
        let Some(rest) = self.input.as_str().strip_prefix(text) else { return false };
        self.input = rest.chars();
        true
    }

    fn escape(&mut self) -> Result<(), Refusal> {
        if self.take("Q") {
            let rest = self.input.as_str();
            let (quoted, rest) = rest.split_once(r"\E").unwrap_or((rest, ""));
            self.input = rest.chars();
            quoted.chars().for_each(|character| self.literal(character));
        } else if self.take("A") {
            self.emit_assertion(r"\A");
        } else if self.take("z") {
            self.emit_assertion(r"\z");
        } else if self.take("Z") {
            self.emit_assertion(self.end_anchor.regex());
        } else {
            match class::escape(&mut self.input, self.flags)? {
                class::Member::Character(character) => self.literal(character),
                class::Member::Set(set) => self.emit(&format!("[{set}]")),
            }
        }
        Ok(())
    }

    /// Reads a group up to its content, or an inline flag.
    fn open_group(&mut self) -> Result<(), Refusal> {
        let flags = self.flags;
        let (kind, start) = if !self.take("?") {
            self.output.group_count += 1;
            (GroupKind::Capturing, "(")
        } else if self.take("=") {
            (GroupKind::LookAhead, "(?=")
        } else if self.take("!") {
            (GroupKind::LookAhead, "(?!")
        } else if self.take(">") {
            (GroupKind::Atomic, "(?>")
        } else if self.take("<") {
            self.group_name()?;
            (GroupKind::Capturing, "(")
        } else if self.inline_flags()? {
            self.last_item = None;
            return Ok(());
        } else {
            (GroupKind::Plain, "(?:")
        };
        self.emit_assertion(start);
        let outer = std::mem::take(&mut self.sequence);
        self.open_groups.push(OpenGroup { kind, flags, outer });
        Ok(())
    }

    fn close_group(&mut self) -> Result<(), Refusal> {
        let group = self.open_groups.pop().ok_or(Refusal::Parenthesis)?;
        let inner = std::mem::replace(&mut self.sequence, group.outer);
        self.flags = group.flags;
        let item = Item {
            nullable: inner.nullable_alternative || !inner.consumes,
            has_captures: inner.has_captures || group.kind == GroupKind::Capturing,
        };
        match group.kind {
            GroupKind::Atomic | GroupKind::LookAhead if item.has_captures => {
                return Err(Refusal::Unsupported("a capturing group inside (?>), (?=) or (?!)"));
            }
            GroupKind::LookAhead => self.emit_assertion(")"),
            GroupKind::Capturing | GroupKind::Plain | GroupKind::Atomic => self.emit_item(")", item),
        }
        Ok(())
    }

    fn group_name(&mut self) -> Result<(), Refusal> {
        if self.input.as_str().starts_with(['=', '!']) {
            return Err(Refusal::Unsupported("(?<=) and (?<!)"));
        }
        let (name, rest) = self.input.as_str().split_once('>').ok_or(Refusal::GroupName)?;
        let valid = name.starts_with(|first: char| first.is_ascii_alphabetic())
            && name.chars().all(|character| character.is_ascii_alphanumeric());
        self.output.group_count += 1;
        let earlier = self.output.group_names.insert(name.to_owned(), self.output.group_count);
        if !valid || earlier.is_some() {
            return Err(Refusal::GroupName);
        }
        self.input = rest.chars();
        Ok(())
    }

    /// Reads flags as in `(?i)`, `(?-s:` or `(?:`. Returns whether they apply to the rest of the enclosing group
    /// instead of opening a group.
    fn inline_flags(&mut self) -> Result<bool, Refusal> {
        let mut value = true;
        for character in self.input.by_ref() {
            match character {
                'i' => self.flags.ignore_case = value,
                's' => self.flags.dot_all = value,
                '-' if value => value = false,
                ':' => return Ok(false),
                ')' => return Ok(true),
                _ => return Err(Refusal::Unsupported("(? with another flag than i or s")),
            }
        }
        Err(Refusal::Parenthesis)
    }

    /// Reads `{n}`, `{n,}` or `{n,m}` after its first brace.
    fn braces(&mut self) -> Result<Repetition, Refusal> {
        let (counts, rest) = self.input.as_str().split_once('}').ok_or(Refusal::Braces)?;
        let (low, high) = counts.split_once(',').unwrap_or((counts, counts));
        let count = |text: &str| {
            let digits = text.bytes().all(|byte| byte.is_ascii_digit());
            text.parse::<u16>().ok().filter(|_| digits).ok_or(Refusal::Braces)
        };
        let low = count(low)?;
        let high = if high.is_empty() { u16::MAX } else { count(high)? };
        if high < low {
            return Err(Refusal::Braces);
        }
        self.input = rest.chars();
        Ok(Repetition { optional: low == 0, repeats: high > 1 })
    }

    /// Writes a quantifier and the `?` or `+` that makes it lazy or possessive.
    fn quantify(&mut self, quantifier: &str, repetition: Repetition) -> Result<(), Refusal> {
        let item = self.last_item.take().ok_or(Refusal::DanglingQuantifier)?;
        let mode = ["?", "+"].into_iter().find(|mode| self.take(mode)).unwrap_or_default();
        if item.has_captures && mode == "+" {
            return Err(Refusal::Unsupported("a capturing group with a possessive quantifier"));
        }
        if item.has_captures && item.nullable && repetition.repeats {
            return Err(Refusal::Unsupported("a repeated capturing group that can match the empty text"));
        }
        if repetition.optional {
            self.sequence.consumes = self.sequence.consumes_before_item;
        }
        self.output.regex.push_str(quantifier);
        self.output.regex.push_str(mode);
        Ok(())
    }
}
