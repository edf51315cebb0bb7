//! The list of intended differences: read, matched, and written as a page.

use crate::compare::Unlike;
use crate::player::Exchange;
use serde::Deserialize;
use serde_json::Value;
use std::cell::Cell;
use std::fmt::Write;

/// The list.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Differences {
    /// The introduction of the page.
    opening: String,
    /// The differences in the order of the page.
    #[serde(rename = "difference", default)]
    list: Vec<Difference>,
}

/// A difference: what, why, and in which fields it shows.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Difference {
    /// What is different, as a headline.
    what: String,
    /// Why it stays.
    why: String,
    /// Where it shows.
    places: Vec<Spot>,
}

/// Fields in which a difference shows.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Spot {
    /// The API, `*` for all.
    api: String,
    /// Versions, such as `0-3`; all if left out.
    #[serde(default)]
    versions: Option<String>,
    /// The script's name, or the beginning of it and `*`; all if left out.
    #[serde(default)]
    script: Option<String>,
    /// A part of what is behind the line's number in the exchange's place, such as `=twice`; any if left out.
    #[serde(default)]
    request: Option<String>,
    /// The path. `*` matches one step, `**` at the end all further steps, `**` at the front all earlier ones.
    path: String,
    /// Kafka's value; any if left out, `"absent"` for none.
    #[serde(default)]
    kafka: Option<toml::Value>,
    /// Ottla's value.
    #[serde(default)]
    ottla: Option<toml::Value>,
    /// It shows in random histories only, so that the scripts need not find it.
    #[serde(default)]
    chance: bool,
    #[serde(skip)]
    used: Cell<u32>,
}

impl Differences {
    /// Reads the list.
    ///
    /// # Errors
    /// The text is not of its form.
    pub fn parse(text: &str) -> Result<Differences, String> {
        toml::from_str(text).map_err(|e| e.to_string())
    }

    /// Whether the list has this; the place that says so counts as used.
    pub fn explains(&self, exchange: &Exchange, unlike: &Unlike) -> bool {
        let mut spots = self.list.iter().flat_map(|one| &one.places);
        spots.find(|spot| spot.matches(exchange, unlike)).is_some_and(|spot| {
            spot.used.set(spot.used.get() + 1);
            true
        })
    }

    /// The places that nothing was found in.
    pub fn unused(&self) -> Vec<String> {
        let spots = self.list.iter().flat_map(|one| one.places.iter().map(move |spot| (one, spot)));
        let unused = spots.filter(|(_, spot)| spot.used.get() == 0 && !spot.chance);
        unused.map(|(one, spot)| format!("{}: {}", one.what, spot.shown())).collect()
    }

    /// How many fields were unlike as listed.
    pub fn uses(&self) -> u32 {
        self.list.iter().flat_map(|one| &one.places).map(|spot| spot.used.get()).sum()
    }

    /// The page, in Markdown.
    pub fn page(&self) -> String {
        let mut out = format!("# Differences from Apache Kafka 4.4.0\n\n{}\n", self.opening.trim());
        for one in &self.list {
            // Writing to a String cannot fail.
            let _ = write!(out, "\n## {}\n\n{}\n\n", one.what, one.why.trim());
            for spot in &one.places {
                let _ = writeln!(out, "- {}", spot.shown());
            }
        }
        out
    }
}

impl Spot {
    fn matches(&self, exchange: &Exchange, unlike: &Unlike) -> bool {
        let script = exchange.script();
        (self.api == "*" || self.api == exchange.api)
            && self.versions.as_deref().is_none_or(|range| in_range(range, exchange.version))
            && self.script.as_deref().is_none_or(|pattern| match pattern.strip_suffix('*') {
                Some(front) => script.starts_with(front),
                None => script == pattern,
            })
            && self.request.as_deref().is_none_or(|part| exchange.at.contains(part))
            && path_matches(&self.path, &unlike.path)
            && value_matches(self.kafka.as_ref(), unlike.kafka.as_ref())
            && value_matches(self.ottla.as_ref(), unlike.ottla.as_ref())
    }

    fn shown(&self) -> String {
        let mut out = match self.api.as_str() {
            "*" => "every API".to_owned(),
            api => api.to_owned(),
        };
        if let Some(versions) = &self.versions {
            let _ = write!(out, " {versions}");
        }
        match self.path.as_str() {
            "" | "**" => out.push_str(", the answer"),
            path => {
                let _ = write!(out, ", `{path}`");
            }
        }
        for (who, value) in [("Kafka", &self.kafka), ("Ottla", &self.ottla)] {
            if let Some(value) = value {
                let _ = write!(out, ", {who}: `{value}`");
            }
        }
        let request = self.request.as_ref().map(|request| format!("request {request}"));
        let script = self.script.as_ref().map(|script| format!("script {script}"));
        let only: Vec<String> = script.into_iter().chain(request).collect();
        if !only.is_empty() {
            let _ = write!(out, " ({})", only.join(", "));
        }
        out
    }
}

fn in_range(range: &str, version: i16) -> bool {
    let (min, max) = range.split_once('-').unwrap_or((range, range));
    let bound = |text: &str| text.parse::<i16>().ok();
    bound(min).is_some_and(|min| min <= version) && bound(max).is_some_and(|max| version <= max)
}

fn path_matches(pattern: &str, path: &str) -> bool {
    if let Some(end) = pattern.strip_prefix("**.") {
        return steps(path).ends_with(&steps(end));
    }
    let (mut patterns, mut steps) = (steps(pattern).into_iter(), steps(path).into_iter());
    loop {
        match (patterns.next(), steps.next()) {
            (Some("**"), _) | (None, None) => return true,
            (Some(want), Some(step)) if want == "*" || want == step => {}
            _ => return false,
        }
    }
}

/// The steps of a path; dots between braces belong to a key.
fn steps(path: &str) -> Vec<&str> {
    let (mut out, mut start, mut depth) = (Vec::new(), 0, 0);
    for (at, c) in path.char_indices() {
        match c {
            '{' => depth += 1,
            '}' => depth -= 1,
            '.' if depth == 0 => {
                out.push(&path[start..at]);
                start = at + 1;
            }
            _ => {}
        }
    }
    out.push(&path[start..]);
    out
}

fn value_matches(wanted: Option<&toml::Value>, found: Option<&Value>) -> bool {
    match (wanted, found) {
        (None, _) => true,
        (Some(toml::Value::String(text)), None) => text == "absent",
        (Some(toml::Value::String(text)), Some(Value::Null)) => text == "null",
        (Some(wanted), Some(found)) => serde_json::to_value(wanted).is_ok_and(|wanted| wanted == *found),
        (Some(_), None) => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn exchange(version: i16) -> Exchange {
        Exchange {
            at: "fetch-bad-v4:12/x".to_owned(),
            api: "Fetch".to_owned(),
            version,
            asked: 0,
            answer: Value::Null,
            again: Vec::new(),
        }
    }

    #[test]
    fn a_place_matches_api_versions_script_path_and_values() {
        let text = "opening = \"o\"\n[[difference]]\nwhat = \"w\"\nwhy = \"y\"\nplaces = [\n\
            { api = \"Fetch\", versions = \"4-5\", script = \"fetch-*\", path = \"a.*.{x.y}.c\", kafka = 1, ottla = \"null\" },\n]\n";
        let list = Differences::parse(text).unwrap();
        let unlike = |path: &str, kafka: Value| Unlike {
            path: path.to_owned(),
            kafka: Some(kafka),
            ottla: Some(Value::Null),
        };
        assert_eq!(list.unused().len(), 1);
        assert!(!list.explains(&exchange(6), &unlike("a.0.{x.y}.c", json!(1))));
        assert!(!list.explains(&exchange(4), &unlike("a.0.{x.y}.c", json!(2))));
        assert!(!list.explains(&exchange(4), &unlike("a.0.{x.y}.c.d", json!(1))));
        assert!(list.explains(&exchange(4), &unlike("a.0.{x.y}.c", json!(1))));
        assert!(list.unused().is_empty());
        assert!(list.page().contains("## w\n\ny\n\n- Fetch 4-5, `a.*.{x.y}.c`, Kafka: `1`"));
    }
}
