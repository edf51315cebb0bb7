//! Who may do what: operations, resources, and the one place that decides. There are no ACLs yet, so everything is
//! allowed.

use crate::session::Session;
use ottla_wire::Uuid;

/// An operation, by the numbers of Kafka's ACLs (S-201).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub(crate) enum Operation {
    Read = 3,
    Write = 4,
    Create = 5,
    Delete = 6,
    Alter = 7,
    Describe = 8,
    ClusterAction = 9,
    DescribeConfigs = 10,
    AlterConfigs = 11,
    IdempotentWrite = 12,
}

/// A type of resource.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ResourceType {
    Topic,
    Group,
    Cluster,
    TransactionalId,
}

/// A resource that an operation is done on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Resource<'a> {
    Topic(&'a str),
    /// A topic that the request names by its id.
    TopicId(Uuid),
    Group(&'a str),
    Cluster,
    TransactionalId(&'a str),
}

impl ResourceType {
    /// The operations that exist on such resources (S-220).
    pub(crate) const fn operations(self) -> &'static [Operation] {
        use Operation::{
            Alter, AlterConfigs, ClusterAction, Create, Delete, Describe, DescribeConfigs, IdempotentWrite,
            Read, Write,
        };
        match self {
            ResourceType::Topic => {
                &[Read, Write, Create, Delete, Alter, Describe, DescribeConfigs, AlterConfigs]
            }
            ResourceType::Group => &[Read, Delete, Describe, DescribeConfigs, AlterConfigs],
            ResourceType::Cluster => {
                &[Create, Alter, Describe, ClusterAction, DescribeConfigs, AlterConfigs, IdempotentWrite]
            }
            ResourceType::TransactionalId => &[Write, Describe],
        }
    }
}

impl Resource<'_> {
    pub(crate) fn resource_type(&self) -> ResourceType {
        match self {
            Resource::Topic(_) | Resource::TopicId(_) => ResourceType::Topic,
            Resource::Group(_) => ResourceType::Group,
            Resource::Cluster => ResourceType::Cluster,
            Resource::TransactionalId(_) => ResourceType::TransactionalId,
        }
    }
}

/// Decides what the principal of a session may do.
#[derive(Clone, Debug, Default)]
pub(crate) struct Authorizer;

impl Authorizer {
    /// Whether the session may do the operation on the resource.
    pub(crate) fn allows(&self, _session: &Session, _operation: Operation, _resource: &Resource<'_>) -> bool {
        true
    }

    /// The operations that the session may do on the resource, as the bits in which responses show them: bit n is the
    /// operation with the number n.
    pub(crate) fn operations(&self, session: &Session, resource: &Resource<'_>) -> i32 {
        let all = resource.resource_type().operations().iter();
        let allowed = all.filter(|operation| self.allows(session, **operation, resource));
        allowed.fold(0, |bits, operation| bits | 1 << *operation as u8)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::session::{AdvertisedAddress, Listener};
    use std::net::SocketAddr;
    use std::sync::Arc;

    #[test]
    fn s_220_full_sets_of_operations_are_as_in_kafka() {
        let advertised = AdvertisedAddress { host: "localhost".to_owned(), port: 1 };
        let listener = Arc::new(Listener::plaintext(advertised));
        let session = Session::new(listener, SocketAddr::from(([127, 0, 0, 1], 1)));
        let bits = |resource: Resource<'_>| Authorizer.operations(&session, &resource);
        assert_eq!(bits(Resource::Topic("t")), 3576);
        assert_eq!(bits(Resource::TopicId(Uuid::ZERO)), 3576);
        assert_eq!(bits(Resource::Group("g")), 3400);
        assert_eq!(bits(Resource::Cluster), 8096);
    }
}
