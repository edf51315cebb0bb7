//! Kafka's login module lines (S-123): a class, a control flag, and options.
//!
//! Only Kafka's own modules for PLAIN and SCRAM are taken. Any other class is refused by its name, because such a line
//! could make a broker load code or contact a directory (CVE-2023-25194).

use crate::secret::Secret;
use std::collections::BTreeMap;
use thiserror::Error;

/// A mechanism that a login module belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LoginModule {
    /// `org.apache.kafka.common.security.plain.PlainLoginModule`.
    Plain,
    /// `org.apache.kafka.common.security.scram.ScramLoginModule`.
    Scram,
}

/// A login module line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JaasConfig {
    /// The module.
    pub module: LoginModule,
    /// The options.
    options: BTreeMap<String, Secret>,
}

/// Why a login module line is refused. No text shows the value of an option.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum JaasError {
    /// The class is not one of Kafka's for PLAIN and SCRAM.
    #[error(
        "the login module {0} is not served; PlainLoginModule and ScramLoginModule of org.apache.kafka are"
    )]
    Module(String),
    /// The line does not begin with a class and a control flag. Its text is not shown, because it may hold a password.
    #[error("the line must begin with the class of a login module and the control flag 'required'")]
    NoModule,
    /// The control flag is not `required`.
    #[error("the login module needs the control flag 'required'")]
    Flag,
    /// The options cannot be read.
    #[error("the options of the login module must be name=\"value\" pairs, with a semicolon at the end")]
    Options,
    /// An option occurs twice.
    #[error("the option {0} is given twice")]
    Twice(String),
}

/// Whether the text after a class begins with a control flag of JAAS.
fn has_flag(rest: &str) -> bool {
    let word = rest.trim_start().split([' ', '\t', '\n', '\r', ';']).next();
    word.is_some_and(|word| ["required", "requisite", "sufficient", "optional"].contains(&word))
}

const PLAIN: &str = "org.apache.kafka.common.security.plain.PlainLoginModule";
const SCRAM: &str = "org.apache.kafka.common.security.scram.ScramLoginModule";

impl JaasConfig {
    /// Reads a line.
    ///
    /// # Errors
    /// The line is not one of a module that is served.
    pub fn parse(line: &str) -> Result<JaasConfig, JaasError> {
        let line = line.trim();
        let (class, rest) = line.split_once(char::is_whitespace).unwrap_or((line, ""));
        let module = match class {
            PLAIN => LoginModule::Plain,
            SCRAM => LoginModule::Scram,
            other if has_flag(rest) => return Err(JaasError::Module(other.to_owned())),
            _ => return Err(JaasError::NoModule),
        };
        let rest = rest.trim_start();
        let options = rest.strip_prefix("required").ok_or(JaasError::Flag)?;
        if !options.starts_with([' ', '\t', '\n', '\r', ';']) {
            return Err(JaasError::Flag);
        }
        Ok(JaasConfig { module, options: parse_options(options)? })
    }

    /// The value of an option.
    pub fn option(&self, name: &str) -> Option<&Secret> {
        self.options.get(name)
    }

    /// The users of a server: the options `user_<name>`, with their passwords.
    pub fn users(&self) -> impl Iterator<Item = (&str, &Secret)> {
        self.options.iter().filter_map(|(name, password)| Some((name.strip_prefix("user_")?, password)))
    }
}

fn parse_options(text: &str) -> Result<BTreeMap<String, Secret>, JaasError> {
    let mut options = BTreeMap::new();
    let mut rest = text.trim_start();
    loop {
        if let Some(after) = rest.strip_prefix(';') {
            return if after.trim().is_empty() { Ok(options) } else { Err(JaasError::Options) };
        }
        let (name, value) = rest.split_once('=').ok_or(JaasError::Options)?;
        let name = name.trim();
        if name.is_empty() || name.contains([' ', '"', ';']) {
            return Err(JaasError::Options);
        }
        let (value, after) = parse_value(value.trim_start())?;
        if options.insert(name.to_owned(), Secret::new(value)).is_some() {
            return Err(JaasError::Twice(name.to_owned()));
        }
        rest = after.trim_start();
    }
}

/// A value in quotes, with a backslash before a quote or a backslash; or a word without quotes. Returns what follows.
fn parse_value(text: &str) -> Result<(String, &str), JaasError> {
    let Some(quoted) = text.strip_prefix('"') else {
        let end = text.find([' ', '\t', '\n', '\r', ';']).ok_or(JaasError::Options)?;
        return Ok((text[..end].to_owned(), &text[end..]));
    };
    let mut value = String::new();
    let mut characters = quoted.char_indices();
    while let Some((at, character)) = characters.next() {
        match character {
            '"' => return Ok((value, &quoted[at + 1..])),
            '\\' => value.push(characters.next().ok_or(JaasError::Options)?.1),
            other => value.push(other),
        }
    }
    Err(JaasError::Options)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn s_123_users_of_the_plain_module() {
        let line = format!(r#"{PLAIN} required user_alice="a b;\"c" user_bob=secret;"#);
        let config = JaasConfig::parse(&line).unwrap();
        let users: Vec<_> = config.users().map(|(name, password)| (name, password.bytes())).collect();
        assert_eq!(users, [("alice", &b"a b;\"c"[..]), ("bob", b"secret")]);
        assert!(!format!("{config:?}").contains("secret"));
    }

    #[test]
    fn s_123_the_client_form_of_scram() {
        let line = format!("{SCRAM} required\n username=\"x\"\n password=\"y\"\n tokenauth=\"true\" ;");
        let config = JaasConfig::parse(&line).unwrap();
        assert_eq!(config.module, LoginModule::Scram);
        assert_eq!(config.option("tokenauth").unwrap().bytes(), b"true");
    }

    #[test]
    fn s_123_a_line_without_a_class_is_not_shown() {
        for line in ["password=\"hunter2\" user=\"a\";", "hunter2", "hunter2;", "user_a=hunter2 ;"] {
            let why = JaasConfig::parse(line).unwrap_err().to_string();
            assert!(!why.contains("hunter2"), "{why}");
        }
    }

    #[test]
    fn s_123_every_other_line_is_refused() {
        for line in [
            "com.sun.security.auth.module.JndiLoginModule required user.provider.url=\"ldap://x\";",
            "org.apache.kafka.common.security.plain.PlainLoginModule optional user_a=\"b\";",
            "org.apache.kafka.common.security.plain.PlainLoginModule requiredX user_a=\"b\";",
            "org.apache.kafka.common.security.plain.PlainLoginModule required user_a=\"b\"",
            "org.apache.kafka.common.security.plain.PlainLoginModule required user_a=\"b;",
            "org.apache.kafka.common.security.plain.PlainLoginModule required user_a=\"b\" user_a=\"c\";",
            "org.apache.kafka.common.security.plain.PlainLoginModule required =\"c\";",
            "",
        ] {
            assert!(JaasConfig::parse(line).is_err(), "{line}");
        }
    }
}
