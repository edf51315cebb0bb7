//! Access control: ACLs, users, quotas.

use super::field::{DecodeError, Field, Reader, fields};
use crate::span::FieldValue;
use ottla_types::acl::{Acl, Operation, PatternType, Permission, ResourceType};
use ottla_types::record::{AclsChanged, QuotasChanged, ScramChanged, ScramCredential, ScramMechanism};

fields! {
    Acl { resource_type, pattern_type, resource_name, principal, host, operation, permission }
    AclsChanged { removed, added }
    ScramCredential { user, mechanism, salt, iterations, stored_key, server_key }
    ScramChanged { removed, stored }
    QuotasChanged { entity, limits }
}

/// Stores an enum as the byte of its number.
macro_rules! numbered {
    ($($kind:ident $word:literal;)*) => {$(
        impl Field for $kind {
            const WORD: &'static str = $word;
            fn put(&self, out: &mut Vec<u8>) {
                self.number().put(out);
            }
            fn take(input: &mut Reader<'_>) -> Result<Self, DecodeError> {
                let value = input.choice($word, $kind::from_number)?;
                input.set_value(|| FieldValue::Named(i64::from(value.number()), value.name()));
                Ok(value)
            }
        }
    )*};
}
numbered! {
    ResourceType "resource type";
    PatternType "pattern type";
    Operation "operation";
    Permission "permission";
    ScramMechanism "mechanism";
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::record::generators::{any_bytes, few, round_trip};
    use ottla_types::record::LogRecord;
    use proptest::prelude::*;
    use proptest::{option, sample::select};

    fn any_acl() -> impl Strategy<Value = Acl> {
        let what = (select(ResourceType::ALL), select(PatternType::ALL), ".{0,8}");
        let who = (".{0,8}", ".{0,8}", select(Operation::ALL), select(Permission::ALL));
        (what, who).prop_map(
            |((resource_type, pattern_type, resource_name), (principal, host, operation, permission))| Acl {
                resource_type,
                pattern_type,
                resource_name,
                principal,
                host,
                operation,
                permission,
            },
        )
    }

    fn any_credential() -> impl Strategy<Value = ScramCredential> {
        (".{0,8}", any::<bool>(), any_bytes(), any::<i32>(), any_bytes(), any_bytes()).prop_map(
            |(user, long, salt, iterations, stored_key, server_key)| ScramCredential {
                user,
                mechanism: if long { ScramMechanism::Sha512 } else { ScramMechanism::Sha256 },
                salt,
                iterations,
                stored_key,
                server_key,
            },
        )
    }

    pub(crate) fn any_record() -> impl Strategy<Value = LogRecord> {
        prop_oneof![
            (few(any_acl()), few(any_acl()))
                .prop_map(|(removed, added)| LogRecord::from(AclsChanged { removed, added })),
            few(any_credential()).prop_map(|stored| {
                let removed = stored.iter().map(|one| (one.user.clone(), one.mechanism)).collect();
                LogRecord::from(ScramChanged { removed, stored })
            }),
            (few((".{0,8}", option::of(".{0,8}"))), few((".{0,8}", any::<u64>())))
                .prop_map(|(entity, limits)| LogRecord::from(QuotasChanged { entity, limits })),
        ]
    }

    proptest! {
        #[test]
        fn comes_back_as_written(record in any_record()) {
            round_trip(&record)?;
        }
    }
}
