//! The authorization of an API, as data: operations, and how to find their resources in a request.

use crate::authorizer::{Operation, Resource, ResourceType};
use std::fmt;

/// Takes the resources that a request names, one by one.
pub(super) type ResourceVisitor<'a> = &'a mut dyn FnMut(Resource<'_>);

/// A check before a request is answered. An API has a list of them, which must all pass.
pub(crate) enum Check<R: 'static> {
    /// The operation on the cluster.
    Cluster(Operation),
    /// The operation on each resource that the function finds in a request of this version.
    Named(Operation, fn(&R, i16, ResourceVisitor<'_>)),
    /// The operation on resources that are known only while the request is answered, such as all topics. The API checks
    /// it itself.
    #[expect(dead_code, reason = "documents the API; the API itself makes the check")]
    Later(Operation, ResourceType),
    /// All checks of at least one of these lists.
    Any(&'static [&'static [Check<R>]]),
    /// The check, if the function returns true for the request and its version.
    When(fn(&R, i16) -> bool, &'static Check<R>),
}

/// A request that names topics.
pub(super) trait NamesTopics {
    fn topics(&self, version: i16, found: ResourceVisitor<'_>);
}

/// A request that names groups.
pub(super) trait NamesGroups {
    fn groups(&self, version: i16, found: ResourceVisitor<'_>);
}

/// A request that names transactional ids.
pub(super) trait NamesTransactionalIds {
    fn transactional_ids(&self, version: i16, found: ResourceVisitor<'_>);
}

/// The first check that failed.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Denied {
    operation: Operation,
    resource: String,
}

impl fmt::Display for Denied {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the client may not do {:?} on {}", self.operation, self.resource)
    }
}

/// Makes the checks of a request in their order, with `allows` as the authorizer. Returns the first one that fails.
pub(super) fn first_denied<R>(
    checks: &[Check<R>],
    request: &R,
    version: i16,
    allows: &mut dyn FnMut(Operation, &Resource<'_>) -> bool,
) -> Option<Denied> {
    checks.iter().find_map(|check| denied(check, request, version, allows))
}

fn denied<R>(
    check: &Check<R>,
    request: &R,
    version: i16,
    allows: &mut dyn FnMut(Operation, &Resource<'_>) -> bool,
) -> Option<Denied> {
    match check {
        Check::Cluster(operation) => judge(*operation, &Resource::Cluster, allows),
        Check::Named(operation, find) => {
            let mut first = None;
            find(request, version, &mut |resource| {
                if first.is_none() {
                    first = judge(*operation, &resource, allows);
                }
            });
            first
        }
        Check::Later(..) => None,
        Check::Any(lists) => {
            let mut first = None;
            for list in *lists {
                let denied = first_denied(list, request, version, allows)?;
                first.get_or_insert(denied);
            }
            first
        }
        Check::When(applies, check) if applies(request, version) => denied(check, request, version, allows),
        Check::When(..) => None,
    }
}

fn judge(
    operation: Operation,
    resource: &Resource<'_>,
    allows: &mut dyn FnMut(Operation, &Resource<'_>) -> bool,
) -> Option<Denied> {
    (!allows(operation, resource)).then(|| Denied { operation, resource: format!("{resource:?}") })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::Api;
    use bytes::Bytes;
    use ottla_wire::messages::add_partitions_to_txn_request::{
        AddPartitionsToTxnTopic, AddPartitionsToTxnTransaction,
    };
    use ottla_wire::messages::create_topics_request::CreatableTopic;
    use ottla_wire::messages::describe_configs_request::DescribeConfigsResource;
    use ottla_wire::messages::produce_request::{PartitionProduceData, TopicProduceData};
    use ottla_wire::messages::{
        AddPartitionsToTxnRequest, ApiVersionsRequest, CreateTopicsRequest, DescribeConfigsRequest,
        FetchRequest, FindCoordinatorRequest, InitProducerIdRequest, ProduceRequest,
    };
    use ottla_wire::{Records, Uuid};

    /// The checks that a request leads to if the authorizer allows exactly the operations that `allowed` names.
    fn checks<A: Api>(request: &A, version: i16, allowed: &[&str]) -> (Vec<String>, bool) {
        let mut made = Vec::new();
        let denied = first_denied(A::AUTHORIZATION, request, version, &mut |operation, resource| {
            made.push(format!("{operation:?} {resource:?}"));
            allowed.iter().any(|allowed| format!("{operation:?}") == *allowed)
        });
        (made, denied.is_none())
    }

    fn produce(transactional_id: Option<&str>, attributes: u8) -> ProduceRequest {
        let mut batch = vec![0; 61];
        batch[22] = attributes;
        let records = Some(Records::from(Bytes::from(batch)));
        let partition = PartitionProduceData { records, ..Default::default() };
        let topic =
            TopicProduceData { name: "t".into(), partition_data: vec![partition], ..Default::default() };
        ProduceRequest {
            transactional_id: transactional_id.map(Into::into),
            topic_data: vec![topic],
            ..Default::default()
        }
    }

    #[test]
    fn s_301_s_302_produce_needs_write_on_the_transactional_id_of_transactional_batches() {
        let all = |request: &ProduceRequest| checks(request, 12, &["Write"]).0;
        assert_eq!(all(&produce(Some("x"), 0)), ["Write Topic(\"t\")"]);
        assert_eq!(all(&produce(Some("x"), 0x10)), ["Write TransactionalId(\"x\")", "Write Topic(\"t\")"]);
        assert_eq!(all(&produce(None, 0x10)), ["Write TransactionalId(\"\")", "Write Topic(\"t\")"]);
        let mut by_id = produce(None, 0);
        by_id.topic_data[0] = TopicProduceData { topic_id: Uuid([1; 16]), ..Default::default() };
        assert!(all(&by_id)[0].starts_with("Write TopicId("));
        assert!(!checks(&produce(None, 0), 12, &["Read"]).1);
    }

    #[test]
    fn s_305_a_follower_needs_cluster_action() {
        let follower = FetchRequest { replica_id: 1, ..Default::default() };
        assert_eq!(checks(&follower, 12, &[]), (vec!["ClusterAction Cluster".to_owned()], false));
        let consumer = FetchRequest { replica_id: -1, ..Default::default() };
        assert_eq!(checks(&consumer, 12, &[]), (vec![], true));
    }

    #[test]
    fn s_314_to_s_316_a_coordinator_is_a_group_or_a_transactional_id_or_of_share_groups() {
        let found = |key_type, version| {
            let request = FindCoordinatorRequest {
                key: "k".into(),
                key_type,
                coordinator_keys: if version >= 4 { vec!["a".into(), "b".into()] } else { vec![] },
                ..Default::default()
            };
            checks(&request, version, &["Describe", "ClusterAction"]).0
        };
        assert_eq!(found(0, 3), ["Describe Group(\"k\")"]);
        assert_eq!(found(1, 4), ["Describe TransactionalId(\"a\")", "Describe TransactionalId(\"b\")"]);
        assert_eq!(found(2, 6), ["ClusterAction Cluster"]);
    }

    #[test]
    fn s_320_create_on_the_cluster_or_on_each_topic() {
        let topic = CreatableTopic { name: "t".into(), ..Default::default() };
        let request = CreateTopicsRequest { topics: vec![topic], ..Default::default() };
        let (made, allowed) = checks(&request, 7, &["Create"]);
        assert_eq!((made, allowed), (vec!["Create Cluster".to_owned()], true));
        let (made, allowed) = checks(&request, 7, &[]);
        assert_eq!((made.len(), made[1].as_str(), allowed), (2, "Create Topic(\"t\")", false));
    }

    #[test]
    fn s_325_s_326_a_producer_without_an_id_needs_idempotent_write_or_a_topic() {
        let with = InitProducerIdRequest { transactional_id: Some("x".into()), ..Default::default() };
        assert_eq!(checks(&with, 5, &[]).0, ["Write TransactionalId(\"x\")"]);
        let without = InitProducerIdRequest { transactional_id: None, ..Default::default() };
        assert_eq!(checks(&without, 5, &[]).0, ["IdempotentWrite Cluster"]);
    }

    #[test]
    fn s_328_s_329_adding_partitions_depends_on_the_version() {
        let topic = AddPartitionsToTxnTopic { name: "t".into(), ..Default::default() };
        let client = AddPartitionsToTxnRequest {
            v3_and_below_transactional_id: "x".into(),
            v3_and_below_topics: vec![topic.clone()],
            ..Default::default()
        };
        let made = checks(&client, 3, &["Write"]).0;
        assert_eq!(made, ["Write TransactionalId(\"x\")", "Write Topic(\"t\")"]);
        let transaction = AddPartitionsToTxnTransaction { topics: vec![topic], ..Default::default() };
        let broker = AddPartitionsToTxnRequest { transactions: vec![transaction], ..Default::default() };
        assert_eq!(checks(&broker, 4, &["ClusterAction"]).0, ["ClusterAction Cluster"]);
    }

    #[test]
    fn s_336_configurations_need_a_right_on_what_they_belong_to() {
        let resource = |resource_type| DescribeConfigsResource {
            resource_type,
            resource_name: "r".into(),
            ..Default::default()
        };
        let found = |resource_type| {
            let resources = vec![resource(resource_type)];
            let request = DescribeConfigsRequest { resources, ..Default::default() };
            checks(&request, 4, &["DescribeConfigs"]).0
        };
        assert_eq!(found(2), ["DescribeConfigs Topic(\"r\")"]);
        assert_eq!(found(32), ["DescribeConfigs Group(\"r\")"]);
        for of_cluster in [4, 8, 16] {
            assert_eq!(found(of_cluster), ["DescribeConfigs Cluster"]);
        }
    }

    #[test]
    fn s_340_everybody_may_ask_for_versions() {
        assert!(checks(&ApiVersionsRequest::default(), 4, &[]).1);
    }
}
