//! What was answered, in the words of the table.

use super::events::Pair;
use super::reach::ID;
use crate::support::Answer;
use crate::world::World;
use ottla_core::Rejection;
use ottla_core::offsets::OffsetError;
use ottla_core::partitions::ProduceError;
use ottla_core::transactions::{EndError, InitError, TransactionError};
use ottla_types::record::TransactionState;
use ottla_types::{Offset, ProducerEpoch, TopicPartition, next_sequence};

/// An answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Said {
    Ok,
    /// InitProducerId and EndTxn name the owner.
    Owner(Pair),
    /// A batch is in the log.
    At(Offset),
    Refused(&'static str, Option<&'static str>),
    /// There was no request, or nothing to abort.
    Nothing,
}

impl Said {
    pub(crate) fn word(&self) -> &'static str {
        match self {
            Said::Ok | Said::Owner(_) | Said::At(_) => "ok",
            Said::Refused(word, _) => word,
            Said::Nothing => "none",
        }
    }

    pub(crate) fn rule(&self) -> Option<&'static str> {
        match self {
            Said::Refused(_, rule) => *rule,
            _ => None,
        }
    }

    pub(crate) fn pair(&self) -> Option<Pair> {
        match self {
            Said::Owner(pair) => Some(*pair),
            _ => None,
        }
    }

    /// The same answer; a producer id that was handed out for it may be another one.
    pub(crate) fn is_like(&self, other: &Said) -> bool {
        let both_fresh = |one: Pair, two: Pair| one.0.0 >= 1000 && two.0.0 >= 1000 && one.1 == two.1;
        match (self, other) {
            (Said::Owner(one), Said::Owner(two)) => one == two || both_fresh(*one, *two),
            _ => self == other,
        }
    }
}

impl From<Answer> for Said {
    fn from(answer: Answer) -> Said {
        match answer {
            Answer::InitProducerId(result) => result.map_or_else(|no| refused(no, init_word), Said::Owner),
            Answer::EndTxn(result) => result.map_or_else(|no| refused(no, end_word), Said::Owner),
            Answer::AddPartitionsToTxn(results) => of_transaction(results[0]),
            Answer::AddOffsetsToTxn(result) => of_transaction(result),
            Answer::Produce(results) => {
                results[0].map_or_else(|no| refused(no, produce_word), |placed| Said::At(placed.base_offset))
            }
            Answer::StageOffsets(results) => {
                results[0][0].map_or_else(|no| refused(no, stage_word), |()| Said::Ok)
            }
            Answer::AbortTransaction(result) => result.map_or(Said::Nothing, |()| Said::Ok),
            other => panic!("{other:?}"),
        }
    }
}

fn refused<E>(refused: Rejection<E>, word: fn(E) -> &'static str) -> Said {
    Said::Refused(word(refused.error), refused.rule)
}

fn of_transaction(result: Result<(), Rejection<TransactionError>>) -> Said {
    result.map_or_else(|no| refused(no, transaction_word), |()| Said::Ok)
}

fn init_word(error: InitError) -> &'static str {
    match error {
        InitError::NoId => "no id",
        InitError::BadTimeout => "bad timeout",
        InitError::Fenced => "fenced",
        InitError::Concurrent => "again",
    }
}

fn end_word(error: EndError) -> &'static str {
    match error {
        EndError::NoId => "no id",
        EndError::UnknownProducer => "owner",
        EndError::Fenced => "fenced",
        EndError::InvalidState => "state",
    }
}

fn transaction_word(error: TransactionError) -> &'static str {
    match error {
        TransactionError::NoId => "no id",
        TransactionError::UnknownProducer => "owner",
        TransactionError::Fenced => "fenced",
        TransactionError::NotInTransaction => "out",
    }
}

fn produce_word(error: ProduceError) -> &'static str {
    match error {
        ProduceError::UnknownProducer => "owner",
        ProduceError::StaleEpoch => "fenced",
        ProduceError::NotInTransaction => "out",
        ProduceError::OutOfOrder => "order",
        _ => "other",
    }
}

fn stage_word(error: OffsetError) -> &'static str {
    match error {
        OffsetError::Transaction(error) => transaction_word(error),
        _ => "other",
    }
}

/// The durable state of the id.
pub(crate) fn known(world: &World) -> Option<TransactionState> {
    world.shard.transactions().get(ID).map(|known| known.state().clone())
}

/// What a partition knows of a pair's producer: its epoch, and the sequence number that it expects of the pair.
pub(crate) fn send_sequence(world: &World, pair: Pair, at: TopicPartition) -> (Option<ProducerEpoch>, i32) {
    let partition = world.shard.partitions().get(at).unwrap();
    let Some(producer) = partition.producers().find(|known| known.producer_id == pair.0) else {
        return (None, 0);
    };
    let last = producer.batches.last().filter(|_| producer.epoch == pair.1);
    (Some(producer.epoch), last.map_or(0, |last| next_sequence(last.last_sequence)))
}
