//! The smallest legal frame of an API and version, built from the tables alone.

use crate::tables::{Direction, FieldTable, MessageTable, StructTable, Type};
use crate::{ApiInfo, ApiKey, Writer};
use bytes::Bytes;

/// An empty record batch: all zero but its length, format and checksum.
const EMPTY_BATCH: [u8; 61] = {
    let mut batch = [0; 61];
    batch[11] = 49;
    batch[16] = 2;
    let crc = 0x595f_b7dd_u32.to_be_bytes();
    batch[17] = crc[0];
    batch[18] = crc[1];
    batch[19] = crc[2];
    batch[20] = crc[3];
    batch
};

/// Builds the smallest legal frame, including its size field; `None` if there is no such API or version.
///
/// Numbers are zero even if the schema has another default; strings and bytes are empty rather than null; every array
/// has one element; nullable structs are present; tagged fields are left out; records hold one empty batch of 61 bytes.
pub fn smallest_frame(key: ApiKey, direction: Direction, version: i16) -> Option<Bytes> {
    smallest_frame_of(key.info()?, direction, version)
}

/// As [`smallest_frame`], for an API of any table set.
pub fn smallest_frame_of(info: &ApiInfo, direction: Direction, version: i16) -> Option<Bytes> {
    let (table, header) = match direction {
        Direction::Request => (info.request?, info.request_header_version(version)),
        Direction::Response => (info.response?, info.response_header_version(version)),
    };
    if !table.versions.contains(version) {
        return None;
    }
    let mut w = Writer::with_capacity(128);
    w.i32(0);
    put_header(&mut w, info.key, direction, (version, header));
    put_struct(&mut w, table, table.root, version);
    let size = i32::try_from(w.len() - 4).ok()?;
    let mut frame = w.into_bytes().to_vec();
    frame.get_mut(..4)?.copy_from_slice(&size.to_be_bytes());
    Some(frame.into())
}

fn put_header(w: &mut Writer, key: ApiKey, direction: Direction, (version, header): (i16, i16)) {
    const CORRELATION_ID: i32 = 0;
    let tagged = match direction {
        Direction::Request => {
            w.i16(key.0);
            w.i16(version);
            w.i32(CORRELATION_ID);
            if header >= 1 {
                w.i16(0);
            }
            header >= 2
        }
        Direction::Response => {
            w.i32(CORRELATION_ID);
            header >= 1
        }
    };
    if tagged {
        w.uvarint(0);
    }
}

fn put_struct(w: &mut Writer, message: &MessageTable, table: &StructTable, version: i16) {
    for field in table.plain(version) {
        if matches!(field.ty, Type::Struct(_)) && field.nullable.contains(version) {
            w.marker(true);
        }
        put_value(w, (message, field), &field.ty, version);
    }
    if message.flexible.contains(version) {
        w.uvarint(0);
    }
}

fn put_value(w: &mut Writer, at: (&MessageTable, &FieldTable), ty: &Type, version: i16) {
    let (message, field) = at;
    let flexible = field.has_compact_length(message, version);
    match ty {
        Type::Bool | Type::Int8 => w.i8(0),
        Type::Int16 | Type::Uint16 => w.i16(0),
        Type::Int32 | Type::Uint32 => w.i32(0),
        Type::Int64 | Type::Float64 => w.i64(0),
        Type::Uuid => w.raw(&[0; 16]),
        Type::String if !flexible => w.i16(0),
        Type::String | Type::Bytes => put_length(w, flexible, 0),
        Type::Records => {
            put_length(w, flexible, EMPTY_BATCH.len() as u32);
            w.raw(&EMPTY_BATCH);
        }
        Type::Struct(inner) => put_struct(w, message, inner, version),
        Type::Array(element) => {
            put_length(w, flexible, 1);
            put_value(w, at, element, version);
        }
    }
}

fn put_length(w: &mut Writer, flexible: bool, length: u32) {
    if flexible {
        w.uvarint(length + 1);
    } else {
        w.u32(length);
    }
}
