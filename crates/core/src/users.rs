//! Users that authenticate with SCRAM: their credentials (KIP-554).
//!
//! A credential of a user and a mechanism exists from the record that stores it to the record that removes it. A
//! request changes any number of credentials with one record.

use crate::effect::{Effects, Ticket};
use ottla_types::record::{LogRecord, ScramChanged, ScramCredential, ScramMechanism, UserRecord};
use std::collections::BTreeMap;

/// The most credentials in one row of a snapshot.
const CREDENTIALS_A_ROW: usize = 1000;

/// One change of a SCRAM credential.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ScramChange {
    /// The credential of this user and mechanism is removed.
    Remove(String, ScramMechanism),
    /// The credential replaces that of its user and mechanism.
    Store(ScramCredential),
}

/// Changes SCRAM credentials, each judged by itself, in one atomic change. Names no user twice.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AlterScram {
    /// The changes.
    pub changes: Vec<ScramChange>,
}

/// There is no credential to remove.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NoSuchCredential;

/// A result for each change, in order.
pub type AlterScramReply = Vec<Result<(), NoSuchCredential>>;

/// A command for users, with the ticket of its reply.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum UserCommand {
    /// See [`AlterScram`].
    AlterScram(AlterScram, Ticket<AlterScramReply>),
}

/// All credentials of users, by name and mechanism.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Users {
    scram: BTreeMap<String, BTreeMap<ScramMechanism, ScramCredential>>,
}

impl Users {
    /// The users, by name, with their credentials. Each has at least one.
    pub fn all(&self) -> impl Iterator<Item = (&str, &BTreeMap<ScramMechanism, ScramCredential>)> {
        self.scram.iter().map(|(user, credentials)| (user.as_str(), credentials))
    }

    /// The credential of a user for a mechanism.
    pub fn credential(&self, user: &str, mechanism: ScramMechanism) -> Option<&ScramCredential> {
        self.scram.get(user)?.get(&mechanism)
    }

    /// The iterations that most credentials of a mechanism have; none without credentials.
    pub fn usual_iterations(&self, mechanism: ScramMechanism) -> Option<i32> {
        let mut counts: BTreeMap<i32, usize> = BTreeMap::new();
        for credential in self.scram.values().filter_map(|credentials| credentials.get(&mechanism)) {
            *counts.entry(credential.iterations).or_default() += 1;
        }
        counts.into_iter().max_by_key(|(_, count)| *count).map(|(iterations, _)| iterations)
    }

    /// Judges a command and replies to it.
    pub(crate) fn step(&mut self, command: UserCommand, out: &mut Effects) {
        let UserCommand::AlterScram(command, ticket) = command;
        let mut changed = ScramChanged::default();
        let mut results = Vec::with_capacity(command.changes.len());
        for change in command.changes {
            match change {
                ScramChange::Remove(user, mechanism) => {
                    if self.credential(&user, mechanism).is_none() {
                        results.push(Err(NoSuchCredential));
                        continue;
                    }
                    changed.removed.push((user, mechanism));
                }
                ScramChange::Store(credential) => changed.stored.push(credential),
            }
            results.push(Ok(()));
        }
        if changed != ScramChanged::default() {
            out.append(changed);
        }
        out.reply(ticket, results);
    }

    /// Takes a record.
    pub fn apply(&mut self, record: &UserRecord) {
        let UserRecord::ScramChanged(changed) = record;
        for (user, mechanism) in &changed.removed {
            if let Some(credentials) = self.scram.get_mut(user) {
                credentials.remove(mechanism);
                if credentials.is_empty() {
                    self.scram.remove(user);
                }
            }
        }
        for credential in &changed.stored {
            let credentials = self.scram.entry(credential.user.clone()).or_default();
            credentials.insert(credential.mechanism, credential.clone());
        }
    }

    pub(crate) fn snapshot(&self, rows: &mut Vec<LogRecord>) {
        let all: Vec<&ScramCredential> = self.scram.values().flat_map(BTreeMap::values).collect();
        rows.extend(all.chunks(CREDENTIALS_A_ROW).map(|chunk| {
            let stored = chunk.iter().map(|credential| (*credential).clone()).collect();
            LogRecord::from(ScramChanged { removed: Vec::new(), stored })
        }));
    }
}
