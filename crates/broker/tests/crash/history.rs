//! Random events over few ids, so that a value that is stale for one client is current for another.

use crate::life::{Ledger, Life, filling};
use ottla_core::catalog::{CreateTopics, DeleteTopics, NewTopic, TopicRef};
use ottla_core::groups::MemberRef;
use ottla_core::offsets::{CommitOffsets, NewOffset, StageOffsets, TopicOffsets};
use ottla_core::partitions::{Produce, ProduceBatch};
use ottla_core::transactions::{AddPartitionsToTxn, EndTxn, InitProducerId};
use ottla_core::transactions::{TransactionCheck, TransactionClaim};
use ottla_core::{Input, Shard};
use ottla_types::{
    BatchSummary, Millis, Offset, ProducerEpoch, ProducerId, TimestampType, TopicId, TopicPartition,
};
use std::collections::BTreeMap;

/// Random numbers from a seed.
pub(crate) struct Chance(pub(crate) u64);

impl Chance {
    /// A number below `count`.
    pub(crate) fn below(&mut self, count: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)) % count
    }
}

type Owner = (ProducerId, ProducerEpoch);

/// What the clients know: the owners of each transactional id, newest last.
pub(crate) struct History {
    owners: Vec<Vec<Owner>>,
    /// Whether clients use transaction version 2: they add partitions by producing, and each end raises the epoch.
    second_version: bool,
}

impl History {
    /// Clients that know what a shard has of them.
    pub(crate) fn resume(shard: &Shard, chance: &mut Chance) -> History {
        let known = |id: u8| shard.transactions().get(&name(id)).map(|known| known.state());
        let owner = |id| known(id).map(|state| (state.producer_id, state.epoch));
        History {
            owners: (0..3).map(|id| owner(id).into_iter().collect()).collect(),
            second_version: chance.below(2) == 0,
        }
    }

    /// One event.
    pub(crate) fn event(&mut self, life: &mut Life, ledger: &mut Ledger, chance: &mut Chance) {
        ledger.now = ledger.now.after(Millis(1));
        if ledger.topics < 2 {
            return create_topic(life, ledger);
        }
        let id = chance.below(3) as u8;
        match chance.below(40) {
            0..3 => self.init(id, life, ledger, chance),
            3..5 => drop(life.submit(ledger, self.add(id, ledger, chance))),
            5..10 => self.end(id, life, ledger, chance),
            10..18 => drop(life.submit(ledger, self.produce_in(id, &life.shard, ledger, chance))),
            18..20 => drop(life.submit(ledger, produce_plain(ledger, chance))),
            20..22 => drop(life.submit(ledger, commit(ledger, chance))),
            22..25 => drop(life.submit(ledger, self.stage(id, ledger, chance))),
            25 => create_topic(life, ledger),
            26 if chance.below(2) == 0 => delete_topic(life, ledger, chance),
            27 | 32.. => life.snapshot(ledger),
            28 => pass(life, ledger, chance),
            _ => life.sync(ledger),
        }
    }

    /// An owner of a transactional id, mostly the newest; an unknown one if there is none.
    fn owner(&self, id: u8, chance: &mut Chance) -> Owner {
        let known = &self.owners[usize::from(id)];
        let age = chance.below(8).saturating_sub(5) as usize;
        known.iter().rev().nth(age).copied().unwrap_or((ProducerId(1), ProducerEpoch(0)))
    }

    fn became(&mut self, id: u8, owner: Owner) {
        self.owners[usize::from(id)].push(owner);
    }

    fn init(&mut self, id: u8, life: &mut Life, ledger: &mut Ledger, chance: &mut Chance) {
        let given = (chance.below(3) == 0).then(|| self.owner(id, chance));
        let timeout = Millis(60_000);
        let ask = InitProducerId { transactional_id: Some(name(id)), timeout, given };
        if let Some(Ok(owner)) = life.submit(ledger, ask) {
            self.became(id, owner);
        }
    }

    fn add(&self, id: u8, ledger: &Ledger, chance: &mut Chance) -> AddPartitionsToTxn {
        let (producer_id, producer_epoch) = self.owner(id, chance);
        let check = TransactionCheck::Add;
        let claim = TransactionClaim { transactional_id: name(id), producer_id, producer_epoch, check };
        let partitions = vec![partition(ledger, chance), partition(ledger, chance)];
        AddPartitionsToTxn { claim, partitions }
    }

    fn end(&mut self, id: u8, life: &mut Life, ledger: &mut Ledger, chance: &mut Chance) {
        let (producer_id, producer_epoch) = self.owner(id, chance);
        let commit = chance.below(3) > 0;
        let ask = EndTxn {
            transactional_id: name(id),
            producer_id,
            producer_epoch,
            commit,
            bump: self.second_version,
        };
        if let Some(Ok(owner)) = life.submit(ledger, ask) {
            self.became(id, owner);
        }
    }

    fn produce_in(&self, id: u8, shard: &Shard, ledger: &Ledger, chance: &mut Chance) -> Produce {
        let owner = self.owner(id, chance);
        let check = if self.second_version { TransactionCheck::Add } else { TransactionCheck::Verify };
        let mut batches: Vec<ProduceBatch> = Vec::new();
        for _ in 0..=chance.below(2) {
            let at = partition(ledger, chance);
            let known = shard.partitions().get(at);
            let state = known.and_then(|known| known.producers().find(|state| state.producer_id == owner.0));
            let last = state.filter(|state| state.epoch == owner.1).and_then(|state| state.batches.last());
            let next = last.map_or(0, |last| last.last_sequence + 1) + (chance.below(8) / 7) as i32;
            if !batches.iter().any(|batch| batch.topic == TopicRef::Id(at.topic)) {
                batches.push(batch(at, owner, next, chance));
            }
        }
        Produce { transactional_id: Some(name(id)), check, batches }
    }

    fn stage(&self, id: u8, ledger: &Ledger, chance: &mut Chance) -> StageOffsets {
        let (producer_id, producer_epoch) = self.owner(id, chance);
        StageOffsets {
            transactional_id: name(id),
            producer_id,
            producer_epoch,
            verify_only: chance.below(4) == 0,
            member: nobody(chance),
            topics: vec![new_offset(ledger, chance)],
        }
    }
}

fn name(id: u8) -> String {
    format!("id-{id}")
}

/// A partition of one of the two newest topics.
fn partition(ledger: &Ledger, chance: &mut Chance) -> TopicPartition {
    let topic = ledger.topics.saturating_sub(chance.below(2) as u8);
    TopicPartition { topic: TopicId([topic; 16]), partition: chance.below(2) as i32 }
}

fn batch(at: TopicPartition, owner: Owner, first: i32, chance: &mut Chance) -> ProduceBatch {
    let size = 100 + chance.below(9_000) as u32;
    let transactional = owner.0 != ProducerId::NONE;
    let summary = BatchSummary {
        size,
        last_offset_delta: 1,
        record_count: 2,
        base_timestamp: Millis(1_000_000),
        max_timestamp: Millis(1_000_000),
        timestamp_type: TimestampType::CreateTime,
        producer_id: owner.0,
        producer_epoch: owner.1,
        base_sequence: first,
        transactional,
        control: false,
    };
    let payload = vec![filling(size); size as usize].into();
    ProduceBatch {
        topic: TopicRef::Id(at.topic),
        partition: at.partition,
        keyless: false,
        earliest: summary.base_timestamp,
        stamped: false,
        summary,
        payload,
    }
}

fn produce_plain(ledger: &Ledger, chance: &mut Chance) -> Produce {
    let nobody = (ProducerId::NONE, ProducerEpoch::NONE);
    let batches = vec![batch(partition(ledger, chance), nobody, -1, chance)];
    let check = TransactionCheck::Add;
    Produce { transactional_id: None, check, batches }
}

fn commit(ledger: &Ledger, chance: &mut Chance) -> CommitOffsets {
    let (member, topics) = (nobody(chance), vec![new_offset(ledger, chance)]);
    CommitOffsets { member, topics }
}

/// A group without members, used for its offsets only.
fn nobody(chance: &mut Chance) -> MemberRef {
    MemberRef {
        group_id: format!("group-{}", chance.below(2)),
        generation: -1,
        member_id: String::new(),
        instance_id: None,
    }
}

fn new_offset(ledger: &Ledger, chance: &mut Chance) -> TopicOffsets {
    let at = partition(ledger, chance);
    let offset = NewOffset {
        partition: at.partition,
        offset: Offset(chance.below(50) as i64),
        leader_epoch: -1,
        metadata: String::new(),
    };
    TopicOffsets { topic: TopicRef::Id(at.topic), offsets: vec![offset] }
}

fn create_topic(life: &mut Life, ledger: &mut Ledger) {
    ledger.topics += 1;
    let id = TopicId([ledger.topics; 16]);
    let configs = match ledger.topics % 3 {
        0 => BTreeMap::new(),
        1 => BTreeMap::from([("retention.bytes".to_owned(), Some("20000".to_owned()))]),
        _ => BTreeMap::from([("retention.ms".to_owned(), Some("5000000".to_owned()))]),
    };
    let topic = NewTopic {
        name: format!("topic-{}", ledger.topics),
        id,
        partitions: 2,
        replication_factor: 1,
        assignments: Vec::new(),
        configs,
    };
    let ask = CreateTopics { topics: vec![topic], validate_only: false };
    life.submit(ledger, ask);
}

fn delete_topic(life: &mut Life, ledger: &mut Ledger, chance: &mut Chance) {
    let topic = ledger.topics.saturating_sub(chance.below(3) as u8);
    let topics = vec![TopicRef::Id(TopicId([topic; 16]))];
    life.submit(ledger, DeleteTopics { topics });
}

/// Advances the clock, a little or a lot, and ticks until no timer is due.
fn pass(life: &mut Life, ledger: &mut Ledger, chance: &mut Chance) {
    let span = [50, 70_000, 1_000_000_000][chance.below(3) as usize];
    ledger.now = ledger.now.after(Millis(span));
    while life.log.failure().is_none() && life.shard.deadline().is_some_and(|due| due <= ledger.now) {
        life.step(ledger, Input::Tick);
    }
}
