//! A blocking connection: one request, one answer.

use bytes::Bytes;
use ottla_wire::{Message, Request, Text, frame};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

/// No broker takes so long, unless it hangs.
const PATIENCE: Duration = Duration::from_secs(20);

pub(crate) struct Connection {
    stream: TcpStream,
    client: Text,
    /// The other end is the null broker, whose answers are empty.
    null: bool,
    /// The memory of the last answer.
    last: Bytes,
}

impl Connection {
    /// Connects to `HOST:PORT`, or to the null broker at `null@HOST:PORT`.
    pub(crate) fn open(address: &str) -> Result<Connection, String> {
        let (null, address) = match address.strip_prefix("null@") {
            Some(rest) => (true, rest),
            None => (false, address),
        };
        let open = || {
            let stream = TcpStream::connect(address)?;
            stream.set_nodelay(true)?;
            stream.set_read_timeout(Some(PATIENCE))?;
            Ok(stream)
        };
        let stream = open().map_err(|e: std::io::Error| format!("{address}: {e}"))?;
        Ok(Connection { stream, client: Text::from_static("bench"), null, last: Bytes::new() })
    }

    /// Sends a request and waits for its answer; the null broker's is taken for one without errors.
    pub(crate) fn call<R: Request>(&mut self, ask: &R, version: i16) -> Result<R::Response, String> {
        self.ask(ask, version)?;
        self.hear::<R>(version)
    }

    /// Sends a request.
    pub(crate) fn ask<R: Request>(&mut self, ask: &R, version: i16) -> Result<(), String> {
        let told = |e: &dyn std::fmt::Display| format!("{}: {e}", R::KEY.name());
        let request = frame::request(1, Some(&self.client), ask, version).map_err(|e| told(&e))?;
        self.stream.write_all(&request.to_bytes()).map_err(|e| told(&e))
    }

    /// Waits for the answer to a request of that kind.
    pub(crate) fn hear<R: Request>(&mut self, version: i16) -> Result<R::Response, String> {
        let told = |e: &dyn std::fmt::Display| format!("{}: {e}", R::KEY.name());
        let mut size = [0; 4];
        self.stream.read_exact(&mut size).map_err(|e| told(&e))?;
        let size = u32::from_be_bytes(size) as usize;
        // Memory that was never touched costs more than the bytes that are read into it, so an answer nobody holds is reused.
        let last = std::mem::take(&mut self.last).try_into_mut();
        let mut memory = last.map(Vec::from).unwrap_or_default();
        if memory.len() < size {
            memory.resize(size, 0);
        }
        let room = memory.get_mut(..size).unwrap_or_default();
        self.stream.read_exact(room).map_err(|e| told(&e))?;
        self.last = Bytes::from(memory);
        if self.null {
            return Ok(R::Response::default());
        }
        let (_, mut body) =
            frame::read_response_header(&self.last.slice(..size), R::KEY, version).map_err(|e| told(&e))?;
        R::Response::decode(&mut body, version).map_err(|e| told(&e))
    }

    /// As [`Connection::call`], with the null sink too, whose answers to this are whole.
    pub(crate) fn exchange<R: Request>(&mut self, ask: &R, version: i16) -> Result<R::Response, String> {
        let null = std::mem::replace(&mut self.null, false);
        let answer = self.call(ask, version);
        self.null = null;
        answer
    }

    /// Gives the stream away.
    pub(crate) fn into_stream(self) -> TcpStream {
        self.stream
    }

    /// Whether the other end is the null broker.
    pub(crate) fn is_null(&self) -> bool {
        self.null
    }
}
