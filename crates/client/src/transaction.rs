//! A producer's transactions: begin, send, send offsets, then commit or abort.
//!
//! ```text
//!             begin               commit, abort
//!   (none) ───────────▶ open ──────────────────────▶ (none)
//!                        │ a send or an offset fails      ▲
//!                        ▼                                │
//!                     broken ─────────── abort ───────────┘
//! ```

use crate::client::Client;
use crate::cluster::Coordinator;
use crate::commit::{GroupOffset, Membership};
use crate::error::{ClientError, check};
use crate::producer::{Producer, Transaction};
use ottla_types::{ProducerEpoch, ProducerId};
use ottla_wire::Versions;
use ottla_wire::messages::add_partitions_to_txn_request::AddPartitionsToTxnTopic;
use ottla_wire::messages::txn_offset_commit_request::{
    TxnOffsetCommitRequestPartition, TxnOffsetCommitRequestTopic,
};
use ottla_wire::messages::{
    AddOffsetsToTxnRequest, AddPartitionsToTxnRequest, EndTxnRequest, EndTxnResponse, TxnOffsetCommitRequest,
};
use std::collections::BTreeSet;

/// The feature level from which Produce and TxnOffsetCommit add to the transaction and EndTxn bumps the epoch (T-03).
const ADDS_BY_ITSELF: i16 = 2;

impl Producer {
    /// Opens a transaction. Nothing is sent yet; the transaction timeout starts with the first record or offset.
    pub async fn begin(&mut self) -> Result<(), ClientError> {
        if self.options.transactional_id.is_none() {
            return Err(ClientError::Misuse("the producer has no transactional id".to_owned()));
        }
        if self.transaction.is_some() {
            return Err(ClientError::Misuse("a transaction is already open".to_owned()));
        }
        if let Some(reason) = &self.broken {
            return Err(ClientError::Misuse(format!(
                "the producer cannot go on, start another one: {reason}"
            )));
        }
        let level = self.client.finalized_feature("transaction.version").await?;
        self.transaction = Some(Transaction {
            adds_by_itself: level >= ADDS_BY_ITSELF,
            partitions: BTreeSet::new(),
            groups: BTreeSet::new(),
        });
        Ok(())
    }

    /// Puts a group's offsets into the transaction: they are committed if and when it is.
    pub async fn send_offsets(
        &mut self,
        group: &Membership,
        offsets: &[GroupOffset],
    ) -> Result<(), ClientError> {
        self.check_open()?;
        self.join_group(&group.group_id).await?;
        let what = format!("offsets of group {:?} to be taken", group.group_id);
        let sent = self.client.retrying(&what, || self.offsets_once(group, offsets)).await;
        sent.map_err(|error| self.breaks(error))
    }

    /// Commits the transaction: makes its records and offsets visible atomically.
    pub async fn commit(&mut self) -> Result<(), ClientError> {
        self.check_open()?;
        self.end(true).await
    }

    /// Aborts the transaction: discards its records and offsets, and clears an earlier failure.
    pub async fn abort(&mut self) -> Result<(), ClientError> {
        if self.transaction.is_none() {
            return Err(ClientError::Misuse("no transaction is open".to_owned()));
        }
        self.end(false).await
    }

    fn check_open(&self) -> Result<(), ClientError> {
        match (&self.transaction, &self.broken) {
            (None, _) => Err(ClientError::Misuse("no transaction is open".to_owned())),
            (_, Some(reason)) => Err(ClientError::Misuse(format!(
                "the transaction has to be aborted, because something in it failed: {reason}"
            ))),
            _ => Ok(()),
        }
    }

    /// Ends the transaction. For an empty one nothing is sent (T-109).
    async fn end(&mut self, commit: bool) -> Result<(), ClientError> {
        let Some(transaction) = &self.transaction else { return Ok(()) };
        let bumps = transaction.adds_by_itself;
        if !transaction.is_empty() {
            let what = if commit { "the commit" } else { "the abort" };
            let ended = self.client.retrying(what, || self.end_once(commit, bumps)).await;
            let ended = ended.map_err(|error| self.breaks(error))?;
            if bumps && ended.producer_id >= 0 {
                self.id = ProducerId(ended.producer_id);
                self.epoch = ProducerEpoch(ended.producer_epoch);
                self.sequences.clear();
            }
        }
        self.transaction = None;
        if self.broken.is_some() && !bumps {
            // Which sequence numbers arrived is unknown: a new epoch begins with sequence number 0.
            self.init().await?;
        }
        self.broken = None;
        Ok(())
    }

    async fn end_once(&self, committed: bool, bumps: bool) -> Result<EndTxnResponse, ClientError> {
        let id = self.transactional_id();
        let node = self.client.coordinator(Coordinator::Transaction, id).await?;
        let request = EndTxnRequest {
            transactional_id: id.into(),
            producer_id: self.id.0,
            producer_epoch: self.epoch.0,
            committed,
            ..Default::default()
        };
        let versions = if bumps { Versions::new(5, i16::MAX) } else { Versions::new(0, 4) };
        let answer = self.client.call_within(node, request, versions).await?;
        check(answer.error_code, "EndTxn", || format!("transactional id {id:?}"))?;
        Ok(answer)
    }

    /// Sends partitions that are new in the transaction to the coordinator, if Produce does not add them itself.
    pub(crate) async fn join_transaction(
        &mut self,
        topic: &str,
        partitions: Vec<i32>,
    ) -> Result<(), ClientError> {
        let Some(transaction) = &mut self.transaction else { return Ok(()) };
        let is_new = |partition: &i32| transaction.partitions.insert((topic.to_owned(), *partition));
        let fresh: Vec<i32> = partitions.into_iter().filter(is_new).collect();
        if fresh.is_empty() || transaction.adds_by_itself {
            return Ok(());
        }
        let what = "partitions to join the transaction";
        let added = self.client.retrying(what, || self.add_partitions_once(topic, &fresh)).await;
        added.map_err(|error| self.breaks(error))
    }

    async fn add_partitions_once(&self, topic: &str, partitions: &[i32]) -> Result<(), ClientError> {
        let id = self.transactional_id();
        let node = self.client.coordinator(Coordinator::Transaction, id).await?;
        let request = AddPartitionsToTxnRequest {
            v3_and_below_transactional_id: id.into(),
            v3_and_below_producer_id: self.id.0,
            v3_and_below_producer_epoch: self.epoch.0,
            v3_and_below_topics: vec![AddPartitionsToTxnTopic {
                name: topic.into(),
                partitions: partitions.into(),
                ..Default::default()
            }],
            ..Default::default()
        };
        let answer = self.client.call(node, request).await?;
        for result in &answer.results_by_topic_v3_and_below {
            for partition in &result.results_by_partition {
                let about = || format!("partition {} of topic {:?}", partition.partition_index, topic);
                check(partition.partition_error_code, "AddPartitionsToTxn", about)?;
            }
        }
        Ok(())
    }

    async fn join_group(&mut self, group: &str) -> Result<(), ClientError> {
        let Some(transaction) = &mut self.transaction else { return Ok(()) };
        if !transaction.groups.insert(group.to_owned()) || transaction.adds_by_itself {
            return Ok(());
        }
        let added =
            self.client.retrying("the group to join the transaction", || self.add_group_once(group)).await;
        added.map_err(|error| self.breaks(error))
    }

    async fn add_group_once(&self, group: &str) -> Result<(), ClientError> {
        let id = self.transactional_id();
        let node = self.client.coordinator(Coordinator::Transaction, id).await?;
        let request = AddOffsetsToTxnRequest {
            transactional_id: id.into(),
            producer_id: self.id.0,
            producer_epoch: self.epoch.0,
            group_id: group.into(),
            ..Default::default()
        };
        let answer = self.client.call(node, request).await?;
        check(answer.error_code, "AddOffsetsToTxn", || format!("group {group:?}"))
    }

    async fn offsets_once(&self, group: &Membership, offsets: &[GroupOffset]) -> Result<(), ClientError> {
        let node = self.client.coordinator(Coordinator::Group, &group.group_id).await?;
        let adds = self.transaction.as_ref().is_some_and(|transaction| transaction.adds_by_itself);
        let versions = if adds { Versions::new(5, i16::MAX) } else { Versions::new(0, 4) };
        let request = TxnOffsetCommitRequest {
            transactional_id: self.transactional_id().into(),
            group_id: group.group_id.as_str().into(),
            producer_id: self.id.0,
            producer_epoch: self.epoch.0,
            generation_id_or_member_epoch: group.generation,
            member_id: group.member_id.as_str().into(),
            topics: offset_topics(&self.client, offsets).await?,
            ..Default::default()
        };
        let answer = self.client.call_within(node, request, versions).await?;
        for topic in &answer.topics {
            for partition in &topic.partitions {
                let about = || format!("group {:?}, partition {}", group.group_id, partition.partition_index);
                check(partition.error_code, "TxnOffsetCommit", about)?;
            }
        }
        Ok(())
    }

    fn transactional_id(&self) -> &str {
        self.options.transactional_id.as_deref().unwrap_or_default()
    }
}

async fn offset_topics(
    client: &Client,
    offsets: &[GroupOffset],
) -> Result<Vec<TxnOffsetCommitRequestTopic>, ClientError> {
    let mut topics: Vec<TxnOffsetCommitRequestTopic> = Vec::new();
    for offset in offsets {
        let place = match topics.iter().position(|topic| topic.name == *offset.topic) {
            Some(place) => place,
            None => {
                let known = client.topic(&offset.topic, false).await?;
                topics.push(TxnOffsetCommitRequestTopic {
                    name: offset.topic.as_str().into(),
                    topic_id: known.id,
                    ..Default::default()
                });
                topics.len() - 1
            }
        };
        topics[place].partitions.push(TxnOffsetCommitRequestPartition {
            partition_index: offset.partition,
            committed_offset: offset.offset,
            ..Default::default()
        });
    }
    Ok(topics)
}
