//! Records for callers of the client, and the batches that carry them.

use crate::aborted::{AbortedFilter, BatchFacts};
use crate::error::ClientError;
use bytes::Bytes;
use ottla_types::{ProducerEpoch, ProducerId};
use ottla_wire::batch::{self, Batch, BatchBuilder, BatchError, ControlRecord, NewRecord};
use ottla_wire::codec::Compression;
use std::sync::Arc;

/// The largest decompressed batch, in bytes.
const LARGEST_BATCH: usize = 256 << 20;
/// Bytes of a record besides its key, value and headers, at most.
const RECORD_OVERHEAD: usize = 40;

/// A record to be sent.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Record {
    /// Equal keys go to the same partition.
    pub key: Option<Bytes>,
    /// The value; none marks a key as deleted in a compacted topic.
    pub value: Option<Bytes>,
    /// Names and values, in order; a name may occur more than once.
    pub headers: Vec<Header>,
    /// Milliseconds since the Unix epoch; none takes the time of sending.
    pub timestamp: Option<i64>,
}

/// A header of a record: a name with a value.
pub type Header = (String, Option<Bytes>);

/// A record that was read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConsumedRecord {
    /// Name of the topic.
    pub topic: Arc<str>,
    /// Number of the partition.
    pub partition: i32,
    /// Its place in the partition.
    pub offset: i64,
    /// Milliseconds since the Unix epoch, -1 for none.
    pub timestamp: i64,
    /// The key.
    pub key: Option<Bytes>,
    /// The value.
    pub value: Option<Bytes>,
    /// Names and values, in order.
    pub headers: Vec<Header>,
}

impl Record {
    /// Upper bound of its bytes in a batch.
    pub(crate) fn size(&self) -> usize {
        let length = |bytes: &Option<Bytes>| bytes.as_ref().map_or(0, Bytes::len);
        let headers = self.headers.iter().map(|(name, value)| name.len() + length(value) + 10);
        RECORD_OVERHEAD + length(&self.key) + length(&self.value) + headers.sum::<usize>()
    }
}

/// The producer's fields in the header of a batch.
pub(crate) struct BatchHead {
    pub(crate) producer_id: ProducerId,
    pub(crate) producer_epoch: ProducerEpoch,
    pub(crate) base_sequence: i32,
    pub(crate) transactional: bool,
    pub(crate) compression: Compression,
}

/// Makes one batch of records that have their timestamps.
pub(crate) fn encode_batch(head: &BatchHead, records: &[Record]) -> Result<Bytes, ClientError> {
    let mut builder = BatchBuilder::new(head.compression)
        .producer(head.producer_id.0, head.producer_epoch.0, head.base_sequence)
        .transactional(head.transactional);
    for record in records {
        let header = |(name, value): &'_ Header| (name.as_bytes().to_vec(), value.clone());
        let headers: Vec<(Vec<u8>, Option<Bytes>)> = record.headers.iter().map(header).collect();
        let headers: Vec<batch::Header<'_>> = headers
            .iter()
            .map(|(name, value)| batch::Header { key: name, value: value.as_deref() })
            .collect();
        builder.push(&NewRecord {
            timestamp: record.timestamp.unwrap_or(-1),
            key: record.key.as_deref(),
            value: record.value.as_deref(),
            headers: &headers,
        });
    }
    builder.build().map_err(|error| ClientError::Malformed {
        what: "batch to be sent".to_owned(),
        reason: error.to_string(),
    })
}

/// The decoded batches of one partition in a Fetch response.
pub(crate) struct DecodedBatches {
    /// The records to be delivered.
    pub(crate) records: Vec<ConsumedRecord>,
    /// The last offset of the batches, delivered or not.
    pub(crate) last_offset: Option<i64>,
}

/// Reads the batches of a response. An incomplete batch at the end is left for the next fetch.
pub(crate) fn decode_batches(
    bytes: &Bytes,
    topic: &Arc<str>,
    partition: i32,
    filter: &mut AbortedFilter,
) -> Result<DecodedBatches, BatchError> {
    let mut decoded = DecodedBatches { records: Vec::new(), last_offset: None };
    for batch in batch::split(bytes) {
        let batch = batch?;
        batch.check_crc()?;
        if filter.keeps(&facts(&batch)?) {
            read_records(&batch, topic, partition, &mut decoded.records)?;
        }
        decoded.last_offset = Some(batch.header().last_offset());
    }
    Ok(decoded)
}

fn facts(batch: &Batch) -> Result<BatchFacts, BatchError> {
    let header = batch.header();
    let mut marker = None;
    if header.is_control() {
        // Another kind of control record, or one that compaction removed, ends nothing.
        marker = Some(true);
        for record in batch.records(LARGEST_BATCH)?.iter() {
            if let Some(ControlRecord::End { commit, .. }) = ControlRecord::of(&record?) {
                marker = Some(commit);
            }
        }
    }
    Ok(BatchFacts {
        last_offset: header.last_offset(),
        producer_id: header.producer_id,
        transactional: header.is_transactional(),
        marker,
    })
}

fn read_records(
    batch: &Batch,
    topic: &Arc<str>,
    partition: i32,
    records: &mut Vec<ConsumedRecord>,
) -> Result<(), BatchError> {
    let header = batch.header();
    let set = batch.records(LARGEST_BATCH)?;
    let share = |bytes: Option<&[u8]>| bytes.map(|bytes| set.body().slice_ref(bytes));
    for record in set.iter() {
        let record = record?;
        let named = |header: batch::Header<'_>| {
            (String::from_utf8_lossy(header.key).into_owned(), share(header.value))
        };
        records.push(ConsumedRecord {
            topic: topic.clone(),
            partition,
            offset: header.base_offset + i64::from(record.offset_delta),
            timestamp: header.timestamp(record.timestamp_delta),
            key: share(record.key),
            value: share(record.value),
            headers: record.headers.map(named).collect(),
        });
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn bytes() -> impl Strategy<Value = Option<Bytes>> {
        prop::option::of(prop::collection::vec(any::<u8>(), 0..40).prop_map(Bytes::from))
    }

    fn record() -> impl Strategy<Value = Record> {
        let headers = prop::collection::vec(("[a-z]{0,5}", bytes()), 0..3);
        let timestamp = (0..2_000_000_000_000_i64).prop_map(Some);
        (bytes(), bytes(), headers, timestamp).prop_map(|(key, value, headers, timestamp)| Record {
            key,
            value,
            headers,
            timestamp,
        })
    }

    fn head(base_sequence: i32, compression: Compression) -> BatchHead {
        BatchHead {
            producer_id: ProducerId(7),
            producer_epoch: ProducerEpoch(3),
            base_sequence,
            transactional: false,
            compression,
        }
    }

    proptest! {
        #[test]
        fn what_was_sent_is_read_back(
            sent in prop::collection::vec(record(), 1..20), codec in 0..5_u8, base in 0..1000_i32,
        ) {
            let codec = Compression::from_number(codec).unwrap();
            let batch = encode_batch(&head(base, codec), &sent).unwrap();
            let read = decode_batches(&batch, &"t".into(), 5, &mut AbortedFilter::default()).unwrap();
            prop_assert_eq!(read.last_offset, Some(sent.len() as i64 - 1));
            prop_assert_eq!(read.records.len(), sent.len());
            for (offset, (read, sent)) in read.records.iter().zip(&sent).enumerate() {
                prop_assert_eq!(read.offset, offset as i64);
                prop_assert_eq!(Some(read.timestamp), sent.timestamp);
                prop_assert_eq!((&read.key, &read.value, &read.headers), (&sent.key, &sent.value, &sent.headers));
            }
        }

        #[test]
        fn a_record_never_takes_more_than_was_reckoned(sent in prop::collection::vec(record(), 1..20)) {
            let batch = encode_batch(&head(0, Compression::None), &sent).unwrap();
            prop_assert!(batch.len() <= 61 + sent.iter().map(Record::size).sum::<usize>());
        }

        #[test]
        fn a_cut_or_damaged_answer_is_an_error_or_less_but_never_a_panic(
            sent in prop::collection::vec(record(), 1..5), cut in any::<prop::sample::Index>(), flip in any::<u8>(),
        ) {
            let mut batch = encode_batch(&head(0, Compression::None), &sent).unwrap().to_vec();
            let place = cut.index(batch.len());
            batch[place] ^= flip;
            let damaged = Bytes::from(batch);
            let read = |bytes: &Bytes| decode_batches(bytes, &"t".into(), 0, &mut AbortedFilter::default());
            let _ = read(&damaged);
            let cut = read(&damaged.slice(..place));
            prop_assert!(cut.is_err() || cut.is_ok_and(|decoded| decoded.records.is_empty()));
        }
    }
}
