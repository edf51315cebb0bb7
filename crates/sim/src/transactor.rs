//! A client that writes in transactions: commits most, aborts some, pauses, crashes, and continues as a zombie.

use crate::client::Client;
use crate::place::{IN, LOG, Place};
use crate::plan::ms;
use crate::random::Random;
use crate::txn::{Batches, Producer, Trouble};
use crate::world::{World, rest};
use ottla_checker::{Ending, Kind, OpId, Outcome, Process};
use ottla_wire::Text;
use std::collections::btree_map::Entry;
use std::sync::Arc;

/// What a client does after an operation.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Whim {
    GoOn,
    /// It crashes.
    Die,
    /// It pauses, a successor starts, and it wakes up.
    Zombie,
}

/// The next event of a client.
pub(crate) async fn whim(world: &World, random: &mut Random) -> Whim {
    if world.is_calm() || !random.per_mille(world.plan.faults.clients) {
        return Whim::GoOn;
    }
    match random.within(0..3) {
        0 => Whim::Die,
        1 => Whim::Zombie,
        _ => {
            tokio::time::sleep(ms(random.within(100..8000))).await;
            Whim::GoOn
        }
    }
}

/// The options of the producer with this number, in all its lives.
#[derive(Clone, Debug)]
pub(crate) struct Habit {
    pub(crate) id: String,
    pub(crate) second: bool,
    pub(crate) timeout: u64,
    /// The name of a static member.
    pub(crate) instance: Option<Text>,
}

impl Habit {
    pub(crate) fn new(id: String, random: &mut Random) -> Habit {
        let (second, timeout) = (random.per_mille(600), random.pick(&[1500, 4000, 30_000]));
        Habit { id, second, timeout, instance: None }
    }

    pub(crate) fn producer(&self, client: Client) -> Producer {
        Producer::new(client, self.id.clone(), self.second, self.timeout)
    }
}

/// Performs its operations in one life after the other.
pub(crate) async fn run(world: Arc<World>, number: u64, mut random: Random) {
    let habit = Habit::new(format!("txn-{number}"), &mut random);
    let mut left = world.plan.crew.ops;
    let mut life = 0;
    while left > 0 {
        life += 1;
        let name = format!("t{number}.{life}");
        let process = world.history().process(&name);
        let mut producer = habit.producer(Client::new(&world, name, random.fork()));
        if producer.start(false).await.is_err() {
            left -= 1;
            rest(&mut random, 500).await;
            continue;
        }
        while left > 0 {
            left -= 1;
            rest(&mut random, 300).await;
            if operate(&mut producer, process).await.is_err() {
                break;
            }
            match whim(&world, &mut random).await {
                Whim::GoOn => {}
                Whim::Die => break,
                Whim::Zombie => {
                    producer.rivals = true;
                    world.add_zombie(tokio::spawn(walk(producer, process, random.fork())));
                    break;
                }
            }
        }
    }
}

/// A zombie wakes up and continues its transaction.
async fn walk(mut producer: Producer, process: Process, mut random: Random) {
    rest(&mut random, 4000).await;
    for _ in 0..2 {
        if operate(&mut producer, process).await.is_err() {
            return;
        }
    }
}

/// One transaction. An error ends this producer.
async fn operate(producer: &mut Producer, process: Process) -> Result<(), Trouble> {
    let world = Arc::clone(&producer.client.world);
    let op = world.history().begin(process, Kind::Txn, world.stamp());
    let mut written = write(producer, op).await;
    if written.is_ok() {
        written = falter(producer).await;
    }
    if written.is_ok() && producer.client.random.per_mille(100) && !world.is_calm() {
        // It may take longer than its timeout.
        rest(&mut producer.client.random, 5000).await;
    }
    let commit = producer.client.random.per_mille(750);
    finish(producer, op, written, commit).await
}

/// A possible fault of a client in the middle of its transaction: it crashes, or pauses for longer than the timeout of
/// its transaction or its session.
pub(crate) async fn falter(producer: &mut Producer) -> Result<(), Trouble> {
    let world = Arc::clone(&producer.client.world);
    let random = &mut producer.client.random;
    if world.is_calm() || !random.per_mille(world.plan.faults.clients) {
        return Ok(());
    }
    if random.per_mille(400) {
        world.say(format_args!("{} crashes in its transaction", producer.client.name));
        return Err(Trouble::Over { doubt: false });
    }
    rest(random, 9000).await;
    Ok(())
}

/// Commits or aborts a transaction as `commit` says, or aborts it after a failure, and notes the outcome.
pub(crate) async fn finish(
    producer: &mut Producer,
    op: OpId,
    done: Result<(), Trouble>,
    commit: bool,
) -> Result<(), Trouble> {
    let world = Arc::clone(&producer.client.world);
    let end = |outcome| world.history().end(op, outcome, world.stamp());
    let ended = match done {
        Ok(()) if commit => {
            world.history().ending(op, Ending::Commit);
            producer.end(true).await
        }
        Ok(()) => {
            world.history().ending(op, Ending::Abort);
            let aborted = producer.abort().await;
            // No client asked for a commit, or ever will.
            end(if aborted.is_ok() { Outcome::Ok } else { Outcome::Fail });
            return aborted;
        }
        Err(over @ Trouble::Over { .. }) => {
            end(Outcome::Fail);
            return Err(over);
        }
        Err(_) => {
            let aborted = producer.abort().await;
            end(Outcome::Fail);
            return aborted;
        }
    };
    match ended {
        Ok(()) => end(Outcome::Ok),
        Err(Trouble::Over { doubt: false }) => end(Outcome::Fail),
        Err(Trouble::Abort) => {
            let aborted = producer.abort().await;
            end(if aborted.is_ok() { Outcome::Fail } else { Outcome::Info });
            return aborted;
        }
        Err(_) => end(Outcome::Info),
    }
    ended
}

async fn write(producer: &mut Producer, op: OpId) -> Result<(), Trouble> {
    let world = Arc::clone(&producer.client.world);
    for _ in 0..producer.client.random.within(1..4) {
        let mut batches = Batches::new();
        for _ in 0..producer.client.random.pick(&[1, 1, 2, 3]) {
            let random = &mut producer.client.random;
            let topic = random.pick(&[IN, LOG, LOG]);
            let place = Place { topic, partition: random.within(0..world.plan.partitions as u64) as i32 };
            let many = random.within(1..4);
            if let Entry::Vacant(free) = batches.entry(place) {
                let values = world.fresh_values(many);
                let key = world.key(place);
                values.iter().for_each(|fresh| world.history().write(op, key, fresh.value));
                free.insert(values);
            }
        }
        producer.produce(op, &batches).await?;
    }
    Ok(())
}
