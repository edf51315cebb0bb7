//! Two requests spoken by hand, so that the judge of the clients depends on neither a client nor Ottla's own codec.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

const CLIENT_ID: &[u8] = b"xtask";
const FETCH: i16 = 1;
const API_VERSIONS: i16 = 18;

/// Asks ApiVersions v0; the answer is the number of API keys, so that a broker that answers is known to serve requests.
pub(crate) fn api_versions(broker: SocketAddr) -> Result<usize, String> {
    let answer = ask(broker, API_VERSIONS, 0, &[])?;
    let mut reader = Reader::new(&answer);
    match reader.i16()? {
        0 => Ok(reader.i32()? as usize),
        code => Err(format!("ApiVersions answered error {code}")),
    }
}

/// The codec of the first batch of a partition, as named in producer settings (Fetch v4 from offset 0).
pub(crate) fn first_codec(broker: SocketAddr, topic: &str, partition: i32) -> Result<&'static str, String> {
    let mut body = Vec::new();
    body.extend((-1i32).to_be_bytes()); // a consumer, not a replica
    body.extend(5000i32.to_be_bytes()); // longest wait, ms
    body.extend(1i32.to_be_bytes()); // fewest bytes
    body.extend((1i32 << 20).to_be_bytes()); // most bytes
    body.push(0); // read_uncommitted
    body.extend(1i32.to_be_bytes());
    body.extend((topic.len() as i16).to_be_bytes());
    body.extend(topic.as_bytes());
    body.extend(1i32.to_be_bytes());
    body.extend(partition.to_be_bytes());
    body.extend(0i64.to_be_bytes());
    body.extend((1i32 << 20).to_be_bytes());
    let answer = ask(broker, FETCH, 4, &body)?;
    codec_of(batch_of(&answer)?)
}

/// The record bytes in a Fetch v4 answer for one partition.
fn batch_of(answer: &[u8]) -> Result<&[u8], String> {
    let mut reader = Reader::new(answer);
    reader.take(4)?; // throttle time
    reader.take(4)?; // one topic
    let name = reader.i16()?;
    reader.take(name.max(0) as usize)?;
    reader.take(4)?; // one partition
    reader.take(4)?; // its number
    let code = reader.i16()?;
    if code != 0 {
        return Err(format!("Fetch answered error {code}"));
    }
    reader.take(16)?; // high watermark, last stable offset
    let aborted = reader.i32()?.max(0) as usize;
    reader.take(aborted.saturating_mul(16))?;
    let length = reader.i32()?.max(0) as usize;
    reader.take(length)
}

/// Bits 0 to 2 of a version 2 batch's attributes.
fn codec_of(batch: &[u8]) -> Result<&'static str, String> {
    let mut reader = Reader::new(batch);
    reader.take(16)?; // base offset, length, leader epoch
    if reader.take(1)? != [2] {
        return Err("the first batch is not of version 2".to_owned());
    }
    reader.take(4)?; // checksum
    match reader.i16()? & 7 {
        0 => Ok("none"),
        1 => Ok("gzip"),
        2 => Ok("snappy"),
        3 => Ok("lz4"),
        4 => Ok("zstd"),
        other => Err(format!("unknown codec {other}")),
    }
}

/// Sends one request with a version 1 header and returns the answer behind its correlation id.
fn ask(broker: SocketAddr, key: i16, version: i16, body: &[u8]) -> Result<Vec<u8>, String> {
    let failed = |e: std::io::Error| format!("no answer from {broker}: {e}");
    let limit = Duration::from_secs(10);
    let mut stream = TcpStream::connect_timeout(&broker, limit).map_err(failed)?;
    stream.set_read_timeout(Some(limit)).map_err(failed)?;
    let mut frame = Vec::new();
    frame.extend(key.to_be_bytes());
    frame.extend(version.to_be_bytes());
    frame.extend(7i32.to_be_bytes());
    frame.extend((CLIENT_ID.len() as i16).to_be_bytes());
    frame.extend(CLIENT_ID);
    frame.extend(body);
    let mut message = (frame.len() as i32).to_be_bytes().to_vec();
    message.extend(frame);
    stream.write_all(&message).map_err(failed)?;
    let mut head = [0; 8];
    stream.read_exact(&mut head).map_err(failed)?;
    let length = i32::from_be_bytes([head[0], head[1], head[2], head[3]]);
    if !(4..=(1 << 24)).contains(&length) {
        return Err(format!("{broker} answered a frame of {length} bytes"));
    }
    let mut answer = vec![0; length as usize - 4];
    stream.read_exact(&mut answer).map_err(failed)?;
    Ok(answer)
}

struct Reader<'a> {
    rest: &'a [u8],
}

impl<'a> Reader<'a> {
    fn new(rest: &'a [u8]) -> Self {
        Reader { rest }
    }

    fn take(&mut self, count: usize) -> Result<&'a [u8], String> {
        let (head, rest) = self.rest.split_at_checked(count).ok_or("an answer ends too early")?;
        self.rest = rest;
        Ok(head)
    }

    fn i16(&mut self) -> Result<i16, String> {
        Ok(self.take(2)?.iter().fold(0, |n, b| n << 8 | i16::from(*b)))
    }

    fn i32(&mut self) -> Result<i32, String> {
        Ok(self.take(4)?.iter().fold(0, |n, b| n << 8 | i32::from(*b)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codec_is_read_from_the_attributes() {
        let mut batch = vec![0; 61];
        batch[16] = 2;
        batch[22] = 0x14; // transactional, zstd
        assert_eq!(codec_of(&batch), Ok("zstd"));
        batch[16] = 1;
        assert!(codec_of(&batch).is_err());
        assert!(codec_of(&batch[..10]).is_err());
    }
}
