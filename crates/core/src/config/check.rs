//! The kinds of configuration values, and lists that grow and shrink.

use std::fmt;

/// What values a configuration key takes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Kind {
    /// true or false.
    Boolean,
    /// A 32-bit number within bounds, both included.
    Int(i32, i32),
    /// A 64-bit number within bounds, both included.
    Long(i64, i64),
    /// A 32-bit number within bounds, both included, but not 0.
    NonZero(i32, i32),
    /// A decimal number within bounds, both included.
    Double(f64, f64),
    /// Any text.
    Text,
    /// Any text, which is never shown.
    Password,
    /// One of these words.
    OneOf(&'static [&'static str]),
    /// Words separated by commas; any if the list is empty, else only these.
    List(&'static [&'static str]),
    /// `*` for all, or pairs `partition:broker` separated by commas.
    Replicas,
}

/// Why a configuration was refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ConfigError {
    /// No such key.
    UnknownKey(String),
    /// The key cannot be changed on a running broker.
    ReadOnly(String),
    /// A key without a value.
    NullValue(String),
    /// A key that is not a list was appended to or subtracted from.
    NotAList(String),
    /// The value contradicts that of another key: why.
    Contradiction {
        /// The key.
        name: String,
        /// Its value.
        value: String,
        /// The other key, its value and what follows.
        why: String,
    },
    /// The value is not one the key takes.
    BadValue {
        /// The key.
        name: String,
        /// What was given.
        value: String,
        /// What it takes.
        expected: String,
    },
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ConfigError::UnknownKey(name) => write!(f, "unknown configuration key '{name}'"),
            ConfigError::ReadOnly(name) => {
                write!(f, "'{name}' cannot be changed while the broker runs; set it at start")
            }
            ConfigError::NullValue(name) => write!(f, "'{name}' needs a value"),
            ConfigError::NotAList(name) => {
                write!(f, "'{name}' is not a list: it can be set, not appended to")
            }
            ConfigError::Contradiction { name, value, why } => {
                write!(f, "'{name}' cannot be '{value}': {why}")
            }
            ConfigError::BadValue { name, value, expected } => {
                write!(f, "'{name}' cannot be '{value}': it must be {expected}")
            }
        }
    }
}

impl std::error::Error for ConfigError {}

impl Kind {
    pub(crate) fn check(self, name: &str, value: &str) -> Result<(), ConfigError> {
        let value = value.trim();
        let good = match self {
            Kind::Boolean => value.eq_ignore_ascii_case("true") || value.eq_ignore_ascii_case("false"),
            Kind::Int(low, high) => value.parse::<i32>().is_ok_and(|n| (low..=high).contains(&n)),
            Kind::Long(low, high) => value.parse::<i64>().is_ok_and(|n| (low..=high).contains(&n)),
            Kind::NonZero(low, high) => {
                value.parse::<i32>().is_ok_and(|n| n != 0 && (low..=high).contains(&n))
            }
            Kind::Double(low, high) => value.parse::<f64>().is_ok_and(|n| (low..=high).contains(&n)),
            Kind::Text | Kind::Password => true,
            Kind::OneOf(words) => words.contains(&value),
            Kind::List(words) => {
                let known = |item: &str| words.is_empty() || words.contains(&item.trim());
                value.is_empty() || value.split(',').all(known)
            }
            Kind::Replicas => matches!(value, "" | "*") || value.split(',').all(is_replica),
        };
        if good {
            return Ok(());
        }
        Err(ConfigError::BadValue {
            name: name.to_owned(),
            value: value.to_owned(),
            expected: self.expectation(),
        })
    }

    /// The kind's number in DescribeConfigs' answer.
    pub fn wire_type(self) -> i8 {
        match self {
            Kind::Boolean => 1,
            Kind::Text | Kind::OneOf(_) => 2,
            Kind::Int(..) | Kind::NonZero(..) => 3,
            Kind::Long(..) => 5,
            Kind::Double(..) => 6,
            Kind::List(_) | Kind::Replicas => 7,
            Kind::Password => 9,
        }
    }

    fn expectation(self) -> String {
        match self {
            Kind::Boolean => "true or false".to_owned(),
            Kind::Int(low, high) => format!("a number from {low} to {high}"),
            Kind::Long(low, high) => format!("a number from {low} to {high}"),
            Kind::NonZero(low, high) => format!("a number from {low} to {high}, but not 0"),
            Kind::Double(low, high) => format!("a number from {low} to {high}"),
            Kind::Text | Kind::Password => "text".to_owned(),
            Kind::OneOf(words) => format!("one of {}", words.join(", ")),
            Kind::List(words) => format!("a list of {}", words.join(", ")),
            Kind::Replicas => "* or a list of partition:broker".to_owned(),
        }
    }
}

/// Whether an item names a replica, `partition:broker`.
fn is_replica(item: &str) -> bool {
    let number = |text: &str| text.trim().parse::<i32>().is_ok();
    item.split_once(':').is_some_and(|(partition, broker)| number(partition) && number(broker))
}

/// The items of a list, without the empty ones.
pub(super) fn items(list: &str) -> impl Iterator<Item = &str> {
    list.split(',').map(str::trim).filter(|item| !item.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_take_what_kafka_takes() {
        let takes = |kind: Kind, value: &str| kind.check("k", value).is_ok();
        let replicas = ["", "*", "0:1", "0:1,1:1", " 0:1"];
        assert!(replicas.into_iter().all(|value| takes(Kind::Replicas, value)));
        assert!(["x", "0", "0:x", "0:1:2", "0:1,"].into_iter().all(|value| !takes(Kind::Replicas, value)));
        let policy = Kind::List(&["compact", "delete"]);
        assert!(["", " ", "delete", "compact, delete"].into_iter().all(|value| takes(policy, value)));
        assert!(["delete,", "Delete", "x"].into_iter().all(|value| !takes(policy, value)));
        let level = Kind::NonZero(-1, 9);
        assert!(["-1", "1", "9", "+5"].into_iter().all(|value| takes(level, value)));
        assert!(["-2", "0", "10", ""].into_iter().all(|value| !takes(level, value)));
    }

    #[test]
    fn a_bad_value_says_what_is_expected() {
        let error = Kind::Int(1, 9).check("num.partitions", "0").unwrap_err();
        assert_eq!(error.to_string(), "'num.partitions' cannot be '0': it must be a number from 1 to 9");
    }
}
