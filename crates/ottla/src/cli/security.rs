//! The flags of TLS and SASL that commands for a cluster share. They become the properties that Kafka's clients take.

use super::failure::Failure;
use clap::Args;
use ottla_client::{Properties, Security};
use std::fs;
use std::path::{Path, PathBuf};

/// How to reach a cluster with TLS and SASL.
#[derive(Args)]
pub(super) struct SecurityFlags {
    /// Client properties under Kafka's names: security.protocol, sasl.*, ssl.* (certificates as PEM).
    #[arg(long, global = true, value_name = "FILE", env = "OTTLA_COMMAND_CONFIG", help_heading = "Security")]
    command_config: Option<PathBuf>,
    /// Use TLS, and trust brokers whose certificates these sign (PEM).
    #[arg(long, global = true, value_name = "FILE", help_heading = "Security")]
    tls_ca: Option<PathBuf>,
    /// Certificate of this client, with those that signed it (PEM).
    #[arg(long, global = true, value_name = "FILE", requires = "tls_key", help_heading = "Security")]
    tls_cert: Option<PathBuf>,
    /// Private key of this client (PEM).
    #[arg(long, global = true, value_name = "FILE", requires = "tls_cert", help_heading = "Security")]
    tls_key: Option<PathBuf>,
    /// Log in with SASL as this user.
    #[arg(
        long,
        global = true,
        value_name = "NAME",
        requires = "sasl_password_file",
        help_heading = "Security"
    )]
    sasl_user: Option<String>,
    /// File with the password of the user, in its first line.
    #[arg(long, global = true, value_name = "FILE", requires = "sasl_user", help_heading = "Security")]
    sasl_password_file: Option<PathBuf>,
    /// Mechanism of the login: PLAIN, SCRAM-SHA-256 or SCRAM-SHA-512.
    #[arg(
        long,
        global = true,
        value_name = "NAME",
        default_value = "SCRAM-SHA-512",
        help_heading = "Security"
    )]
    sasl_mechanism: String,
}

impl SecurityFlags {
    /// TLS and SASL of the file, overridden by the other flags.
    pub(super) fn security(&self) -> Result<Security, Failure> {
        let mut properties = match &self.command_config {
            Some(path) => parse_properties(&read(path)?),
            None => Properties::new(),
        };
        let mut set = |key: &str, value: String| drop(properties.insert(key.to_owned(), value));
        if let Some(path) = &self.tls_ca {
            set("ssl.truststore.location", path.display().to_string());
        }
        if let (Some(chain), Some(key)) = (&self.tls_cert, &self.tls_key) {
            set("ssl.keystore.certificate.chain", read(chain)?);
            set("ssl.keystore.key", read(key)?);
        }
        if let (Some(user), Some(path)) = (&self.sasl_user, &self.sasl_password_file) {
            let password = read(path)?;
            let password = password.lines().next().unwrap_or_default();
            set("sasl.mechanism", self.sasl_mechanism.clone());
            set("sasl.jaas.config", login_line(&self.sasl_mechanism, user, password));
        }
        let protocol = match (self.tls_ca.is_some(), self.sasl_user.is_some()) {
            (false, false) => None,
            (true, false) => Some("SSL"),
            (false, true) => Some("SASL_PLAINTEXT"),
            (true, true) => Some("SASL_SSL"),
        };
        if let Some(protocol) = protocol {
            set("security.protocol", protocol.to_owned());
        }
        Security::from_properties(&properties).map_err(|error| Failure::new(error.to_string()))
    }
}

/// The login module line of Kafka's clients.
fn login_line(mechanism: &str, user: &str, password: &str) -> String {
    let module = if mechanism == "PLAIN" { "plain.PlainLoginModule" } else { "scram.ScramLoginModule" };
    let quoted = |text: &str| text.replace('\\', "\\\\").replace('"', "\\\"");
    format!(
        "org.apache.kafka.common.security.{module} required username=\"{}\" password=\"{}\";",
        quoted(user),
        quoted(password)
    )
}

fn read(path: &Path) -> Result<String, Failure> {
    fs::read_to_string(path).map_err(|error| Failure::new(format!("{}: {error}", path.display())))
}

/// Reads Java's format of properties: `name=value` or `name: value`, comments with # and !, and a backslash at the end
/// of a line that continues.
fn parse_properties(text: &str) -> Properties {
    let mut properties = Properties::new();
    let mut lines = text.lines();
    while let Some(line) = lines.next() {
        let mut logical = line.trim_start().to_owned();
        if logical.starts_with(['#', '!']) {
            continue;
        }
        while logical.ends_with('\\') && !logical.ends_with("\\\\") {
            logical.pop();
            logical.push_str(lines.next().unwrap_or_default().trim_start());
        }
        if let Some((name, value)) = logical.split_once(['=', ':']) {
            properties.insert(name.trim().to_owned(), value.trim_start().to_owned());
        }
    }
    properties
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn properties_are_javas() {
        let text = "# comment\n! too\nsecurity.protocol=SASL_SSL\n sasl.mechanism : PLAIN\n\
                    sasl.jaas.config=a required \\\n  username=\"u=v\";\n\nnothing\n";
        let read: Vec<(String, String)> = parse_properties(text).into_iter().collect();
        let expected = [
            ("sasl.jaas.config", "a required username=\"u=v\";"),
            ("sasl.mechanism", "PLAIN"),
            ("security.protocol", "SASL_SSL"),
        ];
        assert_eq!(read, expected.map(|(name, value)| (name.to_owned(), value.to_owned())));
    }
}
