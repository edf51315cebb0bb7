//! Reads single values: numbers, lengths, strings and bytes.

use super::cursor::SourceCursor;
use super::{Note, Prefix, Problem, Value};
use crate::tables::Type;

/// The longest string in bytes.
const MAX_STRING_LENGTH: u64 = crate::text::MAX_STRING_LENGTH as u64;

pub(super) type ReadResult<T> = Result<(T, Value, Option<Note>), Problem>;

/// Reads an integer as the value of a node.
pub(super) fn int<T: Into<i64>>(
    read: impl FnOnce(&mut SourceCursor) -> Result<T, Problem>,
) -> impl FnOnce(&mut SourceCursor) -> ReadResult<i64> {
    |cur| {
        let value = read(cur)?.into();
        Ok((value, Value::Int(value), None))
    }
}

pub(super) fn unsigned(cur: &mut SourceCursor) -> ReadResult<u32> {
    let (value, note) = cur.uvarint()?;
    Ok((value, Value::Int(value.into()), note))
}

pub(super) fn marker(cur: &mut SourceCursor, tagged: bool) -> ReadResult<bool> {
    if tagged {
        let (value, note) = cur.uvarint()?;
        let note = note.or((value > 1).then_some(Note::Marker));
        return Ok((value != 0, Value::Int(value.into()), note));
    }
    let value = cur.i8()?;
    let note = (value != 1 && value != -1).then_some(Note::Marker);
    Ok((value >= 0, Value::Int(value.into()), note))
}

/// A length: the number of bytes or elements, `None` for null; and the number as it is encoded.
pub(super) fn length(
    cur: &mut SourceCursor,
    prefix: Prefix,
    nullable: bool,
) -> Result<(Option<u32>, u32, Option<Note>), Problem> {
    let (value, written, note) = match prefix {
        Prefix::Compact => {
            let (written, note) = cur.uvarint()?;
            (i64::from(written) - 1, written, note)
        }
        Prefix::Int16 => {
            let value = cur.i16()?;
            (value.into(), i32::from(value) as u32, None)
        }
        Prefix::Int32 => {
            let value = cur.i32()?;
            (value.into(), value as u32, None)
        }
        Prefix::Varint => {
            let (value, note) = cur.varint()?;
            (value.into(), value as u32, note)
        }
        Prefix::Marker | Prefix::Rest => (cur.left() as i64, cur.left() as u32, None),
    };
    match value {
        -1 if nullable => Ok((None, written, note)),
        -1 => Err(Problem::Null),
        value => match u32::try_from(value) {
            Ok(value) if i32::try_from(value).is_ok() => Ok((Some(value), written, note)),
            Ok(value) => Err(Problem::Count { count: value.into(), left: cur.left() as u64 }),
            Err(_) => Err(Problem::Negative(value)),
        },
    }
}

pub(super) fn text(cur: &mut SourceCursor, prefix: Prefix, nullable: bool) -> ReadResult<Option<usize>> {
    let (length, _, note) = length(cur, prefix, nullable)?;
    let Some(length) = length else { return Ok((None, Value::Null(prefix), note)) };
    if u64::from(length) > MAX_STRING_LENGTH {
        return Err(Problem::LongText(length.into()));
    }
    let bytes = cur.take(length as usize)?;
    let note = note.or(std::str::from_utf8(bytes).is_err().then_some(Note::NotUtf8));
    Ok((Some(length as usize), Value::Text { length, prefix }, note))
}

pub(super) fn bytes(cur: &mut SourceCursor, prefix: Prefix, nullable: bool) -> ReadResult<Option<usize>> {
    let (length, _, note) = length(cur, prefix, nullable)?;
    let Some(length) = length else { return Ok((None, Value::Null(prefix), note)) };
    cur.take(length as usize)?;
    Ok((Some(length as usize), Value::Bytes { length, prefix }, note))
}

pub(super) fn scalar(cur: &mut SourceCursor, ty: Type, name: &str) -> ReadResult<()> {
    let value = match ty {
        Type::Bool => {
            let byte = cur.i8()?;
            let note = (byte != 0 && byte != 1).then_some(Note::NotZeroOrOne);
            return Ok(((), Value::Bool(byte != 0), note));
        }
        Type::Int16 if name.ends_with("ErrorCode") => {
            return cur.i16().map(|code| ((), Value::Error(code), None));
        }
        Type::Int8 => cur.i8()?.into(),
        Type::Int16 => cur.i16()?.into(),
        Type::Uint16 => cur.u16()?.into(),
        Type::Int32 => cur.i32()?.into(),
        Type::Uint32 => cur.u32()?.into(),
        Type::Float64 => return cur.f64().map(|value| ((), Value::Float(value), None)),
        Type::Uuid => return cur.take(16).map(|_| ((), Value::Uuid, None)),
        _ => cur.i64()?,
    };
    Ok(((), Value::Int(value), None))
}

pub(super) fn word(ty: Type) -> &'static str {
    match ty {
        Type::Bool => "bool",
        Type::Int8 => "int8",
        Type::Int16 => "int16",
        Type::Uint16 => "uint16",
        Type::Int32 => "int32",
        Type::Uint32 => "uint32",
        Type::Float64 => "float64",
        Type::Uuid => "uuid",
        _ => "int64",
    }
}
