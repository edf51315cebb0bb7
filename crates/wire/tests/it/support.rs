//! Helpers of several tests: decoding and encoding by name, and the list of every API, direction and version.

use bytes::Bytes;
use ottla_wire::tables::{Direction, MessageTable};
use ottla_wire::{API_TABLE, ApiInfo, Message, Reader, Writer, frame};
use std::cell::Cell;

thread_local! {
    /// Whether [`typed`] only decodes, for measuring what that takes.
    static DECODE_ONLY: Cell<bool> = const { Cell::new(false) };
}

/// Reads the message of that name and drops it.
pub(crate) fn decode_only(
    name: &str,
    version: i16,
    r: &mut Reader,
    w: &mut Writer,
) -> Result<String, String> {
    DECODE_ONLY.set(true);
    let outcome = recode(name, version, r, w);
    DECODE_ONLY.set(false);
    outcome
}

/// Reads a message, writes it again, and returns how it prints.
fn typed<M: Message + std::fmt::Debug>(
    version: i16,
    r: &mut Reader,
    w: &mut Writer,
) -> Result<String, String> {
    let message = M::decode(r, version).map_err(|why| why.to_string())?;
    if DECODE_ONLY.get() {
        return Ok(String::new());
    }
    message.encode(w, version).map_err(|why| why.to_string())?;
    Ok(format!("{message:?}"))
}

mod dispatch {
    use super::typed;
    use ottla_wire::{Reader, Writer};
    include!(concat!(env!("OUT_DIR"), "/dispatch.rs"));
}
pub(crate) use dispatch::recode;

/// One row of the golden table.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Case {
    pub(crate) info: &'static ApiInfo,
    pub(crate) direction: Direction,
    pub(crate) table: &'static MessageTable,
    pub(crate) version: i16,
}

/// Every API, direction and valid version, in the order of the golden table.
pub(crate) fn cases() -> impl Iterator<Item = Case> {
    API_TABLE.iter().flat_map(|info| {
        [(Direction::Request, info.request), (Direction::Response, info.response)].into_iter().flat_map(
            move |(direction, table)| {
                table.into_iter().flat_map(move |table| {
                    table.versions.iter().map(move |version| Case { info, direction, table, version })
                })
            },
        )
    })
}

/// Reads a whole frame with the typed codec and writes its body again. Returns the bytes left after the body, the body
/// written again, and how the message prints.
pub(crate) fn recode_frame(case: &Case, whole: &Bytes) -> Result<(usize, Bytes, String), String> {
    let content = whole.slice(whole.len().min(4)..);
    let mut body = match case.direction {
        Direction::Request => frame::read_request_header(&content).map_err(|why| why.to_string())?.1,
        Direction::Response => {
            frame::read_response_header(&content, case.info.key, case.version)
                .map_err(|why| why.to_string())?
                .1
        }
    };
    let mut w = Writer::new();
    let printed = recode(case.table.name, case.version, &mut body, &mut w)?;
    Ok((body.remaining(), w.into_bytes(), printed))
}
