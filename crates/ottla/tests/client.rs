//! The client against a broker: one in this process, or the cluster that OTTLA_TEST_CLUSTER names, such as Apache
//! Kafka's.
#![expect(
    clippy::unwrap_used,
    reason = "helpers of tests; clippy.toml lets tests unwrap, but not their helpers"
)]

use bytes::Bytes;
use ottla::Broker;
use ottla_client::{
    Client, ClientError, Compression, ConsumedRecord, Consumer, GroupConsumer, GroupOffset, GroupOptions,
    Isolation, Membership, Node, Producer, ProducerOptions, Record, Start,
};
use ottla_wire::ErrorCode;
use ottla_wire::messages::CreateTopicsRequest;
use ottla_wire::messages::create_topics_request::CreatableTopic;
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime};

const WAIT: Duration = Duration::from_millis(200);

/// A client of the cluster under test, and a name that no earlier run has used. The broker stops when the first value
/// is dropped.
async fn cluster(test: &str) -> (Option<Broker>, Client, String) {
    let (broker, address) = match std::env::var("OTTLA_TEST_CLUSTER") {
        Ok(address) => (None, address),
        Err(_) => {
            let broker = Broker::in_memory().start().unwrap();
            let address = broker.address().to_string();
            (Some(broker), address)
        }
    };
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap().as_nanos();
    (broker, Client::connect(&address).await.unwrap(), format!("client-{test}-{now}"))
}

async fn create(client: &Client, name: &str, partitions: i32) {
    let topic = CreatableTopic {
        name: name.into(),
        num_partitions: partitions,
        replication_factor: -1,
        ..Default::default()
    };
    let request = CreateTopicsRequest { topics: vec![topic], timeout_ms: 30_000, ..Default::default() };
    let answer = client.call(Node::Any, request).await.unwrap();
    assert_eq!(ErrorCode(answer.topics[0].error_code), ErrorCode::NONE, "{answer:?}");
}

fn record(key: Option<&str>, value: &str) -> Record {
    let bytes = |text: &str| Bytes::copy_from_slice(text.as_bytes());
    Record { key: key.map(bytes), value: Some(bytes(value)), ..Default::default() }
}

fn text(record: &ConsumedRecord) -> String {
    String::from_utf8_lossy(record.value.as_ref().unwrap()).into_owned()
}

/// Reads to the current end.
async fn read(client: &Client, topic: &str, partitions: i32, isolation: Isolation) -> Vec<ConsumedRecord> {
    let mut consumer = Consumer::new(client, isolation);
    (0..partitions).for_each(|partition| consumer.assign(topic, partition, 0));
    let mut records = Vec::new();
    while !consumer.at_end() {
        records.extend(consumer.poll(WAIT).await.unwrap());
    }
    records
}

async fn values(client: &Client, topic: &str, isolation: Isolation) -> Vec<String> {
    read(client, topic, 1, isolation).await.iter().map(text).collect()
}

async fn transactional(client: &Client, id: &str) -> Producer {
    let options = ProducerOptions { transactional_id: Some(id.to_owned()), ..Default::default() };
    Producer::start(client.clone(), options).await.unwrap()
}

#[tokio::test]
async fn every_codec_brings_back_what_was_sent() {
    let (_broker, client, topic) = cluster("codecs").await;
    create(&client, &topic, 1).await;
    let mut expected = Vec::new();
    for compression in Compression::ALL {
        let options = ProducerOptions { compression, ..Default::default() };
        let mut producer = Producer::start(client.clone(), options).await.unwrap();
        let mut letter = record(Some("k"), &format!("{} {}", compression.name(), "x".repeat(500)));
        letter.headers = vec![("a".to_owned(), Some(Bytes::from_static(b"1"))), ("a".to_owned(), None)];
        let records = vec![letter.clone(), record(None, "plain"), Record::default()];
        let placed = producer.send(&topic, Some(0), records).await.unwrap();
        let base = expected.len() as i64;
        assert_eq!(placed.iter().map(|p| p.offset).collect::<Vec<_>>(), [base, base + 1, base + 2]);
        expected.extend([letter, record(None, "plain"), Record::default()]);
    }
    let found = read(&client, &topic, 1, Isolation::ReadCommitted).await;
    assert_eq!(found.len(), expected.len());
    for (found, expected) in found.iter().zip(&expected) {
        assert_eq!(
            (&found.key, &found.value, &found.headers),
            (&expected.key, &expected.value, &expected.headers)
        );
        assert!(found.timestamp > 0);
    }
}

#[tokio::test]
async fn many_records_over_many_partitions_keep_their_order_by_key() {
    let (_broker, client, topic) = cluster("spread").await;
    create(&client, &topic, 5).await;
    let mut producer = Producer::start(client.clone(), ProducerOptions::default()).await.unwrap();
    let filler = "y".repeat(1000);
    for round in 0..3 {
        let records =
            (0..2000).map(|n| record(Some(&format!("k{}", n % 50)), &format!("{round} {n:04} {filler}")));
        let placed = producer.send(&topic, None, records.collect()).await.unwrap();
        assert_eq!(placed.len(), 2000);
    }
    let found = read(&client, &topic, 5, Isolation::ReadCommitted).await;
    assert_eq!(found.len(), 6000);
    for key in 0..50 {
        let key = Bytes::from(format!("k{key}"));
        let of_key: Vec<&ConsumedRecord> =
            found.iter().filter(|record| record.key.as_ref() == Some(&key)).collect();
        assert_eq!(of_key.len(), 120);
        assert!(of_key.iter().all(|record| record.partition == of_key[0].partition));
        assert!(of_key.is_sorted_by_key(|record| text(record)));
    }
}

#[tokio::test]
async fn each_kind_of_reader_sees_its_part_of_transactions() {
    let (_broker, client, topic) = cluster("isolation").await;
    create(&client, &topic, 1).await;
    let mut producer = transactional(&client, &topic).await;
    for (value, commit) in [("one", true), ("two", false), ("three", true)] {
        producer.begin().await.unwrap();
        producer.send(&topic, None, vec![record(None, value)]).await.unwrap();
        if commit {
            producer.commit().await.unwrap();
        } else {
            producer.abort().await.unwrap();
        }
    }
    producer.begin().await.unwrap();
    producer.send(&topic, None, vec![record(None, "open")]).await.unwrap();
    assert_eq!(values(&client, &topic, Isolation::ReadUncommitted).await, ["one", "two", "three", "open"]);
    // Markers may not be written yet: poll until the last commit is visible.
    loop {
        let seen = values(&client, &topic, Isolation::ReadCommitted).await;
        assert!(!seen.contains(&"two".to_owned()) && !seen.contains(&"open".to_owned()), "{seen:?}");
        if seen == ["one", "three"] {
            break;
        }
    }
    producer.abort().await.unwrap();
}

#[tokio::test]
async fn offsets_in_a_transaction_count_when_it_commits() {
    let (_broker, client, topic) = cluster("offsets").await;
    create(&client, &topic, 1).await;
    let mut producer = transactional(&client, &topic).await;
    let group = Membership::outside(&topic);
    let offset = |offset| vec![GroupOffset { topic: topic.clone(), partition: 0, offset }];
    let committed = async || {
        let committed = client.committed_offsets(&topic, Some((&topic, &[0]))).await.unwrap();
        committed.into_iter().map(|committed| committed.offset).collect::<Vec<_>>()
    };
    producer.begin().await.unwrap();
    producer.send(&topic, None, vec![record(None, "in")]).await.unwrap();
    producer.send_offsets(&group, &offset(5)).await.unwrap();
    producer.abort().await.unwrap();
    assert_eq!(committed().await, []);
    producer.begin().await.unwrap();
    producer.send_offsets(&group, &offset(7)).await.unwrap();
    let so_far = client.committed_so_far(&topic).await.unwrap();
    assert_eq!(so_far, []);
    producer.commit().await.unwrap();
    assert_eq!(committed().await, offset(7));
}

#[tokio::test]
async fn the_earlier_holder_of_a_transactional_id_is_fenced() {
    let (_broker, client, topic) = cluster("fence").await;
    create(&client, &topic, 1).await;
    let mut first = transactional(&client, &topic).await;
    first.begin().await.unwrap();
    first.send(&topic, None, vec![record(None, "zombie")]).await.unwrap();
    let mut second = transactional(&client, &topic).await;
    let refused = first.commit().await.unwrap_err();
    assert!(
        [Some(ErrorCode::PRODUCER_FENCED), Some(ErrorCode::INVALID_PRODUCER_EPOCH)].contains(&refused.code()),
        "{refused}"
    );
    second.begin().await.unwrap();
    second.send(&topic, None, vec![record(None, "owner")]).await.unwrap();
    second.commit().await.unwrap();
    loop {
        let seen = values(&client, &topic, Isolation::ReadCommitted).await;
        assert!(!seen.contains(&"zombie".to_owned()));
        if seen == ["owner"] {
            break;
        }
    }
}

/// What a member of the group has read.
#[derive(Default)]
struct MemberProgress {
    values: Vec<String>,
    settled: bool,
}

/// Reads as one of two members until both have read their two partitions to the end.
async fn share(
    client: Client,
    options: GroupOptions,
    state: Arc<Mutex<[MemberProgress; 2]>>,
    own: usize,
) -> GroupConsumer {
    let mut member = GroupConsumer::new(&client, options);
    loop {
        let records = member.poll(WAIT).await.unwrap();
        let settled = member.commit().await.unwrap() && member.at_end() && member.positions().len() == 2;
        let mut state = state.lock().unwrap();
        state[own].values.extend(records.iter().map(text));
        state[own].settled = settled;
        if state.iter().all(|seen| seen.settled) {
            return member;
        }
    }
}

#[tokio::test]
async fn two_members_share_a_topic_and_one_takes_over() {
    let (_broker, client, topic) = cluster("group").await;
    create(&client, &topic, 4).await;
    let mut producer = Producer::start(client.clone(), ProducerOptions::default()).await.unwrap();
    for partition in 0..4 {
        let records = (0..10).map(|n| record(None, &format!("{partition}-{n}"))).collect();
        producer.send(&topic, Some(partition), records).await.unwrap();
    }
    let options = GroupOptions::new(&topic, &[&topic]);
    let options = GroupOptions { session_timeout: Duration::from_secs(6), ..options };
    let state = Arc::new(Mutex::new([(); 2].map(|()| MemberProgress::default())));
    let first = tokio::spawn(share(client.clone(), options.clone(), state.clone(), 0));
    let second = tokio::spawn(share(client.clone(), options, state.clone(), 1));
    let (mut first, second) = (first.await.unwrap(), second.await.unwrap());
    let mut seen: Vec<String> = state.lock().unwrap().iter().flat_map(|seen| seen.values.clone()).collect();
    seen.sort();
    seen.dedup();
    assert_eq!(seen.len(), 40);
    second.leave().await.unwrap();
    producer.send(&topic, Some(0), vec![record(None, "a")]).await.unwrap();
    producer.send(&topic, Some(3), vec![record(None, "b")]).await.unwrap();
    let mut late = Vec::new();
    while late.len() < 2 {
        late.extend(first.poll(WAIT).await.unwrap().iter().map(text));
        first.commit().await.unwrap();
    }
    late.sort();
    assert_eq!(late, ["a", "b"]);
    assert_eq!(first.positions().len(), 4);
    assert!(first.commit().await.unwrap());
    first.leave().await.unwrap();
    let committed = client.committed_offsets(&topic, None).await.unwrap();
    assert_eq!(committed.iter().map(|c| c.offset.offset).collect::<Vec<_>>(), [11, 10, 10, 11]);
}

#[tokio::test]
async fn failures_say_what_and_where() {
    let (_broker, client, topic) = cluster("errors").await;
    let missing =
        client.list_offsets(&topic, &[0], Start::Latest, Isolation::ReadCommitted).await.unwrap_err();
    assert!(missing.is(ErrorCode::UNKNOWN_TOPIC_OR_PARTITION), "{missing}");
    assert!(missing.to_string().contains(&topic), "{missing}");
    create(&client, &topic, 1).await;
    let mut consumer = Consumer::new(&client, Isolation::ReadCommitted);
    consumer.assign(&topic, 0, 99);
    let beyond = consumer.poll(WAIT).await.unwrap_err();
    assert!(ottla_client::is_out_of_range(&beyond), "{beyond}");
    assert!(beyond.to_string().contains("offset 99 in partition 0"), "{beyond}");
    let mut producer = Producer::start(client, ProducerOptions::default()).await.unwrap();
    assert!(matches!(producer.begin().await, Err(ClientError::Misuse(_))));
}
