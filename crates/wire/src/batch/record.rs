//! The records of a batch, borrowed from its decompressed bytes.

use super::varint::RecordCursor;
use super::{BatchError, BatchHeader};
use crate::codec::{Compression, decompress};
use bytes::Bytes;

/// The decompressed records of a batch.
#[derive(Clone, Debug)]
pub struct RecordSet {
    body: Bytes,
    count: i32,
}

impl RecordSet {
    pub(super) fn open(header: &BatchHeader, body: Bytes, cap: usize) -> Result<RecordSet, BatchError> {
        let body = match header.compression()? {
            Compression::None => body,
            codec => Bytes::from(decompress(codec, &body, cap)?),
        };
        Ok(RecordSet { body, count: header.record_count.max(0) })
    }

    /// The decompressed bytes. [`Bytes::slice_ref`] makes a shared slice of a key or value that a record borrows from
    /// them.
    pub fn body(&self) -> &Bytes {
        &self.body
    }

    /// The records in order. If bytes follow the last record, one more item is the error.
    pub fn iter(&self) -> RecordIter<'_> {
        RecordIter { cursor: RecordCursor { bytes: &self.body, at: 0 }, next: 0, count: self.count }
    }
}

/// See [`RecordSet::iter`].
#[derive(Debug)]
pub struct RecordIter<'a> {
    cursor: RecordCursor<'a>,
    next: i32,
    count: i32,
}

impl<'a> Iterator for RecordIter<'a> {
    type Item = Result<Record<'a>, BatchError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.next == self.count {
            let left = self.cursor.bytes.len() - self.cursor.at;
            self.cursor.at += left;
            return if left == 0 { None } else { Some(Err(BatchError::TrailingBytes(left))) };
        }
        let from = self.cursor;
        match record(&mut self.cursor) {
            Ok(record) => {
                self.next += 1;
                Some(Ok(record))
            }
            Err(problem) => {
                let record = self.next;
                self.next = self.count;
                self.cursor.at = self.cursor.bytes.len();
                Some(Err(BatchError::Record { record, offset: from.at, problem }))
            }
        }
    }
}

fn record<'a>(cursor: &mut RecordCursor<'a>) -> Result<Record<'a>, &'static str> {
    let length = cursor.varint().ok_or("its length is malformed")?;
    let length = usize::try_from(length).map_err(|_| "its length is negative")?;
    let bytes = cursor.take(length).ok_or("it is longer than the remaining bytes")?;
    let mut inner = RecordCursor { bytes, at: 0 };
    let record = Record {
        attributes: inner.byte().ok_or("it is empty")? as i8,
        timestamp_delta: inner.varlong().ok_or("its timestamp delta is malformed")?,
        offset_delta: inner.varint().ok_or("its offset delta is malformed")?,
        key: inner.nullable().ok_or("its key does not fit")?,
        value: inner.nullable().ok_or("its value does not fit")?,
        headers: headers(&mut inner).ok_or("its headers do not fit")?,
    };
    if inner.at != length {
        return Err("it is shorter than its length");
    }
    Ok(record)
}

/// Checks the headers once, so that iterating over them cannot fail.
fn headers<'a>(cursor: &mut RecordCursor<'a>) -> Option<Headers<'a>> {
    let count = u32::try_from(cursor.varint()?).ok()?;
    let headers = Headers { cursor: *cursor, left: count };
    for _ in 0..count {
        header(cursor)?;
    }
    Some(headers)
}

fn header<'a>(cursor: &mut RecordCursor<'a>) -> Option<Header<'a>> {
    Some(Header { key: cursor.nullable()??, value: cursor.nullable()? })
}

/// One record.
#[derive(Clone, Debug)]
pub struct Record<'a> {
    /// Unused, 0.
    pub attributes: i8,
    /// Its timestamp less the batch's base timestamp, in milliseconds; see [`BatchHeader::timestamp`].
    pub timestamp_delta: i64,
    /// Its offset less the batch's base offset.
    pub offset_delta: i32,
    /// The key, or null.
    pub key: Option<&'a [u8]>,
    /// The value, or null: a tombstone.
    pub value: Option<&'a [u8]>,
    /// The headers in order, duplicate keys included.
    pub headers: Headers<'a>,
}

/// The headers of a record, in order.
#[derive(Clone, Debug)]
pub struct Headers<'a> {
    cursor: RecordCursor<'a>,
    left: u32,
}

/// One header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header<'a> {
    /// The key. It should be UTF-8, which brokers do not check.
    pub key: &'a [u8],
    /// The value, or null.
    pub value: Option<&'a [u8]>,
}

impl<'a> Iterator for Headers<'a> {
    type Item = Header<'a>;

    fn next(&mut self) -> Option<Header<'a>> {
        self.left = self.left.checked_sub(1)?;
        header(&mut self.cursor)
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.left as usize, Some(self.left as usize))
    }
}

impl ExactSizeIterator for Headers<'_> {}
