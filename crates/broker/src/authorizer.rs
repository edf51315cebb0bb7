//! Decides who may do what: Kafka's StandardAuthorizer (S-200 to S-209).
//!
//! Without `authorizer.class.name` every client may do everything. With it, super users may do everything, and ACLs
//! decide about the others.

use crate::host::LiveAccess;
use crate::session::{ANONYMOUS, Session};
use ottla_core::acls::{Access, Decision};
use ottla_core::config::Settings;
use ottla_types::acl::{CLUSTER_NAME, Operation, ResourceType};
use std::collections::BTreeSet;
use std::sync::Arc;

/// A resource that an operation is done on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Resource<'a> {
    Topic(&'a str),
    Group(&'a str),
    Cluster,
    TransactionalId(&'a str),
}

/// The operations that exist on resources of a type, as responses show them (S-220).
const fn operations_on(resource_type: ResourceType) -> &'static [Operation] {
    use Operation::{
        Alter, AlterConfigs, ClusterAction, Create, Delete, Describe, DescribeConfigs, IdempotentWrite, Read,
        Write,
    };
    match resource_type {
        ResourceType::Topic => &[Read, Write, Create, Delete, Alter, Describe, DescribeConfigs, AlterConfigs],
        ResourceType::Group => &[Read, Delete, Describe, DescribeConfigs, AlterConfigs],
        ResourceType::Cluster => {
            &[Create, Alter, Describe, ClusterAction, DescribeConfigs, AlterConfigs, IdempotentWrite]
        }
        ResourceType::TransactionalId => &[Write, Describe],
        ResourceType::DelegationToken => &[Describe],
        ResourceType::User => &[Operation::CreateTokens, Operation::DescribeTokens],
    }
}

impl<'a> Resource<'a> {
    fn resource_type(self) -> ResourceType {
        match self {
            Resource::Topic(_) => ResourceType::Topic,
            Resource::Group(_) => ResourceType::Group,
            Resource::Cluster => ResourceType::Cluster,
            Resource::TransactionalId(_) => ResourceType::TransactionalId,
        }
    }

    fn name(self) -> &'a str {
        match self {
            Resource::Topic(name) | Resource::Group(name) | Resource::TransactionalId(name) => name,
            Resource::Cluster => CLUSTER_NAME,
        }
    }
}

/// Decides what the principal of a session may do.
#[derive(Clone, Debug, Default)]
pub(crate) struct Authorizer {
    /// None if every client may do everything.
    rules: Option<Arc<Rules>>,
}

#[derive(Debug)]
struct Rules {
    /// `super.users`: principals as `Type:name`.
    super_users: BTreeSet<String>,
    /// `allow.everyone.if.no.acl.found`.
    allow_everyone: bool,
}

impl Authorizer {
    /// The authorizer that the broker's configuration describes.
    pub(crate) fn of(settings: &Settings) -> Authorizer {
        let text = |key: &str| settings.value(key).unwrap_or_default();
        if text("authorizer.class.name").trim().is_empty() {
            return Authorizer::default();
        }
        let super_users = text("super.users");
        let super_users = super_users.split(';').map(str::trim).filter(|name| !name.is_empty());
        let rules = Rules {
            super_users: super_users.map(str::to_owned).collect(),
            allow_everyone: text("allow.everyone.if.no.acl.found").trim().eq_ignore_ascii_case("true"),
        };
        Authorizer { rules: Some(Arc::new(rules)) }
    }

    /// Whether there are rules at all.
    pub(crate) fn is_on(&self) -> bool {
        self.rules.is_some()
    }

    /// Whether clients that do not authenticate may do everything.
    pub(crate) fn anonymous_is_super_user(&self) -> bool {
        self.rules.as_ref().is_some_and(|rules| rules.super_users.contains(ANONYMOUS))
    }

    /// Whether the session may do the operation on the resource.
    fn allows(
        &self,
        access: &LiveAccess,
        session: &Session,
        operation: Operation,
        resource: Resource<'_>,
    ) -> bool {
        let Some(rules) = &self.rules else { return true };
        if rules.super_users.contains(session.principal()) {
            return true;
        }
        match access.decide(&wanted(session, operation, resource)) {
            Decision::Allowed => true,
            Decision::Denied => false,
            Decision::NoAcl => rules.allow_everyone,
        }
    }
}

fn wanted<'a>(session: &'a Session, operation: Operation, resource: Resource<'a>) -> Access<'a> {
    Access {
        principal: session.principal(),
        host: session.host(),
        operation,
        resource_type: resource.resource_type(),
        resource_name: resource.name(),
    }
}

/// What the client of one session may do.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rights<'a> {
    authorizer: &'a Authorizer,
    access: &'a LiveAccess,
    session: &'a Session,
}

impl<'a> Rights<'a> {
    pub(crate) fn new(authorizer: &'a Authorizer, access: &'a LiveAccess, session: &'a Session) -> Self {
        Rights { authorizer, access, session }
    }

    /// Whether the client may do everything, because there is no authorizer.
    pub(crate) fn is_unlimited(&self) -> bool {
        !self.authorizer.is_on()
    }

    /// The live state that the decisions rest on.
    pub(crate) fn access(&self) -> &'a LiveAccess {
        self.access
    }

    /// Whether the client may do the operation on the resource. A denial is logged for the audit (S-400).
    pub(crate) fn allows(&self, operation: Operation, resource: Resource<'_>) -> bool {
        let allowed = self.probes(operation, resource);
        if !allowed {
            tracing::info!(
                target: AUDIT,
                principal = self.session.principal(),
                host = %self.session.host(),
                listener = self.session.listener_name(),
                %operation,
                resource_type = %resource.resource_type(),
                resource = ?resource.name(),
                "denied"
            );
        }
        allowed
    }

    /// The same, for a check whose denial says nothing of the client, such as one of a filter.
    pub(crate) fn probes(&self, operation: Operation, resource: Resource<'_>) -> bool {
        self.authorizer.allows(self.access, self.session, operation, resource)
    }

    /// Whether the client may do the operation on some topic, which need not exist (S-209).
    pub(crate) fn allows_on_any_topic(&self, operation: Operation) -> bool {
        /// The name that Kafka asks with. An ACL that names it counts, there as here.
        const NO_TOPIC: &str = "hardcode";
        self.probes(operation, Resource::Topic(NO_TOPIC))
            || self.access.allows_any(&wanted(self.session, operation, Resource::Topic(NO_TOPIC)))
    }

    /// The operations that the client may do on the resource, as the bits in which responses show them: bit n is the
    /// operation with the number n.
    pub(crate) fn operations(&self, resource: Resource<'_>) -> i32 {
        let all = operations_on(resource.resource_type()).iter();
        let allowed = all.filter(|operation| self.probes(**operation, resource));
        allowed.fold(0, |bits, operation| bits | 1 << operation.number())
    }
}

/// The target of log lines about decisions; Kafka's name of the logger.
const AUDIT: &str = "kafka.authorizer.logger";

#[cfg(test)]
mod tests {
    use super::*;
    use crate::session::{AdvertisedAddress, Listener};
    use ottla_core::Shard;
    use std::net::SocketAddr;

    #[test]
    fn s_220_full_sets_of_operations_are_as_in_kafka() {
        let advertised = AdvertisedAddress { host: "localhost".to_owned(), port: 1 };
        let listener = Arc::new(Listener::plaintext(advertised));
        let session = Session::new(listener, SocketAddr::from(([127, 0, 0, 1], 1)));
        let access = LiveAccess::of_shard(&Shard::new(Settings::default()));
        let authorizer = Authorizer::default();
        let bits = |resource: Resource<'_>| Rights::new(&authorizer, &access, &session).operations(resource);
        assert_eq!(bits(Resource::Topic("t")), 3576);
        assert_eq!(bits(Resource::Group("g")), 3400);
        assert_eq!(bits(Resource::Cluster), 8096);
    }

    #[test]
    fn s_200_super_users_may_hold_any_character_and_are_case_sensitive() {
        let given = [
            ("authorizer.class.name", "org.apache.kafka.metadata.authorizer.StandardAuthorizer"),
            ("super.users", "User:CN=a,O=b; User:c"),
        ];
        let given = given.into_iter().map(|(key, value)| (key.to_owned(), value.to_owned())).collect();
        let authorizer = Authorizer::of(&Settings::from_configs(&given).unwrap());
        let access = LiveAccess::of_shard(&Shard::new(Settings::default()));
        let advertised = AdvertisedAddress { host: "localhost".to_owned(), port: 1 };
        let may = |principal: &str| {
            let listener = Arc::new(Listener::plaintext(advertised.clone()));
            let mut session = Session::new(listener, SocketAddr::from(([127, 0, 0, 1], 1)));
            session.set_principal(principal);
            Rights::new(&authorizer, &access, &session).probes(Operation::Write, Resource::Topic("t"))
        };
        assert!(may("User:CN=a,O=b"));
        assert!(may("User:c"));
        assert!(!may("User:C"));
        assert!(!may("user:c"));
        assert!(!may("User:ANONYMOUS"));
    }
}
