//! The authorizer in the shortest form: a list that is searched. The index must decide the same (M-8).

use ottla_core::acls::{Access, AclIndex, Decision};
use ottla_types::acl::{Acl, Operation, PatternType, Permission, ResourceType};
use ottla_types::record::AclsChanged;
use proptest::prelude::*;
use proptest::sample::select;
use std::net::IpAddr;

/// Whether an ACL is about the principal, host and resource of an access (S-202).
fn concerns(acl: &Acl, access: &Access<'_>) -> bool {
    let host = match acl.host.as_str() {
        "*" => true,
        "10.0.0.0/8" => matches!(access.host, IpAddr::V4(host) if host.octets()[0] == 10),
        text => text == access.host.to_string(),
    };
    host && (acl.principal == access.principal || acl.principal == "User:*") && names(acl, access)
}

fn names(acl: &Acl, access: &Access<'_>) -> bool {
    let name = access.resource_name;
    acl.resource_type == access.resource_type
        && match acl.pattern_type {
            PatternType::Literal => acl.resource_name == name || acl.resource_name == "*",
            PatternType::Prefixed => name.starts_with(&acl.resource_name),
        }
}

fn allows(acl: &Acl, operation: Operation) -> bool {
    use Operation::{All, Alter, AlterConfigs, Delete, Describe, DescribeConfigs, Read, Write};
    acl.permission == Permission::Allow
        && (acl.operation == operation
            || acl.operation == All
            || operation == Describe && [Read, Write, Delete, Alter].contains(&acl.operation)
            || operation == DescribeConfigs && acl.operation == AlterConfigs)
}

fn denies(acl: &Acl, operation: Operation) -> bool {
    acl.permission == Permission::Deny && [operation, Operation::All].contains(&acl.operation)
}

fn decide(acls: &[Acl], access: &Access<'_>) -> Decision {
    let concerning = || acls.iter().filter(|acl| concerns(acl, access));
    if concerning().any(|acl| denies(acl, access.operation)) {
        Decision::Denied
    } else if concerning().any(|acl| allows(acl, access.operation)) {
        Decision::Allowed
    } else if acls.iter().any(|acl| names(acl, access)) {
        Decision::Denied
    } else {
        Decision::NoAcl
    }
}

fn any_acl() -> impl Strategy<Value = Acl> {
    let resource = (
        select(vec![ResourceType::Topic, ResourceType::Group]),
        select(PatternType::ALL),
        select(vec!["*", "t", "to", "top", "other", "ö"]),
    );
    let who = (
        select(vec!["User:alice", "User:bob", "User:*", "user:alice"]),
        select(vec!["*", "10.0.0.1", "10.0.0.0/8", "192.168.0.1"]),
        select(Operation::ALL),
        select(Permission::ALL),
    );
    (resource, who).prop_map(|(resource, (principal, host, operation, permission))| Acl {
        resource_type: resource.0,
        pattern_type: resource.1,
        resource_name: resource.2.to_owned(),
        principal: principal.to_owned(),
        host: host.to_owned(),
        operation,
        permission,
    })
}

fn every_access() -> impl Iterator<Item = Access<'static>> {
    let names = ["t", "top", "topic", "other", "nothing", "*", "öl", ""];
    let hosts = ["10.0.0.1", "10.9.9.9", "192.168.0.1", "::1"];
    names.into_iter().flat_map(move |resource_name| {
        hosts.into_iter().flat_map(move |host| {
            ["User:alice", "User:bob", "User:carol"].into_iter().flat_map(move |principal| {
                Operation::ALL.iter().skip(1).map(move |operation| Access {
                    principal,
                    host: host.parse().unwrap(),
                    operation: *operation,
                    resource_type: ResourceType::Topic,
                    resource_name,
                })
            })
        })
    })
}

fn index(acls: &[Acl]) -> AclIndex {
    let mut index = AclIndex::default();
    index.apply(&AclsChanged { removed: Vec::new(), added: acls.to_vec() });
    index
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn s_202_s_203_s_204_the_index_decides_like_a_list(acls in prop::collection::vec(any_acl(), 0..12)) {
        let index = index(&acls);
        for access in every_access() {
            prop_assert_eq!(index.decide(&access), decide(&acls, &access), "{:?}", access);
        }
    }

    #[test]
    fn s_216_removing_acls_leaves_the_others(
        acls in prop::collection::btree_set(any_acl(), 0..12),
        removed in 0usize..12,
    ) {
        let acls: Vec<Acl> = acls.into_iter().collect();
        let (gone, rest) = acls.split_at(removed.min(acls.len()));
        let mut index = index(&acls);
        index.apply(&AclsChanged { removed: gone.to_vec(), added: Vec::new() });
        for access in every_access() {
            prop_assert_eq!(index.decide(&access), decide(rest, &access), "{:?}", access);
        }
    }
}
