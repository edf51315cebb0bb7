//! DescribeConfigs, AlterConfigs and IncrementalAlterConfigs.

use crate::world::{Peer, broker};
use ottla_core::config::{BROKER_KEYS, TOPIC_KEYS, broker_keys};
use ottla_wire::messages::describe_configs_request::DescribeConfigsResource;
use ottla_wire::messages::describe_configs_response::{DescribeConfigsResourceResult, DescribeConfigsResult};
use ottla_wire::messages::metadata_request::MetadataRequestTopic;
use ottla_wire::messages::{
    AlterConfigsRequest, DescribeConfigsRequest, IncrementalAlterConfigsRequest, MetadataRequest,
    alter_configs_request, incremental_alter_configs_request,
};
use ottla_wire::{ErrorCode, Text};

const TOPIC: i8 = 2;
const BROKER: i8 = 4;

const SET: i8 = 0;
const DELETE: i8 = 1;
const APPEND: i8 = 2;
const SUBTRACT: i8 = 3;

/// Key, operation, value.
type Op<'a> = (&'a str, i8, Option<&'a str>);

async fn make_topic(peer: &mut Peer, name: &str) {
    let topic = MetadataRequestTopic { name: Some(name.into()), ..Default::default() };
    peer.call(&MetadataRequest { topics: Some(vec![topic]), ..Default::default() }, 12).await;
}

async fn describe(
    peer: &mut Peer,
    resource: (i8, &str),
    keys: Option<&[&str]>,
    version: i16,
) -> DescribeConfigsResult {
    let resource = DescribeConfigsResource {
        resource_type: resource.0,
        resource_name: resource.1.into(),
        configuration_keys: keys.map(|keys| keys.iter().map(|key| Text::from(*key)).collect()),
        ..Default::default()
    };
    let request = DescribeConfigsRequest {
        resources: vec![resource],
        include_synonyms: true,
        include_documentation: version >= 3,
        ..Default::default()
    };
    peer.call(&request, version).await.results.remove(0)
}

/// Value and source of one key, and its synonyms.
async fn value(peer: &mut Peer, resource: (i8, &str), key: &str) -> (String, i8, Vec<(String, i8)>) {
    let mut result = describe(peer, resource, Some(&[key]), 4).await;
    let config: DescribeConfigsResourceResult = result.configs.remove(0);
    let synonyms = config.synonyms.iter().map(|synonym| (String::from(&synonym.name), synonym.source));
    (String::from(config.value.as_ref().unwrap()), config.config_source, synonyms.collect())
}

async fn alter(peer: &mut Peer, resource: (i8, &str), ops: &[Op<'_>]) -> ErrorCode {
    let config =
        |(name, config_operation, value): &Op<'_>| incremental_alter_configs_request::AlterableConfig {
            name: (*name).into(),
            config_operation: *config_operation,
            value: value.map(Text::from),
            ..Default::default()
        };
    let resource = incremental_alter_configs_request::AlterConfigsResource {
        resource_type: resource.0,
        resource_name: resource.1.into(),
        configs: ops.iter().map(config).collect(),
        ..Default::default()
    };
    let request = IncrementalAlterConfigsRequest { resources: vec![resource], ..Default::default() };
    let dry = IncrementalAlterConfigsRequest { validate_only: true, ..request.clone() };
    let judged = peer.call(&dry, 0).await.responses.remove(0);
    let done = peer.call(&request, 1).await.responses.remove(0);
    assert_eq!(judged.error_code, done.error_code);
    assert_eq!(done.error_message.is_none(), done.error_code == 0);
    ErrorCode(done.error_code)
}

/// Sets a key of the topic that the tests use.
pub(crate) async fn set_topic(peer: &mut Peer, key: &str, value: &str) {
    let topic = (TOPIC, crate::data::TOPIC);
    assert_eq!(alter(peer, topic, &[(key, SET, Some(value))]).await, ErrorCode::NONE);
}

/// Keys that hold secrets and whose names do not say so.
const SECRET: [&str; 2] = ["sasl.jaas.config", "ssl.keystore.key"];

#[tokio::test]
async fn all_keys_of_a_topic_and_of_the_broker_are_shown() {
    let server = broker(&[("num.partitions", "2")]).await;
    let mut peer = Peer::connect(&server).await;
    make_topic(&mut peer, "t").await;
    for version in 1..=4 {
        let topic = describe(&mut peer, (TOPIC, "t"), None, version).await;
        assert_eq!((topic.error_code, topic.configs.len()), (0, TOPIC_KEYS.len()));
        let broker = describe(&mut peer, (BROKER, "1"), Some(&[]), version).await;
        assert!(broker.configs.len() > BROKER_KEYS.len());
        for config in topic.configs.iter().chain(&broker.configs) {
            assert_eq!(config.config_type != 0, version >= 3, "{}", config.name);
            let documented = config.documentation.as_ref().is_some_and(|text| !text.is_empty());
            assert_eq!(documented, version >= 3, "{}", config.name);
            // passwords are sensitive, and their values are never shown.
            assert_eq!(
                config.is_sensitive,
                config.name.ends_with("password") || SECRET.contains(&&*config.name)
            );
        }
    }
    let partitions = value(&mut peer, (BROKER, "1"), "num.partitions").await;
    let behind = vec![("num.partitions".to_owned(), 4), ("num.partitions".to_owned(), 5)];
    assert_eq!(partitions, ("2".to_owned(), 4, behind));
    let few = describe(&mut peer, (TOPIC, "t"), Some(&["retention.ms", "no.such.key"]), 4).await;
    assert_eq!(few.configs.len(), 1, "unknown keys are left out");
}

#[tokio::test]
async fn what_has_no_configuration_says_so() {
    let server = broker(&[]).await;
    let mut peer = Peer::connect(&server).await;
    let cases = [
        ((TOPIC, "unknown"), ErrorCode::UNKNOWN_TOPIC_OR_PARTITION),
        ((TOPIC, "a b"), ErrorCode::INVALID_TOPIC_EXCEPTION),
        ((BROKER, "7"), ErrorCode::INVALID_REQUEST),
        ((BROKER, "x"), ErrorCode::INVALID_REQUEST),
        ((3, "x"), ErrorCode::INVALID_REQUEST),
    ];
    for (resource, expected) in cases {
        let described = describe(&mut peer, resource, None, 4).await;
        assert_eq!(ErrorCode(described.error_code), expected, "{resource:?}");
        let altered = alter(&mut peer, resource, &[("retention.ms", SET, Some("1"))]).await;
        assert_eq!(altered, expected, "{resource:?}");
    }
    let nameless = alter(&mut peer, (TOPIC, ""), &[("retention.ms", SET, Some("1"))]).await;
    assert_eq!(nameless, ErrorCode::INVALID_REQUEST);
}

#[tokio::test]
async fn a_topics_configuration_changes_key_by_key() {
    let server = broker(&[]).await;
    let mut peer = Peer::connect(&server).await;
    make_topic(&mut peer, "t").await;
    let t = (TOPIC, "t");
    assert_eq!(alter(&mut peer, t, &[("retention.ms", SET, Some("7"))]).await, ErrorCode::NONE);
    let (now, source, _) = value(&mut peer, t, "retention.ms").await;
    assert_eq!((&now[..], source), ("7", 1));
    let policy = [("cleanup.policy", APPEND, Some("compact"))];
    assert_eq!(alter(&mut peer, t, &policy).await, ErrorCode::NONE);
    assert_eq!(value(&mut peer, t, "cleanup.policy").await.0, "delete,compact");
    let policy = [("cleanup.policy", SUBTRACT, Some("delete")), ("retention.ms", DELETE, None)];
    assert_eq!(alter(&mut peer, t, &policy).await, ErrorCode::NONE);
    assert_eq!(value(&mut peer, t, "cleanup.policy").await.0, "compact");
    assert_eq!(value(&mut peer, t, "retention.ms").await.1, 5);
    let lags = [("min.compaction.lag.ms", SET, Some("5")), ("max.compaction.lag.ms", SET, Some("4"))];
    let cases: [(&[Op<'_>], ErrorCode); 9] = [
        (&lags, ErrorCode::INVALID_CONFIG),
        (&[], ErrorCode::NONE),
        (&[("no.such.key", DELETE, None)], ErrorCode::NONE),
        (&[("no.such.key", SET, Some("1"))], ErrorCode::INVALID_CONFIG),
        (&[("retention.ms", SET, Some("x"))], ErrorCode::INVALID_CONFIG),
        (&[("retention.ms", APPEND, Some("1"))], ErrorCode::INVALID_CONFIG),
        (&[("retention.ms", SET, None)], ErrorCode::INVALID_REQUEST),
        (&[("cleanup.policy", 9, Some("compact"))], ErrorCode::INVALID_REQUEST),
        (&[("retention.ms", SET, Some("1")), ("retention.ms", DELETE, None)], ErrorCode::INVALID_REQUEST),
    ];
    for (ops, expected) in cases {
        assert_eq!(alter(&mut peer, t, ops).await, expected, "{ops:?}");
    }
    assert_eq!(value(&mut peer, t, "retention.ms").await.1, 5, "nothing of a refused change stays");
}

#[tokio::test]
async fn alter_configs_replaces_all_keys() {
    let server = broker(&[]).await;
    let mut peer = Peer::connect(&server).await;
    make_topic(&mut peer, "t").await;
    alter(&mut peer, (TOPIC, "t"), &[("retention.ms", SET, Some("7"))]).await;
    for version in 0..=2 {
        let config = alter_configs_request::AlterableConfig {
            name: "retention.bytes".into(),
            value: Some("9".into()),
            ..Default::default()
        };
        let resource = alter_configs_request::AlterConfigsResource {
            resource_type: TOPIC,
            resource_name: "t".into(),
            configs: vec![config],
            ..Default::default()
        };
        let request = AlterConfigsRequest { resources: vec![resource], ..Default::default() };
        assert_eq!(peer.call(&request, version).await.responses[0].error_code, 0);
        assert_eq!(value(&mut peer, (TOPIC, "t"), "retention.bytes").await.0, "9");
        assert_eq!(value(&mut peer, (TOPIC, "t"), "retention.ms").await.1, 5);
    }
}

#[tokio::test]
async fn a_broker_key_set_while_it_runs_reaches_its_topics() {
    let server = broker(&[]).await;
    let mut peer = Peer::connect(&server).await;
    make_topic(&mut peer, "t").await;
    for (name, wanted) in [("1", "700000"), ("", "800000")] {
        let set = [("log.retention.ms", SET, Some(wanted))];
        assert_eq!(alter(&mut peer, (BROKER, name), &set).await, ErrorCode::NONE);
        let behind = vec![("log.retention.ms".to_owned(), 2), ("log.retention.hours".to_owned(), 5)];
        let expected = (wanted.to_owned(), 2, behind);
        assert_eq!(value(&mut peer, (TOPIC, "t"), "retention.ms").await, expected);
        assert_eq!(value(&mut peer, (BROKER, "1"), "log.retention.ms").await, expected);
    }
    let default = describe(&mut peer, (BROKER, ""), None, 4).await;
    assert_eq!((default.configs.len(), default.configs[0].config_source), (1, 3));
    for unset in ["log.roll.ms", "log.flush.interval.ms"] {
        assert_eq!(describe(&mut peer, (BROKER, "1"), Some(&[unset]), 4).await.configs[0].value, None);
    }
    for (key, wanted) in [("num.partitions", "7"), ("node.id", "7"), ("log.retention.ms", "x")] {
        let refused = alter(&mut peer, (BROKER, "1"), &[(key, SET, Some(wanted))]).await;
        assert_eq!(refused, ErrorCode::INVALID_REQUEST, "{key}");
    }
}

#[tokio::test]
async fn keys_without_effect_are_taken_and_say_so() {
    let server = broker(&[]).await;
    let mut peer = Peer::connect(&server).await;
    make_topic(&mut peer, "t").await;
    let broker = describe(&mut peer, (BROKER, "1"), None, 4).await;
    assert_eq!(broker.configs.len(), broker_keys().len() + 2, "and two that are not decided by keys");
    for key in broker_keys() {
        let row = broker.configs.iter().find(|row| *row.name == *key.name).unwrap();
        let said = row.documentation.as_ref().unwrap().contains("has no effect");
        assert_eq!(said, !key.has_effect, "{}", key.name);
        assert_eq!(row.read_only, !key.dynamic, "{}", key.name);
        if key.dynamic && !key.default.is_empty() {
            let set = [(key.name, SET, Some(key.default))];
            assert_eq!(alter(&mut peer, (BROKER, "1"), &set).await, ErrorCode::NONE, "{}", key.name);
        }
    }
    let topic = describe(&mut peer, (TOPIC, "t"), None, 4).await;
    for key in TOPIC_KEYS {
        let row = topic.configs.iter().find(|row| *row.name == *key.name).unwrap();
        let said = row.documentation.as_ref().unwrap().contains("has no effect");
        assert_eq!(said, !key.has_effect, "{}", key.name);
        let set = [(key.name, SET, Some(key.default))];
        assert_eq!(alter(&mut peer, (TOPIC, "t"), &set).await, ErrorCode::NONE, "{}", key.name);
    }
}

#[tokio::test]
async fn defaults_without_a_key_of_their_own_have_no_synonym() {
    let server = broker(&[("log.retention.hours", "1")]).await;
    let mut peer = Peer::connect(&server).await;
    make_topic(&mut peer, "t").await;
    for (key, expected) in [
        ("retention.ms", "3600000"),
        ("flush.ms", "9223372036854775807"),
        ("segment.ms", "604800000"),
        ("segment.jitter.ms", "0"),
    ] {
        assert_eq!(value(&mut peer, (TOPIC, "t"), key).await, (expected.to_owned(), 5, vec![]), "{key}");
    }
}
