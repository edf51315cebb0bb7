//! Classic groups: a completed generation, a deletion.

use super::field::fields;
use ottla_types::record::{ClassicGroupUpdated, ClassicMember, GroupDeleted};

fields! {
    ClassicMember {
        member_id, instance_id, client_id, client_host, rebalance_timeout, session_timeout,
        protocols, assignment,
    }
    ClassicGroupUpdated { group_id, generation, protocol_type, protocol, leader, members, at }
    GroupDeleted { group_id }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::record::generators::{any_bytes, any_millis, few, round_trip};
    use ottla_types::record::{GroupRecord, LogRecord};
    use proptest::option;
    use proptest::prelude::*;

    fn any_member() -> impl Strategy<Value = ClassicMember> {
        let client = (".{0,8}", ".{0,8}", any_millis(), any_millis());
        let protocols = few((".{0,8}", any_bytes()));
        (".{0,8}", option::of(".{0,8}"), client, protocols, any_bytes()).prop_map(
            |(member_id, instance_id, client, protocols, assignment)| ClassicMember {
                member_id,
                instance_id,
                client_id: client.0,
                client_host: client.1,
                rebalance_timeout: client.2,
                session_timeout: client.3,
                protocols,
                assignment,
            },
        )
    }

    pub(crate) fn any_record() -> impl Strategy<Value = LogRecord> {
        let names = (option::of(".{0,8}"), option::of(".{0,8}"), option::of(".{0,8}"));
        prop_oneof![
            (".{0,8}", any::<i32>(), names, few(any_member()), any_millis()).prop_map(
                |(group_id, generation, (protocol_type, protocol, leader), members, at)| {
                    LogRecord::Groups(GroupRecord::ClassicUpdated(ClassicGroupUpdated {
                        group_id,
                        generation,
                        protocol_type,
                        protocol,
                        leader,
                        members,
                        at,
                    }))
                }
            ),
            ".{0,8}".prop_map(|group_id| LogRecord::Groups(GroupRecord::Deleted(GroupDeleted { group_id }))),
        ]
    }

    proptest! {
        #[test]
        fn comes_back_as_written(record in any_record()) {
            round_trip(&record)?;
        }
    }
}
