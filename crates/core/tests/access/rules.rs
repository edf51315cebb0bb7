//! Rules of ACLs, each on the values that the rule names.

use Operation::{All, Describe, IdempotentWrite, Read, Write};
use PatternType::{Literal, Prefixed};
use Permission::{Allow, Deny};
use ottla_core::acls::{Access, AclError, AclFilter, AclIndex, CreateAcls, DeleteAcls, PatternFilter};
use ottla_core::config::Settings;
use ottla_core::{Command, Effect, Effects, RecordPosition, Shard, Ticket, TicketId};
use ottla_types::acl::{Acl, Operation, PatternType, Permission, ResourceType};
use ottla_types::record::AclsChanged;
use ottla_types::{LogPosition, Millis};

pub(super) fn acl(
    pattern_type: PatternType,
    name: &str,
    permission: Permission,
    operation: Operation,
) -> Acl {
    Acl {
        resource_type: ResourceType::Topic,
        pattern_type,
        resource_name: name.to_owned(),
        principal: "User:alice".to_owned(),
        host: "*".to_owned(),
        operation,
        permission,
    }
}

/// Submits a command, applies its records, and returns its reply.
pub(super) fn submit<C: Command>(shard: &mut Shard, command: C) -> C::Reply {
    let ticket = Ticket::new(TicketId(1));
    let mut effects = Effects::default();
    shard.step(Millis(0), command.into_input(ticket), &mut effects);
    let mut reply = None;
    for effect in effects.drain() {
        match effect {
            Effect::Append(record) => {
                let at = LogPosition(4096);
                shard.apply(RecordPosition { position: at, payload: at }, &record);
            }
            Effect::Reply(given) => reply = ticket.open(given).ok(),
            Effect::Advanced(_) => {}
        }
    }
    reply.unwrap()
}

fn filter(pattern: PatternFilter, name: Option<&str>) -> AclFilter {
    AclFilter {
        resource_type: None,
        resource_name: name.map(str::to_owned),
        pattern,
        principal: None,
        host: None,
        operation: None,
        permission: None,
    }
}

#[test]
fn s_209_write_on_any_topic() {
    type Row<'a> = (PatternType, &'a str, Permission, Operation);
    let cases: &[(&[Row<'_>], bool)] = &[
        (&[(Literal, "t", Allow, Write)], true),
        (&[(Literal, "t", Allow, Write), (Literal, "t", Deny, Write)], false),
        (&[(Literal, "topic", Allow, Write), (Prefixed, "t", Deny, Write)], false),
        (&[(Prefixed, "t", Allow, Write), (Literal, "t1", Deny, Write)], true),
        (&[(Prefixed, "topic", Allow, Write), (Prefixed, "t", Deny, All)], false),
        (&[(Literal, "t", Allow, Write), (Literal, "*", Deny, Write)], false),
        (&[(Literal, "*", Allow, All)], true),
        (&[(Literal, "t", Allow, Write), (Literal, "t", Deny, IdempotentWrite)], true),
        (&[(Literal, "t", Allow, Read)], false),
        (&[], false),
    ];
    for (acls, expected) in cases {
        let mut index = AclIndex::default();
        let added = acls.iter().map(|(pattern, name, allow, what)| acl(*pattern, name, *allow, *what));
        index.apply(&AclsChanged { removed: Vec::new(), added: added.collect() });
        let access = Access {
            principal: "User:alice",
            host: "10.0.0.1".parse().unwrap(),
            operation: Write,
            resource_type: ResourceType::Topic,
            resource_name: "hardcode",
        };
        assert_eq!(index.allows_any(&access), *expected, "{acls:?}");
    }
}

#[test]
fn s_212_each_acl_is_judged_by_itself() {
    let mut shard = Shard::new(Settings::default());
    let good = acl(Literal, "t", Allow, Read);
    let acls = vec![
        good.clone(),
        Acl { resource_name: String::new(), ..good.clone() },
        Acl { principal: "alice".to_owned(), ..good.clone() },
        Acl { host: String::new(), ..good.clone() },
        Acl { host: "10.0.0.1/33".to_owned(), ..good.clone() },
        Acl { resource_type: ResourceType::Cluster, ..good.clone() },
        Acl {
            resource_type: ResourceType::Cluster,
            resource_name: "kafka-cluster".to_owned(),
            pattern_type: Prefixed,
            ..good.clone()
        },
        Acl { principal: "Any:".to_owned(), ..good.clone() },
        good.clone(),
    ];
    let results = submit(&mut shard, CreateAcls { acls });
    let bad: Vec<bool> = results.iter().map(Result::is_err).collect();
    assert_eq!(bad, [false, true, true, true, true, true, false, false, false]);
    assert_eq!(results[1], Err(AclError::NoName));
    assert_eq!(shard.acls().all().count(), 3);
}

#[test]
fn s_214_filters() {
    let mut shard = Shard::new(Settings::default());
    let acls = vec![
        acl(Literal, "top", Allow, Read),
        acl(Literal, "*", Allow, All),
        acl(Prefixed, "t", Deny, Write),
        acl(Prefixed, "top", Deny, Write),
        acl(Literal, "other", Allow, Describe),
    ];
    submit(&mut shard, CreateAcls { acls });
    let count = |filter: AclFilter| shard.acls().matching(&filter).count();
    assert_eq!(count(filter(PatternFilter::Any, None)), 5);
    assert_eq!(count(filter(PatternFilter::Any, Some("top"))), 2);
    assert_eq!(count(filter(PatternFilter::Match, Some("top"))), 4);
    assert_eq!(count(filter(PatternFilter::Match, None)), 5);
    assert_eq!(count(filter(PatternFilter::Exact(Literal), Some("top"))), 1);
    assert_eq!(count(filter(PatternFilter::Exact(Prefixed), None)), 2);
    assert_eq!(count(AclFilter { operation: Some(All), ..filter(PatternFilter::Any, None) }), 1);
    assert_eq!(
        count(AclFilter { principal: Some("User:bob".to_owned()), ..filter(PatternFilter::Any, None) }),
        0
    );
}

#[test]
fn s_215_an_acl_that_two_filters_select_is_reported_by_both() {
    let mut shard = Shard::new(Settings::default());
    submit(&mut shard, CreateAcls { acls: vec![acl(Literal, "t", Allow, Read)] });
    let all = || filter(PatternFilter::Any, None);
    let deleted = submit(&mut shard, DeleteAcls { filters: vec![all(), all()] });
    assert_eq!(deleted.iter().map(Vec::len).collect::<Vec<_>>(), [1, 1]);
    assert_eq!(shard.acls().all().count(), 0);
    let nothing = submit(&mut shard, DeleteAcls { filters: vec![all()] });
    assert!(nothing[0].is_empty());
}
