//! Client quotas: limits of users, client ids and addresses (KIP-546). The meters that enforce them belong to the host.
//!
//! An entity has limits from the record that sets one to the record that leaves none.

use crate::effect::{Effects, Ticket};
use ottla_types::record::{LogRecord, QuotaRecord, QuotasChanged};
use std::collections::BTreeMap;

/// The components of an entity by type (`user`, `client-id`, `ip`); a name is none for the default of the type.
pub type QuotaEntity = BTreeMap<String, Option<String>>;

/// Changes the limits of one entity.
#[derive(Clone, Debug, PartialEq)]
pub struct QuotaChange {
    /// The entity.
    pub entity: QuotaEntity,
    /// Key, and its limit; none removes the limit.
    pub limits: Vec<(String, Option<f64>)>,
}

/// Changes limits, each entity with a record of its own. The caller has checked entities, keys and values (Q-10 to
///
#[derive(Clone, Debug, PartialEq)]
pub struct AlterQuotas {
    /// The changes; each entity occurs once.
    pub changes: Vec<QuotaChange>,
}

/// The changes are made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AlterQuotasReply;

/// A command for quotas, with the ticket of its reply.
#[derive(Clone, Debug, PartialEq)]
pub enum QuotaCommand {
    /// See [`AlterQuotas`].
    AlterQuotas(AlterQuotas, Ticket<AlterQuotasReply>),
}

/// All quotas.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Quotas {
    limits: BTreeMap<QuotaEntity, BTreeMap<String, f64>>,
}

impl Quotas {
    /// Every entity that has limits, with its limits by key.
    pub fn all(&self) -> impl Iterator<Item = (&QuotaEntity, &BTreeMap<String, f64>)> {
        self.limits.iter()
    }

    /// The limits of exactly this entity.
    pub fn of(&self, entity: &QuotaEntity) -> Option<&BTreeMap<String, f64>> {
        self.limits.get(entity)
    }

    /// Judges a command and replies to it.
    pub(crate) fn step(&mut self, command: QuotaCommand, out: &mut Effects) {
        let QuotaCommand::AlterQuotas(command, ticket) = command;
        for change in command.changes {
            let before = self.limits.get(&change.entity).cloned().unwrap_or_default();
            let mut limits = before.clone();
            for (key, limit) in change.limits {
                match limit {
                    Some(limit) => limits.insert(key, limit),
                    None => limits.remove(&key),
                };
            }
            if limits != before {
                out.append(record(&change.entity, &limits));
            }
        }
        out.reply(ticket, AlterQuotasReply);
    }

    /// Takes a record.
    pub fn apply(&mut self, record: &QuotaRecord) {
        let QuotaRecord::QuotasChanged(changed) = record;
        let entity: QuotaEntity = changed.entity.iter().cloned().collect();
        let limits = changed.limits.iter().map(|(key, bits)| (key.clone(), f64::from_bits(*bits)));
        let limits: BTreeMap<String, f64> = limits.collect();
        if limits.is_empty() {
            self.limits.remove(&entity);
        } else {
            self.limits.insert(entity, limits);
        }
    }

    pub(crate) fn snapshot(&self, rows: &mut Vec<LogRecord>) {
        rows.extend(self.limits.iter().map(|(entity, limits)| LogRecord::from(record(entity, limits))));
    }
}

fn record(entity: &QuotaEntity, limits: &BTreeMap<String, f64>) -> QuotasChanged {
    QuotasChanged {
        entity: entity.iter().map(|(kind, name)| (kind.clone(), name.clone())).collect(),
        limits: limits.iter().map(|(key, limit)| (key.clone(), limit.to_bits())).collect(),
    }
}
