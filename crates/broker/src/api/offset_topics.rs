//! Shared by the APIs of offsets: topics by name or, in the newest versions, by id.

use crate::context::to_topic_id;
use ottla_core::catalog::TopicRef;
use ottla_wire::{Text, Uuid};

/// A topic as a request names it.
pub(super) fn topic_ref(name: &Text, id: Uuid, by_id: bool) -> TopicRef {
    if by_id { TopicRef::Id(to_topic_id(id)) } else { TopicRef::Name(name.into()) }
}
