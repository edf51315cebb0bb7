//! A member of a classic group: joins, is assigned partitions of one topic, sends heartbeats, and is removed when it
//! pauses.

use crate::client::{Care, Client, is_passing};
use crate::place::{IN, Place, TOPICS};
use crate::plan::ms;
use crate::random::Random;
use crate::world::rest;
use ottla_wire::messages::consumer_protocol_assignment::TopicPartition;
use ottla_wire::messages::join_group_request::JoinGroupRequestProtocol;
use ottla_wire::messages::leave_group_request::MemberIdentity;
use ottla_wire::messages::offset_fetch_request::{
    OffsetFetchRequestGroup, OffsetFetchRequestTopic, OffsetFetchRequestTopics,
};
use ottla_wire::messages::sync_group_request::SyncGroupRequestAssignment;
use ottla_wire::messages::{
    ConsumerProtocolAssignment, HeartbeatRequest, JoinGroupRequest, JoinGroupResponse, LeaveGroupRequest,
    OffsetFetchRequest, SyncGroupRequest,
};
use ottla_wire::{ErrorCode, Message, Text};
use std::collections::BTreeSet;
use std::ops::Range;
use std::time::Duration;
use tokio::time::Instant;

/// The session timeout in milliseconds.
pub(crate) const SESSION: u64 = 6000;

/// The identity under which offsets are committed: a member in its generation, or a client outside of the group.
#[derive(Clone, Debug)]
pub(crate) struct Committer {
    pub(crate) group: String,
    pub(crate) generation: i32,
    pub(crate) member: String,
    /// The instance id of a static member: the next member with it replaces the one that had it before.
    pub(crate) instance: Option<Text>,
}

impl Committer {
    pub(crate) fn outside(group: &str) -> Committer {
        Committer { group: group.to_owned(), generation: -1, member: String::new(), instance: None }
    }
}

impl Committer {
    /// The lowest version of a request that it may use, if a static member needs `with_instance`.
    pub(crate) fn version(&self, random: &mut Random, versions: Range<u64>, with_instance: u64) -> i16 {
        let first = if self.instance.is_some() { with_instance.max(versions.start) } else { versions.start };
        random.within(first..versions.end) as i16
    }
}

/// The instance id of a static member, for half of the members.
pub(crate) fn instance(name: &str, number: u64, random: &mut Random) -> Option<Text> {
    random.per_mille(500).then(|| format!("static-{name}-{number}").as_str().into())
}

/// A member of a classic group, which reads the topic "in".
pub(crate) struct Member {
    pub(crate) committer: Committer,
    pub(crate) dealt: BTreeSet<i32>,
    pub(crate) joined: bool,
    heard: Instant,
}

impl Member {
    pub(crate) fn new(group: &str, instance: Option<Text>) -> Member {
        let committer = Committer { instance, ..Committer::outside(group) };
        Member { committer, dealt: BTreeSet::new(), joined: false, heard: Instant::now() }
    }

    /// Joins if it is no member, else sends a heartbeat if one is due. True if the partitions were assigned anew.
    pub(crate) async fn attend(&mut self, client: &mut Client) -> bool {
        if self.joined && self.heard.elapsed() < ms(SESSION / 6) {
            return false;
        }
        if self.joined && self.heartbeat(client).await {
            return false;
        }
        self.joined = self.join(client).await;
        if !self.joined {
            rest(&mut client.random, 100).await;
        }
        true
    }

    /// An answer says that the generation is over.
    pub(crate) fn lose(&mut self) {
        self.joined = false;
        self.dealt.clear();
    }

    async fn heartbeat(&mut self, client: &mut Client) -> bool {
        let request = HeartbeatRequest {
            group_id: self.committer.group.as_str().into(),
            generation_id: self.committer.generation,
            member_id: self.committer.member.as_str().into(),
            group_instance_id: self.committer.instance.clone(),
            ..Default::default()
        };
        let version = self.committer.version(&mut client.random, 0..5, 3);
        match client.ask(&request, version, Care::Late, Duration::from_secs(3)).await {
            Ok(answer) => {
                let code = ErrorCode(answer.error_code);
                self.forget_if_unknown(code);
                self.heard = Instant::now();
                code == ErrorCode::NONE || is_passing(code)
            }
            // A member that gets no answer stays a member until an answer says otherwise.
            Err(_) => self.heard.elapsed() < ms(SESSION),
        }
    }

    fn forget_if_unknown(&mut self, code: ErrorCode) {
        if code == ErrorCode::UNKNOWN_MEMBER_ID || code == ErrorCode::FENCED_INSTANCE_ID {
            self.committer.member.clear();
        }
    }

    async fn join(&mut self, client: &mut Client) -> bool {
        self.dealt.clear();
        let Some(joined) = self.ask_to_join(client).await else { return false };
        self.committer.generation = joined.generation_id;
        let leads = joined.leader == joined.member_id && !joined.skip_assignment;
        let request = SyncGroupRequest {
            group_id: self.committer.group.as_str().into(),
            generation_id: joined.generation_id,
            member_id: joined.member_id.clone(),
            group_instance_id: self.committer.instance.clone(),
            protocol_type: Some("consumer".into()),
            protocol_name: joined.protocol_name.clone(),
            assignments: if leads { deal(&joined, client.world.plan.partitions) } else { Vec::new() },
            ..Default::default()
        };
        let version = self.committer.version(&mut client.random, 0..6, 3);
        let Ok(synced) = client.ask(&request, version, Care::Strict, ms(2 * SESSION)).await else {
            return false;
        };
        self.forget_if_unknown(ErrorCode(synced.error_code));
        if synced.error_code != 0 {
            return false;
        }
        self.heard = Instant::now();
        if let Ok((_, dealt)) = ConsumerProtocolAssignment::from_versioned_bytes(&synced.assignment) {
            let partitions = dealt.assigned_partitions.iter().flat_map(|topic| topic.partitions.to_vec());
            self.dealt = partitions.collect();
        }
        let Member { committer, dealt, .. } = self;
        client.world.say(format_args!("{}: generation {}, {dealt:?}", client.name, committer.generation));
        true
    }

    async fn ask_to_join(&mut self, client: &mut Client) -> Option<JoinGroupResponse> {
        for _ in 0..3 {
            let protocol = JoinGroupRequestProtocol { name: "range".into(), ..Default::default() };
            let request = JoinGroupRequest {
                group_id: self.committer.group.as_str().into(),
                session_timeout_ms: SESSION as i32,
                rebalance_timeout_ms: SESSION as i32,
                member_id: self.committer.member.as_str().into(),
                group_instance_id: self.committer.instance.clone(),
                protocol_type: "consumer".into(),
                protocols: vec![protocol],
                ..Default::default()
            };
            let version = self.committer.version(&mut client.random, 1..10, 5);
            let joined = client.ask(&request, version, Care::Strict, ms(3 * SESSION)).await.ok()?;
            let code = ErrorCode(joined.error_code);
            self.forget_if_unknown(code);
            if code == ErrorCode::MEMBER_ID_REQUIRED {
                self.committer.member = joined.member_id.to_string();
                continue;
            }
            if code == ErrorCode::NONE {
                self.committer.member = joined.member_id.to_string();
                return Some(joined);
            }
            rest(&mut client.random, 100).await;
        }
        None
    }

    /// Leaves the group with a LeaveGroup request.
    pub(crate) async fn leave(&mut self, client: &mut Client) {
        let member = MemberIdentity {
            member_id: self.committer.member.as_str().into(),
            group_instance_id: self.committer.instance.clone(),
            ..Default::default()
        };
        let mut request =
            LeaveGroupRequest { group_id: self.committer.group.as_str().into(), ..Default::default() };
        let version = self.committer.version(&mut client.random, 0..6, 3);
        if version >= 3 {
            request.members = vec![member];
        } else {
            request.member_id = self.committer.member.as_str().into();
        }
        // If the request fails, the session times out.
        let _ = client.ask(&request, version, Care::Late, Duration::from_secs(3)).await;
        self.lose();
        self.committer.member.clear();
    }
}

/// The leader assigns the partitions in turn.
fn deal(joined: &JoinGroupResponse, partitions: i32) -> Vec<SyncGroupRequestAssignment> {
    let count = joined.members.len().max(1) as i32;
    let assignments = joined.members.iter().zip(0..).map(|(member, turn)| {
        let mine: Vec<i32> = (0..partitions).filter(|partition| partition % count == turn).collect();
        let topic =
            TopicPartition { topic: TOPICS[IN].into(), partitions: mine.into(), ..Default::default() };
        let dealt = ConsumerProtocolAssignment { assigned_partitions: vec![topic], ..Default::default() };
        SyncGroupRequestAssignment {
            member_id: member.member_id.clone(),
            assignment: dealt.to_versioned_bytes(1).unwrap_or_default(),
            ..Default::default()
        }
    });
    assignments.collect()
}

/// The offset that a group has committed for a place: none if it has not. `Err` if the broker does not say.
pub(crate) async fn committed(client: &mut Client, group: &str, place: Place) -> Result<Option<i64>, ()> {
    let version = client.random.within(7..11) as i16;
    let indexes = vec![place.partition];
    let topics = vec![OffsetFetchRequestTopics {
        name: place.name().into(),
        topic_id: client.world.topic_id(place.topic),
        partition_indexes: indexes.clone().into(),
        ..Default::default()
    }];
    let old = vec![OffsetFetchRequestTopic {
        name: place.name().into(),
        partition_indexes: indexes.into(),
        ..Default::default()
    }];
    let mut request = OffsetFetchRequest { require_stable: true, ..Default::default() };
    if version >= 8 {
        let group_id = group.into();
        request.groups =
            vec![OffsetFetchRequestGroup { group_id, topics: Some(topics), ..Default::default() }];
    } else {
        (request.group_id, request.topics) = (group.into(), Some(old));
    }
    let until = Instant::now() + Duration::from_secs(12);
    let settled = client.settle(&request, version, Care::Late, until).await.map_err(drop)?;
    let answer = settled.answer;
    let rows = answer.groups.iter().flat_map(|group| &group.topics).flat_map(|topic| &topic.partitions);
    let offsets = rows.map(|row| (row.error_code, row.committed_offset));
    let rows = answer.topics.iter().flat_map(|topic| &topic.partitions);
    let old = rows.map(|row| (row.error_code, row.committed_offset));
    match offsets.chain(old).next() {
        Some((0, offset)) => Ok((offset >= 0).then_some(offset)),
        _ => Err(()),
    }
}
