//! The state of access control that connections read without a command: ACLs, users, and the names of topics by id. The
//! machine writes it when it applies a record, so a change is in force before it is answered (S-01).

use ottla_core::Shard;
use ottla_core::acls::{Access, AclIndex, Decision};
use ottla_core::users::Users;
use ottla_types::TopicId;
use ottla_types::record::{AclRecord, CatalogRecord, LogRecord, ScramCredential, ScramMechanism};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

/// ACLs, users, and the names of topics.
#[derive(Debug)]
pub(crate) struct LiveAccess {
    acls: RwLock<AclIndex>,
    /// How often the ACLs have changed.
    acl_changes: AtomicU64,
    users: RwLock<Users>,
    topic_names: RwLock<BTreeMap<TopicId, Arc<str>>>,
}

impl LiveAccess {
    /// The state of a shard that was replayed.
    pub(crate) fn of_shard(shard: &Shard) -> LiveAccess {
        let names = shard.catalog().topics().map(|topic| (topic.id, Arc::from(topic.name.as_str())));
        LiveAccess {
            acls: RwLock::new(shard.acls().index().clone()),
            acl_changes: AtomicU64::new(0),
            users: RwLock::new(shard.users().clone()),
            topic_names: RwLock::new(names.collect()),
        }
    }

    /// Takes note of a record that was applied.
    pub(super) fn applied(&self, record: &LogRecord) {
        match record {
            LogRecord::Acls(AclRecord::AclsChanged(changed)) => {
                write(&self.acls).apply(changed);
                self.acl_changes.fetch_add(1, Ordering::Release);
            }
            LogRecord::Users(record) => write(&self.users).apply(record),
            LogRecord::Catalog(CatalogRecord::TopicCreated(created)) => {
                write(&self.topic_names).insert(created.id, Arc::from(created.name.as_str()));
            }
            LogRecord::Catalog(CatalogRecord::TopicDeleted(deleted)) => {
                write(&self.topic_names).remove(&deleted.id);
            }
            LogRecord::Catalog(_)
            | LogRecord::Partitions(_)
            | LogRecord::Transactions(_)
            | LogRecord::Groups(_)
            | LogRecord::Offsets(_)
            | LogRecord::Quotas(_)
            | LogRecord::SnapshotReached(_) => {}
        }
    }

    /// What the ACLs decide about one access.
    pub(crate) fn decide(&self, access: &Access<'_>) -> Decision {
        read(&self.acls).decide(access)
    }

    /// Whether the ACLs allow the operation on some resource of the type (S-209).
    pub(crate) fn allows_any(&self, access: &Access<'_>) -> bool {
        read(&self.acls).allows_any(access)
    }

    /// How often the ACLs have changed since the start.
    pub(crate) fn acl_changes(&self) -> u64 {
        self.acl_changes.load(Ordering::Acquire)
    }

    /// The SCRAM credential of a user.
    pub(crate) fn scram_credential(&self, user: &str, mechanism: ScramMechanism) -> Option<ScramCredential> {
        read(&self.users).credential(user, mechanism).cloned()
    }

    /// The SCRAM iterations that most users have.
    pub(crate) fn usual_iterations(&self, mechanism: ScramMechanism) -> Option<i32> {
        read(&self.users).usual_iterations(mechanism)
    }

    /// Whether there is a topic of this name. It looks at all topics.
    pub(crate) fn knows_topic(&self, name: &str) -> bool {
        read(&self.topic_names).values().any(|known| **known == *name)
    }

    /// The name of the topic with this id.
    pub(crate) fn topic_name(&self, id: TopicId) -> Option<Arc<str>> {
        read(&self.topic_names).get(&id).cloned()
    }
}

fn read<T>(lock: &RwLock<T>) -> RwLockReadGuard<'_, T> {
    lock.read().unwrap_or_else(PoisonError::into_inner)
}

fn write<T>(lock: &RwLock<T>) -> RwLockWriteGuard<'_, T> {
    lock.write().unwrap_or_else(PoisonError::into_inner)
}
