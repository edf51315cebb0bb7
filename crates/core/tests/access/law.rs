//! Replaying the records, from the start or from a snapshot, gives the live state.

use crate::rules::{acl, submit};
use bytes::Bytes;
use ottla_core::Shard;
use ottla_core::acls::{AclFilter, CreateAcls, DeleteAcls, PatternFilter};
use ottla_core::config::Settings;
use ottla_core::quotas::{AlterQuotas, QuotaChange};
use ottla_core::users::{AlterScram, NoSuchCredential, ScramChange};
use ottla_types::acl::{Operation, PatternType, Permission};
use ottla_types::record::{ScramCredential, ScramMechanism};

fn credential(user: &str, mechanism: ScramMechanism, iterations: i32) -> ScramCredential {
    ScramCredential {
        user: user.to_owned(),
        mechanism,
        salt: Bytes::from_static(b"salt"),
        iterations,
        stored_key: Bytes::from_static(b"stored"),
        server_key: Bytes::from_static(b"server"),
    }
}

fn restored(shard: &Shard) -> Shard {
    let mut other = Shard::new(Settings::default());
    shard.snapshot().iter().for_each(|row| other.restore(row));
    other
}

#[test]
fn s_001_a_snapshot_holds_acls_users_and_quotas() {
    let mut shard = Shard::new(Settings::default());
    let acls = (0..2500).map(|number| {
        acl(PatternType::Literal, &format!("topic-{number}"), Permission::Allow, Operation::Read)
    });
    submit(&mut shard, CreateAcls { acls: acls.collect() });
    let changes = vec![
        ScramChange::Store(credential("a", ScramMechanism::Sha256, 4096)),
        ScramChange::Store(credential("b", ScramMechanism::Sha512, 8192)),
    ];
    submit(&mut shard, AlterScram { changes });
    let entity = [("user".to_owned(), None)].into_iter().collect();
    let limits = vec![("producer_byte_rate".to_owned(), Some(1000.0))];
    submit(&mut shard, AlterQuotas { changes: vec![QuotaChange { entity, limits }] });
    let other = restored(&shard);
    assert_eq!(shard.snapshot(), other.snapshot());
    assert_eq!(other.acls().all().count(), 2500);
    assert_eq!(other.users().all().count(), 2);
    assert_eq!(other.quotas().all().count(), 1);
}

#[test]
fn s_146_removing_the_last_user_and_adding_another_loses_no_user() {
    let mut shard = Shard::new(Settings::default());
    let mechanism = ScramMechanism::Sha256;
    let store = |user: &str| ScramChange::Store(credential(user, mechanism, 4096));
    let remove = |user: &str| ScramChange::Remove(user.to_owned(), mechanism);
    submit(&mut shard, AlterScram { changes: vec![store("a")] });
    let results = submit(&mut shard, AlterScram { changes: vec![remove("a"), store("b"), remove("c")] });
    assert_eq!(results, [Ok(()), Ok(()), Err(NoSuchCredential)]);
    let other = restored(&shard);
    assert!(other.users().credential("a", mechanism).is_none());
    assert!(other.users().credential("b", mechanism).is_some());
}

#[test]
fn q_01_an_entity_without_limits_is_gone() {
    let mut shard = Shard::new(Settings::default());
    let entity: ottla_core::quotas::QuotaEntity =
        [("client-id".to_owned(), Some("c".to_owned()))].into_iter().collect();
    let change = |limit| AlterQuotas {
        changes: vec![QuotaChange {
            entity: entity.clone(),
            limits: vec![("consumer_byte_rate".to_owned(), limit)],
        }],
    };
    submit(&mut shard, change(Some(5.0)));
    assert_eq!(shard.quotas().of(&entity).map(|limits| limits["consumer_byte_rate"]), Some(5.0));
    submit(&mut shard, change(None));
    assert!(shard.quotas().of(&entity).is_none());
    assert_eq!(restored(&shard).quotas().all().count(), 0);
}

#[test]
fn s_216_a_deletion_is_one_record() {
    let mut shard = Shard::new(Settings::default());
    let acls = vec![
        acl(PatternType::Literal, "t", Permission::Allow, Operation::Read),
        acl(PatternType::Prefixed, "t", Permission::Deny, Operation::All),
    ];
    submit(&mut shard, CreateAcls { acls });
    let filter = AclFilter {
        resource_type: None,
        resource_name: None,
        pattern: PatternFilter::Any,
        principal: None,
        host: None,
        operation: None,
        permission: Some(Permission::Deny),
    };
    submit(&mut shard, DeleteAcls { filters: vec![filter] });
    assert_eq!(restored(&shard).acls().all().count(), 1);
}
