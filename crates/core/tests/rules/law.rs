//! The law: replaying the log gives the live state, from the start, from any snapshot, and for any prefix of the log.

use crate::parts;
use crate::pieces::Pieces;
use crate::support::input;
use crate::world::{Owner, World, at, batch, claim, plain};
use ottla_core::Shard;
use ottla_core::catalog::TopicRef;
use ottla_core::groups::{DeleteGroups, MemberRef};
use ottla_core::offsets::{CommitOffsets, DeleteOffsets, NewOffset, StageOffsets, TopicOffsets};
use ottla_core::partitions::{DeleteRecords, TxnMarker, WriteTxnMarkers};
use ottla_core::transactions::AddOffsetsToTxn;
use ottla_core::transactions::TransactionCheck;
use ottla_types::record::{BatchPlace, LogRecord, PartitionRecord, TransactionRecord};
use ottla_types::{Millis, Offset, ProducerEpoch, ProducerId, TopicPartition};
use proptest::prelude::*;

/// One thing that happens. Small numbers on purpose: what is stale for one is current for another.
#[derive(Clone, Debug)]
enum Event {
    Init { id: u8, given: Option<u8> },
    Add { id: u8, age: u8, partition: u8 },
    AddOffsets { id: u8, age: u8, group: u8 },
    End { id: u8, age: u8, commit: bool, bump: bool },
    ProduceIn { id: u8, age: u8, partition: u8, sequence: u8, check: bool },
    Produce { producer: u8, epoch: u8, partition: u8, sequence: u8, count: u8 },
    Plain { partition: u8, count: u8 },
    Marker { producer: u8, epoch: u8, partition: u8, commit: bool, bump: bool },
    Delete { partition: u8, offset: u8 },
    Commit { group: u8, partition: u8, offset: u8 },
    Stage { id: u8, age: u8, group: u8, partition: u8, verify: bool },
    DeleteOffsets { group: u8, partition: u8 },
    DeleteGroup { group: u8 },
    Rewrite { partition: u8, from: u8, count: u8, per_part: u8, gone: Option<u8> },
    Pass { millis: u32 },
    Sync,
    CreateTopic,
    DeleteTopic { age: u8 },
}

fn event() -> impl Strategy<Value = Event> {
    let id = 0..3_u8;
    let age = 0..3_u8;
    let partition = 0..4_u8;
    prop_oneof![
        3 => (id.clone(), proptest::option::of(age.clone())).prop_map(|(id, given)| Event::Init { id, given }),
        3 => (id.clone(), age.clone(), partition.clone())
            .prop_map(|(id, age, partition)| Event::Add { id, age, partition }),
        1 => (id.clone(), age.clone(), 0..3_u8).prop_map(|(id, age, group)| Event::AddOffsets { id, age, group }),
        6 => (id.clone(), age.clone(), any::<bool>(), any::<bool>())
            .prop_map(|(id, age, commit, bump)| Event::End { id, age, commit, bump }),
        9 => (id, age, partition.clone(), 0..3_u8, any::<bool>()).prop_map(
            |(id, age, partition, sequence, check)| Event::ProduceIn { id, age, partition, sequence, check }
        ),
        4 => (0..3_u8, 0..3_u8, partition.clone(), 0..8_u8, 1..4_u8).prop_map(
            |(producer, epoch, partition, sequence, count)| Event::Produce {
                producer, epoch, partition, sequence, count
            }
        ),
        3 => (partition.clone(), 1..4_u8).prop_map(|(partition, count)| Event::Plain { partition, count }),
        1 => (0..4_u8, 0..4_u8, partition.clone(), any::<bool>(), any::<bool>()).prop_map(
            |(producer, epoch, partition, commit, bump)| Event::Marker {
                producer, epoch, partition, commit, bump
            }
        ),
        1 => (partition, 0..12_u8).prop_map(|(partition, offset)| Event::Delete { partition, offset }),
        2 => (0..2_u8, 0..4_u8, any::<u8>())
            .prop_map(|(group, partition, offset)| Event::Commit { group, partition, offset }),
        4 => (0..3_u8, 0..3_u8, 0..2_u8, 0..4_u8, any::<bool>()).prop_map(
            |(id, age, group, partition, verify)| Event::Stage { id, age, group, partition, verify }
        ),
        1 => (0..2_u8, 0..4_u8).prop_map(|(group, partition)| Event::DeleteOffsets { group, partition }),
        1 => (0..2_u8).prop_map(|group| Event::DeleteGroup { group }),
        3 => rewrite(),
        3 => prop_oneof![0..100_u32, 0..100_000_u32, 0..2_000_000_000_u32]
            .prop_map(|millis| Event::Pass { millis }),
        4 => Just(Event::Sync),
        2 => Just(Event::CreateTopic),
        2 => (0..3_u8).prop_map(|age| Event::DeleteTopic { age }),
    ]
}

/// Batches or parts of a partition go into a new run, at times with less in it.
fn rewrite() -> impl Strategy<Value = Event> {
    let gone = proptest::option::weighted(0.3, 0..3_u8);
    (0..4_u8, any::<u8>(), 1..12_u8, 1..4_u8, gone).prop_map(|(partition, from, count, per_part, gone)| {
        Event::Rewrite { partition, from, count, per_part, gone }
    })
}

/// The world with what clients remember: the owners of each id, newest last.
struct Play {
    world: World,
    owners: Vec<Vec<Owner>>,
    /// The newest topic; ids are never used again.
    newest: u8,
}

impl Play {
    fn new() -> Play {
        let mut world = World::with(&[]);
        world.create_topic(1, 2, &[("retention.ms", "100000000")]);
        world.create_topic(2, 2, &[("retention.bytes", "500")]);
        Play { world, owners: vec![Vec::new(); 3], newest: 2 }
    }

    /// The owner of an id, `age` owners ago; an invented one if there is none.
    fn owner(&self, id: u8, age: u8) -> Owner {
        let known = &self.owners[usize::from(id)];
        let index = known.len().checked_sub(1 + usize::from(age));
        index.map_or((ProducerId(1), ProducerEpoch(0)), |index| known[index])
    }

    /// Four partitions of the two newest topics, one of which may be gone.
    fn partition(&self, number: u8) -> TopicPartition {
        at(self.newest - number / 2, i32::from(number % 2))
    }

    fn became(&mut self, id: u8, owner: Owner) {
        self.owners[usize::from(id)].push(owner);
    }

    fn run(&mut self, event: Event) {
        match event {
            Event::Init { id, given } => {
                let given = given.map(|age| self.owner(id, age));
                if let Ok(owner) = self.world.init(&name(id), given) {
                    self.became(id, owner);
                }
            }
            Event::Add { id, age, partition: number } => {
                let owner = self.owner(id, age);
                let partition = self.partition(number);
                self.world.add(&name(id), owner, &[partition]);
            }
            Event::AddOffsets { id, age, group } => {
                let claim = claim(&name(id), self.owner(id, age), TransactionCheck::Add);
                let group_id = format!("group-{group}");
                self.world.step(input(AddOffsetsToTxn { claim, group_id }));
            }
            Event::End { id, age, commit, bump } => {
                let owner = self.owner(id, age);
                if let Ok(owner) = self.world.end(&name(id), owner, commit, bump) {
                    self.became(id, owner);
                }
            }
            Event::ProduceIn { .. } | Event::Produce { .. } | Event::Plain { .. } => self.produce(event),
            Event::Commit { .. }
            | Event::Stage { .. }
            | Event::DeleteOffsets { .. }
            | Event::DeleteGroup { .. } => self.offsets(event),
            other => self.operate(other),
        }
    }

    fn produce(&mut self, event: Event) {
        match event {
            Event::ProduceIn { id, age, partition: number, sequence, check } => {
                let check = if check { TransactionCheck::Add } else { TransactionCheck::Verify };
                let known = self.world.shard.partitions().get(self.partition(number));
                let owner = self.owner(id, age);
                let state =
                    known.and_then(|known| known.producers().find(|state| state.producer_id == owner.0));
                let last =
                    state.filter(|state| state.epoch == owner.1).and_then(|state| state.batches.last());
                let next = last.map_or(0, |last| last.last_sequence + 1) + i32::from(sequence) / 2;
                let summary = batch(owner, next, 1, true);
                self.world.produce(Some(&name(id)), check, &[(self.partition(number), summary)]);
            }
            Event::Produce { producer, epoch, partition: number, sequence, count } => {
                let owner = (ProducerId(i64::from(producer)), ProducerEpoch(i16::from(epoch)));
                let summary = batch(owner, i32::from(sequence), i32::from(count), false);
                let _ = self.world.write(self.partition(number), summary);
            }
            Event::Plain { partition: number, count } => {
                let _ = self.world.write(self.partition(number), plain(i32::from(count)));
            }
            _ => {}
        }
    }

    fn offsets(&mut self, event: Event) {
        let input = match event {
            Event::Commit { group, partition, offset } => {
                let topics = vec![self.new_offset(partition, offset)];
                input(CommitOffsets { member: nobody(group), topics })
            }
            Event::Stage { id, age, group, partition, verify } => {
                let owner = self.owner(id, age);
                let topics = vec![self.new_offset(partition, age)];
                input(StageOffsets {
                    transactional_id: name(id),
                    producer_id: owner.0,
                    producer_epoch: owner.1,
                    verify_only: verify,
                    member: nobody(group),
                    topics,
                })
            }
            Event::DeleteOffsets { group, partition } => {
                let at = self.partition(partition);
                let topics = vec![(TopicRef::Id(at.topic), vec![at.partition])];
                input(DeleteOffsets { group_id: nobody(group).group_id, topics })
            }
            Event::DeleteGroup { group } => input(DeleteGroups { groups: vec![nobody(group).group_id] }),
            _ => return,
        };
        self.world.step(input);
    }

    fn new_offset(&self, number: u8, offset: u8) -> TopicOffsets {
        let at = self.partition(number);
        let offset = NewOffset {
            partition: at.partition,
            offset: Offset(i64::from(offset)),
            leader_epoch: -1,
            metadata: String::new(),
        };
        TopicOffsets { topic: TopicRef::Id(at.topic), offsets: vec![offset] }
    }

    fn operate(&mut self, event: Event) {
        match event {
            Event::Marker { producer, epoch, partition: number, commit, bump } => {
                let marker = TxnMarker {
                    producer_id: ProducerId(i64::from(producer)),
                    producer_epoch: ProducerEpoch(i16::from(epoch)),
                    coordinator_epoch: 0,
                    commit,
                    bumped: bump,
                    partitions: vec![self.partition(number), self.partition(0)],
                };
                let markers = vec![marker.clone(), marker];
                self.world.step(input(WriteTxnMarkers { markers }));
            }
            Event::Delete { partition: number, offset } => {
                let partitions = vec![(self.partition(number), Offset(i64::from(offset)))];
                self.world.step(input(DeleteRecords { partitions }));
            }
            Event::Rewrite { partition: number, from, count, per_part, gone } => {
                let at = self.partition(number);
                let pieces = parts::some_pieces(&self.world, at, from, count);
                if !pieces.is_empty() {
                    let run = self.world.log.len() as u64;
                    let (per_part, gone) = (usize::from(per_part), gone.map(usize::from));
                    let installed = parts::installing(at, &pieces, run, per_part, gone);
                    self.world.append(LogRecord::Partitions(PartitionRecord::PartsInstalled(installed)));
                }
            }
            Event::Pass { millis } => self.world.pass(i64::from(millis)),
            Event::Sync => self.world.sync(),
            Event::CreateTopic => {
                self.newest += 1;
                self.world.create_topic(self.newest, 2, &[]);
            }
            Event::DeleteTopic { age } => self.world.delete_topic(self.newest.saturating_sub(age)),
            _ => {}
        }
    }
}

/// A group used for its offsets alone.
fn nobody(group: u8) -> MemberRef {
    MemberRef {
        group_id: format!("group-{group}"),
        generation: -1,
        member_id: String::new(),
        instance_id: None,
    }
}

fn name(id: u8) -> String {
    format!("id-{id}")
}

/// What must hold of any state that the log can lead to.
fn check_state(shard: &Shard, log: &[LogRecord]) {
    for (_, partition) in shard.partitions().iter() {
        assert!(partition.log_start() <= partition.next_offset());
        assert!(partition.last_stable() <= partition.high_watermark());
        assert!(partition.high_watermark() <= partition.next_offset());
    }
    check_runs(shard);
    // A producer that is open at a partition is so in an ongoing transaction, unless an administrator wrote markers.
    let by_hand =
        log.iter().any(|record| matches!(record, LogRecord::Partitions(PartitionRecord::MarkerAppended(_))));
    let ongoing: Vec<_> = shard
        .transactions()
        .iter()
        .filter(|known| known.state().status == ottla_types::record::TransactionStatus::Ongoing)
        .collect();
    for (at, partition) in shard.partitions().iter().filter(|_| !by_hand) {
        for open in partition.producers().filter(|state| state.transaction_start.is_some()) {
            let holder = ongoing.iter().find(|known| known.state().producer_id == open.producer_id);
            assert!(holder.is_some_and(|known| known.partitions().contains(&at)), "{open:?} hangs");
        }
    }
}

/// What is counted of runs and of the log is what the partitions refer to.
fn check_runs(shard: &Shard) {
    let mut runs = std::collections::BTreeMap::<u64, (u64, u64)>::new();
    let (mut tail, mut lies) = (0, false);
    for (_, partition) in shard.partitions().iter() {
        for part in partition.parts() {
            let used = runs.entry(part.run).or_default();
            *used = (used.0 + 1, used.1 + part.bytes);
        }
        tail += partition.tail_entries() as u64;
        lies |= partition.tail().any(|batch| matches!(batch.place, BatchPlace::Log { .. }));
        let first = partition.tail().next().map(|batch| batch.base_offset);
        let last = partition.parts().last().map(|part| part.last_offset);
        assert!(first.zip(last).is_none_or(|(first, last)| last < first));
    }
    let counted = shard.partitions().runs().map(|(run, used)| (run, (used.parts, used.bytes)));
    assert_eq!(counted.collect::<std::collections::BTreeMap<_, _>>(), runs);
    assert_eq!((shard.partitions().tail_entries(), shard.partitions().oldest_live().is_some()), (tail, lies));
}

/// Each batch and marker takes the offset after the one before.
fn check_offsets(log: &[LogRecord]) {
    let mut next = std::collections::BTreeMap::<TopicPartition, i64>::new();
    let mut take = |at: TopicPartition, offset: Offset, count: i64| {
        let expected = next.entry(at).or_default();
        assert_eq!(offset.0, *expected, "{at:?}");
        *expected += count;
    };
    for record in log {
        match record {
            LogRecord::Partitions(PartitionRecord::BatchAppended(appended)) => {
                take(appended.partition, appended.base_offset, i64::from(appended.summary.record_count));
            }
            LogRecord::Partitions(PartitionRecord::MarkerAppended(appended)) => {
                take(appended.partition, appended.offset, 1)
            }
            LogRecord::Transactions(TransactionRecord::TransactionEnded(ended)) => {
                ended.partitions.iter().for_each(|(at, offset)| take(*at, *offset, 1))
            }
            _ => {}
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn replay_is_live(events in proptest::collection::vec(event(), 1..120), cut in any::<prop::sample::Index>()) {
        let mut play = Play::new();
        let cut = cut.index(events.len());
        let mut snapshot = (Vec::new(), 0);
        for (number, event) in events.into_iter().enumerate() {
            if number == cut {
                snapshot = (play.world.shard.snapshot(), play.world.log.len());
            }
            play.run(event);
            play.world.now = play.world.now.after(Millis(1));
        }
        let live = play.world.shard.snapshot();
        prop_assert_eq!(&live, &play.world.replayed().snapshot());
        let (rows, tail) = snapshot;
        let replayed = play.world.replayed_from(&rows, tail);
        prop_assert_eq!(&live, &replayed.snapshot());
        check_runs(&replayed);
        prop_assert_eq!(&live, &play.world.replayed_from(&live, play.world.log.len()).snapshot());
        let log: Vec<_> = play.world.log.iter().map(|(_, record)| record.clone()).collect();
        check_offsets(&log);
        check_state(&play.world.shard, &log);
    }

    /// Pieces of a snapshot are taken at any time; what lies between them is any kind of record.
    #[test]
    fn a_snapshot_in_pieces_replays_to_the_live_state(
        events in proptest::collection::vec(event(), 1..120),
        cuts in proptest::collection::vec(any::<prop::sample::Index>(), 1..20),
        most in 1..8_usize,
    ) {
        let mut play = Play::new();
        let mut cuts: Vec<_> = cuts.into_iter().map(|cut| cut.index(events.len())).collect();
        cuts.sort_unstable();
        let last = cuts.last().copied().unwrap();
        let mut pieces = Pieces::default();
        for (number, event) in events.into_iter().enumerate() {
            for _ in cuts.iter().filter(|cut| **cut == number) {
                pieces.take(&play.world.shard, play.world.log.len(), most);
            }
            while number == last && !pieces.are_all() {
                pieces.take(&play.world.shard, play.world.log.len(), most);
            }
            play.run(event);
            play.world.now = play.world.now.after(Millis(1));
        }
        let mut replayed = Shard::new(play.world.settings.clone());
        pieces.restore(&mut replayed, &play.world.log);
        prop_assert_eq!(play.world.shard.snapshot(), replayed.snapshot());
        let by_name = |shard: &Shard| shard.catalog().topics_by_name().cloned().collect::<Vec<_>>();
        prop_assert_eq!(by_name(&play.world.shard), by_name(&replayed));
        let open = |shard: &Shard| shard.transactions().open().cloned().collect::<Vec<_>>();
        prop_assert_eq!(open(&play.world.shard), open(&replayed));
        prop_assert_eq!(play.world.shard.partitions().oldest_live(), replayed.partitions().oldest_live());
        check_runs(&replayed);
    }

    #[test]
    fn every_prefix_of_the_log_is_whole(events in proptest::collection::vec(event(), 1..60)) {
        let mut play = Play::new();
        events.into_iter().for_each(|event| play.run(event));
        let log: Vec<_> = play.world.log.iter().map(|(_, record)| record.clone()).collect();
        for length in 0..=log.len() {
            play.world.log.truncate(log.len() - length);
            check_state(&play.world.replayed(), &log[..log.len() - length]);
        }
    }
}
