//! Names for what may differ between two brokers: ids, times, addresses. The rules are data, in `names.toml`.
//!
//! An id is named by its kind and by the place of its first occurrence in the script: the same id later has the same
//! name. So ids may differ between brokers, and a mix-up is still found.

use serde::Deserialize;
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;

/// Times of records lie less than this before or behind the time that they count from, in milliseconds.
const RECORD_TIMES: i64 = 1_000_000_000;
/// What is less than this away from the clock is now, in milliseconds.
const NOW: i64 = 3_600_000;

/// The rules. A path is `API.field.field` without places in lists, or `*.field` for fields of that name in all answers.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Rules {
    /// Ids: path and kind.
    ids: BTreeMap<String, String>,
    /// Times in milliseconds since 1970.
    times: Vec<String>,
    /// Values that are compared only as null, empty, negative or other: path and name.
    anything: BTreeMap<String, String>,
    /// Bytes that follow from other fields; they are left out.
    derived: Vec<String>,
    /// Lists without an order: path, and the field that tells elements apart; they are compared by it.
    keyed: BTreeMap<String, String>,
    /// Lists without an order, of which the brokers' ids tell elements apart: path, and the field that they are sorted
    /// by first.
    sorted: BTreeMap<String, String>,
    /// Lists without an order, sorted by their text when everything has its name.
    unordered: Vec<String>,
}

impl Rules {
    /// Reads the rules.
    ///
    /// # Errors
    /// The text is not of their form.
    pub fn parse(text: &str) -> Result<Rules, String> {
        toml::from_str(text).map_err(|e| e.to_string())
    }
}

/// Names given so far in a script on one broker.
pub struct Names<'a> {
    rules: &'a Rules,
    /// Where times of records count from.
    time: i64,
    seen: BTreeMap<String, Vec<String>>,
}

/// The place of a value.
struct Place<'a> {
    api: &'a str,
    path: String,
    now: i64,
}

impl Place<'_> {
    fn is(&self, rule: &str) -> bool {
        match rule.strip_prefix("*.") {
            Some(field) => self.path.rsplit('.').next() == Some(field),
            None => rule
                .split_once('.')
                .is_some_and(|(api, path)| (api == "*" || api == self.api) && path == self.path),
        }
    }
}

impl<'a> Names<'a> {
    /// No names yet; times of records count from `time`.
    pub fn new(rules: &'a Rules, time: i64) -> Names<'a> {
        Names { rules, time, seen: BTreeMap::new() }
    }

    /// The answer with names. `now` is the clock, in milliseconds since 1970.
    pub fn named(&mut self, api: &str, answer: &Value, now: i64) -> Value {
        let mut place = Place { api, path: String::new(), now };
        self.value(&mut place, answer)
    }

    fn value(&mut self, place: &mut Place<'_>, value: &Value) -> Value {
        match value {
            Value::Array(list) => self.list(place, list),
            Value::Object(object) => {
                let mut out = Map::new();
                for (key, inner) in object {
                    let length = place.path.len();
                    if length > 0 {
                        place.path.push('.');
                    }
                    place.path.push_str(key);
                    let named = self.value(place, inner);
                    place.path.truncate(length);
                    if !named.is_null() || inner.is_null() {
                        out.insert(key.clone(), named);
                    }
                }
                Value::Object(out)
            }
            leaf => self.leaf(place, leaf),
        }
    }

    fn list(&mut self, place: &mut Place<'_>, list: &[Value]) -> Value {
        let rules = self.rules;
        if let Some((_, key)) = rules.keyed.iter().find(|(path, _)| place.is(path)) {
            let mut sorted: Vec<(String, &Value)> =
                list.iter().map(|one| (text_of(&one[key.as_str()]), one)).collect();
            sorted.sort_by(|a, b| a.0.cmp(&b.0));
            let mut out = Map::new();
            for (key, one) in sorted {
                let mut key = format!("{{{key}}}");
                while out.contains_key(&key) {
                    key.push('+');
                }
                let named = self.value(place, one);
                out.insert(key, named);
            }
            return Value::Object(out);
        }
        let mut list: Vec<&Value> = list.iter().collect();
        if let Some((_, key)) = rules.sorted.iter().find(|(path, _)| place.is(path)) {
            list.sort_by_key(|one| (one[key.as_str()].as_i64(), text_of(&one[key.as_str()])));
        }
        let mut named: Vec<Value> = list.into_iter().map(|one| self.value(place, one)).collect();
        if rules.unordered.iter().any(|path| place.is(path)) {
            named.sort_by_key(Value::to_string);
        }
        Value::Array(named)
    }

    fn leaf(&mut self, place: &Place<'_>, leaf: &Value) -> Value {
        let rules = self.rules;
        if rules.derived.iter().any(|rule| place.is(rule)) {
            return Value::Null;
        }
        if let Some((_, kind)) = rules.ids.iter().find(|(rule, _)| place.is(rule)) {
            return if is_nothing(leaf) { leaf.clone() } else { self.id(kind, leaf) };
        }
        if rules.times.iter().any(|rule| place.is(rule)) {
            return self.time(place, leaf);
        }
        if let Some((_, name)) = rules.anything.iter().find(|(rule, _)| place.is(rule)) {
            return if is_nothing(leaf) { leaf.clone() } else { json!(format!("<{name}>")) };
        }
        leaf.clone()
    }

    fn id(&mut self, kind: &str, leaf: &Value) -> Value {
        let known = self.seen.entry(kind.to_owned()).or_default();
        let text = leaf.to_string();
        let at = known.iter().position(|one| *one == text).unwrap_or_else(|| {
            known.push(text);
            known.len() - 1
        });
        json!(format!("{kind}#{at}"))
    }

    fn time(&self, place: &Place<'_>, leaf: &Value) -> Value {
        match leaf.as_i64() {
            Some(at) if (at - place.now).abs() < NOW => json!("now"),
            Some(at) if (at - self.time).abs() < RECORD_TIMES => json!(format!("T{:+}", at - self.time)),
            _ => leaf.clone(),
        }
    }
}

/// Values that mean no id and no text: null, empty, zero or negative numbers, ids of zero.
fn is_nothing(leaf: &Value) -> bool {
    match leaf {
        Value::Null => true,
        Value::String(text) => text.is_empty() || text.bytes().all(|b| b == b'A'),
        Value::Number(number) => number.as_i64().is_some_and(|n| n < 0),
        _ => false,
    }
}

fn text_of(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rules() -> Rules {
        Rules::parse(
            "times = [\"*.at\"]\nderived = [\"*.records\"]\nunordered = []\n[sorted]\n[ids]\n\"*.pid\" = \"pid\"\n\
             [anything]\n\"*.message\" = \"text\"\n[keyed]\n\"Metadata.topics\" = \"name\"\n",
        )
        .unwrap()
    }

    #[test]
    fn the_same_id_bears_the_same_name() {
        let rules = rules();
        let mut names = Names::new(&rules, 5000);
        let first = names.named("A", &json!({ "pid": 17, "other": [{ "pid": 4 }, { "pid": -1 }] }), 0);
        assert_eq!(first, json!({ "pid": "pid#0", "other": [{ "pid": "pid#1" }, { "pid": -1 }] }));
        assert_eq!(names.named("B", &json!({ "pid": 4 }), 0), json!({ "pid": "pid#1" }));
    }

    #[test]
    fn times_texts_and_derived_bytes_keep_what_matters() {
        let rules = rules();
        let mut names = Names::new(&rules, 50_000_000_000);
        let now = 100_000_000_000;
        let named = |names: &mut Names<'_>, value| names.named("A", &value, now);
        let shown = named(&mut names, json!({ "at": 50_000_000_003i64, "message": "no", "records": "AAAA" }));
        assert_eq!(shown, json!({ "at": "T+3", "message": "<text>" }));
        let shown = named(&mut names, json!({ "at": now + 7, "message": null }));
        assert_eq!(shown, json!({ "at": "now", "message": null }));
        assert_eq!(named(&mut names, json!({ "at": -1 })), json!({ "at": -1 }));
    }

    #[test]
    fn lists_without_order_are_compared_by_key() {
        let rules = rules();
        let mut names = Names::new(&rules, 0);
        let shown = names.named("Metadata", &json!({ "topics": [{ "name": "b" }, { "name": "a" }] }), 0);
        assert_eq!(shown, json!({ "topics": { "{a}": { "name": "a" }, "{b}": { "name": "b" } } }));
    }
}
