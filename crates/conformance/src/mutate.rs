//! Makes mutants of a request: in each one value is at the edge of its type, empty, null, unknown or repeated.

use ottla_wire::tables::{FieldTable, StructTable, Type};
use serde_json::{Value, json};

/// A request with one value changed.
#[derive(Clone, Debug, PartialEq)]
pub struct Mutant {
    /// The path of the value and what it became, such as `topics.0.name=""`.
    pub name: String,
    /// The message.
    pub json: Value,
}

/// Every mutant of a message at a version. Paths in `except` are left alone, and `path=twice` there keeps
/// a list from having its element twice; of lists only the first element is changed.
pub fn mutants(table: &StructTable, version: i16, json: &Value, except: &[String]) -> Vec<Mutant> {
    let mut walk = Walk { version, whole: json, except, out: Vec::new() };
    walk.structure(table, &mut Vec::new(), "", json);
    walk.out
}

struct Walk<'a> {
    version: i16,
    whole: &'a Value,
    except: &'a [String],
    out: Vec<Mutant>,
}

impl Walk<'_> {
    /// `place` leads to the struct in the JSON, `path` is the same without places in lists.
    fn structure(&mut self, table: &StructTable, place: &mut Vec<String>, path: &str, json: &Value) {
        for field in table.fields {
            if !field.versions.contains(self.version) && !field.is_tagged(self.version) {
                continue;
            }
            let name = json_name(field.name);
            let path = if path.is_empty() { name.clone() } else { format!("{path}.{name}") };
            if self.except.contains(&path) {
                continue;
            }
            let once = self.except.contains(&format!("{path}=twice"));
            place.push(name.clone());
            let value = json.get(&name);
            let mut all = variants(field, self.version, value);
            all.retain(|changed| Some(changed) != value && !(once && is_twice(changed)));
            all.into_iter().for_each(|changed| self.add(place, changed));
            self.inner(field, place, &path, value);
            place.pop();
        }
    }

    fn inner(&mut self, field: &FieldTable, place: &mut Vec<String>, path: &str, value: Option<&Value>) {
        match (&field.ty, value) {
            (Type::Struct(table), Some(value @ Value::Object(_))) => {
                self.structure(table, place, path, value)
            }
            (Type::Array(Type::Struct(table)), Some(Value::Array(list))) => {
                if let Some(first) = list.first() {
                    place.push("0".to_owned());
                    self.structure(table, place, path, first);
                    place.pop();
                }
            }
            _ => {}
        }
    }

    fn add(&mut self, place: &[String], changed: Value) {
        let mut whole = self.whole.clone();
        let mut at = &mut whole;
        for step in place {
            at = match step.parse::<usize>() {
                Ok(index) => &mut at[index],
                Err(_) => &mut at[step.as_str()],
            };
        }
        let shown: String = changed.to_string().chars().take(24).collect();
        let name = format!("{}={shown}", place.join("."));
        *at = changed;
        self.out.push(Mutant { name, json: whole });
    }
}

fn is_twice(value: &Value) -> bool {
    value.as_array().is_some_and(|list| list.len() == 2)
}

fn variants(field: &FieldTable, version: i16, value: Option<&Value>) -> Vec<Value> {
    let mut all = match &field.ty {
        Type::Bool => vec![json!(true), json!(false)],
        Type::Int8 => vec![json!(-1), json!(0), json!(1), json!(2), json!(127), json!(-128)],
        Type::Int16 => vec![json!(-1), json!(0), json!(1), json!(2), json!(i16::MAX), json!(i16::MIN)],
        Type::Uint16 => vec![json!(0), json!(1), json!(u16::MAX)],
        Type::Int32 => vec![json!(-2), json!(-1), json!(0), json!(1), json!(i32::MAX), json!(i32::MIN)],
        Type::Uint32 => vec![json!(0), json!(1), json!(u32::MAX)],
        Type::Int64 => {
            vec![json!(-6), json!(-2), json!(-1), json!(0), json!(1), json!(i64::MAX), json!(i64::MIN)]
        }
        Type::Float64 => vec![json!(0.0), json!(-1.0), json!(1.5)],
        Type::Uuid => vec![
            json!("AAAAAAAAAAAAAAAAAAAAAA"),
            json!("AAAAAAAAAAAAAAAAAAAAAQ"),
            json!("bm8gc3VjaCBpZCBoZXJlIQ"),
        ],
        Type::String => vec![json!(""), json!("no-such"), json!("not legal?"), json!("x".repeat(300))],
        Type::Bytes => vec![json!(""), json!("AAECAw==")],
        Type::Records => vec![json!(""), json!("AAECAw=="), json!("A".repeat(100))],
        Type::Struct(_) => Vec::new(),
        Type::Array(_) => lists(value),
    };
    if field.nullable.contains(version) {
        all.push(Value::Null);
    }
    all
}

/// The empty list, and the first element twice.
fn lists(value: Option<&Value>) -> Vec<Value> {
    let mut all = vec![json!([])];
    if let Some(first) = value.and_then(|list| list.get(0)) {
        all.push(json!([first, first]));
    }
    all
}

/// The name of a field in JSON: with a small first letter.
fn json_name(name: &str) -> String {
    let mut chars = name.chars();
    chars.next().map_or_else(String::new, |first| first.to_lowercase().chain(chars).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use ottla_wire::tables::TableSet;

    #[test]
    fn each_value_is_changed_alone() {
        let table = TableSet::built_in().message("DeleteRecordsRequest").unwrap();
        let json = json!({ "timeoutMs": 5, "topics": [{ "name": "a", "partitions": [{ "partitionIndex": 0, "offset": 1 }] }] });
        let all = mutants(table.root, 2, &json, &["timeoutMs".to_owned()]);
        let names: Vec<&str> = all.iter().map(|one| one.name.as_str()).collect();
        assert!(names.contains(&"topics=[]") && names.contains(&"topics.0.partitions.0.offset=-1"));
        assert!(!names.iter().any(|name| name.starts_with("timeoutMs")));
        let twice = all.iter().find(|one| one.name.starts_with("topics.0.partitions=[{")).unwrap();
        assert_eq!(twice.json["topics"][0]["partitions"].as_array().unwrap().len(), 2);
        assert_eq!(twice.json["timeoutMs"], 5);
    }
}
