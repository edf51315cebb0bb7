//! Single characters, escapes that stand for one or several, and character classes in brackets (S-58).

use super::refusal::Refusal;
use std::str::Chars;

/// The inline flags at one place of the pattern.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Flags {
    /// `i`: letters of ASCII match in both cases.
    pub(super) ignore_case: bool,
    /// `s`: a dot matches line terminators too.
    pub(super) dot_all: bool,
}

/// What an escape stands for.
pub(super) enum Member {
    Character(char),
    /// Members of a class, in the engine's syntax.
    Set(&'static str),
}

/// Writes a literal character, after `(?i)` in both cases.
pub(super) fn literal(character: char, flags: Flags) -> String {
    match flags.ignore_case && character.is_ascii_alphabetic() {
        true => format!("[{}{}]", character.to_ascii_lowercase(), character.to_ascii_uppercase()),
        false => code_point(character),
    }
}

/// Writes a character so that it has no special meaning anywhere.
fn code_point(character: char) -> String {
    match character.is_ascii_alphanumeric() {
        true => character.to_string(),
        false => format!(r"\x{{{:x}}}", u32::from(character)),
    }
}

/// Reads an escape after its backslash.
pub(super) fn escape(input: &mut Chars<'_>, flags: Flags) -> Result<Member, Refusal> {
    let character = input.next().ok_or(Refusal::LastBackslash)?;
    Ok(match character {
        'd' => Member::Set("0-9"),
        'D' => Member::Set("[^0-9]"),
        'w' => Member::Set("0-9A-Z_a-z"),
        'W' => Member::Set("[^0-9A-Z_a-z]"),
        's' => Member::Set(r"\x{9}-\x{d}\x{20}"),
        'S' => Member::Set(r"[^\x{9}-\x{d}\x{20}]"),
        't' => Member::Character('\t'),
        'n' => Member::Character('\n'),
        'r' => Member::Character('\r'),
        'f' => Member::Character('\u{c}'),
        'a' => Member::Character('\u{7}'),
        'e' => Member::Character('\u{1b}'),
        'x' => Member::Character(hexadecimal(input, 2)?),
        'u' => Member::Character(hexadecimal(input, 4)?),
        'p' | 'P' if !flags.ignore_case => Member::Set(property(input, character == 'P')?),
        other if other.is_ascii_alphanumeric() => return Err(Refusal::Escape(other)),
        other => Member::Character(other),
    })
}

/// Reads a code point of exactly `count` digits.
fn hexadecimal(input: &mut Chars<'_>, count: usize) -> Result<char, Refusal> {
    let mut value = 0;
    for _ in 0..count {
        let digit = input.next().and_then(|digit| digit.to_digit(16)).ok_or(Refusal::CodePoint)?;
        value = value * 16 + digit;
    }
    char::from_u32(value).ok_or(Refusal::CodePoint)
}

/// Reads the name after `\p` or `\P`. Java's POSIX names cover ASCII only.
fn property(input: &mut Chars<'_>, negated: bool) -> Result<&'static str, Refusal> {
    let rest = input.as_str();
    let braced = rest.strip_prefix('{').and_then(|name| name.split_once('}'));
    let Some((name, rest)) = braced.or_else(|| rest.split_at_checked(1)) else {
        return Err(Refusal::LastBackslash);
    };
    input.clone_from(&rest.chars());
    Ok(match (name, negated) {
        ("Lower", false) => "a-z",
        ("Lower", true) => "[^a-z]",
        ("Upper", false) => "A-Z",
        ("Upper", true) => "[^A-Z]",
        ("Alpha", false) => "A-Za-z",
        ("Alpha", true) => "[^A-Za-z]",
        ("Digit", false) => "0-9",
        ("Digit", true) => "[^0-9]",
        ("Alnum", false) => "0-9A-Za-z",
        ("Alnum", true) => "[^0-9A-Za-z]",
        ("L", false) => r"\p{L}",
        ("L", true) => r"\P{L}",
        ("Lu", false) => r"\p{Lu}",
        ("Lu", true) => r"\P{Lu}",
        ("Ll", false) => r"\p{Ll}",
        ("Ll", true) => r"\P{Ll}",
        ("N", false) => r"\p{N}",
        ("N", true) => r"\P{N}",
        ("Nd", false) => r"\p{Nd}",
        ("Nd", true) => r"\P{Nd}",
        _ => return Err(Refusal::Escape(if negated { 'P' } else { 'p' })),
    })
}

/// Reads a class after its `[` and rewrites it.
pub(super) fn bracketed(input: &mut Chars<'_>, flags: Flags) -> Result<String, Refusal> {
    let mut class = String::from("[");
    if let Some(rest) = input.as_str().strip_prefix('^') {
        input.clone_from(&rest.chars());
        class.push('^');
    }
    let mut is_first = true;
    loop {
        let member = match input.next().ok_or(Refusal::UnclosedClass)? {
            ']' if is_first => return Err(Refusal::UnclosedClass),
            ']' => break,
            '[' => return Err(Refusal::Unsupported("[ inside a character class")),
            '&' if input.as_str().starts_with('&') => return Err(Refusal::Unsupported("&&")),
            '-' if !is_first && !input.as_str().starts_with(']') => {
                return Err(Refusal::Unsupported("- after a range or set inside a character class"));
            }
            '\\' => escape(input, flags)?,
            character => Member::Character(character),
        };
        is_first = false;
        match member {
            Member::Set(set) => class.push_str(set),
            Member::Character(low) => push_range(&mut class, low, range_end(low, input, flags)?, flags),
        }
    }
    class.push(']');
    Ok(class)
}

/// Reads the rest of a range that starts with `low`. Without a `-`, the range is that one character.
fn range_end(low: char, input: &mut Chars<'_>, flags: Flags) -> Result<char, Refusal> {
    let Some(rest) = input.as_str().strip_prefix('-').filter(|rest| !rest.starts_with(']')) else {
        return Ok(low);
    };
    input.clone_from(&rest.chars());
    let high = match input.next().ok_or(Refusal::UnclosedClass)? {
        '[' | '&' => return Err(Refusal::Unsupported("[ or & as the end of a range")),
        '\\' => escape(input, flags)?,
        character => Member::Character(character),
    };
    match high {
        Member::Character(high) if low <= high => Ok(high),
        Member::Character(_) | Member::Set(_) => Err(Refusal::Range),
    }
}

/// Appends a range to a class. After `(?i)`, the letters of ASCII in it are added in the other case.
fn push_range(class: &mut String, low: char, high: char, flags: Flags) {
    let mut push =
        |low: char, high: char| class.push_str(&format!("{}-{}", code_point(low), code_point(high)));
    push(low, high);
    if !flags.ignore_case {
        return;
    }
    for (first, last) in [('a', 'z'), ('A', 'Z')] {
        let (low, high) = (low.max(first), high.min(last));
        if low <= high {
            let swap = |letter: char| {
                if first == 'a' { letter.to_ascii_uppercase() } else { letter.to_ascii_lowercase() }
            };
            push(swap(low), swap(high));
        }
    }
}
