//! Fetch sessions (KIP-227): a client names its partitions once, then only what changes.
//!
//! ```text
//!   id 0, epoch 0          id, epoch 1, 2, …          id, epoch -1
//!  ──────────────▶ open ─────────────────────▶ open ──────────────▶ (gone)
//! ```

use super::plan::{Part, TopicKey};
use crate::Randomness;
use ottla_wire::ErrorCode;
use ottla_wire::messages::FetchRequest;
use ottla_wire::messages::fetch_request::FetchPartition;
use ottla_wire::messages::fetch_response::PartitionData;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Sessions that are kept at once (Kafka's default).
const SLOTS: usize = 1000;
/// A session that was not used for so long makes room for another.
const IDLE: Duration = Duration::from_secs(120);
/// Partitions in all sessions together: a bound on memory.
const PARTITIONS: usize = 30_000;

const INITIAL_EPOCH: i32 = 0;
const FINAL_EPOCH: i32 = -1;

/// What a request asks for after its session was looked up.
pub(super) struct Begun {
    pub(super) parts: Vec<Part>,
    /// The session that the answer belongs to; none if the request stands alone.
    pub(super) session: Option<Under>,
}

/// The session that an answer belongs to.
pub(super) struct Under {
    pub(super) id: i32,
    /// Only what changed is shown.
    incremental: bool,
}

/// All fetch sessions of the broker.
#[derive(Clone, Debug, Default)]
pub(crate) struct Sessions {
    table: Arc<Mutex<Table>>,
    randomness: Randomness,
}

#[derive(Debug, Default)]
struct Table {
    sessions: BTreeMap<i32, Session>,
    partitions: usize,
}

type Key = (TopicKey, i32);

#[derive(Debug)]
struct Session {
    /// The epoch that the next request must carry.
    next_epoch: i32,
    by_id: bool,
    used: Instant,
    /// Partitions by turn: who got data goes to the end, so that nobody starves.
    parts: BTreeMap<u64, Cached>,
    turns: BTreeMap<Key, u64>,
    next_turn: u64,
}

#[derive(Debug)]
struct Cached {
    part: Part,
    /// High watermark and log start as last shown; none if nothing was, or an error.
    shown: Option<(i64, i64)>,
}

impl Sessions {
    /// No sessions yet; their ids will come from `randomness`.
    pub(crate) fn new(randomness: Randomness) -> Sessions {
        Sessions { table: Arc::default(), randomness }
    }

    /// Finds out what the request asks for, and opens, changes or closes its session.
    ///
    /// # Errors
    /// The session is unknown, or the request is not the one it expects.
    pub(super) fn begin(&self, request: FetchRequest, version: i16) -> Result<Begun, ErrorCode> {
        let by_id = version >= 13;
        let (id, epoch) = (request.session_id, request.session_epoch);
        if version < 7 || epoch == FINAL_EPOCH || epoch == INITIAL_EPOCH {
            let parts: Vec<Part> = named(request, by_id).0;
            let mut table = self.lock();
            table.remove(id);
            let opens = version >= 7 && epoch == INITIAL_EPOCH;
            let session = if opens { table.open(&parts, by_id, &self.randomness) } else { None };
            return Ok(Begun { parts, session: session.map(|id| Under { id, incremental: false }) });
        }
        let mut table = self.lock();
        let Table { sessions, partitions } = &mut *table;
        let session = sessions.get_mut(&id).ok_or(ErrorCode::FETCH_SESSION_ID_NOT_FOUND)?;
        if session.next_epoch != epoch {
            return Err(ErrorCode::INVALID_FETCH_SESSION_EPOCH);
        }
        if session.by_id != by_id {
            return Err(ErrorCode::FETCH_SESSION_TOPIC_ID_ERROR);
        }
        session.next_epoch = epoch.checked_add(1).unwrap_or(1);
        session.used = Instant::now();
        let before = session.parts.len();
        let (parts, forgotten) = named(request, by_id);
        forgotten.iter().for_each(|key| session.forget(key));
        parts.into_iter().for_each(|part| session.put(part));
        *partitions = *partitions + session.parts.len() - before;
        let parts = session.parts.values().map(|cached| cached.part.clone()).collect();
        Ok(Begun { parts, session: Some(Under { id, incremental: true }) })
    }

    /// Notes what is shown, and hides what is no news in an incremental answer.
    pub(super) fn finish(
        &self,
        under: &Under,
        parts: &[Part],
        rows: Vec<PartitionData>,
    ) -> Vec<Option<PartitionData>> {
        let mut table = self.lock();
        let Some(session) = table.sessions.get_mut(&under.id) else {
            return rows.into_iter().map(Some).collect();
        };
        let show = |(part, row): (&Part, PartitionData)| {
            let news = session.note(&(part.topic.clone(), part.asked.partition), &row);
            (news || !under.incremental).then_some(row)
        };
        parts.iter().zip(rows).map(show).collect()
    }

    fn lock(&self) -> MutexGuard<'_, Table> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Table {
    fn remove(&mut self, id: i32) {
        if let Some(gone) = self.sessions.remove(&id) {
            self.partitions -= gone.parts.len();
        }
    }

    /// Opens a session, if there is room; its id.
    fn open(&mut self, parts: &[Part], by_id: bool, randomness: &Randomness) -> Option<i32> {
        if self.sessions.len() >= SLOTS || self.partitions + parts.len() > PARTITIONS {
            self.evict_idle()?;
        }
        if self.partitions + parts.len() > PARTITIONS {
            return None;
        }
        let id = self.fresh_id(randomness)?;
        let mut session = Session {
            next_epoch: 1,
            by_id,
            used: Instant::now(),
            parts: BTreeMap::new(),
            turns: BTreeMap::new(),
            next_turn: 0,
        };
        parts.iter().for_each(|part| session.put(part.clone()));
        self.partitions += session.parts.len();
        self.sessions.insert(id, session);
        Some(id)
    }

    /// Removes the session that was idle for longest, if that is long enough.
    fn evict_idle(&mut self) -> Option<()> {
        let oldest = self.sessions.iter().min_by_key(|(_, session)| session.used);
        let id = oldest.filter(|(_, session)| session.used.elapsed() >= IDLE).map(|(id, _)| *id)?;
        self.remove(id);
        Some(())
    }

    /// A random id, so that a client from before a restart does not hit another's session.
    fn fresh_id(&self, randomness: &Randomness) -> Option<i32> {
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

impl Session {
    fn put(&mut self, part: Part) {
        let key = (part.topic.clone(), part.asked.partition);
        if let Some(known) = self.turns.get(&key).and_then(|turn| self.parts.get_mut(turn)) {
            known.part = part;
            return;
        }
        self.line_up(key, Cached { part, shown: None });
    }

    fn line_up(&mut self, key: Key, cached: Cached) {
        self.turns.insert(key, self.next_turn);
        self.parts.insert(self.next_turn, cached);
        self.next_turn += 1;
    }

    fn forget(&mut self, key: &Key) {
        if let Some(turn) = self.turns.remove(key) {
            self.parts.remove(&turn);
        }
    }

    /// Whether a row is news to the client: data, an error, or a bound that moved.
    fn note(&mut self, key: &Key, row: &PartitionData) -> bool {
        let Some(cached) = self.turns.get(key).and_then(|turn| self.parts.get_mut(turn)) else { return true };
        let bounds = (row.error_code == 0).then_some((row.high_watermark, row.log_start_offset));
        let has_data = row.records.as_ref().is_some_and(|records| !records.is_empty());
        let news = has_data || bounds.is_none() || bounds != cached.shown;
        cached.shown = bounds;
        if has_data
            && let Some(turn) = self.turns.remove(key)
            && let Some(cached) = self.parts.remove(&turn)
        {
            self.line_up(key.clone(), cached);
        }
        news
    }
}

/// The partitions of a request, and those it gives up.
fn named(request: FetchRequest, by_id: bool) -> (Vec<Part>, Vec<Key>) {
    let mut parts = Vec::new();
    for topic in request.topics {
        let key = topic_key(topic.topic, topic.topic_id, by_id);
        let part = |asked: FetchPartition| Part { topic: key.clone(), asked };
        parts.extend(topic.partitions.into_iter().map(part));
    }
    let mut forgotten = Vec::new();
    for topic in request.forgotten_topics_data {
        let key = topic_key(topic.topic, topic.topic_id, by_id);
        forgotten.extend(topic.partitions.iter().map(|partition| (key.clone(), partition)));
    }
    (parts, forgotten)
}

fn topic_key(name: ottla_wire::Text, id: ottla_wire::Uuid, by_id: bool) -> TopicKey {
    // A name of its own: a session must not keep the frame that it was named in.
    if by_id { TopicKey::Id(id) } else { TopicKey::Name(ottla_wire::Text::from(&*name)) }
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

    fn indexes(begun: &Begun) -> Vec<i32> {
        begun.parts.iter().map(|part| part.asked.partition).collect()
    }

    #[test]
    fn only_news_is_shown_and_who_got_data_goes_last() {
        let sessions = Sessions::default();
        let begun = sessions.begin(request(0, 0, &[0, 1]), 12).unwrap();
        let under = begun.session.as_ref().unwrap();
        let id = under.id;
        let shown = sessions.finish(under, &begun.parts, vec![row(5, b"x"), row(0, b"")]);
        assert!(shown.iter().all(Option::is_some), "the first answer shows all");
        let begun = sessions.begin(request(id, 1, &[]), 12).unwrap();
        assert_eq!(indexes(&begun), [1, 0]);
        let rows = vec![row(0, b""), row(6, b"")];
        let shown = sessions.finish(begun.session.as_ref().unwrap(), &begun.parts, rows);
        assert_eq!(shown.iter().map(Option::is_some).collect::<Vec<_>>(), [false, true]);
    }

    #[test]
    fn partitions_come_and_go() {
        let sessions = Sessions::default();
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
    fn what_does_not_fit_the_session_is_refused() {
        let sessions = Sessions::default();
        let id = sessions.begin(request(0, 0, &[0]), 12).unwrap().session.unwrap().id;
        let error = |id, epoch, version| sessions.begin(request(id, epoch, &[]), version).err();
        assert_eq!(error(id, 2, 12), Some(ErrorCode::INVALID_FETCH_SESSION_EPOCH));
        assert_eq!(error(id, 1, 13), Some(ErrorCode::FETCH_SESSION_TOPIC_ID_ERROR));
        assert_eq!(error(id ^ 1, 1, 12), Some(ErrorCode::FETCH_SESSION_ID_NOT_FOUND));
        let closing = sessions.begin(request(id, -1, &[0]), 12).unwrap();
        assert!(closing.session.is_none());
        assert_eq!(error(id, 1, 12), Some(ErrorCode::FETCH_SESSION_ID_NOT_FOUND));
    }

    #[test]
    fn a_full_table_opens_no_more_sessions() {
        let sessions = Sessions::default();
        for _ in 0..SLOTS {
            assert!(sessions.begin(request(0, 0, &[0]), 12).unwrap().session.is_some());
        }
        assert!(sessions.begin(request(0, 0, &[0]), 12).unwrap().session.is_none());
    }
}
