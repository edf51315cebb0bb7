//! What time brings: overdue transactions, expired ids, idle producers, old records.

use crate::effect::Effects;
use crate::partition::Keep;
use crate::shard::Shard;
use ottla_types::Millis;
use ottla_types::record::{LogRecord, LogStartMoved, ProducersExpired};

/// How often idle producers are looked for (Kafka's interval).
const PRODUCERS_EVERY: Millis = Millis(600_000);

/// When the regular searches are next due. Volatile: a restart searches at once.
#[derive(Debug, Default)]
pub(crate) struct Sweeps {
    retention: Millis,
    producers: Millis,
}

impl Shard {
    /// When [`Shard::sweep`] has something to do.
    pub(crate) fn next_sweep(&self) -> Millis {
        let regular = self.sweeps.retention.min(self.sweeps.producers);
        self.transactions.deadline().map_or(regular, |due| due.min(regular))
    }

    pub(crate) fn sweep(&mut self, now: Millis, out: &mut Effects) {
        // One at a time: the next one's markers take offsets after these. The deadline stays in the past until all are done.
        if let Some(decision) = self.transactions.overdue(now, out) {
            self.end(decision, out);
        }
        self.transactions.forget_idle(now, out);
        if self.sweeps.retention <= now {
            self.sweeps.retention = now.after(self.catalog.settings().retention_check_interval);
            self.retain(now, out);
        }
        if self.sweeps.producers <= now {
            self.sweeps.producers = now.after(PRODUCERS_EVERY);
            self.expire_producers(now, out);
        }
    }

    fn retain(&self, now: Millis, out: &mut Effects) {
        for (at, partition) in self.partitions.iter() {
            let Some(topic) = self.catalog.topic(at.topic).filter(|topic| topic.settings.delete) else {
                continue;
            };
            let keep = Keep { time: topic.settings.retention, bytes: topic.settings.retention_bytes };
            if let Some(log_start) = partition.retained_from(now, keep) {
                out.append(LogRecord::LogStartMoved(LogStartMoved { partition: at, log_start }));
            }
        }
    }

    fn expire_producers(&self, now: Millis, out: &mut Effects) {
        let expiration = self.catalog.settings().producer_id_expiration;
        for (partition, state) in self.partitions.iter() {
            let producers = state.idle_producers(now, expiration);
            if !producers.is_empty() {
                out.append(LogRecord::ProducersExpired(ProducersExpired { partition, producers }));
            }
        }
    }
}
