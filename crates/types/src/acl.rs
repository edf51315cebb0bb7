//! The vocabulary of access control: who may do which operation on which resource. The numbers are Kafka's (S-201).

use std::fmt;

/// Defines an enum whose values have Kafka's numbers and names.
macro_rules! numbered {
    ($(#[$doc:meta])* $name:ident { $($(#[$variant_doc:meta])* $variant:ident = $number:literal $text:literal,)* }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
        #[repr(u8)]
        pub enum $name {
            $($(#[$variant_doc])* $variant = $number,)*
        }

        impl $name {
            /// All values, by number.
            pub const ALL: &'static [$name] = &[$($name::$variant),*];

            /// The value with this number in Kafka's protocol.
            pub const fn from_number(number: u8) -> Option<$name> {
                match number {
                    $($number => Some($name::$variant),)*
                    _ => None,
                }
            }

            /// The number in Kafka's protocol.
            pub const fn number(self) -> u8 {
                self as u8
            }

            /// The name that Kafka's tools print.
            pub const fn name(self) -> &'static str {
                match self {
                    $($name::$variant => $text,)*
                }
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(self.name())
            }
        }
    };
}

numbered! {
    /// An operation that an ACL allows or denies.
    Operation {
        /// Every operation. Only ACLs have it, never a request.
        All = 2 "ALL",
        /// Reads records, or joins a group.
        Read = 3 "READ",
        /// Appends records, or uses a transactional id.
        Write = 4 "WRITE",
        /// Creates topics.
        Create = 5 "CREATE",
        /// Deletes topics, records or groups.
        Delete = 6 "DELETE",
        /// Changes topics, ACLs or users.
        Alter = 7 "ALTER",
        /// Reads metadata.
        Describe = 8 "DESCRIBE",
        /// Acts as a broker.
        ClusterAction = 9 "CLUSTER_ACTION",
        /// Reads configuration.
        DescribeConfigs = 10 "DESCRIBE_CONFIGS",
        /// Changes configuration.
        AlterConfigs = 11 "ALTER_CONFIGS",
        /// Writes with an idempotent producer.
        IdempotentWrite = 12 "IDEMPOTENT_WRITE",
        /// Creates delegation tokens for another user.
        CreateTokens = 13 "CREATE_TOKENS",
        /// Reads delegation tokens of another user.
        DescribeTokens = 14 "DESCRIBE_TOKENS",
        /// Prepares transactions for an outer coordinator.
        TwoPhaseCommit = 15 "TWO_PHASE_COMMIT",
    }
}

numbered! {
    /// A type of resource.
    ResourceType {
        /// A topic.
        Topic = 2 "TOPIC",
        /// A group of any kind.
        Group = 3 "GROUP",
        /// The cluster; its only name is [`CLUSTER_NAME`].
        Cluster = 4 "CLUSTER",
        /// A transactional id.
        TransactionalId = 5 "TRANSACTIONAL_ID",
        /// A delegation token, by its id.
        DelegationToken = 6 "DELEGATION_TOKEN",
        /// A user, as `User:name`.
        User = 7 "USER",
    }
}

numbered! {
    /// How the name of an ACL's resource is compared with the name in a request.
    PatternType {
        /// The names are equal, or that of the ACL is `*`.
        Literal = 3 "LITERAL",
        /// The name in the request begins with that of the ACL.
        Prefixed = 4 "PREFIXED",
    }
}

numbered! {
    /// Whether an ACL allows or denies.
    Permission {
        /// Denies.
        Deny = 2 "DENY",
        /// Allows.
        Allow = 3 "ALLOW",
    }
}

/// The only name of a resource of type cluster.
pub const CLUSTER_NAME: &str = "kafka-cluster";
/// A literal resource name that stands for every name, and a host that stands for every host.
pub const WILDCARD: &str = "*";
/// The principal that stands for every principal.
pub const EVERY_PRINCIPAL: &str = "User:*";

/// An access control list entry: the principal may, or may not, do the operation on the resources from the host.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Acl {
    /// The type of the resources.
    pub resource_type: ResourceType,
    /// How `resource_name` is compared.
    pub pattern_type: PatternType,
    /// A name, a prefix of names, or [`WILDCARD`].
    pub resource_name: String,
    /// `Type:name`, or [`EVERY_PRINCIPAL`].
    pub principal: String,
    /// An address as text, a block `address/bits`, or [`WILDCARD`].
    pub host: String,
    /// The operation.
    pub operation: Operation,
    /// Allows or denies.
    pub permission: Permission,
}

impl fmt::Display for Acl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Acl { resource_type, pattern_type, resource_name, principal, host, operation, permission } = self;
        write!(
            f,
            "{permission} {principal} from {host} {operation} on {resource_type}:{pattern_type}:{resource_name}"
        )
    }
}
