//! For tests that hold commands of several kinds in one list: inputs, and their replies as one enum.

use ottla_core::catalog::{
    AlterConfigsReply, CatalogCommand, CreatePartitionsReply, CreateTopicsReply, DeleteTopicsReply,
};
use ottla_core::groups::{
    DeleteGroupsReply, GroupCommand, HeartbeatReply, JoinGroupReply, LeaveGroupReply, SyncGroupReply,
};
use ottla_core::offsets::{CommitOffsetsReply, DeleteOffsetsReply, OffsetCommand, StageOffsetsReply};
use ottla_core::partitions::{DeleteRecordsReply, PartitionCommand, ProduceReply, WriteTxnMarkersReply};
use ottla_core::transactions::{
    AbortTransactionReply, AddOffsetsToTxnReply, AddPartitionsToTxnReply, EndTxnReply, InitProducerIdReply,
    TransactionCommand,
};
use ottla_core::{Command, Input, Reply, Ticket, TicketId};
use std::collections::BTreeMap;

/// The reply to a command of any kind.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Answer {
    CreateTopics(CreateTopicsReply),
    DeleteTopics(DeleteTopicsReply),
    CreatePartitions(CreatePartitionsReply),
    AlterConfigs(AlterConfigsReply),
    Produce(ProduceReply),
    WriteTxnMarkers(WriteTxnMarkersReply),
    DeleteRecords(DeleteRecordsReply),
    InitProducerId(InitProducerIdReply),
    AddPartitionsToTxn(AddPartitionsToTxnReply),
    AddOffsetsToTxn(AddOffsetsToTxnReply),
    EndTxn(EndTxnReply),
    AbortTransaction(AbortTransactionReply),
    JoinGroup(JoinGroupReply),
    SyncGroup(SyncGroupReply),
    Heartbeat(HeartbeatReply),
    LeaveGroup(LeaveGroupReply),
    DeleteGroups(DeleteGroupsReply),
    CommitOffsets(CommitOffsetsReply),
    StageOffsets(StageOffsetsReply),
    DeleteOffsets(DeleteOffsetsReply),
}

/// The input that carries a command under ticket number 0.
pub(crate) fn input<C: Command>(command: C) -> Input {
    command.into_input(Ticket::new(TicketId(0)))
}

type Open = Box<dyn FnOnce(Reply) -> Answer>;

/// Commands that await their replies, by ticket.
#[derive(Default)]
pub(crate) struct Tickets(BTreeMap<TicketId, Open>);

impl Tickets {
    /// Takes note of the ticket of an input, if it has one.
    pub(crate) fn note(&mut self, input: &Input) {
        macro_rules! note {
            ($ticket:expr, $answer:expr) => {{
                let ticket = *$ticket;
                let open = move |reply| $answer(ticket.open(reply).unwrap());
                self.0.insert(ticket.id(), Box::new(open));
            }};
        }
        match input {
            Input::Tick | Input::Durable(_) | Input::Partitions(PartitionCommand::InstallParts(_)) => {}
            // The tests of access control have a shard of their own.
            Input::Acls(_) | Input::Users(_) | Input::Quotas(_) => {}
            Input::Catalog(command) => match command {
                CatalogCommand::CreateTopics(_, ticket) => note!(ticket, Answer::CreateTopics),
                CatalogCommand::DeleteTopics(_, ticket) => note!(ticket, Answer::DeleteTopics),
                CatalogCommand::CreatePartitions(_, ticket) => note!(ticket, Answer::CreatePartitions),
                CatalogCommand::AlterConfigs(_, ticket) => note!(ticket, Answer::AlterConfigs),
            },
            Input::Partitions(command) => match command {
                PartitionCommand::Produce(_, ticket) => note!(ticket, Answer::Produce),
                PartitionCommand::WriteTxnMarkers(_, ticket) => note!(ticket, Answer::WriteTxnMarkers),
                PartitionCommand::DeleteRecords(_, ticket) => note!(ticket, Answer::DeleteRecords),
                PartitionCommand::InstallParts(_) => {}
            },
            Input::Transactions(command) => match command {
                TransactionCommand::InitProducerId(_, ticket) => note!(ticket, Answer::InitProducerId),
                TransactionCommand::AddPartitionsToTxn(_, ticket) => {
                    note!(ticket, Answer::AddPartitionsToTxn)
                }
                TransactionCommand::AddOffsetsToTxn(_, ticket) => note!(ticket, Answer::AddOffsetsToTxn),
                TransactionCommand::EndTxn(_, ticket) => note!(ticket, Answer::EndTxn),
                TransactionCommand::AbortTransaction(_, ticket) => note!(ticket, Answer::AbortTransaction),
            },
            Input::Groups(command) => match command {
                GroupCommand::JoinGroup(_, ticket) => note!(ticket, Answer::JoinGroup),
                GroupCommand::SyncGroup(_, ticket) => note!(ticket, Answer::SyncGroup),
                GroupCommand::Heartbeat(_, ticket) => note!(ticket, Answer::Heartbeat),
                GroupCommand::LeaveGroup(_, ticket) => note!(ticket, Answer::LeaveGroup),
                GroupCommand::DeleteGroups(_, ticket) => note!(ticket, Answer::DeleteGroups),
            },
            Input::Offsets(command) => match command {
                OffsetCommand::CommitOffsets(_, ticket) => note!(ticket, Answer::CommitOffsets),
                OffsetCommand::StageOffsets(_, ticket) => note!(ticket, Answer::StageOffsets),
                OffsetCommand::DeleteOffsets(_, ticket) => note!(ticket, Answer::DeleteOffsets),
            },
        }
    }

    /// The reply with its type; each ticket has one.
    pub(crate) fn open(&mut self, reply: Reply) -> (TicketId, Answer) {
        let ticket = reply.ticket();
        let open = self.0.remove(&ticket).unwrap_or_else(|| panic!("{ticket:?} is replied to twice"));
        (ticket, open(reply))
    }
}
