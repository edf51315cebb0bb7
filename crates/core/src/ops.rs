//! One file per event that touches partitions and transactions: what is asked, what is answered, and how it is judged.

mod abort_transaction;
mod add_to_txn;
mod delete_records;
mod end_txn;
mod init_producer_id;
mod produce;
mod sweep;
mod write_txn_markers;

pub use abort_transaction::{AbortTransaction, AbortTransactionReply, NotOpen};
pub use add_to_txn::{AddOffsetsToTxn, AddOffsetsToTxnReply, AddPartitionsToTxn, AddPartitionsToTxnReply};
pub use delete_records::{DeleteRecords, DeleteRecordsError, DeleteRecordsReply};
pub use end_txn::{EndTxn, EndTxnReply};
pub use init_producer_id::{InitProducerId, InitProducerIdReply};
pub use produce::{Appended, Produce, ProduceBatch, ProduceError, ProduceReply};
pub use write_txn_markers::{MarkerError, TxnMarker, WriteTxnMarkers, WriteTxnMarkersReply};

pub(crate) use sweep::Sweeps;

use crate::effect::{Effects, Ticket};
use crate::partition::InstallParts;
use crate::shard::Shard;
use ottla_types::Millis;

/// A command for partitions, with the ticket of its reply.
#[derive(Clone, Debug, PartialEq)]
pub enum PartitionCommand {
    /// See [`Produce`].
    Produce(Produce, Ticket<ProduceReply>),
    /// See [`WriteTxnMarkers`].
    WriteTxnMarkers(WriteTxnMarkers, Ticket<WriteTxnMarkersReply>),
    /// See [`DeleteRecords`].
    DeleteRecords(DeleteRecords, Ticket<DeleteRecordsReply>),
    /// See [`InstallParts`]. It has no reply: the host itself sends it.
    InstallParts(InstallParts),
}

/// A command for transactional ids and producer ids, with the ticket of its reply.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TransactionCommand {
    /// See [`InitProducerId`].
    InitProducerId(InitProducerId, Ticket<InitProducerIdReply>),
    /// See [`AddPartitionsToTxn`].
    AddPartitionsToTxn(AddPartitionsToTxn, Ticket<AddPartitionsToTxnReply>),
    /// See [`AddOffsetsToTxn`].
    AddOffsetsToTxn(AddOffsetsToTxn, Ticket<AddOffsetsToTxnReply>),
    /// See [`EndTxn`].
    EndTxn(EndTxn, Ticket<EndTxnReply>),
    /// See [`AbortTransaction`].
    AbortTransaction(AbortTransaction, Ticket<AbortTransactionReply>),
}

impl Shard {
    pub(crate) fn step_partitions(&mut self, now: Millis, command: PartitionCommand, out: &mut Effects) {
        match command {
            PartitionCommand::Produce(command, ticket) => {
                let reply = self.produce(now, command, out);
                out.reply(ticket, reply);
            }
            PartitionCommand::WriteTxnMarkers(command, ticket) => {
                let reply = self.write_txn_markers(now, &command, out);
                out.reply(ticket, reply);
            }
            PartitionCommand::DeleteRecords(command, ticket) => {
                let reply = self.delete_records(&command, out);
                out.reply(ticket, reply);
            }
            PartitionCommand::InstallParts(command) => self.install_parts(command, out),
        }
    }

    pub(crate) fn step_transactions(&mut self, now: Millis, command: TransactionCommand, out: &mut Effects) {
        match command {
            TransactionCommand::InitProducerId(command, ticket) => {
                let reply = self.init_producer_id(now, &command, out);
                out.reply(ticket, reply);
            }
            TransactionCommand::AddPartitionsToTxn(command, ticket) => {
                let reply = self.add_partitions(now, &command, out);
                out.reply(ticket, reply);
            }
            TransactionCommand::AddOffsetsToTxn(command, ticket) => {
                let reply = self.add_offsets(now, &command, out);
                out.reply(ticket, reply);
            }
            TransactionCommand::EndTxn(command, ticket) => {
                let reply = self.end_txn(now, &command, out);
                out.reply(ticket, reply);
            }
            TransactionCommand::AbortTransaction(command, ticket) => {
                let reply = self.abort_transaction(now, &command, out);
                out.reply(ticket, reply);
            }
        }
    }
}
