//! Reading partitions: the positions of a consumer, and its Fetch requests, in a fetch session or without one.

use crate::client::{Care, Client, is_passing};
use crate::place::{ConsumedRecord, Place};
use crate::plan::ms;
use crate::records::take;
use crate::world::World;
use ottla_checker::{Action, OpId};
use ottla_wire::ErrorCode;
use ottla_wire::messages::fetch_request::{FetchPartition, FetchTopic};
use ottla_wire::messages::{FetchRequest, FetchResponse};
use std::collections::BTreeMap;

/// The positions of a consumer.
#[derive(Debug)]
pub(crate) struct Cursor {
    pub(crate) next: BTreeMap<Place, i64>,
    committed: bool,
    /// Id and next epoch of the fetch session; id 0 and epoch -1 stand for none.
    session: (i32, i32),
    in_sessions: bool,
}

/// The result of one Fetch.
#[derive(Debug, Default)]
pub(crate) struct FetchResult {
    pub(crate) given: Vec<ConsumedRecord>,
    /// The high watermark, the last stable offset, and the position of the reader afterwards.
    pub(crate) ends: Vec<(Place, i64, i64)>,
}

impl Cursor {
    pub(crate) fn new(committed: bool, in_sessions: bool) -> Cursor {
        Cursor { next: BTreeMap::new(), committed, session: (0, -1), in_sessions }
    }

    /// Reads from the beginning of some places.
    pub(crate) fn at_start(mut self, places: impl IntoIterator<Item = Place>) -> Cursor {
        self.next.extend(places.into_iter().map(|place| (place, 0)));
        self
    }

    /// Fetches once and advances the positions. None if there is no answer, or only a retriable error.
    pub(crate) async fn fetch(&mut self, client: &mut Client, wait: u64) -> Option<FetchResult> {
        if self.in_sessions && self.session.0 == 0 {
            self.session = (0, 0);
        }
        let lowest = if self.in_sessions { 7 } else { 4 };
        // A session uses either names or ids.
        let version = if self.in_sessions { 13 } else { client.random.within(lowest..19) as i16 };
        let request = self.request(client, wait, version);
        let patience = ms(3000 + wait);
        let Ok(answer) = client.ask(&request, version, Care::Late, patience).await else {
            self.session = (0, -1);
            return None;
        };
        if answer.error_code != 0 {
            let world = &client.world;
            let code = ErrorCode(answer.error_code);
            world.say(format_args!("{}: Fetch is answered {}", client.name, code.name()));
            self.session = (0, -1);
            return None;
        }
        if self.in_sessions {
            let epoch = if self.session.1 == i32::MAX { 1 } else { self.session.1 + 1 };
            self.session = if answer.session_id == 0 { (0, -1) } else { (answer.session_id, epoch) };
        }
        self.read(client, &answer)
    }

    fn request(&self, client: &mut Client, wait: u64, version: i16) -> FetchRequest {
        let world = client.world.clone();
        let most = client.random.pick(&[1, 200, 1 << 20]);
        let topics = self.next.iter().map(|(place, next)| FetchTopic {
            topic: place.name().into(),
            topic_id: world.topic_id(place.topic),
            partitions: vec![FetchPartition {
                partition: place.partition,
                fetch_offset: *next,
                partition_max_bytes: most,
                ..Default::default()
            }],
            ..Default::default()
        });
        FetchRequest {
            max_wait_ms: wait as i32,
            min_bytes: client.random.pick(&[0, 1, 1, 300]),
            max_bytes: client.random.pick(&[1, 500, 1 << 20, 1 << 20]),
            isolation_level: i8::from(self.committed),
            session_id: if version >= 7 { self.session.0 } else { 0 },
            session_epoch: if version >= 7 { self.session.1 } else { -1 },
            topics: topics.collect(),
            ..Default::default()
        }
    }

    fn read(&mut self, client: &mut Client, answer: &FetchResponse) -> Option<FetchResult> {
        let mut fetched = FetchResult::default();
        for topic in &answer.responses {
            for data in &topic.partitions {
                let wanted = self.next.iter().find(|(place, _)| {
                    let named = topic.topic.as_str() == place.name();
                    let known = topic.topic_id == client.world.topic_id(place.topic);
                    (named || known) && place.partition == data.partition_index
                });
                let Some((place, from)) = wanted.map(|(place, from)| (*place, *from)) else { continue };
                match ErrorCode(data.error_code) {
                    ErrorCode::NONE => {}
                    code if is_passing(code) => continue,
                    code => {
                        let text = format!("{}: Fetch of {place:?} from {from} is answered", client.name);
                        client.world.find(format!("{text} {}", code.name()));
                        continue;
                    }
                }
                match take(place, data, from, self.committed) {
                    Ok(taken) => {
                        self.next.insert(place, taken.next);
                        fetched.given.extend(taken.given);
                    }
                    Err(why) => client.world.find(format!("{}: {place:?} from {from}: {why}", client.name)),
                }
                fetched.ends.push((place, data.high_watermark, data.last_stable_offset));
            }
        }
        Some(fetched)
    }
}

impl World {
    /// Adds the records that an operation received to the history.
    pub(crate) fn read_in(&self, op: OpId, fetched: &FetchResult) {
        for given in &fetched.given {
            let key = self.key(given.place);
            let mut history = self.history();
            let value = history.value(&given.name);
            history.read(op, key, given.offset, value);
        }
        for (place, high, stable) in &fetched.ends {
            let key = self.key(*place);
            self.history().push(op, Action::Ends { key, high: *high, stable: *stable });
        }
    }
}
