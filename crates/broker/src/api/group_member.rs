//! Shared by the APIs of groups: references to members, error codes for members, and new member ids.

use crate::Randomness;
use crate::randomness::NoRandomness;
use bytes::Bytes;
use ottla_core::groups::{CommitFencing, MemberError, MemberRef};
use ottla_wire::{ErrorCode, Text};
use std::fmt::Write;

/// A member as a request names it.
pub(super) fn member_ref(
    group_id: &Text,
    generation: i32,
    member_id: &Text,
    instance_id: Option<&Text>,
) -> MemberRef {
    MemberRef {
        group_id: group_id.into(),
        generation,
        member_id: member_id.into(),
        instance_id: instance_id.map(String::from),
    }
}

/// The error code for a member that is unknown or fenced.
pub(super) fn member_code(error: MemberError) -> ErrorCode {
    match error {
        MemberError::Unknown => ErrorCode::UNKNOWN_MEMBER_ID,
        MemberError::Fenced => ErrorCode::FENCED_INSTANCE_ID,
    }
}

/// The error code for a member whose offsets the group refuses (T-165).
pub(super) fn fencing_code(error: CommitFencing) -> ErrorCode {
    match error {
        CommitFencing::UnknownGroup | CommitFencing::IllegalGeneration => ErrorCode::ILLEGAL_GENERATION,
        CommitFencing::UnknownMember => ErrorCode::UNKNOWN_MEMBER_ID,
        CommitFencing::FencedInstance => ErrorCode::FENCED_INSTANCE_ID,
        CommitFencing::RebalanceInProgress => ErrorCode::REBALANCE_IN_PROGRESS,
    }
}

/// A copy of bytes that a group keeps. A slice would keep the whole request in memory.
pub(super) fn kept(bytes: &Bytes) -> Bytes {
    Bytes::copy_from_slice(bytes)
}

/// An id for a new member: the client's name, a dash, and a random UUID.
///
/// # Errors
/// The system gives no random bytes.
pub(super) fn new_member_id(who: &str, randomness: &Randomness) -> Result<String, NoRandomness> {
    let bytes = randomness.uuid()?;
    let mut id = who.to_owned();
    for (place, byte) in bytes.iter().enumerate() {
        if matches!(place, 0 | 4 | 6 | 8 | 10) {
            id.push('-');
        }
        // Writing to a String cannot fail.
        let _ = write!(id, "{byte:02x}");
    }
    Ok(id)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_member_id_is_a_name_and_a_uuid() {
        let id = new_member_id("consumer-1", &Randomness::default()).unwrap();
        let parts: Vec<&str> = id.split('-').collect();
        assert_eq!(parts.iter().map(|part| part.len()).collect::<Vec<_>>(), [8, 1, 8, 4, 4, 4, 12]);
        assert!(parts[4].starts_with('4'), "a UUID of version 4");
        assert_ne!(id, new_member_id("consumer-1", &Randomness::default()).unwrap());
    }
}
