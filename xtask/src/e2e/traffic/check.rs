//! One frame, held against everything that can read it: explain leaves no byte over, and the typed codec and the
//! tables' JSON give back the same bytes.

use bytes::Bytes;
use ottla_microscope::json;
use ottla_wire::explain::{self, Options};
use ottla_wire::messages::{RequestHeader, ResponseHeader};
use ottla_wire::tables::TableSet;
use ottla_wire::{ApiInfo, ApiKey, Message, Reader, Writer, request_header_version, response_header_version};

/// Bytes of the size in front of a frame.
const SIZE: usize = 4;

/// Reads a message, writes it again, and returns nothing: [`recode`] wants a text.
fn typed<M: Message>(version: i16, r: &mut Reader, w: &mut Writer) -> Result<String, String> {
    let message = M::decode(r, version).map_err(|why| why.to_string())?;
    message.encode(w, version).map_err(|why| why.to_string())?;
    Ok(String::new())
}

include!(concat!(env!("OUT_DIR"), "/dispatch.rs"));

/// What a frame is said to be.
struct Claim<'a> {
    frame: &'a Bytes,
    is_request: bool,
    info: &'static ApiInfo,
    version: i16,
}

/// Says what is wrong with a frame of that API and version, its size included.
pub(super) fn check(frame: &Bytes, is_request: bool, key: ApiKey, version: i16) -> Result<(), String> {
    let info = key.info().ok_or("no API has this number")?;
    let claim = Claim { frame, is_request, info, version };
    claim.explained()?;
    let again = claim.typed().map_err(|why| format!("typed codec: {why}"))?;
    same(frame, &again).map_err(|why| format!("typed codec: {why}"))?;
    let again = claim.through_json().map_err(|why| format!("JSON: {why}"))?;
    same(frame, &again).map_err(|why| format!("JSON: {why}"))
}

fn same(before: &Bytes, after: &Bytes) -> Result<(), String> {
    if before == after {
        return Ok(());
    }
    let at = before.iter().zip(after).take_while(|(one, other)| one == other).count();
    Err(format!("{} bytes became {}, the first other one is byte {at}", before.len(), after.len()))
}

impl Claim<'_> {
    fn explained(&self) -> Result<(), String> {
        let set = TableSet::built_in();
        let explained = if self.is_request {
            explain::request(set, self.frame, &Options::default())
        } else {
            explain::response(set, self.info.key, self.version, self.frame, &Options::default())
        };
        match explained.faults().first() {
            Some(fault) => Err(format!("explain: {fault}")),
            None if explained.is_cut() => Err("explain: too many nodes".to_owned()),
            None => Ok(()),
        }
    }

    /// The frame after typed decoding and encoding, header included.
    fn typed(&self) -> Result<Bytes, String> {
        let Claim { frame, info, version, .. } = *self;
        let mut r = Reader::with_base(frame.slice(frame.len().min(SIZE)..), SIZE);
        let mut w = Writer::new();
        let (table, header) = if self.is_request {
            (info.request, request_header_version(info.key, version))
        } else {
            (info.response, response_header_version(info.key, version))
        };
        let (table, header) = table.zip(header).ok_or("the API was removed")?;
        let header = if self.is_request {
            typed::<RequestHeader>(header, &mut r, &mut w)
        } else {
            typed::<ResponseHeader>(header, &mut r, &mut w)
        };
        header?;
        recode(table.name, version, &mut r, &mut w)?;
        match r.remaining() {
            0 => framed(&w.into_bytes()),
            left => Err(format!("{left} bytes left over")),
        }
    }

    /// The frame after becoming JSON and bytes again.
    fn through_json(&self) -> Result<Bytes, String> {
        let Claim { frame, info, version, .. } = *self;
        let options = json::Options::default();
        if self.is_request {
            let value =
                json::decode_request(TableSet::built_in(), frame, options).map_err(|e| e.to_string())?;
            let id = value["correlationId"].as_i64().and_then(|id| i32::try_from(id).ok());
            let head = (id.ok_or("no correlation id")?, value["clientId"].as_str());
            json::encode_request(info, version, &value["body"], head).map_err(|e| e.to_string())
        } else {
            let value = json::decode_response(info, version, frame, options).map_err(|e| e.to_string())?;
            let id = value["correlationId"].as_i64().and_then(|id| i32::try_from(id).ok());
            json::encode_response(info, version, &value["body"], id.ok_or("no correlation id")?)
                .map_err(|e| e.to_string())
        }
    }
}

fn framed(content: &[u8]) -> Result<Bytes, String> {
    let size = i32::try_from(content.len()).map_err(|e| e.to_string())?;
    Ok([&size.to_be_bytes()[..], content].concat().into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use ottla_wire::API_TABLE;
    use ottla_wire::smallest_frame;
    use ottla_wire::tables::Direction;

    #[test]
    fn the_smallest_frames_pass() {
        for info in API_TABLE {
            for (direction, versions) in
                [(Direction::Request, info.request_versions), (Direction::Response, info.response_versions)]
            {
                for version in versions.iter() {
                    let frame = smallest_frame(info.key, direction, version).unwrap();
                    let checked = check(&frame, direction == Direction::Request, info.key, version);
                    assert_eq!(checked, Ok(()), "{} {direction:?} {version}", info.name);
                }
            }
        }
    }

    #[test]
    fn what_is_left_over_or_written_otherwise_is_said() {
        let frame = smallest_frame(ApiKey::METADATA, Direction::Request, 12).unwrap();
        let mut longer = frame.to_vec();
        longer.push(0);
        longer[3] += 1;
        assert!(check(&longer.into(), true, ApiKey::METADATA, 12).is_err());
        // An empty tagged section, its count written in two bytes instead of one.
        let mut overlong = frame.to_vec();
        overlong.pop();
        overlong.extend([0x80, 0]);
        overlong[3] += 1;
        let said = check(&overlong.into(), true, ApiKey::METADATA, 12).unwrap_err();
        assert!(said.contains("bytes became"), "{said}");
    }
}
