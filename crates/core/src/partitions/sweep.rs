//! The regular work on partitions: old records, producers that are idle or too many.

use super::Partitions;
use super::retention::Keep;
use crate::catalog::Catalog;
use crate::effect::Effects;
use ottla_types::Millis;
use ottla_types::record::{LogStartMoved, ProducersExpired};

/// How often idle producers are looked for (Kafka's interval).
const PRODUCERS_EVERY: Millis = Millis(600_000);

/// Producers that one tick forgets at most because there are too many: a bound on the size of a step.
const EVICT_AT_ONCE: usize = 1024;

/// When the regular searches are next due. Volatile: a restart searches at once.
#[derive(Debug, Default)]
pub(super) struct Sweeps {
    retention: Millis,
    producers: Millis,
}

impl Partitions {
    /// When [`Partitions::tick`] has something to do.
    pub(crate) fn deadline(&self, catalog: &Catalog) -> Millis {
        if self.has_producers_over(catalog.settings().producers_max) {
            return Millis(0);
        }
        self.sweeps.retention.min(self.sweeps.producers)
    }

    /// No idle producer is forgotten before this span is over.
    pub(crate) fn postpone_producers(&mut self, now: Millis, span: Millis) {
        self.sweeps.producers = now.after(span);
    }

    /// `wall` is the wall time at `now`: old records and idle producers are judged by it.
    pub(crate) fn tick(&mut self, (now, wall): (Millis, Millis), catalog: &Catalog, out: &mut Effects) {
        self.evict_producers(catalog, out);
        if self.sweeps.retention <= now {
            self.sweeps.retention = now.after(catalog.settings().retention_check_interval);
            self.retain(wall, catalog, out);
        }
        if self.sweeps.producers <= now {
            self.sweeps.producers = now.after(PRODUCERS_EVERY);
            self.expire_producers(wall, catalog, out);
        }
    }

    fn retain(&self, now: Millis, catalog: &Catalog, out: &mut Effects) {
        for (at, partition) in self.iter() {
            let Some(topic) = catalog.topic(at.topic).filter(|topic| topic.settings.delete) else {
                continue;
            };
            let keep = Keep { time: topic.settings.retention, bytes: topic.settings.retention_bytes };
            if let Some(log_start) = partition.retained_from(now, keep) {
                out.append(LogStartMoved { partition: at, log_start });
            }
        }
    }

    /// Forgets the least recently used producers when there are too many. Those with transactions stay: theirs are
    /// bounded by the transactional ids.
    fn evict_producers(&mut self, catalog: &Catalog, out: &mut Effects) {
        let most = catalog.settings().producers_max;
        if !self.has_producers_over(most) {
            return;
        }
        // Some more than need be, so that not every new producer costs a record.
        for (partition, producers) in self.least_recently_used(most - most / 64, EVICT_AT_ONCE) {
            out.append(ProducersExpired { partition, producers });
        }
    }

    fn expire_producers(&self, now: Millis, catalog: &Catalog, out: &mut Effects) {
        let expiration = catalog.settings().producer_id_expiration;
        for (partition, state) in self.iter() {
            let producers = state.idle_producers(now, expiration);
            if !producers.is_empty() {
                out.append(ProducersExpired { partition, producers });
            }
        }
    }
}
