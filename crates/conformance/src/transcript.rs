//! The exchanges with a broker, kept as lines of JSON: one file for each file of scripts.

use crate::player::Exchange;
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// Exchanges as text. An answer that was there before is named by the line of its first time.
pub fn write(exchanges: &[Exchange]) -> String {
    let mut first: BTreeMap<String, usize> = BTreeMap::new();
    let mut out = String::new();
    for (line, one) in exchanges.iter().enumerate() {
        let mut row = json!({ "at": one.at, "api": one.api, "v": one.version, "asked": one.asked });
        let text = one.answer.to_string();
        match first.get(&text) {
            Some(line) => row["as"] = (line + 1).into(),
            None => {
                row["answer"] = one.answer.clone();
                first.insert(text, line);
            }
        }
        if !one.again.is_empty() {
            // How often it was asked is chance.
            let mut again = one.again.clone();
            again.sort_unstable();
            again.dedup();
            row["again"] = again.into();
        }
        out.push_str(&row.to_string());
        out.push('\n');
    }
    out
}

/// Reads what [`write`] wrote.
///
/// # Errors
/// A line is not of its form.
pub fn read(text: &str) -> Result<Vec<Exchange>, String> {
    let mut out: Vec<Exchange> = Vec::new();
    for (number, line) in text.lines().enumerate() {
        let bad = || format!("line {} is no exchange", number + 1);
        let row: Value = serde_json::from_str(line).map_err(|e| format!("line {}: {e}", number + 1))?;
        let answer = match row["as"].as_u64() {
            Some(line) => out.get(line as usize - 1).ok_or_else(bad)?.answer.clone(),
            None => row["answer"].clone(),
        };
        let again = row["again"].as_array().into_iter().flatten();
        out.push(Exchange {
            at: row["at"].as_str().ok_or_else(bad)?.to_owned(),
            api: row["api"].as_str().ok_or_else(bad)?.to_owned(),
            version: row["v"].as_i64().ok_or_else(bad)? as i16,
            asked: row["asked"].as_u64().ok_or_else(bad)? as u32,
            answer,
            again: again.filter_map(Value::as_i64).map(|code| code as i16).collect(),
        });
    }
    Ok(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read() {
        let one = |at: &str, answer: Value, again: Vec<i16>| Exchange {
            at: at.to_owned(),
            api: "Fetch".to_owned(),
            version: 4,
            asked: 7,
            answer,
            again,
        };
        let all = [
            one("a", json!({ "x": 1 }), vec![14, 51]),
            one("b", json!({ "x": 1 }), vec![]),
            one("c", json!("closed"), vec![]),
        ];
        let text = write(&all);
        assert!(text.lines().nth(1).unwrap().contains("\"as\":1"));
        assert_eq!(read(&text).as_deref(), Ok(&all[..]));
    }
}
