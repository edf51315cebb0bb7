//! The authorization of an API: a column of the dispatch table (section 9 of the security rules).
//!
//! An API either lets every client in, or has a function that runs before its answer. The function takes out of the
//! request what the client may not do, and says what the response shows in its place. So the answer of an API never
//! sees what the client may not do. APIs that list things ask [`Rights`] themselves which of them the client may see.

use super::Outcome;
use crate::authorizer::{Resource, Rights};
use crate::context::to_topic_id;
use ottla_types::acl::Operation;
use ottla_wire::{ErrorCode, Text, Uuid};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Who may use an API.
pub(crate) enum Authorization<A, R> {
    /// Every client.
    Everyone,
    /// Every client. The answer shows only what the client may see.
    Filtered,
    /// The function decides, by the request and its version.
    Checked(fn(&mut A, &Rights<'_>, i16) -> Verdict<R>),
}

/// Completes the response of a request from which something was taken out.
type Completion<R> = Box<dyn FnOnce(&mut R) + Send>;

/// What an authorization function decided.
pub(crate) enum Verdict<R> {
    /// The client may do what the request still holds.
    Allowed,
    /// The client may do nothing of the request. This is the response.
    Refused(R),
    /// The client may do what the request still holds. The function adds the results of the rest to the response.
    Partly(Completion<R>),
    /// The connection is closed, because no response can carry the error. The text goes to the log.
    Closed(&'static str),
}

impl<R> Verdict<R> {
    /// The verdict after some items were taken out of a request: the function adds their results.
    pub(super) fn without<T: Send + 'static>(
        denied: Vec<T>,
        complete: impl FnOnce(&mut R, Vec<T>) + Send + 'static,
    ) -> Verdict<R> {
        if denied.is_empty() {
            return Verdict::Allowed;
        }
        Verdict::Partly(Box::new(move |response| complete(response, denied)))
    }

    /// Allowed if the client has the right, else refused with the response.
    pub(super) fn when(allowed: bool, refused: impl FnOnce() -> R) -> Verdict<R> {
        if allowed { Verdict::Allowed } else { Verdict::Refused(refused()) }
    }
}

/// Adds results to the response of an outcome. A request without a response (acks 0) closes its connection instead,
/// because a part of it was refused (T-50).
pub(super) fn complete<R>(outcome: Outcome<R>, completion: Completion<R>) -> Outcome<R> {
    match outcome {
        Outcome::Send(mut response) => {
            completion(&mut response);
            Outcome::Send(response)
        }
        Outcome::Charged(mut response, charge) => {
            completion(&mut response);
            Outcome::Charged(response, charge)
        }
        Outcome::Muted(outcome, span) => Outcome::Muted(Box::new(complete(*outcome, completion)), span),
        Outcome::Nothing => Outcome::Close("acks is 0 and the client may not write to a topic".to_owned()),
        other @ (Outcome::Close(_) | Outcome::SendAndClose(..)) => other,
    }
}

/// Takes the items out of a list that fail a check.
pub(super) fn take_denied<T>(items: &mut Vec<T>, mut is_allowed: impl FnMut(&T) -> bool) -> Vec<T> {
    let (allowed, denied) = std::mem::take(items).into_iter().partition(|item| is_allowed(item));
    *items = allowed;
    denied
}

/// The checks of the topics of one request: each distinct topic is checked once (S-208).
pub(super) struct TopicChecks<'a> {
    rights: &'a Rights<'a>,
    operation: Operation,
    by_name: BTreeMap<Text, bool>,
}

impl<'a> TopicChecks<'a> {
    pub(super) fn new(rights: &'a Rights<'a>, operation: Operation) -> TopicChecks<'a> {
        TopicChecks { rights, operation, by_name: BTreeMap::new() }
    }

    /// Whether the client may do the operation on the topic of this name.
    pub(super) fn allows(&mut self, name: &Text) -> bool {
        if let Some(known) = self.by_name.get(name) {
            return *known;
        }
        let allowed = self.rights.allows(self.operation, Resource::Topic(name));
        self.by_name.insert(name.clone(), allowed);
        allowed
    }

    /// Whether the client may do the operation on a topic that the request names by its id, or by its name if the id is
    /// zero. An unknown id is allowed: the API answers that it is unknown. An id never gets another name, so the API
    /// finds the topic that was checked.
    pub(super) fn allows_ref(&mut self, name: &Text, id: Uuid) -> bool {
        if id.is_zero() {
            return self.allows(name);
        }
        topic_name(self.rights, id).is_none_or(|name| self.allows(&Text::from(&*name)))
    }
}

/// The name of the topic with this id.
pub(super) fn topic_name(rights: &Rights<'_>, id: Uuid) -> Option<Arc<str>> {
    rights.access().topic_name(to_topic_id(id))
}

/// The text of an error code, for responses with a message.
pub(super) fn denied_text() -> Option<Text> {
    Some(Text::from_static("Authorization failed."))
}

/// The error code of a denied resource.
pub(super) const TOPIC_DENIED: i16 = ErrorCode::TOPIC_AUTHORIZATION_FAILED.0;
pub(super) const GROUP_DENIED: i16 = ErrorCode::GROUP_AUTHORIZATION_FAILED.0;
pub(super) const CLUSTER_DENIED: i16 = ErrorCode::CLUSTER_AUTHORIZATION_FAILED.0;
pub(super) const TRANSACTIONAL_ID_DENIED: i16 = ErrorCode::TRANSACTIONAL_ID_AUTHORIZATION_FAILED.0;
