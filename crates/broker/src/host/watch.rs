//! Readers that wait for more of a partition.

use ottla_types::TopicPartition;
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

/// Who waits for which partition. A watch that was dropped is forgotten in time.
#[derive(Default)]
pub struct Watchers {
    waiting: HashMap<TopicPartition, Waiting>,
}

#[derive(Default)]
struct Waiting {
    readers: Vec<Weak<Notify>>,
    /// Clean up when the list reaches this length.
    clean_at: usize,
}

impl Watchers {
    /// Registers a wait on partitions.
    pub fn watch(&mut self, partitions: impl IntoIterator<Item = TopicPartition>) -> Watch {
        let notify = Arc::new(Notify::new());
        for partition in partitions {
            let waiting = self.waiting.entry(partition).or_default();
            if waiting.readers.len() >= waiting.clean_at {
                waiting.readers.retain(|reader| reader.strong_count() > 0);
                waiting.clean_at = 2 * waiting.readers.len() + 8;
            }
            waiting.readers.push(Arc::downgrade(&notify));
        }
        Watch(notify)
    }

    pub(super) fn advanced(&mut self, partition: TopicPartition) {
        let Some(waiting) = self.waiting.remove(&partition) else { return };
        for reader in waiting.readers {
            if let Some(reader) = reader.upgrade() {
                reader.notify_one();
            }
        }
    }
}
