//! Compares two answers field by field.

use serde_json::Value;

/// A value that is not the same.
#[derive(Clone, Debug, PartialEq)]
pub struct Unlike {
    /// Where, as names and places with dots between; empty for the whole answer.
    pub path: String,
    /// What Apache Kafka answered; none if it has no such value.
    pub kafka: Option<Value>,
    /// What Ottla answered.
    pub ottla: Option<Value>,
}

/// Every value in which two answers are unlike.
pub fn unlike(kafka: &Value, ottla: &Value) -> Vec<Unlike> {
    let mut out = Vec::new();
    values("", Some(kafka), Some(ottla), &mut out);
    out
}

fn values(path: &str, kafka: Option<&Value>, ottla: Option<&Value>, out: &mut Vec<Unlike>) {
    let inner = |step: &str| if path.is_empty() { step.to_owned() } else { format!("{path}.{step}") };
    match (kafka, ottla) {
        (Some(Value::Object(a)), Some(Value::Object(b))) => {
            let others = b.keys().filter(|key| !a.contains_key(*key));
            for key in a.keys().chain(others) {
                values(&inner(key), a.get(key), b.get(key), out);
            }
        }
        (Some(Value::Array(a)), Some(Value::Array(b))) => {
            for at in 0..a.len().max(b.len()) {
                values(&inner(&at.to_string()), a.get(at), b.get(at), out);
            }
        }
        (kafka, ottla) if kafka == ottla => {}
        (kafka, ottla) => {
            out.push(Unlike { path: path.to_owned(), kafka: kafka.cloned(), ottla: ottla.cloned() });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn every_value_is_looked_at() {
        let a = json!({ "x": 1, "y": [{ "z": null }, 2], "only": true });
        let b = json!({ "x": 1, "y": [{ "z": "" }, 2, 3], "also": 0 });
        let paths: Vec<String> = unlike(&a, &b).into_iter().map(|one| one.path).collect();
        assert_eq!(paths, ["y.0.z", "y.2", "only", "also"]);
        assert!(unlike(&a, &a).is_empty());
    }
}
