//! Recovery (section 17): every crash leaves a whole, and a retry continues from there.

use crate::ending::{ended_records, world_at};
use crate::support::Answer;
use crate::world::{Owner, World, adding, at, batch, ending, initialise, owner, plain, producing, staging};
use ottla_core::offsets::OffsetLookup;
use ottla_core::partitions::ProduceError;
use ottla_core::transactions::{InitError, TransactionCheck};
use ottla_core::{Input, RecordPosition};
use ottla_types::record::{
    BatchAppended, BatchPlace, LogRecord, Marker, MarkerAppended, PartitionRecord, TransactionForgotten,
    TransactionRecord, TransactionStatus,
};
use ottla_types::{LogPosition, Offset, ProducerId};

fn nowhere() -> RecordPosition {
    RecordPosition { position: LogPosition(0), payload: LogPosition(0) }
}

#[test]
fn t_58_replay_applies_what_it_would_not_have_taken() {
    let mut world = World::new();
    let me = owner(7, 3);
    world.write(at(1, 0), batch(me, 5, 1, false)).unwrap();
    let appended = |by: Owner, first, offset| {
        LogRecord::Partitions(PartitionRecord::BatchAppended(BatchAppended {
            partition: at(1, 0),
            base_offset: Offset(offset),
            leader_epoch: 0,
            at: world.now,
            summary: batch(by, first, 1, true),
            payload: bytes::Bytes::new(),
        }))
    };
    let marker = Marker {
        commit: false,
        producer_id: me.0,
        producer_epoch: owner(7, 1).1,
        coordinator_epoch: -5,
        at: world.now,
    };
    let records = [
        appended(owner(7, 2), 99, 1),
        appended(owner(7, 3), 1, 2),
        LogRecord::Partitions(PartitionRecord::MarkerAppended(MarkerAppended {
            partition: at(1, 0),
            marker,
            offset: Offset(3),
        })),
        LogRecord::Transactions(TransactionRecord::TransactionForgotten(TransactionForgotten {
            transactional_id: "never".to_owned(),
        })),
        LogRecord::Partitions(PartitionRecord::ProducersExpired(ottla_types::record::ProducersExpired {
            partition: at(9, 9),
            producers: vec![ProducerId(4)],
        })),
    ];
    records.iter().for_each(|record| world.shard.apply(nowhere(), record));
    assert_eq!(world.shard.partitions().get(at(1, 0)).unwrap().next_offset(), Offset(4));
}

#[test]
fn t_252_loading_keeps_ends_nothing_and_goes_on() {
    for status in crate::ending::STATUSES {
        let mut world = world_at(status, 5, 4);
        let state = world.shard.transactions().get("t").unwrap().state().clone();
        world.restart_from_snapshot();
        assert_eq!(world.shard.transactions().get("t").unwrap().state(), &state);
    }
    let mut world = World::new();
    let me = world.init_with("t", None, 10_000).unwrap();
    world.write_in("t", me, at(1, 0), 0).unwrap();
    world.pass(9_000);
    world.restart();
    world.pass(1_000);
    let status = |world: &World| world.shard.transactions().get("t").unwrap().state().status;
    assert_eq!(status(&world), TransactionStatus::Ongoing, "at the timeout itself");
    world.pass(1);
    assert_eq!(status(&world), TransactionStatus::CompleteAbort, "counted from the stored start");
    world.pass(604_800_000);
    world.restart();
    assert!(world.shard.transactions().get("t").is_none(), "what was forgotten stays so");
}

#[test]
fn b_22_t_256_an_open_transaction_survives_snapshots_with_data_and_without() {
    for (with_data, timeout) in [(false, false), (false, true), (true, false), (true, true)] {
        let mut world = World::new();
        let me = world.init("t", None).unwrap();
        world.add("t", me, &[at(1, 0)]);
        if with_data {
            world.write_in("t", me, at(1, 0), 0).unwrap();
        }
        world.restart_from_snapshot();
        world.write_in("t", me, at(1, 0), i32::from(with_data)).unwrap();
        world.restart_from_snapshot();
        if timeout {
            world.pass(60_001);
        } else {
            world.end("t", me, true, true).unwrap();
        }
        let partition = world.shard.partitions().get(at(1, 0)).unwrap();
        assert_eq!(partition.last_stable(), partition.next_offset());
        assert!(partition.producers().all(|producer| producer.transaction_start.is_none()));
        let aborted = world.read_committed(at(1, 0), 0).aborted;
        assert_eq!(
            aborted.iter().map(|one| one.first_offset.0).collect::<Vec<_>>(),
            if timeout { vec![0] } else { vec![] }
        );
    }
}

#[test]
fn t_256_recovery_rebuilds_everything_about_a_partition() {
    let mut world = World::new();
    let (one, two) = (world.init("one", None).unwrap(), world.init("two", None).unwrap());
    for sequence in 0..7 {
        world.write(at(1, 0), batch(owner(70, 1), sequence, 1, false)).unwrap();
    }
    world.write_in("one", one, at(1, 0), 0).unwrap();
    world.end("one", one, false, true).unwrap();
    world.write_in("two", two, at(1, 0), 0).unwrap();
    world.write(at(1, 0), plain(3)).unwrap();
    let live = world.shard.partitions().get(at(1, 0)).unwrap();
    let producers: Vec<_> = live.producers().cloned().collect();
    let known = (live.last_stable(), live.high_watermark(), live.holder());
    let read = world.read_committed(at(1, 0), 0);
    assert_eq!((known.0.0, producers.len(), producers[2].batches.len(), read.aborted.len()), (9, 3, 5, 1));
    for restart in [World::restart, World::restart_from_snapshot] {
        restart(&mut world);
        let found = world.shard.partitions().get(at(1, 0)).unwrap();
        assert_eq!(found.producers().cloned().collect::<Vec<_>>(), producers);
        assert_eq!((found.last_stable(), found.high_watermark(), found.holder()), known);
        assert_eq!(world.read_committed(at(1, 0), 0), read);
    }
}

/// A transaction over two partitions and an offset, as a client without a memory of its own does it: what it knows are
/// the answers.
struct Client {
    id: &'static str,
    me: Option<Owner>,
}

/// The requests of a client in order; each may be sent again.
const STEPS: usize = 6;

impl Client {
    fn request(&self, step: usize) -> Input {
        let me = self.me.unwrap_or(owner(-1, -1));
        let add = TransactionCheck::Add;
        let write = |partition| producing(Some(self.id), add, &[(at(1, partition), batch(me, 0, 1, true))]);
        match step {
            0 => initialise(self.id, None, 60_000),
            1 => write(0),
            2 => adding(self.id, me, &[at(1, 0), at(1, 1)], add),
            3 => write(1),
            4 => staging(self.id, me, at(1, 2), 42),
            _ => ending(self.id, me, true, true),
        }
    }

    /// Sends a request until it is answered for good, and keeps what the answer says.
    fn send(&mut self, world: &mut World, step: usize) {
        for _ in 0..3 {
            let request = self.request(step);
            match world.ask(request.clone()) {
                Answer::InitProducerId(Ok(me)) => self.me = Some(me),
                Answer::InitProducerId(Err(refused)) if refused.error == InitError::Concurrent => continue,
                Answer::EndTxn(result) => self.me = Some(result.unwrap()),
                Answer::Produce(results) => assert!(results[0].is_ok(), "{request:?}: {results:?}"),
                Answer::AddPartitionsToTxn(results) => assert!(results.iter().all(Result::is_ok)),
                other => assert!(!format!("{other:?}").contains("Err"), "{request:?}: {other:?}"),
            }
            return;
        }
        panic!("never answered");
    }
}

/// Whether the data of the transaction is seen in each of its partitions, and its offset.
fn seen(world: &World) -> [bool; 3] {
    let data = |partition| {
        let read = world.read_committed(at(1, partition), 0);
        let stored = read.batches().filter(|one| matches!(one.place, BatchPlace::Log { .. }));
        let aborted = read.aborted.len();
        assert!(stored.clone().count() <= 1 + aborted, "{read:?}");
        stored.count() > aborted
    };
    let offset = matches!(world.shard.offsets().fetch("g", at(1, 2), false), OffsetLookup::Offset(_));
    [data(0), data(1), offset]
}

/// Runs a client up to the answers of `answered` requests and the `cut`th record after them, crashes, and lets it go on
/// with the request that was under way; false if that request has no more records than that.
fn crash_and_retry(mut world: World, answered: usize, cut: usize) -> bool {
    let mut client = Client { id: "t", me: None };
    (0..answered).for_each(|step| client.send(&mut world, step));
    let before = world.log.len();
    world.step(client.request(answered));
    if world.log.len() < before + cut {
        return false;
    }
    world.log.truncate(before + cut);
    if cut.is_multiple_of(2) {
        world.restart();
    } else {
        world.shard = world.replayed();
        world.sync();
        world.restart_from_snapshot();
    }
    let half = seen(&world);
    assert!(half == [false; 3] || half == [true; 3], "{answered} {cut}: {half:?}");
    (answered..STEPS).for_each(|step| client.send(&mut world, step));
    assert_eq!(seen(&world), [true; 3], "{answered} {cut}");
    // The next owner's answer after it, and the next transaction.
    let next = client.me.unwrap();
    assert_eq!(world.write_in("t", next, at(1, 0), 0).map(|offset| offset > 0), Ok(true));
    world.end("t", next, false, true).unwrap();
    assert_eq!(seen(&world), [true; 3]);
    true
}

#[test]
fn t_259_t_260_b_20_b_23_every_crash_and_the_retry_after_it() {
    for answered in 0..STEPS {
        let mut cut = 0;
        while crash_and_retry(World::new(), answered, cut) {
            cut += 1;
        }
        assert!(cut > 0);
    }
}

#[test]
fn t_259_at_the_last_epoch_too() {
    for bumped in [false, true] {
        // The end may need a block of producer ids before it: two records.
        for cut in 0..=1 + usize::from(bumped) {
            let mut world = world_at(TransactionStatus::Empty, 32766, 32765);
            let me = owner(7, 32766);
            world.write_in("t", me, at(1, 0), 0).unwrap();
            // What `world_at` put into the shard is in no log.
            let rows = world.shard.snapshot();
            let before = world.log.len();
            let answer = world.step(ending("t", me, true, bumped));
            let written = world.log.len() - before;
            assert_eq!(written, 1 + usize::from(bumped));
            world.log.truncate(before + cut);
            world.shard = world.replayed_from(&rows, before);
            world.sync();
            let again = world.step(ending("t", me, true, bumped));
            if cut == written {
                assert_eq!(again, answer, "the retry gets what the lost answer said");
            }
            let Answer::EndTxn(Ok(next)) = again[0] else { panic!("{again:?}") };
            assert_eq!(next.1.0, if bumped { 0 } else { 32766 });
            assert_eq!(ended_records(&world).len(), 1);
            world.write_in("t", next, at(1, 0), i32::from(!bumped)).unwrap();
        }
    }
}

#[test]
fn t_260_no_prefix_of_the_log_shows_half_a_transaction() {
    let mut world = World::new();
    let mut client = Client { id: "t", me: None };
    (0..STEPS).for_each(|step| client.send(&mut world, step));
    let log = world.log.clone();
    let mut states = Vec::new();
    for length in 0..=log.len() {
        world.log = log[..length].to_vec();
        world.restart();
        if length > 0 {
            states.push(seen(&world));
        }
    }
    states.dedup();
    assert_eq!(states, [[false; 3], [true; 3]]);
}

#[test]
fn b_24_what_was_acknowledged_is_where_it_was_acknowledged() {
    let mut world = World::new();
    let mut acknowledged = Vec::new();
    // A sequence without rhyme, the same every time.
    let mut chance = 12345_u32;
    let mut roll = |below: u32| {
        chance = chance.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (chance >> 16) % below
    };
    for round in 0..200 {
        let id = format!("t{}", roll(3));
        let me = world.init(&id, None).or_else(|_| world.init(&id, None)).unwrap();
        let mut sent = Vec::new();
        let mut next = [0; 3];
        for _ in 0..roll(6) {
            let partition = roll(3) as usize;
            let count = 1 + roll(4) as i32;
            let placed = at(1, partition as i32);
            let batches = [(placed, batch(me, next[partition], count, true))];
            let result = world.produce(Some(&id), TransactionCheck::Add, &batches).remove(0).unwrap();
            sent.push((placed, result.base_offset.0, count, me));
            next[partition] += count;
        }
        let commit = roll(2) == 0;
        if !sent.is_empty() && roll(8) > 0 {
            world.end(&id, me, commit, true).unwrap();
            acknowledged.extend(sent.into_iter().map(|one| (one, commit)));
        }
        if round % 40 == 20 {
            world.restart();
        }
    }
    world.pass(100_000);
    for ((placed, base, count, by), commit) in acknowledged {
        let read = world.read_committed(placed, base);
        let found = read.batches().next().unwrap();
        assert_eq!((found.base_offset.0, found.last_offset.0), (base, base + i64::from(count) - 1));
        let aborted = read
            .aborted
            .iter()
            .any(|one| one.producer_id == by.0 && one.first_offset.0 <= base && base < one.marker_offset.0);
        assert_eq!(aborted, !commit, "{placed:?} {base}");
    }
}

#[test]
fn t_211_the_last_stable_offset_never_steps_back() {
    let mut world = World::new();
    let mut last = (Offset(0), Offset(0));
    let mut look = |world: &World| {
        let partition = world.shard.partitions().get(at(1, 0)).unwrap();
        let now = (partition.last_stable(), partition.high_watermark());
        assert!(now.0 >= last.0 && now.1 >= last.1, "{last:?} {now:?}");
        last = now;
    };
    for round in 0..30 {
        let id = format!("t{}", round % 3);
        let me = world.init(&id, None).or_else(|_| world.init(&id, None)).unwrap();
        world.write_in(&id, me, at(1, 0), 0).unwrap();
        look(&world);
        match round % 4 {
            0 => world.restart(),
            1 => drop(world.end(&id, me, round % 8 == 1, true)),
            2 => world.restart_from_snapshot(),
            _ => world.pass(1000),
        }
        look(&world);
    }
    assert!(last.0 > Offset(0));
}

#[test]
fn b_15_verification_does_not_mind_other_partitions() {
    let mut world = World::new();
    let me = world.init("t", None).unwrap();
    world.add("t", me, &[at(1, 0)]);
    for sequence in 0..3 {
        // Both are asked before anything is durable.
        world.step(adding("t", me, &[at(1, 1 + sequence % 2)], TransactionCheck::Add));
        let batches = [(at(1, 0), batch(me, sequence, 1, true))];
        let answers = world.step(producing(Some("t"), TransactionCheck::Verify, &batches));
        assert!(matches!(&answers[0], Answer::Produce(results) if results[0].is_ok()), "{answers:?}");
    }
    // A batch that comes after the abort is refused, whatever was verified before.
    world.end("t", me, false, false).unwrap();
    let late = world.write_checked("t", me, at(1, 0), 3, TransactionCheck::Verify);
    assert_eq!(late, Err(ProduceError::NotInTransaction));
    let partition = world.shard.partitions().get(at(1, 0)).unwrap();
    assert_eq!(partition.last_stable(), partition.next_offset());
}
