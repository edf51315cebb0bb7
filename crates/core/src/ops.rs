//! One file per event that touches partitions and transactions: what is asked, what is answered, and how it is judged.

mod abort_transaction;
mod add_to_txn;
mod delete_records;
mod end_txn;
mod init_producer_id;
mod produce;
mod sweep;
mod write_txn_markers;

pub use abort_transaction::{AbortTransaction, NotOpen};
pub use add_to_txn::{AddOffsetsToTxn, AddPartitionsToTxn};
pub use delete_records::{DeleteRecords, DeleteRecordsError};
pub use end_txn::EndTxn;
pub use init_producer_id::InitProducerId;
pub use produce::{Appended, Produce, ProduceBatch, ProduceError};
pub use write_txn_markers::{MarkerError, TxnMarker, WriteTxnMarkers};

pub(crate) use sweep::Sweeps;
