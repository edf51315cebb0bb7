//! Fetch sessions (KIP-227): the client names its partitions once, and then only what changes.
//!
//! ```text
//!   id 0, epoch 0          id, epoch 1, 2, …          id, epoch -1
//!  ──────────────▶ open ─────────────────────▶ open ──────────────▶ (closed)
//! ```

use crate::Randomness;
use crate::reading::{PartitionRead, TopicKey};
use ottla_types::Offset;
use ottla_wire::messages::FetchRequest;
use ottla_wire::messages::fetch_request::FetchPartition;
use ottla_wire::messages::fetch_response::PartitionData;
use ottla_wire::{Text, Uuid};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Sessions at once (Kafka's default of `max.incremental.fetch.session.cache.slots`).
const SLOTS: usize = 1000;
/// A session that was not used for this long may be evicted for another.
const IDLE: Duration = Duration::from_secs(120);
/// Partitions of all sessions together; bounds the memory.
const PARTITIONS: usize = 30_000;

const INITIAL_EPOCH: i32 = 0;
const FINAL_EPOCH: i32 = -1;

/// What a request reads, once its session has been looked up.
#[derive(Debug)]
pub(crate) struct FetchTargets {
    pub(crate) reads: Vec<PartitionRead>,
    /// The session of the response; none for a request without one.
    pub(crate) session: Option<SessionRef>,
}

/// The session of a response.
#[derive(Debug)]
pub(crate) struct SessionRef {
    pub(crate) id: i32,
    /// Whether the response shows only partitions with news.
    incremental: bool,
}

/// Why a request does not fit its session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SessionError {
    UnknownId,
    WrongEpoch,
    /// The session has topic names and the request topic ids, or the reverse.
    WrongTopicKeys,
}

/// All fetch sessions of the broker. Clones share them.
#[derive(Clone, Debug, Default)]
pub(crate) struct FetchSessions {
    table: Arc<Mutex<Table>>,
    randomness: Randomness,
}

#[derive(Debug, Default)]
struct Table {
    sessions: BTreeMap<i32, FetchSession>,
    partitions: usize,
}

type Key = (TopicKey, i32);

#[derive(Debug)]
struct FetchSession {
    /// The epoch that the next request must carry.
    next_epoch: i32,
    by_id: bool,
    used: Instant,
    /// Partitions in the order in which they are read. A partition with data moves to the end, so that all get their
    /// share.
    order: BTreeMap<u64, SessionPartition>,
    /// The place of each partition in `order`.
    places: BTreeMap<Key, u64>,
    next_place: u64,
}

#[derive(Debug)]
struct SessionPartition {
    read: PartitionRead,
    /// High watermark and log start of the last response; none before the first response and after an error.
    last_bounds: Option<(i64, i64)>,
}

impl FetchSessions {
    /// No sessions yet. `randomness` gives their ids.
    pub(crate) fn new(randomness: Randomness) -> FetchSessions {
        FetchSessions { table: Arc::default(), randomness }
    }

    /// Opens, changes or closes the session of a request, and returns what the request reads.
    ///
    /// # Errors
    /// The session is unknown, or expects another request.
    pub(crate) fn begin(&self, request: FetchRequest, version: i16) -> Result<FetchTargets, SessionError> {
        let by_id = version >= 13;
        let (id, epoch) = (request.session_id, request.session_epoch);
        if version < 7 || epoch == FINAL_EPOCH || epoch == INITIAL_EPOCH {
            let (reads, _) = partitions(request, by_id);
            let mut table = self.lock();
            table.remove(id);
            let opens = version >= 7 && epoch == INITIAL_EPOCH;
            let session = if opens { table.open(&reads, by_id, &self.randomness) } else { None };
            let session = session.map(|id| SessionRef { id, incremental: false });
            return Ok(FetchTargets { reads, session });
        }
        let mut table = self.lock();
        let Table { sessions, partitions: count } = &mut *table;
        let session = sessions.get_mut(&id).ok_or(SessionError::UnknownId)?;
        if session.next_epoch != epoch {
            return Err(SessionError::WrongEpoch);
        }
        if session.by_id != by_id {
            return Err(SessionError::WrongTopicKeys);
        }
        session.next_epoch = epoch.checked_add(1).unwrap_or(1);
        session.used = Instant::now();
        let before = session.order.len();
        let (reads, forgotten) = partitions(request, by_id);
        forgotten.iter().for_each(|key| session.forget(key));
        reads.into_iter().for_each(|read| session.put(read));
        *count = *count + session.order.len() - before;
        let reads = session.order.values().map(|partition| partition.read.clone()).collect();
        Ok(FetchTargets { reads, session: Some(SessionRef { id, incremental: true }) })
    }

    /// Notes what the response shows. Replaces the rows that an incremental response leaves out by none.
    pub(crate) fn finish(
        &self,
        session_ref: &SessionRef,
        reads: &[PartitionRead],
        rows: Vec<PartitionData>,
    ) -> Vec<Option<PartitionData>> {
        let mut table = self.lock();
        let Some(session) = table.sessions.get_mut(&session_ref.id) else {
            return rows.into_iter().map(Some).collect();
        };
        let show = |(read, row): (&PartitionRead, PartitionData)| {
            let news = session.note(&(read.topic.clone(), read.partition), &row);
            (news || !session_ref.incremental).then_some(row)
        };
        reads.iter().zip(rows).map(show).collect()
    }

    fn lock(&self) -> MutexGuard<'_, Table> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Table {
    fn remove(&mut self, id: i32) {
        if let Some(session) = self.sessions.remove(&id) {
            self.partitions -= session.order.len();
        }
    }

    /// Opens a session and returns its id; none if the limits do not allow another session.
    fn open(&mut self, reads: &[PartitionRead], by_id: bool, randomness: &Randomness) -> Option<i32> {
        if self.sessions.len() >= SLOTS || self.partitions + reads.len() > PARTITIONS {
            self.evict_idle()?;
        }
        if self.partitions + reads.len() > PARTITIONS {
            return None;
        }
        let id = self.unused_id(randomness)?;
        let mut session = FetchSession {
            next_epoch: 1,
            by_id,
            used: Instant::now(),
            order: BTreeMap::new(),
            places: BTreeMap::new(),
            next_place: 0,
        };
        reads.iter().for_each(|read| session.put(read.clone()));
        self.partitions += session.order.len();
        self.sessions.insert(id, session);
        Some(id)
    }

    /// Removes the session that was unused for longest, if that is at least [`IDLE`].
    fn evict_idle(&mut self) -> Option<()> {
        let oldest = self.sessions.iter().min_by_key(|(_, session)| session.used);
        let id = oldest.filter(|(_, session)| session.used.elapsed() >= IDLE).map(|(id, _)| *id)?;
        self.remove(id);
        Some(())
    }

    /// A random id, so that a client from before a restart does not use another client's session.
    fn unused_id(&self, randomness: &Randomness) -> Option<i32> {
        for _ in 0..16 {
            let mut bytes = [0; 4];
            randomness.fill(&mut bytes).ok()?;
            let id = i32::from_be_bytes(bytes) & i32::MAX;
            if id != 0 && !self.sessions.contains_key(&id) {
                return Some(id);
            }
        }
        None
    }
}

impl FetchSession {
    fn put(&mut self, read: PartitionRead) {
        let key = (read.topic.clone(), read.partition);
        if let Some(known) = self.places.get(&key).and_then(|place| self.order.get_mut(place)) {
            known.read = read;
            return;
        }
        self.append(key, SessionPartition { read, last_bounds: None });
    }

    fn append(&mut self, key: Key, partition: SessionPartition) {
        self.places.insert(key, self.next_place);
        self.order.insert(self.next_place, partition);
        self.next_place += 1;
    }

    fn forget(&mut self, key: &Key) {
        if let Some(place) = self.places.remove(key) {
            self.order.remove(&place);
        }
    }

    /// Notes a row. Returns whether it is news to the client: data, an error, or a bound that moved.
    fn note(&mut self, key: &Key, row: &PartitionData) -> bool {
        let known = self.places.get(key).and_then(|place| self.order.get_mut(place));
        let Some(partition) = known else { return true };
        let bounds = (row.error_code == 0).then_some((row.high_watermark, row.log_start_offset));
        let has_data = row.records.as_ref().is_some_and(|records| !records.is_empty());
        let news = has_data || bounds.is_none() || bounds != partition.last_bounds;
        partition.last_bounds = bounds;
        if has_data
            && let Some(place) = self.places.remove(key)
            && let Some(partition) = self.order.remove(&place)
        {
            self.append(key.clone(), partition);
        }
        news
    }
}

/// The partitions that a request reads, and those that it removes from its session.
fn partitions(request: FetchRequest, by_id: bool) -> (Vec<PartitionRead>, Vec<Key>) {
    let mut reads = Vec::new();
    for topic in request.topics {
        let key = topic_key(&topic.topic, topic.topic_id, by_id);
        reads.extend(topic.partitions.iter().map(|partition| partition_read(key.clone(), partition)));
    }
    let mut forgotten = Vec::new();
    for topic in request.forgotten_topics_data {
        let key = topic_key(&topic.topic, topic.topic_id, by_id);
        forgotten.extend(topic.partitions.iter().map(|partition| (key.clone(), partition)));
    }
    (reads, forgotten)
}

fn partition_read(topic: TopicKey, asked: &FetchPartition) -> PartitionRead {
    PartitionRead {
        topic,
        partition: asked.partition,
        from: Offset(asked.fetch_offset),
        max_bytes: u64::try_from(asked.partition_max_bytes).unwrap_or(0),
        leader_epoch: asked.current_leader_epoch,
        last_fetched_epoch: asked.last_fetched_epoch,
    }
}

fn topic_key(name: &str, id: Uuid, by_id: bool) -> TopicKey {
    // The name is copied: a session must not keep the frame of the request in memory.
    if by_id { TopicKey::Id(id) } else { TopicKey::Name(Text::from(name)) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ottla_wire::Records;
    use ottla_wire::messages::fetch_request::{FetchTopic, ForgottenTopic};

    fn request(id: i32, epoch: i32, partitions: &[i32]) -> FetchRequest {
        let part = |partition: &i32| FetchPartition { partition: *partition, ..Default::default() };
        let topic = FetchTopic {
            topic: "t".into(),
            partitions: partitions.iter().map(part).collect(),
            ..Default::default()
        };
        FetchRequest { session_id: id, session_epoch: epoch, topics: vec![topic], ..Default::default() }
    }

    fn row(high_watermark: i64, data: &'static [u8]) -> PartitionData {
        let records = Some(Records::from(bytes::Bytes::from_static(data)));
        PartitionData { high_watermark, records, ..Default::default() }
    }

    fn indexes(targets: &FetchTargets) -> Vec<i32> {
        targets.reads.iter().map(|read| read.partition).collect()
    }

    #[test]
    fn only_news_is_shown_and_a_partition_with_data_moves_to_the_end() {
        let sessions = FetchSessions::default();
        let targets = sessions.begin(request(0, 0, &[0, 1]), 12).unwrap();
        let session = targets.session.as_ref().unwrap();
        let id = session.id;
        let shown = sessions.finish(session, &targets.reads, vec![row(5, b"x"), row(0, b"")]);
        assert!(shown.iter().all(Option::is_some), "the first answer shows all");
        let targets = sessions.begin(request(id, 1, &[]), 12).unwrap();
        assert_eq!(indexes(&targets), [1, 0]);
        let rows = vec![row(0, b""), row(6, b"")];
        let shown = sessions.finish(targets.session.as_ref().unwrap(), &targets.reads, rows);
        assert_eq!(shown.iter().map(Option::is_some).collect::<Vec<_>>(), [false, true]);
    }

    #[test]
    fn requests_add_and_forget_partitions() {
        let sessions = FetchSessions::default();
        let id = sessions.begin(request(0, 0, &[0, 1]), 12).unwrap().session.unwrap().id;
        let mut change = request(id, 1, &[2]);
        change.forgotten_topics_data = vec![ForgottenTopic {
            topic: "t".into(),
            partitions: [0].into_iter().collect(),
            ..Default::default()
        }];
        assert_eq!(indexes(&sessions.begin(change, 12).unwrap()), [1, 2]);
    }

    #[test]
    fn requests_that_do_not_fit_the_session_are_refused() {
        let sessions = FetchSessions::default();
        let id = sessions.begin(request(0, 0, &[0]), 12).unwrap().session.unwrap().id;
        let error = |id, epoch, version| sessions.begin(request(id, epoch, &[]), version).err();
        assert_eq!(error(id, 2, 12), Some(SessionError::WrongEpoch));
        assert_eq!(error(id, 1, 13), Some(SessionError::WrongTopicKeys));
        assert_eq!(error(id ^ 1, 1, 12), Some(SessionError::UnknownId));
        let closing = sessions.begin(request(id, -1, &[0]), 12).unwrap();
        assert!(closing.session.is_none());
        assert_eq!(error(id, 1, 12), Some(SessionError::UnknownId));
    }

    #[test]
    fn a_full_table_opens_no_more_sessions() {
        let sessions = FetchSessions::default();
        for _ in 0..SLOTS {
            assert!(sessions.begin(request(0, 0, &[0]), 12).unwrap().session.is_some());
        }
        assert!(sessions.begin(request(0, 0, &[0]), 12).unwrap().session.is_none());
    }
}
