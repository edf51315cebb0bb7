//! What time brings: overdue transactions, expired ids, idle producers, old records.

use crate::effect::Effects;
use crate::partition::Keep;
use crate::shard::Shard;
use ottla_types::Millis;
use ottla_types::record::{LogStartMoved, ProducersExpired};

/// How often idle producers are looked for (Kafka's interval).
const PRODUCERS_EVERY: Millis = Millis(600_000);

/// Producers that one tick forgets at most because there are too many: a bound on the size of a step.
const EVICT_AT_ONCE: usize = 1024;

/// When the regular searches are next due. Volatile: a restart searches at once.
#[derive(Debug, Default)]
pub(crate) struct Sweeps {
    retention: Millis,
    producers: Millis,
}

impl Sweeps {
    /// No idle producer is forgotten before this span is over.
    pub(crate) fn postpone_producers(&mut self, now: Millis, span: Millis) {
        self.producers = now.after(span);
    }
}

impl Shard {
    /// Whether there are more producers than `ottla.producers.max`, so that the next tick forgets some before they expire.
    pub fn forgets_producers(&self) -> bool {
        self.partitions.has_producers_over(self.catalog.settings().producers_max)
    }

    /// When [`Shard::sweep`] has something to do.
    pub(crate) fn next_sweep(&self) -> Millis {
        if self.forgets_producers() {
            return Millis(0);
        }
        let regular = self.sweeps.retention.min(self.sweeps.producers);
        self.transactions.deadline().map_or(regular, |due| due.min(regular))
    }

    pub(crate) fn sweep(&mut self, now: Millis, out: &mut Effects) {
        // One at a time: the next one's markers take offsets after these. The deadline stays in the past until all are done.
        if let Some(decision) = self.transactions.overdue(now, out) {
            self.end(decision, out);
        }
        self.transactions.forget_idle(now, out);
        self.evict_producers(out);
        if self.sweeps.retention <= now {
            self.sweeps.retention = now.after(self.catalog.settings().retention_check_interval);
            self.retain(self.wall(now), out);
        }
        if self.sweeps.producers <= now {
            self.sweeps.producers = now.after(PRODUCERS_EVERY);
            self.expire_producers(self.wall(now), out);
        }
    }

    fn retain(&self, now: Millis, out: &mut Effects) {
        for (at, partition) in self.partitions.iter() {
            let Some(topic) = self.catalog.topic(at.topic).filter(|topic| topic.settings.delete) else {
                continue;
            };
            let keep = Keep { time: topic.settings.retention, bytes: topic.settings.retention_bytes };
            if let Some(log_start) = partition.retained_from(now, keep) {
                out.append(LogStartMoved { partition: at, log_start });
            }
        }
    }

    /// Forgets the producers used least lately when there are too many. Those with transactions stay: theirs are bounded by the
    /// transactional ids.
    fn evict_producers(&mut self, out: &mut Effects) {
        let most = self.catalog.settings().producers_max;
        if !self.partitions.has_producers_over(most) {
            return;
        }
        // Some more than need be, so that not every new producer costs a record.
        for (partition, producers) in self.partitions.least_lately(most - most / 64, EVICT_AT_ONCE) {
            out.append(ProducersExpired { partition, producers });
        }
    }

    fn expire_producers(&self, now: Millis, out: &mut Effects) {
        let expiration = self.catalog.settings().producer_id_expiration;
        for (partition, state) in self.partitions.iter() {
            let producers = state.idle_producers(now, expiration);
            if !producers.is_empty() {
                out.append(ProducersExpired { partition, producers });
            }
        }
    }
}
