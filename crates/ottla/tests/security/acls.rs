//! ACLs in force: at once, within fetch sessions, and for requests without a response.

use crate::world::{AUTHORIZER, Client, PLAIN_USERS};
use ottla::Broker;
use ottla_wire::messages::create_acls_request::AclCreation;
use ottla_wire::messages::create_topics_request::CreatableTopic;
use ottla_wire::messages::delete_acls_request::DeleteAclsFilter;
use ottla_wire::messages::fetch_request::{FetchPartition, FetchTopic};
use ottla_wire::messages::produce_request::{PartitionProduceData, TopicProduceData};
use ottla_wire::messages::{
    CreateAclsRequest, CreateTopicsRequest, DeleteAclsRequest, FetchRequest, InitProducerIdRequest,
    ProduceRequest,
};
use ottla_wire::{Text, Uuid};

struct World {
    _broker: Broker,
    admin: Client,
    alice: Client,
    topic: Uuid,
}

impl World {
    fn new() -> World {
        let broker = Broker::in_memory()
            .set("listeners", "PLAINTEXT://127.0.0.1:0,SASL_PLAINTEXT://127.0.0.1:0")
            .set("sasl.enabled.mechanisms", "PLAIN")
            .set("sasl.jaas.config", PLAIN_USERS)
            .set("authorizer.class.name", AUTHORIZER)
            .set("super.users", "User:ANONYMOUS")
            .start()
            .unwrap();
        let mut admin = Client::plain(broker.address());
        let topic = CreatableTopic {
            name: Text::from_static("t"),
            num_partitions: 1,
            replication_factor: 1,
            ..Default::default()
        };
        let created = admin.call(&CreateTopicsRequest { topics: vec![topic], ..Default::default() }, 7);
        let mut alice = Client::plain(broker.addresses()[1].1);
        assert_eq!(alice.log_in_plain("alice", "alice-secret").error_code, 0);
        World { admin, alice, topic: created.topics[0].topic_id, _broker: broker }
    }

    /// Allows alice an operation on the topic.
    fn grant(&mut self, operation: i8) {
        let creation = AclCreation {
            resource_type: 2,
            resource_name: Text::from_static("t"),
            resource_pattern_type: 3,
            principal: Text::from_static("User:alice"),
            host: Text::from_static("*"),
            operation,
            permission_type: 3,
            ..Default::default()
        };
        let created =
            self.admin.call(&CreateAclsRequest { creations: vec![creation], ..Default::default() }, 3);
        assert_eq!(created.results[0].error_code, 0);
    }

    /// Deletes every ACL.
    fn revoke(&mut self) {
        let filter = DeleteAclsFilter {
            resource_type_filter: 1,
            resource_name_filter: None,
            pattern_type_filter: 1,
            principal_filter: None,
            host_filter: None,
            operation: 1,
            permission_type: 1,
            ..Default::default()
        };
        self.admin.call(&DeleteAclsRequest { filters: vec![filter], ..Default::default() }, 3);
    }

    fn produce(&mut self, acks: i16) -> Option<i16> {
        let partition = PartitionProduceData { records: Some(Default::default()), ..Default::default() };
        let topic =
            TopicProduceData { topic_id: self.topic, partition_data: vec![partition], ..Default::default() };
        let request =
            ProduceRequest { acks, timeout_ms: 1000, topic_data: vec![topic], ..Default::default() };
        let response = self.alice.try_call(&request, 13).ok()?;
        Some(response.responses[0].partition_responses[0].error_code)
    }
}

const READ: i8 = 3;
const WRITE: i8 = 4;

#[test]
fn s_01_a_change_is_in_force_when_it_is_answered() {
    let mut world = World::new();
    for _ in 0..20 {
        assert_eq!(world.produce(-1), Some(29));
        world.grant(WRITE);
        assert_ne!(world.produce(-1), Some(29));
        world.revoke();
    }
}

#[test]
fn s_216_a_fetch_session_loses_what_is_revoked() {
    let mut world = World::new();
    world.grant(READ);
    let partition = FetchPartition { partition_max_bytes: 1000, ..Default::default() };
    let topic = FetchTopic { topic_id: world.topic, partitions: vec![partition], ..Default::default() };
    let first = FetchRequest { max_bytes: 1000, topics: vec![topic], session_epoch: 0, ..Default::default() };
    let opened = world.alice.call(&first, 17);
    assert_eq!((opened.error_code, opened.responses[0].partitions[0].error_code), (0, 0));
    let next = |session_epoch| FetchRequest {
        max_bytes: 1000,
        session_id: opened.session_id,
        session_epoch,
        ..Default::default()
    };
    assert!(world.alice.call(&next(1), 17).responses.is_empty());
    world.revoke();
    assert_eq!(world.alice.call(&next(2), 17).responses[0].partitions[0].error_code, 29);
}

#[test]
fn s_301_a_denied_request_without_a_response_ends_its_connection() {
    let mut world = World::new();
    assert_eq!(world.produce(0), None);
}

#[test]
fn s_326_a_producer_without_an_id_needs_write_on_any_topic() {
    let mut world = World::new();
    let request = InitProducerIdRequest { transactional_id: None, ..Default::default() };
    let refused = world.alice.call(&request, 4);
    assert_eq!((refused.error_code, refused.producer_id, refused.producer_epoch), (31, -1, -1));
    world.grant(WRITE);
    assert_eq!(world.alice.call(&request, 4).error_code, 0);
}
