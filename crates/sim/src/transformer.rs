//! Reads, transforms, writes, and commits what it has read, in one transaction: exactly once, even if clients or the
//! broker crash.

use crate::client::Client;
use crate::fetch::{Cursor, FetchResult};
use crate::member::{Committer, Member, SESSION, committed, instance};
use crate::place::{IN, OUT, Place};
use crate::plan::ms;
use crate::random::Random;
use crate::transactor::{Habit, Whim, falter, finish, whim};
use crate::txn::{Batches, Producer, Trouble};
use crate::world::{World, rest};
use ottla_checker::{Action, Kind, OpId, Outcome, Process};
use std::collections::BTreeMap;
use std::sync::Arc;

/// How a transformer gets its partitions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Manner {
    /// It has the partitions of its number; a successor with its transactional id takes them over.
    Alone,
    /// A group assigns them.
    Member,
}

/// A transformer at work.
struct Worker {
    producer: Producer,
    /// The client for reading and for the group; the producer has its own.
    client: Client,
    process: Process,
    group: String,
    member: Option<Member>,
    mine: Vec<Place>,
    cursor: Cursor,
    /// The committed offsets must be looked up before it reads on.
    lost_place: bool,
    /// Partitions whose position was set anew since the last operation.
    assigned: Vec<Place>,
    /// The last Fetch returned no records.
    idle: bool,
}

/// Performs its operations in one life after the other.
pub(crate) async fn run(world: Arc<World>, number: u64, manner: Manner, mut random: Random) {
    let name = if manner == Manner::Alone { "x" } else { "m" };
    let mut habit = Habit::new(format!("transform-{name}-{number}"), &mut random);
    // Each life may have a transactional id of its own: then only the group fences earlier lives.
    let mut fresh_ids = false;
    if manner == Manner::Member {
        fresh_ids = random.per_mille(500);
        habit.instance = instance(name, number, &mut random);
        if random.per_mille(500) {
            habit.timeout = 60_000;
        }
    }
    let mut left = world.plan.crew.ops;
    let mut life = 0;
    while left > 0 {
        life += 1;
        if fresh_ids {
            habit.id = format!("transform-{name}-{number}.{life}");
        }
        let name = format!("{name}{number}.{life}");
        let mut worker = Worker::new(&world, &name, &habit, manner, &mut random);
        if worker.producer.start(false).await.is_err() {
            left -= 1;
            rest(&mut random, 500).await;
            continue;
        }
        while left > 0 {
            left -= 1;
            // A member without partitions waits for those that other members lose.
            let patient = worker.idle && manner == Manner::Member;
            rest(&mut random, if patient { 2000 } else { 200 }).await;
            if worker.operate().await.is_err() {
                break;
            }
            match whim(&world, &mut random).await {
                Whim::GoOn => {}
                Whim::Die => break,
                Whim::Zombie => {
                    worker.producer.rivals = true;
                    world.add_zombie(tokio::spawn(walk(worker, random.fork())));
                    break;
                }
            }
        }
    }
}

/// A zombie wakes up and continues its transaction.
async fn walk(mut worker: Worker, mut random: Random) {
    // The successor of a static member is in the same generation, until other members join or leave.
    let is_static = worker.member.as_ref().is_some_and(|member| member.committer.instance.is_some());
    rest(&mut random, if is_static { 2000 } else { 9000 }).await;
    for _ in 0..3 {
        if worker.operate().await.is_err() {
            return;
        }
    }
}

/// A member may pause for longer than its session timeout: when it wakes up, other members have its partitions.
async fn outstay(client: &mut Client) {
    let world = Arc::clone(&client.world);
    if !world.is_calm() && client.random.per_mille(world.plan.faults.clients) {
        let longest = client.random.within(0..2 * SESSION);
        world.say(format_args!("{} outstays its session", client.name));
        tokio::time::sleep(ms(SESSION + longest)).await;
    }
}

impl Worker {
    fn new(world: &Arc<World>, name: &str, habit: &Habit, manner: Manner, random: &mut Random) -> Worker {
        let alone = manner == Manner::Alone;
        let group = if alone { format!("of-{}", habit.id) } else { "members".to_owned() };
        let own = (0..world.plan.partitions).filter(|_| alone);
        Worker {
            producer: habit.producer(Client::new(world, name.to_owned(), random.fork())),
            client: Client::new(world, format!("{name}r"), random.fork()),
            process: world.history().process(name),
            member: (!alone).then(|| Member::new(&group, habit.instance.clone())),
            group,
            mine: own.map(|partition| Place { topic: IN, partition }).collect(),
            cursor: Cursor::new(true, random.per_mille(300)),
            lost_place: true,
            assigned: Vec::new(),
            idle: false,
        }
    }

    /// One operation: keeps its membership, reads, and writes a transaction from what it read. An error ends this life.
    async fn operate(&mut self) -> Result<(), Trouble> {
        self.idle = true;
        if let Some(member) = &mut self.member
            && member.attend(&mut self.client).await
        {
            let place = |partition: &i32| Place { topic: IN, partition: *partition };
            self.mine = member.dealt.iter().map(place).collect();
            self.lost_place = true;
        }
        if self.mine.is_empty() || (self.lost_place && !self.find_place().await) {
            return Ok(());
        }
        let world = Arc::clone(&self.client.world);
        let begun = world.stamp();
        let wait = self.client.random.pick(&[0, 50, 400]);
        let Some(fetched) = self.cursor.fetch(&mut self.client, wait).await else { return Ok(()) };
        if fetched.given.is_empty() {
            return Ok(());
        }
        self.idle = false;
        let op = world.history().begin(self.process, Kind::Txn, begun);
        for place in std::mem::take(&mut self.assigned) {
            let key = world.key(place);
            world.history().push(op, Action::Assigned { key });
        }
        world.read_in(op, &fetched);
        let done = self.transform(op, &fetched).await;
        if done == Err(Trouble::Rejoin)
            && let Some(member) = &mut self.member
        {
            member.lose();
        }
        let commit = self.producer.client.random.per_mille(800);
        self.lost_place = done.is_err() || !commit;
        let finished = finish(&mut self.producer, op, done, commit).await;
        self.lost_place |= finished.is_err();
        finished
    }

    /// Sets the positions to the committed offsets of the group. False if they cannot be read now.
    async fn find_place(&mut self) -> bool {
        self.cursor = Cursor::new(true, self.client.random.per_mille(300));
        self.assigned.clear();
        let world = Arc::clone(&self.client.world);
        let op = world.history().begin(self.process, Kind::Poll, world.stamp());
        for place in self.mine.clone() {
            let Ok(offset) = committed(&mut self.client, &self.group, place).await else { return false };
            self.cursor.next.insert(place, offset.unwrap_or(0));
            self.assigned.push(place);
            let key = world.key(place);
            let group = world.history().group(&self.group);
            world.history().push(op, Action::Committed { group, key, offset });
        }
        world.history().end(op, Outcome::Ok, world.stamp());
        self.lost_place = false;
        true
    }

    async fn transform(&mut self, op: OpId, fetched: &FetchResult) -> Result<(), Trouble> {
        let world = Arc::clone(&self.client.world);
        let mut by_target: BTreeMap<i32, Vec<_>> = BTreeMap::new();
        for given in &fetched.given {
            let target = (given.offset % i64::from(world.plan.partitions)) as i32;
            by_target.entry(target).or_default().push(given);
        }
        let mut batches = Batches::new();
        for (partition, inputs) in by_target {
            let place = Place { topic: OUT, partition };
            let values = world.fresh_values(inputs.len() as u64);
            let key = world.key(place);
            for (fresh, input) in values.iter().zip(&inputs) {
                let from = (world.key(input.place), input.offset);
                world.history().write_from(op, key, fresh.value, from);
            }
            batches.insert(place, values);
        }
        if self.client.random.per_mille(500) {
            self.producer.produce(op, &batches).await?;
        } else {
            for (place, values) in batches {
                self.producer.produce(op, &[(place, values)].into()).await?;
            }
        }
        falter(&mut self.producer).await?;
        let committer = match &self.member {
            Some(member) => member.committer.clone(),
            None => Committer::outside(&self.group),
        };
        let mut offsets: Vec<(Place, i64)> = Vec::new();
        for place in self.cursor.next.keys() {
            if fetched.given.iter().any(|given| given.place == *place) {
                offsets.push((*place, self.cursor.next[place]));
            }
        }
        for (place, offset) in &offsets {
            let key = world.key(*place);
            let group = world.history().group(&self.group);
            world.history().push(op, Action::Offset { group, key, offset: *offset });
        }
        self.producer.offsets(&committer, &offsets).await?;
        falter(&mut self.producer).await?;
        if self.member.is_some() {
            outstay(&mut self.producer.client).await;
        }
        Ok(())
    }
}
