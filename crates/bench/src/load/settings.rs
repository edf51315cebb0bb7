//! A cell's settings: NAME=VALUE words, every one of which is asked for with its default.

use std::collections::BTreeMap;
use std::str::FromStr;
use std::time::Duration;

pub(crate) struct Settings(BTreeMap<String, String>);

impl Settings {
    pub(crate) fn parse(words: &[&str]) -> Result<Settings, String> {
        let pair = |word: &&str| {
            let (name, value) = word.split_once('=').ok_or_else(|| format!("not NAME=VALUE: {word}"))?;
            Ok((name.to_owned(), value.to_owned()))
        };
        words.iter().map(pair).collect::<Result<_, String>>().map(Settings)
    }

    /// A number, or the default if it is not told.
    pub(crate) fn number<T: FromStr>(&self, name: &str, default: T) -> Result<T, String> {
        match self.0.get(name) {
            Some(text) => text.parse().map_err(|_| format!("{name}={text} is no number of that kind")),
            None => Ok(default),
        }
    }

    pub(crate) fn text(&self, name: &str) -> Result<&str, String> {
        self.0.get(name).map(String::as_str).ok_or_else(|| format!("{name}= is missing"))
    }

    pub(crate) fn text_or<'a>(&'a self, name: &str, default: &'a str) -> &'a str {
        self.0.get(name).map_or(default, String::as_str)
    }

    pub(crate) fn millis(&self, name: &str, default: u64) -> Result<Duration, String> {
        self.number(name, default).map(Duration::from_millis)
    }
}
