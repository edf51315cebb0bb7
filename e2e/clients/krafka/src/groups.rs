//! Consumer groups.

use crate::plain::send;
use crate::world::{POLL, Res, World, ensure, same, text};
use krafka::consumer::{
    AutoOffsetReset, Consumer, ConsumerRebalanceListener, PartitionAssignmentStrategy, TopicPartition,
};
use krafka::error::{ErrorCode, KrafkaError};
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::task::JoinHandle;

/// What a member did so far.
#[derive(Default)]
struct Diary {
    owned: Vec<i32>,
    read: Vec<String>,
    errors: Vec<KrafkaError>,
}

/// A group member that polls in a task of its own, commits after every poll, and keeps a diary.
struct Member {
    consumer: Arc<Consumer>,
    diary: Arc<Mutex<Diary>>,
    moves: Arc<AtomicUsize>,
    task: JoinHandle<()>,
}

/// Counts how often partitions come and go.
struct Moves(Arc<AtomicUsize>);

impl ConsumerRebalanceListener for Moves {
    async fn on_partitions_assigned(&self, partitions: &[TopicPartition]) {
        self.0.fetch_add(partitions.len(), SeqCst);
    }

    async fn on_partitions_revoked(&self, partitions: &[TopicPartition]) {
        self.0.fetch_add(partitions.len(), SeqCst);
    }
}

/// How often the member that is there first says that it lives.
///
/// krafka continues to send heartbeats while its own JoinGroup waits for the others. Such a heartbeat is answered after the join, for
/// a generation that is over by then, with ILLEGAL_GENERATION; if a poll sees that before the SyncGroup ends, the member takes
/// itself for expelled and joins again as a new one, which it may do until the scenario's time is over. So the joins of the first
/// member must not last until its next heartbeat: its interval is long, and the others notice the rebalance at once.
const FIRST: Duration = Duration::from_secs(1);
/// The same for members that come later.
const LATER: Duration = Duration::from_millis(50);

impl Member {
    /// Joins the scenario's group; a static member when there is an instance id.
    async fn join(world: &World, topic: &str, beat: Duration, instance: Option<&str>) -> Res<Member> {
        let moves = Arc::new(AtomicUsize::new(0));
        let mut builder = world
            .connection()
            .await?
            .consumer(world.group())
            .auto_offset_reset(AutoOffsetReset::Earliest)
            .enable_auto_commit(false)
            .session_timeout(Duration::from_secs(10))
            .heartbeat_interval(beat)
            .max_poll_records(10)
            .fetch_max_wait(POLL)
            .partition_assignment_strategy(PartitionAssignmentStrategy::CooperativeSticky)
            .rebalance_listener(Arc::new(Moves(Arc::clone(&moves))));
        if let Some(instance) = instance {
            builder = builder.group_instance_id(format!("{}-{instance}", world.run));
        }
        let consumer = Arc::new(builder.build().await?);
        consumer.subscribe([topic]).await?;
        let diary = Arc::new(Mutex::new(Diary::default()));
        let task = tokio::spawn(work(Arc::clone(&consumer), topic.to_owned(), Arc::clone(&diary)));
        Ok(Member { consumer, diary, moves, task })
    }

    fn diary(&self) -> MutexGuard<'_, Diary> {
        self.diary.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn owned(&self) -> Vec<i32> {
        self.diary().owned.clone()
    }

    fn read(&self) -> usize {
        self.diary().read.len()
    }

    /// Dynamic members leave the group, static ones do not.
    async fn close(self) -> Res<()> {
        self.consumer.wakeup();
        self.consumer.close().await?;
        self.task.await?;
        Ok(())
    }
}

async fn work(consumer: Arc<Consumer>, topic: String, diary: Arc<Mutex<Diary>>) {
    while !consumer.is_closed() {
        let polled = consumer.poll(POLL).await;
        let mut owned = consumer.assignment().await.remove(&topic).unwrap_or_default();
        owned.sort_unstable();
        let outcome = match polled {
            Ok(records) if records.is_empty() => Ok(records),
            Ok(records) => consumer.commit().await.map(|()| records),
            Err(error) => Err(error),
        };
        let mut diary = diary.lock().unwrap_or_else(PoisonError::into_inner);
        diary.owned = owned;
        match outcome {
            Ok(records) => {
                diary.read.extend(records.iter().map(|r| r.value_str().unwrap_or_default().to_owned()))
            }
            Err(error) => diary.errors.push(error),
        }
    }
}

/// Waits until both members own two partitions, none of them twice.
async fn shared(world: &World, a: &Member, b: &Member) -> Res<()> {
    world
        .until("two partitions for each of two members", async || {
            let mut all = [a.owned(), b.owned()].concat();
            all.sort_unstable();
            Ok(a.owned().len() == 2 && all == [0, 1, 2, 3])
        })
        .await
}

pub async fn rebalance(world: &World) -> Res<String> {
    let topic = world.topic("", 4).await?;
    let producer = world.producer().await?;
    let produce = async |from: i32, to: i32| {
        send(&producer, (from..to).map(|i| text(&topic, i % 4, &i.to_string())).collect()).await
    };
    produce(0, 80).await?;
    let a = Member::join(world, &topic, FIRST, None).await?;
    world
        .until("the first member owns all and has read all", async || {
            Ok(a.owned().len() == 4 && a.read() >= 80)
        })
        .await?;
    let b = Member::join(world, &topic, LATER, None).await?;
    shared(world, &a, &b).await?;
    produce(80, 140).await?;
    world.until("both have read all", async || Ok(a.read() + b.read() >= 140)).await?;
    let diary = Arc::clone(&a.diary);
    a.close().await?;
    let first = std::mem::take(&mut *diary.lock().unwrap_or_else(PoisonError::into_inner));
    world.until("the second member owns all", async || Ok(b.owned().len() == 4)).await?;
    produce(140, 200).await?;
    world.until("all is read", async || Ok(first.read.len() + b.read() >= 200)).await?;
    let second = std::mem::take(&mut *b.diary());
    b.close().await?;
    let mut values = [first.read.clone(), second.read.clone()].concat();
    values.sort_by_key(|v| v.parse::<u32>().unwrap_or(u32::MAX));
    same(&(0..200).map(|i| i.to_string()).collect(), &values, "records read")?;
    same(&vec![50, 50, 50, 50], &world.committed(&topic, 4).await?, "committed offsets")?;
    Ok(format!("{} and {} records", first.read.len(), second.read.len()))
}

pub async fn static_member(world: &World) -> Res<String> {
    let topic = world.topic("", 4).await?;
    let a = Member::join(world, &topic, FIRST, Some("a")).await?;
    let b = Member::join(world, &topic, LATER, Some("b")).await?;
    shared(world, &a, &b).await?;
    let had = b.owned();
    let before = (generation(&a).await?, a.moves.load(SeqCst));
    b.close().await?;
    let b2 = Member::join(world, &topic, LATER, Some("b")).await?;
    world.until("B2 owns what B owned", async || Ok(b2.owned() == had)).await?;
    let after = (generation(&a).await?, a.moves.load(SeqCst));
    same(&before, &after, "A's generation and moves around the return of B")?;
    let b3 = Member::join(world, &topic, LATER, Some("b")).await?;
    world.until("B3 owns what B owned", async || Ok(b3.owned() == had)).await?;
    let fenced = |e: &KrafkaError| match e {
        KrafkaError::Broker { code, .. } => *code == ErrorCode::FencedInstanceId,
        other => other.to_string().contains("FencedInstanceId"),
    };
    world.until("B2 receives FENCED_INSTANCE_ID", async || Ok(b2.diary().errors.iter().any(fenced))).await?;
    let strange = a.diary().errors.first().map(ToString::to_string);
    ensure(strange.is_none(), || format!("A had an error: {strange:?}"))?;
    b3.close().await?;
    a.close().await?;
    Ok(String::new())
}

async fn generation(member: &Member) -> Res<i32> {
    let metadata = member.consumer.group_metadata().await.ok_or("not a member of the group")?;
    Ok(metadata.generation_id())
}
