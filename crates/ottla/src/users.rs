//! The users of a data folder whose broker does not run: how the first administrator is made, without a moment in which
//! clients could connect without a password.

use crate::broker::{StartError, start_host};
use crate::config::{Config, Storage};
use ottla_auth::scram::{Credential, Mechanism, SALT_LENGTH, salt};
use ottla_auth::secret::Secret;
use ottla_broker::host::RunningHost;
use ottla_core::users::{AlterScram, ScramChange};
use ottla_types::record::{ScramCredential, ScramMechanism};
use std::path::Path;

/// A SCRAM credential to store.
#[derive(Clone, Debug)]
pub struct NewUser {
    /// The user's name: printable ASCII, so that clients can log in with it.
    pub name: String,
    /// The mechanism.
    pub mechanism: Mechanism,
    /// Rounds of hashing, from 4096 to 16384.
    pub iterations: u32,
    /// The password.
    pub password: Secret,
}

/// A user with the mechanisms by which it may log in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UserView {
    /// The name.
    pub name: String,
    /// SASL's names of the mechanisms, each with its iterations.
    pub mechanisms: Vec<(&'static str, i32)>,
}

/// The users of a folder. The folder is locked while this exists, and no client can connect.
#[derive(Debug)]
pub struct UserFolder {
    running: Option<RunningHost>,
}

impl UserFolder {
    /// Opens a folder, and creates it if it does not exist.
    ///
    /// # Errors
    /// A broker runs on the folder, or its data cannot be read.
    pub fn open(folder: &Path) -> Result<UserFolder, StartError> {
        let config = Config { storage: Storage::Folder(folder.to_path_buf()), ..Config::default() };
        Ok(UserFolder { running: Some(start_host(&config)?) })
    }

    /// Stores a credential; it is durable when this returns.
    ///
    /// # Errors
    /// The system gives no random bytes, or the folder cannot be written.
    pub async fn store(&self, user: &NewUser) -> Result<(), StartError> {
        let mut random = [0; SALT_LENGTH];
        getrandom::fill(&mut random).map_err(|error| StartError::System {
            what: "random bytes",
            source: std::io::Error::other(error.to_string()),
        })?;
        let keys = Credential::from_password(user.mechanism, &user.password, salt(random), user.iterations);
        let credential = ScramCredential {
            user: user.name.clone(),
            mechanism: match user.mechanism {
                Mechanism::Sha256 => ScramMechanism::Sha256,
                Mechanism::Sha512 => ScramMechanism::Sha512,
            },
            salt: keys.salt.into(),
            iterations: i32::try_from(user.iterations).unwrap_or(i32::MAX),
            stored_key: keys.stored_key.into(),
            server_key: keys.server_key.into(),
        };
        self.alter(vec![ScramChange::Store(credential)]).await.map(drop)
    }

    /// Removes all credentials of a user. False if it has none.
    ///
    /// # Errors
    /// The folder cannot be written.
    pub async fn remove(&self, name: &str) -> Result<bool, StartError> {
        let mechanisms = [ScramMechanism::Sha256, ScramMechanism::Sha512];
        let changes = mechanisms.map(|mechanism| ScramChange::Remove(name.to_owned(), mechanism));
        Ok(self.alter(changes.into()).await?.iter().any(Result::is_ok))
    }

    /// The users, by name.
    ///
    /// # Errors
    /// The log has failed.
    pub async fn users(&self) -> Result<Vec<UserView>, StartError> {
        let Some(running) = &self.running else { return Ok(Vec::new()) };
        let look = running.host.read(|shard, _| {
            let view = |(name, credentials): (&str, &std::collections::BTreeMap<_, ScramCredential>)| {
                let mechanisms = credentials.values().map(|one| (one.mechanism.name(), one.iterations));
                UserView { name: name.to_owned(), mechanisms: mechanisms.collect() }
            };
            shard.users().all().map(view).collect()
        });
        look.await.map_err(gone)
    }

    async fn alter(
        &self,
        changes: Vec<ScramChange>,
    ) -> Result<ottla_core::users::AlterScramReply, StartError> {
        let Some(running) = &self.running else { return Ok(Vec::new()) };
        running.host.submit(AlterScram { changes }).await.map_err(gone)
    }
}

fn gone(error: ottla_broker::host::HostGone) -> StartError {
    StartError::Data { place: "the data folder".to_owned(), source: error.into() }
}

impl Drop for UserFolder {
    fn drop(&mut self) {
        if let Some(RunningHost { host, thread, .. }) = self.running.take() {
            host.stop();
            drop(thread.join());
        }
    }
}
