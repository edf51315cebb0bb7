//! Configuration of a broker: built-in defaults, a TOML file, the environment, flags; a later source overrides an
//! earlier one.

use ottla_core::config::{ConfigError, Settings, broker_keys, check_broker_config};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use strsim::levenshtein;

/// When a write is acknowledged.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum Durability {
    /// After fdatasync: it survives a power failure.
    #[default]
    Disk,
    /// When it is in the page cache: it survives the end of the process, not a power failure. Kafka's default.
    Os,
}

/// Where a broker keeps its data.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Storage {
    /// In memory: the data is lost when the broker stops.
    Memory,
    /// In a folder.
    Folder(PathBuf),
}

/// The address of the pages, metrics and health over HTTP.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Http {
    /// HTTP is not served.
    Off,
    /// At [`Http::DEFAULT`]; if that is in use, a warning is logged and HTTP is not served.
    #[default]
    IfFree,
    /// At this address, `host:port`; port 0 takes a free port. The broker does not start if the address is in use.
    At(String),
}

impl Http {
    /// The default address.
    pub const DEFAULT: &str = "127.0.0.1:9080";
}

impl std::str::FromStr for Http {
    type Err = String;

    /// `off`, or `host:port`.
    fn from_str(text: &str) -> Result<Http, String> {
        match text.rsplit_once(':') {
            _ if text == "off" => Ok(Http::Off),
            Some((host, port)) if !host.is_empty() && port.parse::<u16>().is_ok() => {
                Ok(Http::At(text.to_owned()))
            }
            _ => Err(format!("'{text}' is neither host:port nor off")),
        }
    }
}

/// The whole configuration of a broker.
#[derive(Clone, Debug, PartialEq)]
pub struct Config {
    /// Address to listen on, as `host:port`; port 0 takes a free port.
    pub listen: String,
    /// Address that clients connect to, as `host:port`. None for the address that the broker listens on; if
    /// that is a wildcard address (`0.0.0.0`, `[::]`), for `localhost` and its port.
    pub advertise: Option<String>,
    /// Where HTTP is served.
    pub http: Http,
    /// Where data is kept.
    pub storage: Storage,
    /// When a write is acknowledged.
    pub durability: Durability,
    /// How many exchanges of each connection are recorded from the start; none to record nothing.
    pub trace: Option<usize>,
    /// Broker configuration under Kafka's names.
    pub broker: BTreeMap<String, String>,
}

impl Default for Config {
    fn default() -> Config {
        Config {
            listen: "127.0.0.1:9092".to_owned(),
            advertise: None,
            http: Http::default(),
            storage: Storage::Folder(PathBuf::from("./ottla-data")),
            durability: Durability::Disk,
            trace: None,
            broker: BTreeMap::new(),
        }
    }
}

/// Why a configuration was refused: the source of the value, and the reason.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{origin}: {why}")]
pub struct BadConfig {
    origin: String,
    why: String,
}

impl BadConfig {
    /// A refusal with the source of the value and the reason.
    pub fn new(origin: impl Into<String>, why: impl Into<String>) -> BadConfig {
        BadConfig { origin: origin.into(), why: why.into() }
    }
}

impl Config {
    /// Overrides this configuration with the values of a TOML file.
    ///
    /// # Errors
    /// The file cannot be read or parsed, or a key or value in it is not legal.
    pub fn merge_file(&mut self, path: &Path) -> Result<(), BadConfig> {
        let source = format!("config file {}", path.display());
        let text =
            std::fs::read_to_string(path).map_err(|error| BadConfig::new(&source, error.to_string()))?;
        self.merge_toml(&source, &text)
    }

    fn merge_toml(&mut self, source: &str, text: &str) -> Result<(), BadConfig> {
        let table: toml::Table =
            text.parse().map_err(|error: toml::de::Error| BadConfig::new(source, error.to_string()))?;
        for (key, value) in table {
            match key.as_str() {
                "listen" => self.listen = string(source, &key, &value)?,
                "advertise" => self.advertise = Some(string(source, &key, &value)?),
                "http" => self.http = http(source, &string(source, &key, &value)?)?,
                "data" => self.storage = Storage::Folder(string(source, &key, &value)?.into()),
                "memory" => self.merge_memory(source, &value)?,
                "durability" => self.durability = durability(source, &string(source, &key, &value)?)?,
                "broker" => self.merge_broker(source, "", value)?,
                _ => {
                    let known = "listen, advertise, http, data, memory, durability and the table [broker]";
                    return Err(BadConfig::new(source, format!("unknown key '{key}'; there are {known}")));
                }
            }
        }
        Ok(())
    }

    fn merge_memory(&mut self, source: &str, value: &toml::Value) -> Result<(), BadConfig> {
        match value.as_bool() {
            Some(true) => self.storage = Storage::Memory,
            Some(false) => {}
            None => return Err(BadConfig::new(source, "'memory' must be true or false")),
        }
        Ok(())
    }

    /// Kafka's dotted names may be quoted or not: TOML reads an unquoted one as nested tables.
    fn merge_broker(&mut self, source: &str, name: &str, value: toml::Value) -> Result<(), BadConfig> {
        match value {
            toml::Value::Table(table) => {
                for (key, value) in table {
                    let inner = if name.is_empty() { key } else { format!("{name}.{key}") };
                    self.merge_broker(source, &inner, value)?;
                }
                Ok(())
            }
            toml::Value::String(text) => self.set(source, name, &text),
            other => self.set(source, name, &other.to_string()),
        }
    }

    /// Sets a broker key under Kafka's name.
    ///
    /// # Errors
    /// The key is unknown or does not take the value; `source` is named in the message.
    pub fn set(&mut self, source: &str, name: &str, value: &str) -> Result<(), BadConfig> {
        check_broker_config(name, value).map_err(|error| BadConfig::new(source, explain(&error)))?;
        self.broker.insert(name.to_owned(), value.to_owned());
        Ok(())
    }

    /// Takes `KAFKA_…` variables as the container images of Apache Kafka do: `_` stands for `.`, `__` for `_`, and
    /// `___` for a hyphen. Returns the variables that name no key, so that the caller can warn of each.
    ///
    /// # Errors
    /// A known key does not take the value.
    pub fn merge_environment(
        &mut self,
        variables: impl Iterator<Item = (String, String)>,
    ) -> Result<Vec<String>, BadConfig> {
        const NOT_KEYS: &[&str] = &["OPTS", "HEAP_OPTS", "VERSION", "HOME"];
        let mut ignored = Vec::new();
        for (variable, value) in variables {
            let Some(rest) = variable.strip_prefix("KAFKA_") else { continue };
            if NOT_KEYS.contains(&rest) || rest.starts_with("JMX_") || rest.starts_with("LOG4J_") {
                continue;
            }
            let name = key_of(rest);
            match check_broker_config(&name, &value) {
                Ok(()) => drop(self.broker.insert(name, value)),
                Err(ConfigError::UnknownKey(_)) => ignored.push(variable),
                Err(error) => {
                    return Err(BadConfig::new(format!("environment variable {variable}"), explain(&error)));
                }
            }
        }
        Ok(ignored)
    }

    /// The broker's settings.
    ///
    /// # Errors
    /// A key is unknown or does not take its value.
    pub fn settings(&self) -> Result<Settings, BadConfig> {
        Settings::from_configs(&self.broker)
            .map_err(|error| BadConfig::new("broker configuration", explain(&error)))
    }
}

fn key_of(variable: &str) -> String {
    variable
        .replace("___", "\u{1}")
        .replace("__", "\u{2}")
        .replace('_', ".")
        .replace('\u{1}', "-")
        .replace('\u{2}', "_")
        .to_lowercase()
}

fn string(source: &str, key: &str, value: &toml::Value) -> Result<String, BadConfig> {
    let text = value.as_str().map(str::to_owned);
    text.ok_or_else(|| BadConfig::new(source, format!("'{key}' must be a string, in quotes")))
}

fn http(source: &str, text: &str) -> Result<Http, BadConfig> {
    text.parse().map_err(|why| BadConfig::new(source, format!("'http': {why}")))
}

fn durability(source: &str, text: &str) -> Result<Durability, BadConfig> {
    match text {
        "disk" => Ok(Durability::Disk),
        "os" => Ok(Durability::Os),
        other => {
            Err(BadConfig::new(source, format!("'durability' cannot be '{other}': it must be disk or os")))
        }
    }
}

/// The error, with the nearest known key if the key is unknown.
fn explain(error: &ConfigError) -> String {
    let ConfigError::UnknownKey(name) = error else { return error.to_string() };
    let nearest = broker_keys().into_iter().map(|key| key.name).min_by_key(|known| levenshtein(known, name));
    match nearest.filter(|known| levenshtein(known, name) <= name.len() / 3) {
        Some(known) => format!("{error}; did you mean '{known}'?"),
        None => error.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ottla_core::config::{BROKER_KEYS, IGNORED_BROKER_KEYS, SECURITY_KEYS, TOPIC_KEYS};

    #[test]
    fn a_file_may_write_kafkas_names_with_or_without_quotes() {
        let mut config = Config::default();
        let text = "listen = \"[::1]:9092\"\nhttp = \"off\"\n[broker]\nnum.partitions = 3\n\"log.retention.ms\" = 1000\n";
        config.merge_toml("test", text).unwrap();
        assert_eq!((config.listen.as_str(), &config.http), ("[::1]:9092", &Http::Off));
        let settings = config.settings().unwrap();
        assert_eq!(
            (settings.num_partitions, settings.value("log.retention.ms").unwrap().as_str()),
            (3, "1000")
        );
    }

    #[test]
    fn a_wrong_key_or_value_is_named() {
        let mut config = Config::default();
        let error = config.set("--set", "num.partition", "3").unwrap_err();
        assert_eq!(
            error.to_string(),
            "--set: unknown configuration key 'num.partition'; did you mean 'num.partitions'?"
        );
        let error = config.merge_toml("config file x", "[broker]\nnum.partitions = 0").unwrap_err();
        assert!(error.to_string().starts_with("config file x: 'num.partitions' cannot be '0'"), "{error}");
        let error = config.merge_toml("config file x", "http = \"9080\"").unwrap_err();
        assert_eq!(error.to_string(), "config file x: 'http': '9080' is neither host:port nor off");
        let error = config.merge_toml("config file x", "port = 1").unwrap_err();
        assert!(error.to_string().contains("unknown key 'port'"), "{error}");
    }

    #[test]
    fn the_environment_speaks_as_in_kafkas_images() {
        let mut config = Config::default();
        let variables = [
            ("KAFKA_NUM_PARTITIONS", "4"),
            ("KAFKA_HEAP_OPTS", "-Xmx1g"),
            ("KAFKA_PROCESS_ROLES", "broker"),
            ("HOME", "x"),
        ];
        let ignored = config
            .merge_environment(variables.map(|(k, v)| (k.to_owned(), v.to_owned())).into_iter())
            .unwrap();
        assert_eq!(config.broker["num.partitions"], "4");
        assert_eq!(ignored, ["KAFKA_PROCESS_ROLES"]);
    }

    #[test]
    fn the_page_of_settings_has_every_key_its_default_and_whether_it_has_an_effect() {
        let page = include_str!("../../../docs/guide/configuration.md");
        let own = BROKER_KEYS.iter().chain(SECURITY_KEYS).chain(IGNORED_BROKER_KEYS);
        let own = own.map(|key| (key.name, key.default, key.has_effect, key.dynamic));
        let topic = TOPIC_KEYS.iter().map(|key| (key.name, key.default, key.has_effect, false));
        for (name, default, has_effect, dynamic) in own.chain(topic) {
            let star = if dynamic { "* " } else { "" };
            let cell = if default.is_empty() { "|".to_owned() } else { format!("{default} |") };
            let row = format!("| `{name}` {star}| {cell}");
            let row = page.lines().find(|line| line.starts_with(&row));
            let row = row.unwrap_or_else(|| panic!("no row with `{name}` and its default {default:?}"));
            assert_eq!(row.contains("| no effect"), !has_effect, "{row}");
        }
        for name in TOPIC_KEYS.iter().filter_map(|key| key.broker_key) {
            assert!(page.contains(&format!("`{name}`")), "{name}");
        }
    }
}
