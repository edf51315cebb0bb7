//! A blocking connection without a runtime, for programs that measure or start a broker. The caller chooses the version
//! of each request. Frames can also be sent and received as bytes, so that malformed ones can be tested.

use bytes::Bytes;
use ottla_wire::{Message, Request, Text, frame};
use std::io::{self, Error, ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

/// Bytes of the largest response that is accepted.
const LARGEST_ANSWER: usize = 256 << 20;

/// A connection to a broker that blocks its caller. Requests may be pipelined: the responses arrive in the order of the
/// requests.
pub struct BlockingConnection {
    stream: TcpStream,
    client_id: Text,
    /// The memory of the last response, which is reused when no response refers to it any more.
    memory: Bytes,
}

impl BlockingConnection {
    /// Connects; connecting and each later read may take `limit`.
    ///
    /// # Errors
    /// The broker does not accept the connection.
    pub fn open(
        broker: SocketAddr,
        client_id: &'static str,
        limit: Duration,
    ) -> io::Result<BlockingConnection> {
        let stream = TcpStream::connect_timeout(&broker, limit)?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(limit))?;
        Ok(BlockingConnection { stream, client_id: Text::from_static(client_id), memory: Bytes::new() })
    }

    /// Sends a request and waits for its response.
    ///
    /// # Errors
    /// The connection failed, or the request or the response does not follow the protocol ([`ErrorKind::InvalidData`]).
    pub fn call<R: Request>(&mut self, request: &R, version: i16) -> io::Result<R::Response> {
        self.send(request, version)?;
        self.receive::<R>(version)
    }

    /// Sends a request. Its correlation id is always 1.
    ///
    /// # Errors
    /// As [`BlockingConnection::call`].
    pub fn send<R: Request>(&mut self, request: &R, version: i16) -> io::Result<()> {
        let request = frame::request(1, Some(&self.client_id), request, version).map_err(invalid)?;
        self.stream.write_all(&request.to_bytes())
    }

    /// Sends bytes as they are.
    ///
    /// # Errors
    /// The connection failed.
    pub fn send_bytes(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.stream.write_all(bytes)
    }

    /// Waits for the response to a request of type `R`.
    ///
    /// # Errors
    /// As [`BlockingConnection::call`].
    pub fn receive<R: Request>(&mut self, version: i16) -> io::Result<R::Response> {
        let answer = self.receive_bytes()?.slice(4..);
        let (_, mut body) = frame::read_response_header(&answer, R::KEY, version).map_err(invalid)?;
        R::Response::decode(&mut body, version).map_err(invalid)
    }

    /// Waits for the next frame; the four bytes of its size included.
    ///
    /// # Errors
    /// The connection failed or ended, or the size of the frame is negative or too large.
    pub fn receive_bytes(&mut self) -> io::Result<Bytes> {
        let mut size = [0; 4];
        self.stream.read_exact(&mut size)?;
        let length =
            usize::try_from(i32::from_be_bytes(size)).ok().filter(|length| *length <= LARGEST_ANSWER);
        let end = 4 + length.ok_or_else(|| invalid("a frame of an impossible size"))?;
        // Allocating memory costs more than reading the bytes into it.
        let last = std::mem::take(&mut self.memory).try_into_mut();
        let mut memory = last.map(Vec::from).unwrap_or_default();
        if memory.len() < end {
            memory.resize(end, 0);
        }
        memory[..4].copy_from_slice(&size);
        self.stream.read_exact(&mut memory[4..end])?;
        self.memory = Bytes::from(memory);
        Ok(self.memory.slice(..end))
    }

    /// The socket, for a caller that continues without this type.
    pub fn into_stream(self) -> TcpStream {
        self.stream
    }
}

fn invalid(error: impl ToString) -> Error {
    Error::new(ErrorKind::InvalidData, error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;
    use ottla_wire::messages::ApiVersionsRequest;
    use std::net::TcpListener;
    use std::thread;

    /// A connection to a peer that sends these bytes and closes.
    fn answered(bytes: &'static [u8]) -> BlockingConnection {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        thread::spawn(move || listener.accept().unwrap().0.write_all(bytes).unwrap());
        BlockingConnection::open(address, "test", Duration::from_secs(20)).unwrap()
    }

    #[test]
    fn an_answer_is_decoded() {
        // Size, correlation id 1, error code 35, no API keys.
        let mut connection = answered(&[0, 0, 0, 10, 0, 0, 0, 1, 0, 35, 0, 0, 0, 0]);
        let answer = connection.call(&ApiVersionsRequest::default(), 0).unwrap();
        assert_eq!((answer.error_code, answer.api_keys.len()), (35, 0));
    }

    #[test]
    fn a_frame_of_an_impossible_size_and_an_early_end_are_errors() {
        let kind = |bytes| answered(bytes).receive_bytes().unwrap_err().kind();
        assert_eq!(kind(&[255, 255, 255, 255]), ErrorKind::InvalidData);
        assert_eq!(kind(&[127, 0, 0, 0]), ErrorKind::InvalidData);
        assert_eq!(kind(&[0, 0, 0, 9, 1]), ErrorKind::UnexpectedEof);
    }
}
