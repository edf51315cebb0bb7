//! What keys say about each other, checked for settings as a whole.

use super::{ConfigError, Settings, TopicSettings, check_broker_config};
use std::collections::BTreeMap;

impl Settings {
    /// Settings from configuration under Kafka's names; what is not given has its default.
    ///
    /// # Errors
    /// A key is unknown, or a value is not one its key takes.
    pub fn from_configs(given: &BTreeMap<String, String>) -> Result<Settings, ConfigError> {
        for (name, value) in given {
            check_broker_config(name, value)?;
        }
        let settings = Settings::resolve(given.clone());
        settings.check()?;
        Ok(settings)
    }

    /// Checks what keys say about each other.
    pub(crate) fn check(&self) -> Result<(), ConfigError> {
        let contradiction = |name: &str, value: i64, why: String| {
            Err(ConfigError::Contradiction { name: name.to_owned(), value: value.to_string(), why })
        };
        let (least, most) = (self.group_min_session_timeout, self.group_max_session_timeout);
        if least > most {
            let why = format!("group.max.session.timeout.ms is {}, so no member could join a group", most.0);
            return contradiction("group.min.session.timeout.ms", least.0, why);
        }
        let replicas = self.default_replication_factor;
        if replicas > 1 && !self.clamp_replication_factor {
            let why = "there is one broker, so no topic could be created with the default; \
                       ottla.clamp.replication.factor=true takes any factor for 1"
                .to_owned();
            return contradiction("default.replication.factor", replicas.into(), why);
        }
        if self.retention_ms() == 0 {
            let (name, value) = ("log.retention.ms".to_owned(), "0".to_owned());
            return Err(ConfigError::BadValue { name, value, expected: "-1, or 1 and more".to_owned() });
        }
        TopicSettings::resolve(self, &BTreeMap::new()).check()
    }
}
