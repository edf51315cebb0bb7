//! The folder of the suite: scripts, rules, the list of differences, transcripts; and the comparison of two playings.

use crate::compare::{Unlike, unlike};
use crate::differences::Differences;
use crate::normal::Rules;
use crate::peer::Secured;
use crate::player::Exchange;
use crate::script::{Script, parse};
use crate::transcript;
use ottla_wire::{ApiInfo, Versions};
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

/// What is in the folder.
pub struct Suite {
    folder: PathBuf,
    /// Names for what may differ.
    pub rules: Rules,
    /// The differences that are meant.
    pub differences: Differences,
    /// Scripts by file, in the order of their names.
    pub files: Vec<(String, Vec<Script>)>,
}

/// Settings that both brokers are started with.
pub const SETTINGS: [(&str, &str); 3] = [
    ("num.partitions", "3"),
    ("auto.create.topics.enable", "true"),
    ("group.initial.rebalance.delay.ms", "0"),
];

/// Users of the secured suite, with their passwords. The first is a super user.
pub const USERS: [(&str, &str); 3] =
    [("admin", "admin-secret"), ("alice", "alice-secret"), ("bob", "bob-secret")];

/// Settings that both brokers are started with for the secured suite, in addition to their listeners. Clients of the
/// listener without SASL are super users.
pub fn secured_settings() -> Vec<(String, String)> {
    let users: Vec<String> =
        USERS.iter().map(|(user, password)| format!("user_{user}=\"{password}\"")).collect();
    let module = "org.apache.kafka.common.security.plain.PlainLoginModule";
    let scram = "org.apache.kafka.common.security.scram.ScramLoginModule required;";
    let settings = [
        ("authorizer.class.name", "org.apache.kafka.metadata.authorizer.StandardAuthorizer".to_owned()),
        ("super.users", "User:ANONYMOUS;User:admin".to_owned()),
        ("sasl.enabled.mechanisms", "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512".to_owned()),
        (
            "listener.name.sasl_plaintext.plain.sasl.jaas.config",
            format!("{module} required {};", users.join(" ")),
        ),
        ("listener.name.sasl_plaintext.scram-sha-256.sasl.jaas.config", scram.to_owned()),
        ("listener.name.sasl_plaintext.scram-sha-512.sasl.jaas.config", scram.to_owned()),
    ];
    let shared = SETTINGS.map(|(name, value)| (name, value.to_owned()));
    shared.into_iter().chain(settings).map(|(name, value)| (name.to_owned(), value)).collect()
}

/// The users of the secured suite, who log in at this address.
pub fn secured(address: std::net::SocketAddr) -> Secured {
    let owned = |(user, password): (&str, &str)| (user.to_owned(), password.to_owned());
    Secured { address, users: USERS.map(owned).to_vec() }
}

/// The versions of an API that are served and have a schema, of what a broker says that it serves.
pub fn served(told: &BTreeMap<i16, Versions>, api: &ApiInfo) -> Versions {
    let (theirs, known) = (told.get(&api.key.0).copied().unwrap_or(Versions::NONE), api.stable_versions());
    Versions::new(theirs.min.max(known.min), theirs.max.min(known.max))
}

/// An exchange in which the brokers are unlike.
#[derive(Clone, Debug)]
pub struct Finding {
    /// Kafka's side; for Ottla's only the answer is another.
    pub exchange: Exchange,
    /// The values.
    pub values: Vec<Unlike>,
}

impl Suite {
    /// Reads the folder; `served` says which versions of an API are served.
    ///
    /// # Errors
    /// A file is missing or not of its form.
    pub fn read(folder: &Path, served: &dyn Fn(&ApiInfo) -> Versions) -> Result<Suite, String> {
        let text = |name: &str| {
            let path = folder.join(name);
            fs::read_to_string(&path).map_err(|e| format!("{}: {e}", path.display()))
        };
        // The folder of the secured suite shares the names of the one around it.
        let names = if folder.join("names.toml").exists() { "names.toml" } else { "../names.toml" };
        let rules = Rules::parse(&text(names)?).map_err(|e| format!("names.toml: {e}"))?;
        let list = text("differences.toml")?;
        let differences = Differences::parse(&list).map_err(|e| format!("differences.toml: {e}"))?;
        let scripts = folder.join("scripts");
        let listed = fs::read_dir(&scripts).map_err(|e| format!("{}: {e}", scripts.display()))?;
        let names = listed.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
        let mut names: Vec<String> = names.filter(|name| name.ends_with(".txt")).collect();
        names.sort();
        let mut macros = BTreeMap::new();
        let mut files = Vec::new();
        for name in names {
            let parsed = parse(&name, &text(&format!("scripts/{name}"))?, served, &mut macros);
            files.push((name.trim_end_matches(".txt").to_owned(), parsed.map_err(|e| e.to_string())?));
        }
        Ok(Suite { folder: folder.to_path_buf(), rules, differences, files })
    }

    fn transcript(&self, file: &str) -> PathBuf {
        self.folder.join(format!("transcripts/{file}.jsonl"))
    }

    /// Keeps Kafka's side of a file of scripts.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn keep(&self, file: &str, exchanges: &[Exchange]) -> Result<(), String> {
        let path = self.transcript(file);
        fs::write(&path, transcript::write(exchanges)).map_err(|e| format!("{}: {e}", path.display()))
    }

    /// Kafka's side of a file of scripts, as it was kept.
    ///
    /// # Errors
    /// There is none.
    pub fn kept(&self, file: &str) -> Result<Vec<Exchange>, String> {
        let path = self.transcript(file);
        let text = fs::read_to_string(&path)
            .map_err(|e| format!("{}: {e}; cargo xtask conformance --record writes it", path.display()))?;
        transcript::read(&text).map_err(|e| format!("{}: {e}", path.display()))
    }

    /// Compares two playings of the same scripts and gives what is unlike and not listed.
    ///
    /// # Errors
    /// They are not of the same scripts.
    pub fn compare(&self, kafka: &[Exchange], ottla: &[Exchange]) -> Result<Vec<Finding>, String> {
        let mut out = Vec::new();
        for at in 0..kafka.len().max(ottla.len()) {
            let (Some(theirs), Some(ours)) = (kafka.get(at), ottla.get(at)) else {
                return Err(renew(kafka.len().to_string(), ottla.len().to_string()));
            };
            if (&theirs.at, &theirs.api, theirs.version, theirs.asked)
                != (&ours.at, &ours.api, ours.version, ours.asked)
            {
                return Err(renew(theirs.at.clone(), ours.at.clone()));
            }
            let mut values = unlike(&theirs.answer, &ours.answer);
            values.retain(|value| !self.differences.explains(theirs, value));
            if ours.again.iter().any(|code| !theirs.again.contains(code)) {
                let asked = Some(ours.again.clone().into());
                values.push(Unlike { path: "(again)".to_owned(), kafka: None, ottla: asked });
            }
            if !values.is_empty() {
                out.push(Finding { exchange: theirs.clone(), values });
            }
        }
        Ok(out)
    }
}

fn renew(kafka: String, ottla: String) -> String {
    format!(
        "Kafka's side is of other scripts ({kafka}, not {ottla}): cargo xtask conformance --record renews it"
    )
}

/// Values shown of a finding.
const SHOWN: usize = 8;

/// Findings as text: those that differ in nothing but the version of the script are one.
pub fn summary(findings: &[Finding]) -> String {
    let mut groups: Vec<((String, String), Vec<i16>)> = Vec::new();
    for finding in findings {
        let exchange = &finding.exchange;
        let place =
            format!("{}:{}", exchange.script(), exchange.at.split_once(':').map_or("", |(_, rest)| rest));
        let own = exchange.at.split(':').next().unwrap_or_default();
        let mut values: String =
            finding.values.iter().take(SHOWN).map(|value| line(value).replace(own, "~")).collect();
        if let Some(more @ 1..) = finding.values.len().checked_sub(SHOWN) {
            values.push_str(&format!("    and {more} more\n"));
        }
        let key = (format!("{place} {}", exchange.api), values);
        match groups.iter_mut().find(|(known, _)| *known == key) {
            Some((_, versions)) => versions.push(exchange.version),
            None => groups.push((key, vec![exchange.version])),
        }
    }
    let shown = groups.into_iter().map(|((place, values), mut versions)| {
        versions.dedup();
        let versions: Vec<String> = versions.iter().map(i16::to_string).collect();
        format!("{place} v{}\n{values}", versions.join(","))
    });
    shown.collect()
}

fn line(value: &Unlike) -> String {
    let shown = |value: &Option<serde_json::Value>| {
        value.as_ref().map_or("absent".to_owned(), |value| value.to_string().chars().take(110).collect())
    };
    format!("    {}: kafka {}, ottla {}\n", value.path, shown(&value.kafka), shown(&value.ottla))
}
