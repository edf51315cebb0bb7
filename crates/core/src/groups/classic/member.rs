//! One member of a group: what it sent when it joined, and its live state.

use crate::effect::{Ticket, TicketId};
use crate::groups::command::{JoinGroup, JoinGroupReply, SyncGroupReply};
use bytes::Bytes;
use ottla_types::Millis;
use ottla_types::record::ClassicMember;

/// A member. What it sent is durable once its generation is complete; tickets and times are not.
#[derive(Debug)]
pub(crate) struct Member {
    /// What a completed generation stores of it.
    pub(super) facts: ClassicMember,
    /// Its JoinGroup that waits for an answer.
    pub(super) joining: Option<Ticket<JoinGroupReply>>,
    /// Its SyncGroup that waits for an answer.
    pub(super) syncing: Option<Ticket<SyncGroupReply>>,
    /// True until its first generation is formed: it does not know its id yet and cannot send heartbeats.
    pub(super) is_new: bool,
    /// When its session expires; none while a request of it waits, and until the first event after a restart.
    pub(super) deadline: Option<Millis>,
}

/// Approximate memory of a member in addition to what it sends, in bytes.
const BESIDE: usize = 512;

/// The memory of a member that sends this, in bytes.
pub(in crate::groups) fn size(protocols: &[(String, Bytes)]) -> usize {
    BESIDE + protocols.iter().map(|(name, metadata)| name.len() + metadata.len()).sum::<usize>()
}

impl Member {
    /// Memory that it takes.
    pub(super) fn bytes(&self) -> usize {
        size(&self.facts.protocols) + self.facts.assignment.len()
    }

    /// A member that has just sent its first JoinGroup.
    pub(super) fn new(member_id: String, ask: &JoinGroup, ticket: Ticket<JoinGroupReply>) -> Member {
        Member {
            facts: ClassicMember {
                member_id,
                instance_id: ask.instance_id.clone(),
                client_id: ask.client_id.clone(),
                client_host: ask.client_host.clone(),
                rebalance_timeout: ask.rebalance_timeout,
                session_timeout: ask.session_timeout,
                protocols: ask.protocols.clone(),
                assignment: Bytes::new(),
            },
            joining: Some(ticket),
            syncing: None,
            is_new: true,
            deadline: None,
        }
    }

    /// A member read back from the log: it has sent nothing since.
    pub(super) fn restored(facts: &ClassicMember) -> Member {
        Member { facts: facts.clone(), joining: None, syncing: None, is_new: false, deadline: None }
    }

    /// The tickets of its requests that wait for a reply.
    pub(super) fn tickets(&self) -> impl Iterator<Item = TicketId> + use<> {
        let (joining, syncing) = (self.joining.map(Ticket::id), self.syncing.map(Ticket::id));
        joining.into_iter().chain(syncing)
    }

    pub(super) fn is_static(&self) -> bool {
        self.facts.instance_id.is_some()
    }

    pub(super) fn supports(&self, protocol: &str) -> bool {
        self.facts.protocols.iter().any(|(name, _)| name == protocol)
    }

    /// Its metadata for a protocol, empty if it does not support it.
    pub(super) fn metadata(&self, protocol: &str) -> Bytes {
        let found = self.facts.protocols.iter().find(|(name, _)| name == protocol);
        found.map(|(_, metadata)| metadata.clone()).unwrap_or_default()
    }

    /// The first of these protocols in its order of preference.
    pub(super) fn vote<'a>(&'a self, among: &[&str]) -> Option<&'a str> {
        self.facts.protocols.iter().map(|(name, _)| name.as_str()).find(|name| among.contains(name))
    }

    /// A waiting request counts as a heartbeat, except a newcomer's first: its client may be gone unnoticed.
    pub(super) fn waits(&self) -> bool {
        !self.is_new && (self.joining.is_some() || self.syncing.is_some())
    }
}
