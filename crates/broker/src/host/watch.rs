//! Readers that wait for more records of a partition, or for the end of the partition.

use ottla_types::TopicPartition;
use ottla_types::record::{CatalogRecord, LogRecord, PartitionRecord};
use std::collections::HashMap;
use std::sync::{Arc, Weak};
use tokio::sync::Notify;

/// A reader's wait: resolves when one of its partitions has more to read.
pub struct Watch(Arc<Notify>);

impl Watch {
    /// Waits until a watched partition advanced since the watch was registered.
    pub async fn advanced(&self) {
        self.0.notified().await;
    }
}

/// The readers that wait for each partition. Dropped watches are cleaned up later.
#[derive(Default)]
pub struct Watchers {
    waiting: HashMap<TopicPartition, PartitionReaders>,
    /// The broker stops: no reader waits any more.
    closed: bool,
}

#[derive(Default)]
struct PartitionReaders {
    readers: Vec<Weak<Notify>>,
    /// Clean up when the list reaches this length.
    clean_at: usize,
}

impl Watchers {
    /// Registers a wait on partitions; none if the broker stops, and the reader must answer with the records that it
    /// has.
    pub fn watch(&mut self, partitions: impl IntoIterator<Item = TopicPartition>) -> Option<Watch> {
        if self.closed {
            return None;
        }
        let notify = Arc::new(Notify::new());
        for partition in partitions {
            let waiting = self.waiting.entry(partition).or_default();
            if waiting.readers.len() >= waiting.clean_at {
                waiting.readers.retain(|reader| reader.strong_count() > 0);
                waiting.clean_at = 2 * waiting.readers.len() + 8;
            }
            waiting.readers.push(Arc::downgrade(&notify));
        }
        Some(Watch(notify))
    }

    /// Ends all waits: the broker stops.
    pub(crate) fn close(&mut self) {
        self.closed = true;
        for (_, waiting) in self.waiting.drain() {
            waiting.notify();
        }
    }

    /// Wakes the readers of partitions that a record ends or whose first offset it moves.
    pub(super) fn applied(&mut self, record: &LogRecord) {
        match record {
            LogRecord::Catalog(CatalogRecord::TopicDeleted(deleted)) => {
                for (_, waiting) in self.waiting.extract_if(|at, _| at.topic == deleted.id) {
                    waiting.notify();
                }
            }
            LogRecord::Partitions(PartitionRecord::LogStartMoved(moved)) => self.advanced(moved.partition),
            // These records end no wait.
            LogRecord::Catalog(_)
            | LogRecord::Partitions(_)
            | LogRecord::Transactions(_)
            | LogRecord::Groups(_)
            | LogRecord::Offsets(_)
            | LogRecord::Acls(_)
            | LogRecord::Users(_)
            | LogRecord::Quotas(_)
            | LogRecord::SnapshotReached(_) => {}
        }
    }

    pub(super) fn advanced(&mut self, partition: TopicPartition) {
        let Some(waiting) = self.waiting.remove(&partition) else { return };
        waiting.notify();
    }
}

impl PartitionReaders {
    fn notify(self) {
        for reader in self.readers.iter().filter_map(Weak::upgrade) {
            reader.notify_one();
        }
    }
}
