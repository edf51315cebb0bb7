//! Scripts: what is asked, as text.
//!
//! ```text
//! # a comment
//! macro hello = ApiVersions 0 {}
//! == name                      a script, played once; or
//! == name v=Produce            once for each version of Produce that is served, `v` being the version; or
//! == name v=Produce 9-13       for these of them
//! topic t 3                    makes the topic ~t with three partitions and waits for it; $t is its id
//! restart                      the broker is stopped and started again, where that can be done
//! [v>=4] @b send Fetch v {...} only where the condition holds; on the connection b; without waiting for the answer
//! recv @b => x=path            waits for the oldest answer on b and takes a value from it
//! Fetch all {...}              in each version that is served
//! mutate Fetch v {...} except maxWaitMs
//! cut Fetch v {...}            the frame, each time some bytes shorter
//! raw Fetch v 0011aabb         a body in hex
//! block rows                   the lines up to `end`, as one name
//! end
//! use rows                     the lines of a block
//! !hello                       a macro; its words stand for %1, %2 and so on, the last one takes the rest of the line
//! ```
//!
//! Lines that begin with a blank go on from the line above. Behind a request there may be `=> name=path` (values taken
//! from the answer; `name?=path`: unless it is negative), `only path` (of that list, only the elements that name
//! something of this script), `until path=value` (asked again until it is so), `noretry` and `skip` (not compared). In
//! JSON, `"~x"` is a name of this script's own, `"$x"` a value.

use ottla_wire::tables::TableSet;
use ottla_wire::{ApiInfo, Versions};
use serde_json::Value;
use std::collections::BTreeMap;

/// A text that is no script: file, line, and what is wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BadScript(pub String);

impl std::fmt::Display for BadScript {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for BadScript {}

/// A script, to be played once or once for each of some versions.
#[derive(Clone, Debug)]
pub struct Script {
    /// Its name, of small letters, digits and `-`.
    pub name: String,
    /// The versions that `v` runs over; none for a script without `v`.
    pub versions: Option<(&'static ApiInfo, Versions)>,
    /// What is done, in order.
    pub steps: Vec<Step>,
}

/// Something done in a script.
#[derive(Clone, Debug)]
pub struct Step {
    /// The line it stands in.
    pub line: usize,
    /// When it is done.
    pub condition: Option<Condition>,
    /// The connection.
    pub connection: String,
    /// What is done.
    pub action: Action,
}

/// A bound on the version.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Condition {
    /// The least version.
    pub min: i16,
    /// The greatest.
    pub max: i16,
}

/// What a step does.
#[derive(Clone, Debug)]
pub enum Action {
    /// Makes a topic and waits until it can be used: its name and the number of its partitions.
    Topic(String, i32),
    /// Stops the broker and starts it again.
    Restart,
    /// Waits so many milliseconds.
    Sleep(u64),
    /// Waits for the oldest answer that is due.
    Receive(After),
    /// Asks.
    Ask(Box<Ask>),
}

/// A request.
#[derive(Clone, Debug)]
pub struct Ask {
    /// The API.
    pub api: &'static ApiInfo,
    /// The version.
    pub version: Version,
    /// How it is sent.
    pub how: How,
    /// The message.
    pub json: Value,
    /// What happens with the answer.
    pub after: After,
}

/// Which version a request is sent in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Version {
    /// This.
    Fixed(i16),
    /// The one that the script runs over.
    Loop,
    /// Each that is served.
    All,
}

/// How a request is sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum How {
    /// Once, and its answer is waited for.
    Call,
    /// Once; its answer is waited for later.
    Send,
    /// Many times, each time with one value changed, but for those of these paths.
    Mutate(Vec<String>),
    /// Many times, each time some bytes shorter.
    Cut,
    /// With this body.
    Raw(Vec<u8>),
}

/// What happens with an answer.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct After {
    /// Values taken from it: name and path.
    pub bind: Vec<(String, String)>,
    /// Lists cut down to what is of this script.
    pub only: Vec<String>,
    /// What it must come to.
    pub until: Option<(String, Value)>,
    /// It is taken as it is, though it says that it should be asked again.
    pub noretry: bool,
    /// It is not compared.
    pub skip: bool,
}

/// Reads a file of scripts: `file` names it in errors, `served` says which versions of an API are served, `macros`
/// holds those of earlier files and takes those of this one.
///
/// # Errors
/// The text is not in the language.
pub fn parse(
    file: &str,
    text: &str,
    served: &dyn Fn(&ApiInfo) -> Versions,
    macros: &mut BTreeMap<String, String>,
) -> Result<Vec<Script>, BadScript> {
    let mut scripts: Vec<Script> = Vec::new();
    let mut block: Option<(String, Vec<String>)> = None;
    for (number, line) in logical_lines(text) {
        let bad = |what: String| BadScript(format!("{file}:{number}: {what}"));
        if let Some((name, mut lines)) = block.take() {
            if line == "end" {
                macros.insert(name, lines.join("\n"));
            } else {
                lines.push(line);
                block = Some((name, lines));
            }
        } else if line.starts_with("block ") {
            block = Some((line, Vec::new()));
        } else if let Some(head) = line.strip_prefix("== ") {
            scripts.push(heading(head, served).map_err(bad)?);
        } else if let Some(rest) = line.strip_prefix("macro ") {
            let (name, body) =
                rest.split_once('=').ok_or_else(|| bad("a macro is NAME = LINE".to_owned()))?;
            macros.insert(name.trim().to_owned(), body.trim().to_owned());
        } else {
            let script = scripts.last_mut().ok_or_else(|| bad("a step before the first ==".to_owned()))?;
            let lines = match line.strip_prefix("use ") {
                None => line,
                Some(name) => {
                    let block = macros.get(&format!("block {}", name.trim()));
                    block.cloned().ok_or_else(|| bad(format!("there is no block {name}")))?
                }
            };
            for line in lines.lines() {
                let step = step(number, &expand(line, macros).map_err(bad)?).map_err(bad)?;
                script.steps.push(step);
            }
        }
    }
    Ok(scripts)
}

/// Lines with what continues them, comments and empty ones left out.
fn logical_lines(text: &str) -> Vec<(usize, String)> {
    let mut lines: Vec<(usize, String)> = Vec::new();
    for (at, line) in text.lines().enumerate() {
        let content = line.trim();
        if content.is_empty() || content.starts_with('#') {
            continue;
        }
        match lines.last_mut() {
            Some((_, last)) if line.starts_with([' ', '\t']) => {
                last.push(' ');
                last.push_str(content);
            }
            _ => lines.push((at + 1, content.to_owned())),
        }
    }
    lines
}

fn heading(head: &str, served: &dyn Fn(&ApiInfo) -> Versions) -> Result<Script, String> {
    let mut words = head.split_whitespace();
    let name = words.next().ok_or("a script needs a name")?.to_owned();
    if !name.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-') {
        return Err(format!("{name} is no name: small letters, digits and - only"));
    }
    let versions = match words.next() {
        None => None,
        Some(word) => {
            let api = word.strip_prefix("v=").ok_or_else(|| format!("{word} is not v=API"))?;
            let info = api_of(api)?;
            let all = served(info);
            let range = words.next().map_or(Ok(all), range)?;
            Some((info, Versions::new(all.min.max(range.min), all.max.min(range.max))))
        }
    };
    Ok(Script { name, versions, steps: Vec::new() })
}

fn api_of(name: &str) -> Result<&'static ApiInfo, String> {
    TableSet::built_in().api_named(name).ok_or_else(|| format!("there is no API {name}"))
}

fn range(text: &str) -> Result<Versions, String> {
    let (min, max) = text.split_once('-').unwrap_or((text, text));
    let number = |text: &str| text.parse::<i16>().map_err(|_| format!("{text} is no version"));
    Ok(Versions::new(number(min)?, number(max)?))
}

/// Macros may use macros of before, so a few rounds do.
fn expand(line: &str, macros: &BTreeMap<String, String>) -> Result<String, String> {
    let mut line = line.to_owned();
    for _ in 0..8 {
        let Some(at) = line.find('!').filter(|at| line[..*at].chars().all(|c| !"{\"".contains(c))) else {
            return Ok(line);
        };
        let (before, call) = line.split_at(at);
        let (name, rest) = call[1..].split_once(' ').unwrap_or((&call[1..], ""));
        let body = macros.get(name).ok_or_else(|| format!("there is no macro {name}"))?;
        let places = (1..=9).rev().find(|n| body.contains(&format!("%{n}"))).unwrap_or(0);
        let mut filled = body.clone();
        let (rest, tail) = rest.split_at(if places == 0 { 0 } else { tail_at(rest) });
        let words: Vec<&str> = rest.trim().splitn(places.max(1), ' ').collect();
        for n in 1..=places {
            filled = filled.replace(&format!("%{n}"), words.get(n - 1).copied().unwrap_or("").trim());
        }
        line = format!("{before}{filled} {tail}");
    }
    Err("macros within macros without end".to_owned())
}

/// Where what follows a request begins.
fn tail_at(text: &str) -> usize {
    let signs = [" => ", " only ", " until ", " noretry", " skip"];
    signs.iter().filter_map(|sign| text.find(sign)).min().unwrap_or(text.len())
}

/// The words of a step from its front.
struct Words<'a>(&'a str);

impl<'a> Words<'a> {
    fn peek(&self) -> &'a str {
        self.0.split_whitespace().next().unwrap_or("")
    }

    fn next(&mut self) -> &'a str {
        let text = self.0.trim_start();
        let end = text.find(char::is_whitespace).unwrap_or(text.len());
        let (word, rest) = text.split_at(end);
        self.0 = rest.trim_start();
        word
    }

    fn json(&mut self) -> Result<Value, String> {
        let mut values = serde_json::Deserializer::from_str(self.0).into_iter::<Value>();
        let value = values.next().ok_or("JSON is missing")?.map_err(|e| format!("{e} in {}", self.0))?;
        self.0 = self.0.get(values.byte_offset()..).unwrap_or_default().trim_start();
        Ok(value)
    }
}

fn step(line: usize, text: &str) -> Result<Step, String> {
    let mut words = Words(text);
    let condition = match words.peek() {
        word if word.starts_with('[') => Some(condition(words.next())?),
        _ => None,
    };
    let mut connection = "main".to_owned();
    if let Some(name) = words.peek().strip_prefix('@') {
        connection = name.to_owned();
        words.next();
    }
    let action = match words.next() {
        "topic" => Action::Topic(words.next().to_owned(), number(words.next())?),
        "restart" => Action::Restart,
        "sleep" => Action::Sleep(number(words.next())?),
        "recv" => Action::Receive(after(&mut words)?),
        "send" => ask(words.next().to_owned(), How::Send, &mut words)?,
        "cut" => ask(words.next().to_owned(), How::Cut, &mut words)?,
        "mutate" => ask(words.next().to_owned(), How::Mutate(Vec::new()), &mut words)?,
        "raw" => ask(words.next().to_owned(), How::Raw(Vec::new()), &mut words)?,
        api => ask(api.to_owned(), How::Call, &mut words)?,
    };
    match words.0 {
        "" => Ok(Step { line, condition, connection, action }),
        rest => Err(format!("not understood: {rest}")),
    }
}

fn number<T: std::str::FromStr>(word: &str) -> Result<T, String> {
    word.parse().map_err(|_| format!("{word:?} is no number"))
}

/// `[v>=3]`, `[v<=3]` or `[v=3]`.
fn condition(word: &str) -> Result<Condition, String> {
    let inner = word.trim_start_matches("[v").trim_end_matches(']');
    let (min, max) = (i16::MIN, i16::MAX);
    if let Some(least) = inner.strip_prefix(">=") {
        Ok(Condition { min: number(least)?, max })
    } else if let Some(most) = inner.strip_prefix("<=") {
        Ok(Condition { min, max: number(most)? })
    } else {
        let only = number(inner.trim_start_matches('='))?;
        Ok(Condition { min: only, max: only })
    }
}

fn ask(api: String, mut how: How, words: &mut Words<'_>) -> Result<Action, String> {
    let api = api_of(&api)?;
    let version = match words.next() {
        "v" => Version::Loop,
        "all" => Version::All,
        fixed => Version::Fixed(number(fixed)?),
    };
    let mut json = Value::Null;
    if let How::Raw(body) = &mut how {
        *body = unhex(words.next())?;
    } else {
        json = words.json()?;
    }
    if let How::Mutate(except) = &mut how
        && words.peek() == "except"
    {
        words.next();
        *except = words.next().split(',').map(str::to_owned).collect();
    }
    let after = after(words)?;
    Ok(Action::Ask(Box::new(Ask { api, version, how, json, after })))
}

fn unhex(text: &str) -> Result<Vec<u8>, String> {
    let digit = |at: usize| text.get(at..at + 2).and_then(|pair| u8::from_str_radix(pair, 16).ok());
    let bytes = (0..text.len()).step_by(2).map(|at| digit(at).ok_or_else(|| format!("{text} is not hex")));
    bytes.collect()
}

fn after(words: &mut Words<'_>) -> Result<After, String> {
    let mut after = After::default();
    loop {
        match words.peek() {
            "=>" => {
                words.next();
                while let Some((name, path)) =
                    words.peek().split_once('=').filter(|(name, _)| !name.is_empty())
                {
                    after.bind.push((name.to_owned(), path.to_owned()));
                    words.next();
                }
            }
            "only" => {
                words.next();
                after.only.push(words.next().to_owned());
            }
            "until" => {
                words.next();
                let (path, value) = words.next().split_once('=').ok_or("until needs path=value")?;
                let value = serde_json::from_str(value).map_err(|e| format!("until {value}: {e}"))?;
                after.until = Some((path.to_owned(), value));
            }
            "noretry" => {
                words.next();
                after.noretry = true;
            }
            "skip" => {
                words.next();
                after.skip = true;
            }
            _ => return Ok(after),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(text: &str) -> Result<Vec<Script>, BadScript> {
        parse("f", text, &|info| info.request_versions, &mut BTreeMap::new())
    }

    #[test]
    fn steps_carry_condition_connection_and_what_follows() {
        let text = "macro ask = Fetch %1 {\"maxWaitMs\": %2}\n== a v=Fetch 4-5\n[v>=5] @b !ask v 7\n => x=a.0.b until a=1\nrecv skip\n";
        let scripts = parsed(text).unwrap();
        assert_eq!(scripts[0].versions.as_ref().unwrap().1, Versions::new(4, 5));
        let step = &scripts[0].steps[0];
        assert_eq!((step.condition.unwrap().min, step.connection.as_str()), (5, "b"));
        let Action::Ask(ask) = &step.action else { panic!("{step:?}") };
        assert_eq!((ask.version, ask.json.to_string().as_str()), (Version::Loop, "{\"maxWaitMs\":7}"));
        assert_eq!(ask.after.bind, [("x".to_owned(), "a.0.b".to_owned())]);
        assert_eq!(ask.after.until, Some(("a".to_owned(), 1.into())));
        assert!(matches!(&scripts[0].steps[1].action, Action::Receive(after) if after.skip));
    }

    #[test]
    fn mistakes_are_named_with_their_line() {
        let why = |text: &str| parsed(text).unwrap_err().to_string();
        assert_eq!(why("Fetch 4 {}"), "f:1: a step before the first ==");
        assert_eq!(why("== a\n\nFetsch 4 {}"), "f:3: there is no API Fetsch");
        assert_eq!(why("== a\nFetch 4 {} maybe"), "f:2: not understood: maybe");
        assert_eq!(why("== a\n!b"), "f:2: there is no macro b");
    }
}
