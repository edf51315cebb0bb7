//! ACLs indexed for decisions: a decision looks at the ACLs of one resource and one principal only, and allocates
//! nothing (S-208).

use super::host::HostPattern;
use ottla_types::acl::{Acl, EVERY_PRINCIPAL, Operation, PatternType, Permission, ResourceType, WILDCARD};
use ottla_types::record::AclsChanged;
use std::collections::BTreeMap;
use std::net::IpAddr;

/// An operation that a client wants to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Access<'a> {
    /// The client's principal, `Type:name`.
    pub principal: &'a str,
    /// The client's address. IPv4 clients of an IPv6 socket have their IPv4 address.
    pub host: IpAddr,
    /// The operation, never [`Operation::All`].
    pub operation: Operation,
    /// The type of the resource.
    pub resource_type: ResourceType,
    /// The name of the resource.
    pub resource_name: &'a str,
}

/// What the ACLs decide.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Decision {
    /// An ACL allows the access, and none denies it.
    Allowed,
    /// An ACL denies the access, or no ACL of this resource allows it.
    Denied,
    /// No ACL names this resource: `allow.everyone.if.no.acl.found` decides.
    NoAcl,
}

/// The ACLs, indexed for decisions.
#[derive(Clone, Debug, Default)]
pub struct AclIndex {
    by_type: BTreeMap<ResourceType, ResourceAcls>,
}

/// The ACLs of one type of resource.
#[derive(Clone, Debug, Default)]
struct ResourceAcls {
    literal: BTreeMap<String, PrincipalAcls>,
    prefixed: BTreeMap<String, PrincipalAcls>,
    /// The lengths of the prefixes, in bytes, each with the number of prefixes.
    prefix_lengths: BTreeMap<usize, usize>,
}

/// The ACLs of one resource pattern, by principal.
#[derive(Clone, Debug, Default)]
struct PrincipalAcls(BTreeMap<String, HostAcls>);

/// The ACLs of one pattern and principal.
#[derive(Clone, Debug, Default)]
struct HostAcls {
    every_host: Operations,
    hosts: Vec<(String, HostPattern, Operations)>,
}

/// Operations as bits: bit n is the operation with the number n.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Operations {
    allowed: u32,
    denied: u32,
}

const fn bit(operation: Operation) -> u32 {
    1 << operation.number()
}

/// The operations of which any one in an ALLOW allows the operation (S-204).
const fn granting(operation: Operation) -> u32 {
    let implied = match operation {
        Operation::Describe => {
            bit(Operation::Read) | bit(Operation::Write) | bit(Operation::Delete) | bit(Operation::Alter)
        }
        Operation::DescribeConfigs => bit(Operation::AlterConfigs),
        _ => 0,
    };
    bit(operation) | bit(Operation::All) | implied
}

/// The operations of which any one in a DENY denies the operation.
const fn denying(operation: Operation) -> u32 {
    bit(operation) | bit(Operation::All)
}

impl Operations {
    fn is_empty(self) -> bool {
        self == Operations::default()
    }

    fn set(&mut self, acl: &Acl, exists: bool) {
        let bits = match acl.permission {
            Permission::Allow => &mut self.allowed,
            Permission::Deny => &mut self.denied,
        };
        if exists { *bits |= bit(acl.operation) } else { *bits &= !bit(acl.operation) }
    }

    fn join(&mut self, other: Operations) {
        self.allowed |= other.allowed;
        self.denied |= other.denied;
    }

    fn denies(self, operation: Operation) -> bool {
        self.denied & denying(operation) != 0
    }

    fn allows(self, operation: Operation) -> bool {
        self.allowed & granting(operation) != 0
    }
}

impl HostAcls {
    fn set(&mut self, acl: &Acl, exists: bool) {
        if acl.host == WILDCARD {
            return self.every_host.set(acl, exists);
        }
        let at = self.hosts.iter().position(|(text, ..)| *text == acl.host);
        let at = at.unwrap_or_else(|| {
            self.hosts.push((acl.host.clone(), HostPattern::parse(&acl.host), Operations::default()));
            self.hosts.len() - 1
        });
        self.hosts[at].2.set(acl, exists);
        self.hosts.retain(|(_, _, operations)| !operations.is_empty());
    }

    fn is_empty(&self) -> bool {
        self.every_host.is_empty() && self.hosts.is_empty()
    }

    fn operations(&self, client: IpAddr) -> Operations {
        let mut found = self.every_host;
        for (_, pattern, operations) in &self.hosts {
            if pattern.matches(client) {
                found.join(*operations);
            }
        }
        found
    }
}

impl PrincipalAcls {
    fn set(&mut self, acl: &Acl, exists: bool) {
        if exists {
            return self.0.entry(acl.principal.clone()).or_default().set(acl, true);
        }
        if let Some(hosts) = self.0.get_mut(&acl.principal) {
            hosts.set(acl, false);
            if hosts.is_empty() {
                self.0.remove(&acl.principal);
            }
        }
    }

    /// The operations that ACLs of the client's principal and of every principal name.
    fn operations(&self, principal: &str, client: IpAddr) -> Operations {
        let mut found = Operations::default();
        for principal in [principal, EVERY_PRINCIPAL] {
            if let Some(hosts) = self.0.get(principal) {
                found.join(hosts.operations(client));
            }
        }
        found
    }
}

impl ResourceAcls {
    fn set(&mut self, acl: &Acl, exists: bool) {
        let patterns = match acl.pattern_type {
            PatternType::Literal => &mut self.literal,
            PatternType::Prefixed => &mut self.prefixed,
        };
        let before = patterns.len();
        match patterns.get_mut(&acl.resource_name) {
            Some(principals) => {
                principals.set(acl, exists);
                if principals.0.is_empty() {
                    patterns.remove(&acl.resource_name);
                }
            }
            None if exists => {
                patterns.entry(acl.resource_name.clone()).or_default().set(acl, true);
            }
            None => {}
        }
        let after = patterns.len();
        if acl.pattern_type == PatternType::Prefixed {
            self.count_prefix(acl.resource_name.len(), before, after);
        }
    }

    fn count_prefix(&mut self, length: usize, before: usize, after: usize) {
        if after > before {
            *self.prefix_lengths.entry(length).or_default() += 1;
        } else if after < before
            && let Some(count) = self.prefix_lengths.get_mut(&length)
        {
            *count -= 1;
            if *count == 0 {
                self.prefix_lengths.remove(&length);
            }
        }
    }

    /// The ACLs whose patterns apply to a name.
    fn applying<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a PrincipalAcls> {
        let wildcard = if name == WILDCARD { None } else { self.literal.get(WILDCARD) };
        self.literal.get(name).into_iter().chain(wildcard).chain(self.prefixes(name).map(|(_, acls)| acls))
    }

    /// The prefixes of a name, with their ACLs.
    fn prefixes<'a>(&'a self, name: &'a str) -> impl Iterator<Item = (&'a str, &'a PrincipalAcls)> {
        let lengths = self.prefix_lengths.range(..=name.len()).map(|(length, _)| *length);
        let prefixes = lengths.filter_map(|length| name.get(..length));
        prefixes.filter_map(|prefix| Some((prefix, self.prefixed.get(prefix)?)))
    }
}

impl AclIndex {
    /// Takes a change.
    pub fn apply(&mut self, changed: &AclsChanged) {
        for acl in &changed.removed {
            self.by_type.entry(acl.resource_type).or_default().set(acl, false);
        }
        for acl in &changed.added {
            self.by_type.entry(acl.resource_type).or_default().set(acl, true);
        }
    }

    /// Decides one access: a DENY that applies wins, then an ALLOW that applies (S-202 to S-204).
    pub fn decide(&self, access: &Access<'_>) -> Decision {
        let Some(acls) = self.by_type.get(&access.resource_type) else { return Decision::NoAcl };
        let mut decision = Decision::NoAcl;
        let mut operations = Operations::default();
        for principals in acls.applying(access.resource_name) {
            decision = Decision::Denied;
            operations.join(principals.operations(access.principal, access.host));
        }
        if !operations.denies(access.operation) && operations.allows(access.operation) {
            return Decision::Allowed;
        }
        decision
    }

    /// Whether the client may do the operation on some resource of the type, which need not exist (S-209). The name in
    /// `access` is not used.
    pub fn allows_any(&self, access: &Access<'_>) -> bool {
        let Access { principal, host, operation, .. } = *access;
        let Some(acls) = self.by_type.get(&access.resource_type) else { return false };
        let denied = |principals: &PrincipalAcls| principals.operations(principal, host).denies(operation);
        // No other operation implies one that this function is used for.
        let allowed = |principals: &PrincipalAcls| {
            principals.operations(principal, host).allowed & denying(operation) != 0
        };
        if let Some(everything) = acls.literal.get(WILDCARD) {
            if denied(everything) {
                return false;
            }
            if allowed(everything) {
                return true;
            }
        }
        let covered = |name: &str| acls.prefixes(name).any(|(_, principals)| denied(principals));
        let literal = acls.literal.iter().any(|(name, principals)| {
            name != WILDCARD && allowed(principals) && !denied(principals) && !covered(name)
        });
        literal || acls.prefixed.iter().any(|(prefix, principals)| allowed(principals) && !covered(prefix))
    }
}
