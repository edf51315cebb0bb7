//! When a partition is compacted, and up to where.

use crate::config::CompactionLimits;
use ottla_types::{Millis, Offset};

/// A part or a batch of a partition, as far as this decision needs it.
#[derive(Clone, Copy, Debug)]
pub struct Stretch {
    /// Its first offset.
    pub base_offset: Offset,
    /// Its last offset.
    pub last_offset: Offset,
    /// Its bytes.
    pub bytes: u64,
    /// The largest timestamp of its records; when it was appended, if they have none.
    pub newest: Millis,
    /// A pass has seen it.
    pub clean: bool,
    /// The earliest time at which a pass can take something more out of it, though it is clean. -1 for never.
    pub horizon: Millis,
}

/// What a pass would look at: whole parts and batches.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Cleanable {
    /// The first offset of the partition's first part or batch.
    pub from: Offset,
    /// The first offset that no pass has seen; past `to` if there is none.
    pub dirty: Offset,
    /// The last offset of the last part or batch.
    pub to: Offset,
    /// Bytes between `from` and `to`.
    pub bytes: u64,
    /// The share of those that no pass has seen, from 0 to 1.
    pub ratio: f64,
}

/// What can be compacted of a partition, if it is time to. `stable` is its last stable offset: nothing undecided is
/// looked at. `bytes` are those of all its stretches, which come in order of offset.
///
/// Kafka never compacts its active segment. Here that is the end of the partition: what is younger than `segment.ms`,
/// or than `max.compaction.lag.ms` if that is shorter, and is among the last `segment.bytes` of the partition.
pub fn cleanable(
    now: Millis,
    limits: &CompactionLimits,
    stable: Offset,
    bytes: u64,
    stretches: impl IntoIterator<Item = Stretch>,
) -> Option<Cleanable> {
    let active_for = limits.segment_ms.min(limits.max_lag);
    let mut found: Option<Cleanable> = None;
    let (mut before, mut dirty_bytes) = (0, 0);
    let (mut overdue, mut expired) = (false, false);
    for stretch in stretches {
        let age = now.since(stretch.newest);
        let is_active = age < active_for && bytes.saturating_sub(before) <= limits.segment_bytes;
        let is_fresh = age < limits.min_lag;
        // What was seen once is looked at again, whatever the limits have become.
        let is_open = !stretch.clean && (is_active || is_fresh);
        if stretch.last_offset >= stable || is_open {
            break;
        }
        before += stretch.bytes;
        let so_far = found.get_or_insert(Cleanable {
            from: stretch.base_offset,
            dirty: stretch.base_offset,
            to: stretch.last_offset,
            bytes: 0,
            ratio: 0.0,
        });
        so_far.to = stretch.last_offset;
        so_far.bytes = before;
        if stretch.clean && dirty_bytes == 0 {
            so_far.dirty = stretch.last_offset.plus(1);
            expired |= stretch.horizon >= Millis(0) && stretch.horizon <= now;
        } else {
            dirty_bytes += stretch.bytes;
            overdue |= age >= limits.max_lag;
        }
    }
    let mut found = found?;
    found.ratio = dirty_bytes as f64 / found.bytes.max(1) as f64;
    (found.ratio > limits.dirty_ratio || overdue || expired).then_some(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMITS: CompactionLimits = CompactionLimits {
        min_lag: Millis(0),
        max_lag: Millis(i64::MAX),
        dirty_ratio: 0.5,
        segment_ms: Millis(1000),
        segment_bytes: 1000,
    };

    /// Ten offsets and a hundred bytes each, appended at 0, 100, 200 and so on.
    fn stretches(clean: i64, count: i64) -> Vec<Stretch> {
        let one = |number: i64| Stretch {
            base_offset: Offset(10 * number),
            last_offset: Offset(10 * number + 9),
            bytes: 100,
            newest: Millis(100 * number),
            clean: number < clean,
            horizon: Millis::NONE,
        };
        (0..count).map(one).collect()
    }

    fn to(now: i64, limits: &CompactionLimits, stable: i64, clean: i64) -> Option<i64> {
        let found = cleanable(Millis(now), limits, Offset(stable), 1000, stretches(clean, 10))?;
        assert_eq!((found.from, found.dirty), (Offset(0), Offset(10 * clean)));
        assert_eq!(found.bytes as i64, 10 * (found.to.0 + 1));
        Some(found.to.0)
    }

    #[test]
    fn the_active_end_is_what_is_young_and_little() {
        assert_eq!(to(999, &LIMITS, 100, 0), None);
        assert_eq!(to(1000, &LIMITS, 100, 0), Some(9));
        assert_eq!(to(1350, &LIMITS, 100, 0), Some(39));
        assert_eq!(to(1900, &LIMITS, 100, 0), Some(99));
        let small = CompactionLimits { segment_bytes: 400, ..LIMITS };
        assert_eq!(to(900, &small, 100, 0), Some(59));
        let soon = CompactionLimits { max_lag: Millis(600), ..LIMITS };
        assert_eq!(to(900, &soon, 100, 0), Some(39));
    }

    #[test]
    fn nothing_undecided_and_nothing_fresh_is_compacted() {
        assert_eq!(to(9000, &LIMITS, 100, 0), Some(99));
        assert_eq!(to(9000, &LIMITS, 99, 0), Some(89));
        assert_eq!(to(9000, &LIMITS, 9, 0), None);
        let lag = CompactionLimits { min_lag: Millis(8500), ..LIMITS };
        assert_eq!(to(9000, &lag, 100, 0), Some(59));
        let mut late = stretches(0, 10);
        late[3].newest = Millis(8999);
        let found = cleanable(Millis(9900), &lag, Offset(100), 1000, late).unwrap();
        assert_eq!(found.to, Offset(29));
    }

    #[test]
    fn a_partition_is_due_by_ratio_by_lag_or_by_a_horizon() {
        assert_eq!(to(9000, &LIMITS, 100, 4), Some(99));
        assert_eq!(to(9000, &LIMITS, 100, 5), None);
        let lag = CompactionLimits { max_lag: Millis(8500), ..LIMITS };
        assert_eq!(to(8999, &lag, 100, 5), None);
        assert_eq!(to(9000, &lag, 100, 5), Some(99));
        assert_eq!(to(9000, &lag, 100, 10), None);
        let never = CompactionLimits { dirty_ratio: 1.0, ..LIMITS };
        assert_eq!(to(9000, &never, 100, 0), None);
        let always = CompactionLimits { dirty_ratio: 0.0, ..LIMITS };
        assert_eq!(to(9000, &always, 100, 9), Some(99));
        assert_eq!(to(9000, &always, 100, 10), None);
        let mut marked = stretches(9, 10);
        marked[2].horizon = Millis(9001);
        assert_eq!(cleanable(Millis(9000), &LIMITS, Offset(100), 1000, marked.clone()), None);
        let found = cleanable(Millis(9001), &LIMITS, Offset(100), 1000, marked).unwrap();
        assert_eq!((found.dirty, found.to), (Offset(90), Offset(99)));
    }

    #[test]
    fn what_was_seen_once_is_seen_again_though_it_became_active() {
        let long = CompactionLimits {
            segment_ms: Millis(100_000),
            segment_bytes: 100_000,
            dirty_ratio: 0.0,
            ..LIMITS
        };
        let mut marked = stretches(3, 10);
        marked[1].horizon = Millis(5);
        let found = cleanable(Millis(9000), &long, Offset(100), 1000, marked).unwrap();
        assert_eq!((found.dirty, found.to), (Offset(30), Offset(29)));
    }
}
