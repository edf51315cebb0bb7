//! Offsets and transactions for the tests' world.

use crate::world::{OTHER, TOPIC, World, kind, me};
use ottla_core::catalog::TopicRef;
use ottla_core::groups::MemberRef;
use ottla_core::offsets::{
    CommitOffsets, DeleteOffsets, DeleteOffsetsError, NewOffset, OffsetDeleteError, OffsetError,
    OffsetLookup, StageOffsets, TopicOffsets,
};
use ottla_core::transactions::{EndTxn, InitProducerId};
use ottla_types::{Millis, Offset, ProducerEpoch, ProducerId, TopicPartition};

pub(crate) type Owner = (ProducerId, ProducerEpoch);

/// Partition of the topic.
pub(crate) fn p(partition: i32) -> TopicPartition {
    TopicPartition { topic: TOPIC, partition }
}

/// Partition of the other topic.
pub(crate) fn q(partition: i32) -> TopicPartition {
    TopicPartition { topic: OTHER, partition }
}

/// A commit to group "g" without a member.
pub(crate) fn no_member() -> MemberRef {
    me("", -1)
}

/// One offset of one partition.
pub(crate) fn new_offset(at: TopicPartition, offset: i64) -> TopicOffsets {
    noted(at, offset, "")
}

/// One offset with a note.
pub(crate) fn noted(at: TopicPartition, offset: i64, metadata: &str) -> TopicOffsets {
    let new = NewOffset {
        partition: at.partition,
        offset: Offset(offset),
        leader_epoch: 3,
        metadata: metadata.to_owned(),
    };
    TopicOffsets { topic: TopicRef::Id(at.topic), offsets: vec![new] }
}

pub(crate) type Results = Vec<Result<(), OffsetError>>;

impl World {
    pub(crate) fn commit_all(&mut self, member: &MemberRef, topics: Vec<TopicOffsets>) -> Results {
        let member = member.clone();
        self.ask(CommitOffsets { member, topics }).concat().into_iter().map(kind).collect()
    }

    /// Commits one offset.
    pub(crate) fn commit(
        &mut self,
        member: &MemberRef,
        at: TopicPartition,
        offset: i64,
    ) -> Result<(), OffsetError> {
        self.commit_all(member, vec![new_offset(at, offset)]).remove(0)
    }

    /// A producer id, for transactions of ten seconds at most.
    pub(crate) fn init(&mut self, id: &str) -> Owner {
        self.init_for(id, 10_000)
    }

    pub(crate) fn init_for(&mut self, id: &str, timeout: i64) -> Owner {
        let timeout = Millis(timeout);
        for _ in 0..2 {
            let transactional_id = Some(id.to_owned());
            // If it fails, an open transaction was aborted: once more.
            if let Ok(owner) = self.ask(InitProducerId { transactional_id, timeout, given: None }) {
                return owner;
            }
        }
        panic!("no producer id for {id}");
    }

    pub(crate) fn stage_as(
        &mut self,
        id: &str,
        owner: Owner,
        member: &MemberRef,
        verify_only: bool,
        topics: Vec<TopicOffsets>,
    ) -> Results {
        let (producer_id, producer_epoch) = owner;
        let (transactional_id, member) = (id.to_owned(), member.clone());
        let stage =
            StageOffsets { transactional_id, producer_id, producer_epoch, verify_only, member, topics };
        self.ask(stage).concat().into_iter().map(kind).collect()
    }

    /// Stages one offset without a member.
    pub(crate) fn stage(&mut self, id: &str, owner: Owner, at: TopicPartition, offset: i64) {
        let result = self.stage_as(id, owner, &no_member(), false, vec![new_offset(at, offset)]);
        assert_eq!(result, [Ok(())]);
    }

    /// Ends a transaction at version 2; gives the next owner.
    pub(crate) fn end(&mut self, id: &str, owner: Owner, commit: bool) -> Owner {
        let (producer_id, producer_epoch) = owner;
        let transactional_id = id.to_owned();
        self.ask(EndTxn { transactional_id, producer_id, producer_epoch, commit, bump: true }).unwrap()
    }

    /// What OffsetFetch shows without asking for stable offsets.
    pub(crate) fn fetch(&self, at: TopicPartition) -> Option<i64> {
        match self.shard.offsets().fetch("g", at, false) {
            OffsetLookup::None => None,
            OffsetLookup::Offset(committed) => Some(committed.offset.0),
            OffsetLookup::Unstable => panic!("stable offsets were not requested"),
        }
    }

    pub(crate) fn is_unstable(&self, at: TopicPartition) -> bool {
        self.shard.offsets().fetch("g", at, true) == OffsetLookup::Unstable
    }

    pub(crate) fn delete_offsets(
        &mut self,
        partitions: &[TopicPartition],
    ) -> Result<Vec<Result<(), OffsetDeleteError>>, DeleteOffsetsError> {
        let topics = partitions.iter().map(|at| (TopicRef::Id(at.topic), vec![at.partition])).collect();
        let group_id = "g".to_owned();
        self.ask(DeleteOffsets { group_id, topics }).map(|results| results.concat())
    }
}
