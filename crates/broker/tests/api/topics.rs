//! CreateTopics, DeleteTopics, CreatePartitions and DescribeTopicPartitions.

use crate::world::{Peer, broker};
use ottla_wire::messages::create_partitions_request::{CreatePartitionsAssignment, CreatePartitionsTopic};
use ottla_wire::messages::create_topics_request::{
    CreatableReplicaAssignment, CreatableTopic, CreatableTopicConfig,
};
use ottla_wire::messages::delete_topics_request::DeleteTopicState;
use ottla_wire::messages::describe_topic_partitions_request::{Cursor, TopicRequest};
use ottla_wire::messages::{
    CreatePartitionsRequest, CreateTopicsRequest, CreateTopicsResponse, DeleteTopicsRequest,
    DescribeTopicPartitionsRequest, MetadataRequest,
};
use ottla_wire::{ErrorCode, Text, Uuid};

fn topic(name: &str, num_partitions: i32, replication_factor: i16) -> CreatableTopic {
    CreatableTopic { name: name.into(), num_partitions, replication_factor, ..Default::default() }
}

fn configured(name: &str, key: &str, value: Option<&str>) -> CreatableTopic {
    let config =
        CreatableTopicConfig { name: key.into(), value: value.map(Text::from), ..Default::default() };
    CreatableTopic { configs: vec![config], ..topic(name, 1, 1) }
}

fn assigned(name: &str, assignments: &[(i32, &[i32])]) -> CreatableTopic {
    let one = |(partition_index, brokers): &(i32, &[i32])| CreatableReplicaAssignment {
        partition_index: *partition_index,
        broker_ids: brokers.iter().copied().collect(),
        ..Default::default()
    };
    CreatableTopic { assignments: assignments.iter().map(one).collect(), ..topic(name, -1, -1) }
}

fn create(topics: Vec<CreatableTopic>) -> CreateTopicsRequest {
    CreateTopicsRequest { topics, ..Default::default() }
}

fn errors(response: &CreateTopicsResponse) -> Vec<(String, ErrorCode)> {
    let topics = response.topics.iter();
    topics.map(|topic| (String::from(&topic.name), ErrorCode(topic.error_code))).collect()
}

async fn partitions_of(peer: &mut Peer, name: &str) -> usize {
    let all = peer.call(&MetadataRequest { topics: None, ..Default::default() }, 12).await;
    let topic = all.topics.into_iter().find(|topic| topic.name.as_deref() == Some(name));
    topic.map_or(0, |topic| topic.partitions.len())
}

#[tokio::test]
async fn topics_are_created_in_every_version_and_shown_from_5_on() {
    let server = broker(&[("num.partitions", "4")]).await;
    let mut peer = Peer::connect(&server).await;
    for version in 2..=7 {
        let name = format!("t{version}");
        let response = peer.call(&create(vec![topic(&name, -1, -1)]), version).await;
        let created = &response.topics[0];
        assert_eq!((created.error_code, &created.error_message), (0, &None));
        assert_eq!(partitions_of(&mut peer, &name).await, 4, "the broker's default");
        assert_eq!(created.topic_id.is_zero(), version < 7);
        if version >= 5 {
            assert_eq!((created.num_partitions, created.replication_factor), (4, 1));
            assert_eq!(created.configs.as_ref().unwrap().len(), 37, "as many as Apache Kafka 4.4 has");
        }
    }
    let response = peer.call(&create(vec![configured("kept", "retention.ms", Some("5"))]), 7).await;
    let configs = response.topics[0].configs.as_ref().unwrap();
    let retention = configs.iter().find(|config| config.name == "retention.ms").unwrap();
    assert_eq!((retention.value.as_deref(), retention.config_source), (Some("5"), 1));
    let policy = configs.iter().find(|config| config.name == "cleanup.policy").unwrap();
    assert_eq!((policy.value.as_deref(), policy.config_source), (Some("delete"), 5));
}

#[tokio::test]
async fn each_topic_is_judged_by_itself_with_kafkas_codes() {
    let server = broker(&[]).await;
    let mut peer = Peer::connect(&server).await;
    peer.call(&create(vec![topic("there", 1, 1)]), 7).await;
    let cases = vec![
        (topic("there", 1, 1), ErrorCode::TOPIC_ALREADY_EXISTS),
        (topic("a b", 1, 1), ErrorCode::INVALID_TOPIC_EXCEPTION),
        (topic("", 1, 1), ErrorCode::INVALID_TOPIC_EXCEPTION),
        (topic("none", 0, 1), ErrorCode::INVALID_PARTITIONS),
        (topic("less", -2, 1), ErrorCode::INVALID_PARTITIONS),
        (topic("nowhere", 1, 0), ErrorCode::INVALID_REPLICATION_FACTOR),
        (topic("twofold", 1, 2), ErrorCode::INVALID_REPLICATION_FACTOR),
        (configured("odd", "no.such.key", Some("1")), ErrorCode::INVALID_CONFIG),
        (configured("wrong", "retention.ms", Some("x")), ErrorCode::INVALID_CONFIG),
        (configured("null", "retention.ms", None), ErrorCode::INVALID_CONFIG),
        (assigned("elsewhere", &[(0, &[1, 2])]), ErrorCode::INVALID_REPLICA_ASSIGNMENT),
        (assigned("gap", &[(1, &[1])]), ErrorCode::INVALID_REPLICA_ASSIGNMENT),
        (CreatableTopic { num_partitions: 1, ..assigned("both", &[(0, &[1])]) }, ErrorCode::INVALID_REQUEST),
        (assigned("chosen", &[(0, &[1]), (1, &[1])]), ErrorCode::NONE),
        (topic("fine", 2, 1), ErrorCode::NONE),
    ];
    let (topics, expected): (Vec<_>, Vec<_>) = cases.into_iter().unzip();
    let names = topics.iter().map(|topic| String::from(&topic.name));
    let expected: Vec<_> = names.zip(expected).collect();
    let response = peer.call(&create(topics), 7).await;
    assert_eq!(errors(&response), expected);
    for refused in response.topics.iter().filter(|topic| topic.error_code != 0) {
        assert!(refused.error_message.as_ref().is_some_and(|why| !why.is_empty()), "{refused:?}");
    }
    assert_eq!(partitions_of(&mut peer, "chosen").await, 2);
    assert_eq!(partitions_of(&mut peer, "fine").await, 2);
}

#[tokio::test]
async fn a_topic_named_twice_is_not_created_and_validation_creates_nothing() {
    let server = broker(&[]).await;
    let mut peer = Peer::connect(&server).await;
    let twice = vec![topic("twice", 1, 1), topic("once", 1, 1), topic("twice", 2, 1)];
    let response = peer.call(&create(twice), 7).await;
    let once = ("once".to_owned(), ErrorCode::NONE);
    assert_eq!(errors(&response), [once, ("twice".to_owned(), ErrorCode::INVALID_REQUEST)]);
    assert_eq!(partitions_of(&mut peer, "twice").await, 0);
    let dry = CreateTopicsRequest { validate_only: true, ..create(vec![topic("dry", 3, 1)]) };
    let response = peer.call(&dry, 7).await;
    assert_eq!((response.topics[0].error_code, response.topics[0].num_partitions), (0, 3));
    assert_eq!(partitions_of(&mut peer, "dry").await, 0);
}

#[tokio::test]
async fn topics_are_deleted_by_name_and_by_id() {
    let server = broker(&[]).await;
    let mut peer = Peer::connect(&server).await;
    for version in 1..=5 {
        peer.call(&create(vec![topic("t", 1, 1)]), 7).await;
        let names = vec!["t".into(), "unknown".into()];
        let request = DeleteTopicsRequest { topic_names: names, ..Default::default() };
        let response = peer.call(&request, version).await;
        let codes: Vec<_> = response.responses.iter().map(|topic| ErrorCode(topic.error_code)).collect();
        assert_eq!(codes, [ErrorCode::NONE, ErrorCode::UNKNOWN_TOPIC_OR_PARTITION]);
        assert_eq!(partitions_of(&mut peer, "t").await, 0);
    }
    let created = peer.call(&create(vec![topic("t", 1, 1)]), 7).await;
    let id = created.topics[0].topic_id;
    let by_id = |topic_id| DeleteTopicState { topic_id, name: None, ..Default::default() };
    let topics = vec![
        by_id(Uuid([9; 16])),
        by_id(Uuid::ZERO),
        DeleteTopicState { topic_id: id, name: Some("t".into()), ..Default::default() },
    ];
    let response = peer.call(&DeleteTopicsRequest { topics, ..Default::default() }, 6).await;
    let mut codes: Vec<_> = response.responses.iter().map(|topic| ErrorCode(topic.error_code)).collect();
    codes.sort();
    let expected = [ErrorCode::INVALID_REQUEST, ErrorCode::INVALID_REQUEST, ErrorCode::UNKNOWN_TOPIC_ID];
    assert_eq!(codes, expected);
    let response = peer.call(&DeleteTopicsRequest { topics: vec![by_id(id)], ..Default::default() }, 6).await;
    assert_eq!((response.responses[0].error_code, response.responses[0].name.as_deref()), (0, Some("t")));
    let again = peer.call(&create(vec![topic("t", 1, 1)]), 7).await;
    assert_ne!(again.topics[0].topic_id, id, "a new topic of an old name has a new id");
}

#[tokio::test]
async fn topics_are_not_deleted_where_that_is_disabled() {
    let server = broker(&[("delete.topic.enable", "false")]).await;
    let mut peer = Peer::connect(&server).await;
    peer.call(&create(vec![topic("t", 1, 1)]), 7).await;
    let request = DeleteTopicsRequest { topic_names: vec!["t".into()], ..Default::default() };
    let response = peer.call(&request, 5).await;
    assert_eq!(response.responses[0].error_code, ErrorCode::TOPIC_DELETION_DISABLED.0);
    assert_eq!(partitions_of(&mut peer, "t").await, 1);
}

fn grow(name: &str, count: i32, assignments: Option<&[&[i32]]>) -> CreatePartitionsTopic {
    let one = |brokers: &&[i32]| CreatePartitionsAssignment {
        broker_ids: brokers.iter().copied().collect(),
        ..Default::default()
    };
    let assignments = assignments.map(|all| all.iter().map(one).collect());
    CreatePartitionsTopic { name: name.into(), count, assignments, ..Default::default() }
}

#[tokio::test]
async fn partitions_are_added_never_removed() {
    let server = broker(&[]).await;
    let mut peer = Peer::connect(&server).await;
    peer.call(&create(vec![topic("t", 2, 1)]), 7).await;
    let cases = [
        (grow("t", 2, None), ErrorCode::INVALID_PARTITIONS),
        (grow("t", 1, None), ErrorCode::INVALID_PARTITIONS),
        (grow("t", -1, None), ErrorCode::INVALID_PARTITIONS),
        (grow("unknown", 3, None), ErrorCode::UNKNOWN_TOPIC_OR_PARTITION),
        (grow("t", 4, Some(&[&[1]])), ErrorCode::INVALID_REPLICA_ASSIGNMENT),
        (grow("t", 3, Some(&[&[2]])), ErrorCode::INVALID_REPLICA_ASSIGNMENT),
        (grow("t", 3, Some(&[])), ErrorCode::INVALID_REPLICA_ASSIGNMENT),
        (grow("t", 3, None), ErrorCode::NONE),
        (grow("t", 4, Some(&[&[1]])), ErrorCode::NONE),
    ];
    for (topic, expected) in cases {
        for version in 0..=3 {
            let dry = CreatePartitionsRequest {
                topics: vec![topic.clone()],
                validate_only: true,
                ..Default::default()
            };
            let response = peer.call(&dry, version).await;
            assert_eq!(ErrorCode(response.results[0].error_code), expected, "{topic:?}");
        }
        let request = CreatePartitionsRequest { topics: vec![topic], ..Default::default() };
        peer.call(&request, 3).await;
    }
    assert_eq!(partitions_of(&mut peer, "t").await, 4);
    let twice = vec![grow("t", 5, None), grow("t", 6, None)];
    let response = peer.call(&CreatePartitionsRequest { topics: twice, ..Default::default() }, 3).await;
    assert_eq!(response.results[0].error_code, ErrorCode::INVALID_REQUEST.0);
    assert_eq!(partitions_of(&mut peer, "t").await, 4);
}

/// Name, error, partitions of each topic, and the cursor.
type Shown = (Vec<(String, ErrorCode, Vec<i32>)>, Option<(String, i32)>);

async fn describe(peer: &mut Peer, names: &[&str], limit: i32, from: Option<(&str, i32)>) -> Shown {
    let topic = |name: &&str| TopicRequest { name: (*name).into(), ..Default::default() };
    let request = DescribeTopicPartitionsRequest {
        topics: names.iter().map(topic).collect(),
        response_partition_limit: limit,
        cursor: from.map(|(name, partition_index)| Cursor {
            topic_name: name.into(),
            partition_index,
            ..Default::default()
        }),
        ..Default::default()
    };
    let response = peer.call(&request, 0).await;
    let topics = response.topics.iter().map(|topic| {
        let name = String::from(topic.name.as_ref().unwrap());
        let partitions = topic.partitions.iter().map(|partition| partition.partition_index).collect();
        (name, ErrorCode(topic.error_code), partitions)
    });
    let next = response.next_cursor.as_ref().map(|at| (String::from(&at.topic_name), at.partition_index));
    (topics.collect(), next)
}

#[tokio::test]
async fn topics_are_described_a_page_at_a_time() {
    let server = broker(&[]).await;
    let mut peer = Peer::connect(&server).await;
    peer.call(&create(vec![topic("s1", 3, 1), topic("s2", 3, 1)]), 7).await;
    let row = |name: &str, partitions: &[i32]| (name.to_owned(), ErrorCode::NONE, partitions.to_vec());
    let at = |name: &str, partition| Some((name.to_owned(), partition));
    let none = |name: &str, error| (name.to_owned(), error, Vec::new());
    let invalid = ErrorCode::INVALID_TOPIC_EXCEPTION;
    assert_eq!(
        describe(&mut peer, &["s2", "s1", "no", "a b", "s1"], 4, None).await,
        (
            vec![
                none("a b", invalid),
                none("no", ErrorCode::UNKNOWN_TOPIC_OR_PARTITION),
                row("s1", &[0, 1, 2]),
                row("s2", &[0])
            ],
            at("s2", 1)
        )
    );
    let both = ["s1", "s2"];
    let page = describe(&mut peer, &both, 4, Some(("s1", 1))).await;
    assert_eq!(page, (vec![row("s1", &[1, 2]), row("s2", &[0, 1])], at("s2", 2)));
    assert_eq!(describe(&mut peer, &both, 4, Some(("s2", 2))).await, (vec![row("s2", &[2])], None));
    let page = describe(&mut peer, &both, 4, Some(("s1", 9))).await;
    assert_eq!(page, (vec![row("s1", &[]), row("s2", &[0, 1, 2])], None));
    assert_eq!(describe(&mut peer, &[], 3, None).await, (vec![row("s1", &[0, 1, 2])], at("s2", 0)));
    assert_eq!(describe(&mut peer, &["s1"], 0, None).await, (vec![row("s1", &[0])], at("s1", 1)));
    let refused = vec![none("s1", ErrorCode::INVALID_REQUEST), none("s2", ErrorCode::INVALID_REQUEST)];
    for from in [("s1", -1), ("elsewhere", 0)] {
        assert_eq!(describe(&mut peer, &both, 4, Some(from)).await, (refused.clone(), None));
    }
}
