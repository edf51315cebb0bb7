//! The parts of an offset commit: the identity of the committer, and the offsets.

/// The identity under which offsets are committed: a member in its generation, or a client outside of the group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Membership {
    /// Name of the group.
    pub group_id: String,
    /// Generation of the group, -1 outside.
    pub generation: i32,
    /// Member id, empty outside.
    pub member_id: String,
}

impl Membership {
    /// A client that is not a member of the group.
    pub fn outside(group_id: &str) -> Membership {
        Membership { group_id: group_id.to_owned(), generation: -1, member_id: String::new() }
    }
}

/// An offset to commit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GroupOffset {
    /// Name of the topic.
    pub topic: String,
    /// Number of the partition.
    pub partition: i32,
    /// The offset to continue from.
    pub offset: i64,
}
