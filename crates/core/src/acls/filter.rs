//! Filters that select ACLs (S-214).

use ottla_types::acl::{Acl, Operation, PatternType, Permission, ResourceType, WILDCARD};

/// Which patterns a filter selects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PatternFilter {
    /// The name is equal, whatever the pattern.
    Any,
    /// The pattern applies to the name: it is equal, a prefix, or the wildcard.
    Match,
    /// This pattern, with an equal name.
    Exact(PatternType),
}

/// A filter of ACLs. None selects everything.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AclFilter {
    /// Type of the resource.
    pub resource_type: Option<ResourceType>,
    /// Name of the resource, compared as `pattern` says.
    pub resource_name: Option<String>,
    /// How the name is compared.
    pub pattern: PatternFilter,
    /// Principal.
    pub principal: Option<String>,
    /// Host, as text.
    pub host: Option<String>,
    /// Operation. ALL selects only ACLs of ALL.
    pub operation: Option<Operation>,
    /// Permission.
    pub permission: Option<Permission>,
}

impl AclFilter {
    /// Whether the filter selects an ACL.
    pub fn selects(&self, acl: &Acl) -> bool {
        self.resource_type.is_none_or(|wanted| wanted == acl.resource_type)
            && self.selects_pattern(acl)
            && self.principal.as_ref().is_none_or(|wanted| *wanted == acl.principal)
            && self.host.as_ref().is_none_or(|wanted| *wanted == acl.host)
            && self.operation.is_none_or(|wanted| wanted == acl.operation)
            && self.permission.is_none_or(|wanted| wanted == acl.permission)
    }

    fn selects_pattern(&self, acl: &Acl) -> bool {
        let kind_fits = match self.pattern {
            PatternFilter::Exact(wanted) => wanted == acl.pattern_type,
            PatternFilter::Any | PatternFilter::Match => true,
        };
        let Some(name) = &self.resource_name else { return kind_fits };
        match self.pattern {
            PatternFilter::Any | PatternFilter::Exact(_) => kind_fits && *name == acl.resource_name,
            PatternFilter::Match => applies(acl, name),
        }
    }
}

/// Whether the pattern of an ACL applies to a resource of this name.
pub(super) fn applies(acl: &Acl, name: &str) -> bool {
    match acl.pattern_type {
        PatternType::Literal => acl.resource_name == name || acl.resource_name == WILDCARD,
        PatternType::Prefixed => name.starts_with(&acl.resource_name),
    }
}
