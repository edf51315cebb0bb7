//! Clients that only read: consumers of all partitions, members of a group that commits its positions, and the last
//! reader, which reads everything at the end.

use crate::client::{Care, Client};
use crate::fetch::Cursor;
use crate::member::{Member, committed, instance};
use crate::place::{IN, Place};
use crate::plan::ms;
use crate::random::Random;
use crate::transactor::{Whim, whim};
use crate::world::{World, count, rest};
use ottla_checker::{Action, Kind, Outcome};
use ottla_wire::ErrorCode;
use ottla_wire::messages::OffsetCommitRequest;
use ottla_wire::messages::offset_commit_request::{OffsetCommitRequestPartition, OffsetCommitRequestTopic};
use std::collections::BTreeSet;
use std::sync::Arc;
use tokio::time::{Instant, sleep};

/// How often a reader may find nothing new before the rest of the history is given up, in turns of ten seconds.
const PATIENCE: u64 = 1200;

/// Reads all partitions, in one life after the other.
pub(crate) async fn run(world: Arc<World>, number: u64, mut random: Random) {
    let mut left = world.plan.crew.ops;
    let mut life = 0;
    while left > 0 {
        life += 1;
        let is_committed = random.per_mille(600);
        let kind = if is_committed { Kind::Poll } else { Kind::Peek };
        let mut client = Client::new(&world, format!("r{number}.{life}"), random.fork());
        let process = world.history().process(&client.name);
        let mut cursor = Cursor::new(is_committed, random.per_mille(400)).at_start(world.places());
        while left > 0 {
            left -= 1;
            rest(&mut random, 300).await;
            let op = world.history().begin(process, kind, world.stamp());
            let wait = random.pick(&[0, 50, 400]);
            let fetched = cursor.fetch(&mut client, wait).await;
            let outcome = if fetched.is_some() { Outcome::Ok } else { Outcome::Fail };
            if let Some(fetched) = fetched {
                count(&world.figures.reads);
                world.read_in(op, &fetched);
            }
            world.history().end(op, outcome, world.stamp());
            if whim(&world, &mut random).await != Whim::GoOn {
                break;
            }
        }
    }
}

/// Reads "in" as a member of a group, and commits its positions.
pub(crate) async fn consume(world: Arc<World>, number: u64, mut random: Random) {
    let group = "consumers";
    let instance = instance("c", number, &mut random);
    let mut left = world.plan.crew.ops;
    let mut life = 0;
    while left > 0 {
        life += 1;
        let mut client = Client::new(&world, format!("c{number}.{life}"), random.fork());
        let mut member = Member::new(group, instance.clone());
        let mut cursor = Cursor::new(true, false);
        let mut lost_place = true;
        while left > 0 {
            left -= 1;
            rest(&mut random, 300).await;
            lost_place |= member.attend(&mut client).await;
            if member.dealt.is_empty() {
                continue;
            }
            if lost_place {
                let Some(found) = find_place(&mut client, &member).await else { continue };
                cursor = found;
            }
            lost_place = !read_and_commit(&mut client, &mut member, &mut cursor).await;
            if whim(&world, &mut random).await != Whim::GoOn {
                break;
            }
        }
        if random.per_mille(500) {
            member.leave(&mut client).await;
        }
    }
}

async fn find_place(client: &mut Client, member: &Member) -> Option<Cursor> {
    let world = Arc::clone(&client.world);
    let mut cursor = Cursor::new(true, false);
    let op = {
        let mut history = world.history();
        let process = history.process(&client.name);
        history.begin(process, Kind::Poll, world.stamp())
    };
    for partition in &member.dealt {
        let place = Place { topic: IN, partition: *partition };
        let offset = committed(client, &member.committer.group, place).await.ok()?;
        let key = world.key(place);
        let mut history = world.history();
        let group = history.group(&member.committer.group);
        history.push(op, Action::Committed { group, key, offset });
        history.push(op, Action::Assigned { key });
        cursor.next.insert(place, offset.unwrap_or(0));
    }
    world.history().end(op, Outcome::Ok, world.stamp());
    Some(cursor)
}

/// False if the membership, or the outcome of the commit, is unknown.
async fn read_and_commit(client: &mut Client, member: &mut Member, cursor: &mut Cursor) -> bool {
    let world = Arc::clone(&client.world);
    let process = world.history().process(&client.name);
    let op = world.history().begin(process, Kind::Poll, world.stamp());
    let wait = client.random.pick(&[0, 50, 400]);
    let Some(fetched) = cursor.fetch(client, wait).await else {
        world.history().end(op, Outcome::Fail, world.stamp());
        return true;
    };
    world.read_in(op, &fetched);
    world.history().end(op, Outcome::Ok, world.stamp());
    let read: BTreeSet<Place> = fetched.given.iter().map(|given| given.place).collect();
    if read.is_empty() {
        return true;
    }
    let op = world.history().begin(process, Kind::Send, world.stamp());
    let mut topics = Vec::new();
    for place in read {
        let offset = cursor.next[&place];
        let key = world.key(place);
        let mut history = world.history();
        let group = history.group(&member.committer.group);
        history.push(op, Action::Offset { group, key, offset });
        let partition = OffsetCommitRequestPartition {
            partition_index: place.partition,
            committed_offset: offset,
            ..Default::default()
        };
        topics.push(OffsetCommitRequestTopic {
            name: place.name().into(),
            topic_id: world.topic_id(place.topic),
            partitions: vec![partition],
            ..Default::default()
        });
    }
    let request = OffsetCommitRequest {
        group_id: member.committer.group.as_str().into(),
        generation_id_or_member_epoch: member.committer.generation,
        member_id: member.committer.member.as_str().into(),
        group_instance_id: member.committer.instance.clone(),
        topics,
        ..Default::default()
    };
    let version = member.committer.version(&mut client.random, 5..11, 7);
    let until = Instant::now() + ms(5000);
    let settled = client.settle(&request, version, Care::Strict, until).await;
    let codes = settled.map(|settled| {
        let rows = settled.answer.topics.iter().flat_map(|topic| &topic.partitions);
        (rows.map(|row| ErrorCode(row.error_code)).find(|code| *code != ErrorCode::NONE), settled.doubt)
    });
    let outcome = match codes {
        Ok((None, _)) => Outcome::Ok,
        Ok((Some(_), false)) => Outcome::Fail,
        _ => Outcome::Info,
    };
    world.history().end(op, outcome, world.stamp());
    if matches!(codes, Ok((Some(_), _))) {
        member.lose();
    }
    outcome == Outcome::Ok
}

/// Reads all committed records at the end of a run: waits until no transaction is open, then reads every partition from
/// its first offset to its last.
pub(crate) async fn drain(world: &Arc<World>, random: &mut Random) {
    let mut client = Client::new(world, "drain".to_owned(), random.fork());
    let process = world.history().process(&client.name);
    for place in world.places() {
        let mut cursor = Cursor::new(true, false).at_start([place]);
        let op = world.history().begin(process, Kind::Drain, world.stamp());
        let key = world.key(place);
        let mut patience = PATIENCE;
        while patience > 0 {
            let Some(fetched) = cursor.fetch(&mut client, 0).await else {
                patience -= 1;
                sleep(ms(1000)).await;
                continue;
            };
            world.read_in(op, &fetched);
            let at = cursor.next.get(&place).copied().unwrap_or(0);
            match fetched.ends.last() {
                Some((_, high, _)) if at >= *high => break,
                Some((_, _, stable)) if at >= *stable => {
                    patience -= 1;
                    sleep(ms(10_000)).await;
                }
                _ if fetched.given.is_empty() => {
                    patience -= 1;
                    sleep(ms(10)).await;
                }
                _ => {}
            }
        }
        if patience > 0 {
            world.history().push(op, Action::Drained { key });
        }
        world.history().end(op, Outcome::Ok, world.stamp());
    }
}
