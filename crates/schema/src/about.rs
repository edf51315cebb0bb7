//! The glossary: what fields and messages mean, in our own words.

use std::collections::BTreeMap;

/// Meanings by field name, with overrides by message.
///
/// The file has a table `fields` (field name to meaning) and tables `messages.NAME` whose keys are field names of that
/// message, inner structs included, and `about` for the message itself.
#[derive(Clone, Debug, Default)]
pub struct Glossary {
    fields: BTreeMap<String, String>,
    messages: BTreeMap<String, BTreeMap<String, String>>,
}

impl Glossary {
    /// Reads a glossary.
    ///
    /// # Errors
    /// The text is not TOML, or has anything but the two tables of strings.
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
                _ => return Err(format!("unknown entry '{name}' in the glossary")),
            }
        }
        Ok(glossary)
    }

    /// What a message is for.
    pub fn message(&self, message: &str) -> Option<&str> {
        self.messages.get(message)?.get("about").map(String::as_str)
    }

    /// What a field of a message means.
    pub fn field(&self, message: &str, field: &str) -> Option<&str> {
        let own = self.messages.get(message).and_then(|fields| fields.get(field));
        own.or_else(|| self.fields.get(field)).map(String::as_str)
    }

    /// The field names with a general meaning.
    pub fn field_names(&self) -> impl Iterator<Item = &str> {
        self.fields.keys().map(String::as_str)
    }

    /// The messages with their own entries, and the names of those (`about` included).
    pub fn overrides(&self) -> impl Iterator<Item = (&str, &str)> {
        self.messages
            .iter()
            .flat_map(|(message, fields)| fields.keys().map(|field| (message.as_str(), field.as_str())))
    }
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
