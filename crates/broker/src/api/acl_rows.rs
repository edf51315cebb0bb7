//! Shared by the APIs of ACLs: Kafka's numbers as the vocabulary of the core, and filters.

use ottla_core::acls::{AclFilter, PatternFilter};
use ottla_types::acl::{Acl, Operation, PatternType, Permission, ResourceType};
use ottla_wire::Text;
use std::fmt;

/// The message of SECURITY_DISABLED (S-210).
pub(super) const NO_AUTHORIZER: &str = "there is no authorizer: set authorizer.class.name";

/// The number that stands for no value; it may not be sent.
const UNKNOWN: i8 = 0;
/// The number that stands for every value in a filter.
const ANY: i8 = 1;
/// The pattern of filters that selects every ACL that applies to a name.
const MATCH: i8 = 2;

/// The fields of a filter.
pub(super) struct FilterFields<'a> {
    pub(super) resource_type: i8,
    pub(super) resource_name: Option<&'a Text>,
    pub(super) pattern_type: i8,
    pub(super) principal: Option<&'a Text>,
    pub(super) host: Option<&'a Text>,
    pub(super) operation: i8,
    pub(super) permission: i8,
}

/// Why a filter is not legal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FilterError {
    /// The field has the number 0 (S-211).
    Unknown(&'static str),
    /// The field has a number that Kafka 4.4 does not define (S-214).
    Undefined(&'static str),
}

impl fmt::Display for FilterError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (FilterError::Unknown(field) | FilterError::Undefined(field)) = self;
        write!(f, "the filter has an unknown {field}")
    }
}

/// Reads a filter.
pub(super) fn filter(fields: &FilterFields<'_>) -> Result<AclFilter, FilterError> {
    let pattern = match fields.pattern_type {
        ANY => PatternFilter::Any,
        MATCH => PatternFilter::Match,
        other => {
            let exact = number(other, PatternType::from_number);
            PatternFilter::Exact(exact.ok_or(unknown(other, "pattern type"))?)
        }
    };
    let text = |given: Option<&Text>| given.map(String::from);
    Ok(AclFilter {
        resource_type: any_or(fields.resource_type, "resource type", ResourceType::from_number)?,
        resource_name: text(fields.resource_name),
        pattern,
        principal: text(fields.principal),
        host: text(fields.host),
        operation: any_or(fields.operation, "operation", Operation::from_number)?,
        permission: any_or(fields.permission, "permission type", Permission::from_number)?,
    })
}

fn any_or<T>(
    given: i8,
    field: &'static str,
    from: impl Fn(u8) -> Option<T>,
) -> Result<Option<T>, FilterError> {
    match given {
        ANY => Ok(None),
        other => number(other, from).map(Some).ok_or(unknown(other, field)),
    }
}

/// The value with this number.
pub(super) fn number<T>(given: i8, from: impl Fn(u8) -> Option<T>) -> Option<T> {
    u8::try_from(given).ok().and_then(from)
}

fn unknown(given: i8, field: &'static str) -> FilterError {
    if given == UNKNOWN { FilterError::Unknown(field) } else { FilterError::Undefined(field) }
}

/// The numbers of the resource type and of the pattern type.
pub(super) fn resource_numbers(acl: &Acl) -> (i8, i8) {
    (signed(acl.resource_type.number()), signed(acl.pattern_type.number()))
}

/// The numbers of the operation and of the permission.
pub(super) fn operation_numbers(acl: &Acl) -> (i8, i8) {
    (signed(acl.operation.number()), signed(acl.permission.number()))
}

fn signed(number: u8) -> i8 {
    // The numbers are small.
    i8::try_from(number).unwrap_or(i8::MAX)
}
