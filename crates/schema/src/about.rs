//! The glossary: the meanings of fields and messages, and the marks of secret fields.

use std::collections::{BTreeMap, BTreeSet};

/// Meanings by field name, with overrides by message.
///
/// The file has a table `fields` (field name to meaning) and tables `messages.NAME` whose keys are field names of that
/// message, inner structs included, and `about` for the message itself. A table `secrets` lists the secret fields of a
/// message by message name; logs, traces and taps overwrite their values.
#[derive(Clone, Debug, Default)]
pub struct Glossary {
    fields: BTreeMap<String, String>,
    messages: BTreeMap<String, BTreeMap<String, String>>,
    secrets: BTreeMap<String, BTreeSet<String>>,
}

impl Glossary {
    /// Parses a glossary.
    ///
    /// # Errors
    /// The text is not TOML, or has anything but these tables.
    pub fn parse(text: &str) -> Result<Glossary, String> {
        let table: toml::Table = text.parse().map_err(|why| format!("the glossary is not TOML: {why}"))?;
        let mut glossary = Glossary::default();
        for (name, value) in table {
            match (name.as_str(), value) {
                ("fields", toml::Value::Table(fields)) => glossary.fields = strings("fields", fields)?,
                ("messages", toml::Value::Table(messages)) => {
                    for (name, value) in messages {
                        let toml::Value::Table(fields) = value else {
                            return Err(format!("messages.{name} is no table"));
                        };
                        let meanings = strings(&name, fields)?;
                        glossary.messages.insert(name, meanings);
                    }
                }
                ("secrets", toml::Value::Table(secrets)) => {
                    for (message, fields) in secrets {
                        let names = names(&message, fields)?;
                        glossary.secrets.insert(message, names);
                    }
                }
                _ => return Err(format!("unknown entry '{name}' in the glossary")),
            }
        }
        Ok(glossary)
    }

    /// The meaning of a message.
    pub fn message(&self, message: &str) -> Option<&str> {
        self.messages.get(message)?.get("about").map(String::as_str)
    }

    /// The meaning of a field of a message.
    pub fn field(&self, message: &str, field: &str) -> Option<&str> {
        let own = self.messages.get(message).and_then(|fields| fields.get(field));
        own.or_else(|| self.fields.get(field)).map(String::as_str)
    }

    /// Whether a field of a message is secret.
    pub fn is_secret(&self, message: &str, field: &str) -> bool {
        self.secrets.get(message).is_some_and(|fields| fields.contains(field))
    }

    /// The secret fields, with their messages.
    pub fn secrets(&self) -> impl Iterator<Item = (&str, &str)> {
        self.secrets
            .iter()
            .flat_map(|(message, fields)| fields.iter().map(|field| (message.as_str(), field.as_str())))
    }

    /// The field names with a general meaning.
    pub fn field_names(&self) -> impl Iterator<Item = &str> {
        self.fields.keys().map(String::as_str)
    }

    /// The entries of single messages: message and name of the entry (`about` included).
    pub fn overrides(&self) -> impl Iterator<Item = (&str, &str)> {
        self.messages
            .iter()
            .flat_map(|(message, fields)| fields.keys().map(|field| (message.as_str(), field.as_str())))
    }
}

fn names(message: &str, value: toml::Value) -> Result<BTreeSet<String>, String> {
    let bad = || format!("secrets.{message} is no list of field names");
    let toml::Value::Array(items) = value else { return Err(bad()) };
    items.into_iter().map(|item| item.as_str().map(str::to_owned).ok_or_else(bad)).collect()
}

fn strings(place: &str, table: toml::Table) -> Result<BTreeMap<String, String>, String> {
    let mut out = BTreeMap::new();
    for (name, value) in table {
        match value {
            toml::Value::String(text) => drop(out.insert(name, text)),
            _ => return Err(format!("{place}.{name} is no string")),
        }
    }
    Ok(out)
}
