//! Everything that [`crate::Shard::step`] takes: time, durability, and the commands of each state machine.

use crate::acls::{self, AclCommand};
use crate::catalog::{self, CatalogCommand};
use crate::effect::Ticket;
use crate::groups::{self, GroupCommand};
use crate::offsets::{self, OffsetCommand};
use crate::partitions::{self, PartitionCommand};
use crate::quotas::{self, QuotaCommand};
use crate::transactions::{self, TransactionCommand};
use crate::users::{self, UserCommand};
use ottla_types::LogPosition;

/// One event for [`crate::Shard::step`].
#[derive(Clone, Debug, PartialEq)]
pub enum Input {
    /// [`crate::Shard::deadline`] was reached.
    Tick,
    /// Everything in the log before this position is durable.
    Durable(LogPosition),
    /// A command for the topics and the configuration.
    Catalog(CatalogCommand),
    /// A command for partitions.
    Partitions(PartitionCommand),
    /// A command for transactional ids and producer ids.
    Transactions(TransactionCommand),
    /// A command for consumer groups.
    Groups(GroupCommand),
    /// A command for the offsets of groups.
    Offsets(OffsetCommand),
    /// A command for ACLs.
    Acls(AclCommand),
    /// A command for users.
    Users(UserCommand),
    /// A command for client quotas.
    Quotas(QuotaCommand),
}

/// A command, and the type of the reply that every step with it leads to, at once or later.
pub trait Command: Sized + Send + 'static {
    /// The reply.
    type Reply: Send + 'static;

    /// The input that carries this command; the reply goes to `ticket`.
    fn into_input(self, ticket: Ticket<Self::Reply>) -> Input;
}

/// Gives each command its reply and its place in the inputs of its machine.
macro_rules! commands {
    ($($input:ident($machine:ident) { $($module:ident::$command:ident -> $reply:ident,)* })*) => {$($(
        impl Command for $module::$command {
            type Reply = $module::$reply;

            fn into_input(self, ticket: Ticket<Self::Reply>) -> Input {
                Input::$input($machine::$command(self, ticket))
            }
        }
    )*)*};
}

commands! {
    Catalog(CatalogCommand) {
        catalog::CreateTopics -> CreateTopicsReply,
        catalog::DeleteTopics -> DeleteTopicsReply,
        catalog::CreatePartitions -> CreatePartitionsReply,
        catalog::AlterConfigs -> AlterConfigsReply,
    }
    Partitions(PartitionCommand) {
        partitions::Produce -> ProduceReply,
        partitions::WriteTxnMarkers -> WriteTxnMarkersReply,
        partitions::DeleteRecords -> DeleteRecordsReply,
    }
    Transactions(TransactionCommand) {
        transactions::InitProducerId -> InitProducerIdReply,
        transactions::AddPartitionsToTxn -> AddPartitionsToTxnReply,
        transactions::AddOffsetsToTxn -> AddOffsetsToTxnReply,
        transactions::EndTxn -> EndTxnReply,
        transactions::AbortTransaction -> AbortTransactionReply,
    }
    Groups(GroupCommand) {
        groups::JoinGroup -> JoinGroupReply,
        groups::SyncGroup -> SyncGroupReply,
        groups::Heartbeat -> HeartbeatReply,
        groups::LeaveGroup -> LeaveGroupReply,
        groups::DeleteGroups -> DeleteGroupsReply,
    }
    Offsets(OffsetCommand) {
        offsets::CommitOffsets -> CommitOffsetsReply,
        offsets::StageOffsets -> StageOffsetsReply,
        offsets::DeleteOffsets -> DeleteOffsetsReply,
    }
    Acls(AclCommand) {
        acls::CreateAcls -> CreateAclsReply,
        acls::DeleteAcls -> DeleteAclsReply,
    }
    Users(UserCommand) {
        users::AlterScram -> AlterScramReply,
    }
    Quotas(QuotaCommand) {
        quotas::AlterQuotas -> AlterQuotasReply,
    }
}
