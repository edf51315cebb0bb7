//! What an administrator does.

use crate::plain::send;
use crate::world::{POLL, Res, World, ensure, same, text};
use krafka::admin::{
    AdminClient, ConfigEntry, ConfigOp, ConfigResource, NewTopic, OffsetSpec, TopicPartition,
};
use krafka::consumer::{AutoOffsetReset, OffsetAndMetadata};
use krafka::error::{ErrorCode, KrafkaError};

/// The source of a config that was never set (DescribeConfigs).
const DEFAULT_CONFIG: i8 = 5;

pub async fn run(world: &World) -> Res<String> {
    let (admin, topic) = (world.kafka.admin(), world.run.as_str());
    create(&admin, topic).await?;
    describe(world, &admin, topic).await?;
    configs(world, &admin, topic).await?;
    one(admin.create_partitions([(topic, 4)], Default::default()).await?)??;
    world.until("four partitions", async || Ok(partitions(&admin, topic).await? == 4)).await?;
    let listed = admin.list_topics(Default::default()).await?;
    ensure(listed.iter().any(|t| t == topic), || "the topic is not in the list".into())?;
    let records = (0..10).map(|i| text(topic, 0, &i.to_string())).collect();
    send(&world.producer().await?, records).await?;
    bounds(&admin, topic, (0, 10)).await?;
    group(world, &admin, topic).await?;
    one(admin.delete_records([(TopicPartition::new(topic, 0), 4)], Default::default()).await?)??;
    bounds(&admin, topic, (4, 10)).await?;
    one(admin.delete_topics([topic], Default::default()).await?)??;
    world
        .until("the topic is gone", async || {
            Ok(!admin.list_topics(Default::default()).await?.iter().any(|t| t == topic))
        })
        .await?;
    Ok(String::new())
}

/// The answer for the only thing that was asked about.
fn one<K, V>(answers: impl IntoIterator<Item = (K, V)>) -> Res<V> {
    let first = answers.into_iter().next();
    Ok(first.ok_or("the answer is empty")?.1)
}

async fn create(admin: &AdminClient, topic: &str) -> Res<()> {
    let new = || NewTopic::new(topic, 2, 1).map(|t| t.with_config("retention.ms", "3600000"));
    one(admin.create_topics([new()?], Default::default()).await?)??;
    let again = one(admin.create_topics([new()?], Default::default()).await?)?;
    let exists = matches!(&again, Err(KrafkaError::Broker { code: ErrorCode::TopicAlreadyExists, .. }));
    ensure(exists, || format!("the second time should say TOPIC_ALREADY_EXISTS, says {again:?}"))
}

async fn partitions(admin: &AdminClient, topic: &str) -> Res<usize> {
    let description = one(admin.describe_topics([topic], Default::default()).await?)??;
    Ok(description.partitions.len())
}

async fn describe(world: &World, admin: &AdminClient, topic: &str) -> Res<()> {
    let brokers = admin.describe_cluster(Default::default()).await?.brokers;
    world
        .until("two partitions with a leader", async || {
            let Ok(found) = one(admin.describe_topics([topic], Default::default()).await?)? else {
                return Ok(false);
            };
            let led = |leader: Option<i32>| brokers.iter().any(|b| Some(b.id) == leader);
            let healthy =
                found.partitions.iter().all(|p| led(p.leader) && p.replicas.len() == 1 && p.isr.len() == 1);
            Ok(healthy && found.partitions.len() == 2)
        })
        .await
}

async fn values(admin: &AdminClient, topic: &str) -> Res<Vec<ConfigEntry>> {
    Ok(one(admin.describe_configs([ConfigResource::topic(topic)], Default::default()).await?)??)
}

fn value<'a>(entries: &'a [ConfigEntry], name: &str) -> Option<&'a str> {
    entries.iter().find(|e| e.name == name)?.value.as_deref()
}

async fn configs(world: &World, admin: &AdminClient, topic: &str) -> Res<()> {
    let before = values(admin, topic).await?;
    same(&Some("3600000"), &value(&before, "retention.ms"), "retention.ms")?;
    let standard = before.iter().any(|e| e.name == "segment.bytes" && e.config_source == DEFAULT_CONFIG);
    ensure(standard, || "segment.bytes is not there as a default".into())?;
    let changes =
        vec![ConfigOp::set("retention.ms", "7200000"), ConfigOp::set("max.message.bytes", "500000")];
    one(admin
        .incremental_alter_configs([(ConfigResource::topic(topic), changes)], Default::default())
        .await?)??;
    world
        .until("the new values", async || {
            let now = values(admin, topic).await?;
            Ok(value(&now, "retention.ms") == Some("7200000")
                && value(&now, "max.message.bytes") == Some("500000"))
        })
        .await
}

async fn offset(admin: &AdminClient, topic: &str, spec: OffsetSpec) -> Res<i64> {
    let asked = [(TopicPartition::new(topic, 0), spec)];
    Ok(one(admin.list_offsets(asked, Default::default()).await?)??.offset)
}

async fn bounds(admin: &AdminClient, topic: &str, want: (i64, i64)) -> Res<()> {
    let earliest = offset(admin, topic, OffsetSpec::Earliest).await?;
    let latest = offset(admin, topic, OffsetSpec::Latest).await?;
    same(&want, &(earliest, latest), "earliest and latest")
}

async fn listed(admin: &AdminClient, group: &str) -> Res<bool> {
    for (_, groups) in admin.list_consumer_groups(Default::default()).await? {
        if groups?.iter().any(|g| g.group_id == group) {
            return Ok(true);
        }
    }
    Ok(false)
}

async fn group(world: &World, admin: &AdminClient, topic: &str) -> Res<()> {
    let group = world.group();
    let consumer = world.kafka.consumer(&group).auto_offset_reset(AutoOffsetReset::Earliest);
    let consumer = consumer.enable_auto_commit(false).fetch_max_wait(POLL).build().await?;
    consumer.subscribe([topic]).await?;
    let mut read = 0;
    world
        .read(&consumer, |_| {
            read += 1;
            Ok(read >= 5)
        })
        .await?;
    consumer.commit_offsets([(TopicPartition::new(topic, 0), OffsetAndMetadata::new(5))]).await?;
    consumer.close().await?;
    ensure(listed(admin, &group).await?, || "the group is not in the list".into())?;
    world
        .until("the group is empty", async || {
            let found = one(admin.describe_consumer_groups([&group], Default::default()).await?)??;
            Ok(found.state == "Empty" && found.members.is_empty())
        })
        .await?;
    same(&vec![5], &world.committed(topic, 1).await?, "committed offset")?;
    one(admin.delete_consumer_groups([&group], Default::default()).await?)??;
    ensure(!listed(admin, &group).await?, || "the deleted group is in the list".into())
}
