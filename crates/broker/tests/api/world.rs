//! A broker in memory, and a client that sends and receives frames.

use bytes::Bytes;
use ottla_broker::host::{self, HostOptions, Snapshots};
use ottla_broker::{AdvertisedAddress, Context, ContextOptions, Server};
use ottla_core::config::Settings;
use ottla_store::{MemoryMedium, Options};
use ottla_wire::messages::Request;
use ottla_wire::{Message, Text, frame};
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

/// A broker with the given configuration on top of the defaults.
pub(crate) async fn broker(configs: &[(&str, &str)]) -> Server {
    let configs: BTreeMap<String, String> =
        configs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
    let options = HostOptions {
        settings: Settings::from_configs(&configs).unwrap(),
        log: Options::memory(),
        cluster_id: "ottla-test-cluster-id0".to_owned(),
        snapshots: Snapshots::every(1 << 20),
    };
    let started = host::start(Arc::new(MemoryMedium::new()), options).unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let advertised = AdvertisedAddress { host: "localhost".to_owned(), port: 0 };
    let advertised = advertised.bound_to(listener.local_addr().unwrap());
    let options = ContextOptions::new(advertised, "memory");
    let context = Context::new(started.host, started.reader, options).await.unwrap();
    Server::bind(listener, context).unwrap()
}

/// A connection to a broker.
pub(crate) struct Peer {
    stream: TcpStream,
    asked: i32,
    answered: i32,
}

impl Peer {
    pub(crate) async fn connect(server: &Server) -> Peer {
        Peer { stream: TcpStream::connect(server.local_addr()).await.unwrap(), asked: 0, answered: 0 }
    }

    /// Sends a request and waits for its response.
    pub(crate) async fn call<M: Request>(&mut self, request: &M, version: i16) -> M::Response {
        self.tell(request, version).await;
        self.hear::<M>(version).await
    }

    /// Sends a request.
    pub(crate) async fn tell<M: Request>(&mut self, request: &M, version: i16) {
        self.asked += 1;
        let client = Text::from_static("test");
        let sent = frame::request(self.asked, Some(&client), request, version).unwrap();
        self.send(&sent.to_bytes()).await;
    }

    /// Waits for the next response.
    pub(crate) async fn hear<M: Request>(&mut self, version: i16) -> M::Response {
        let got = self.receive().await.expect("an answer");
        let (correlation_id, mut body) = frame::read_response_header(&got, M::KEY, version).unwrap();
        assert!(correlation_id > self.answered && correlation_id <= self.asked, "answers come in order");
        self.answered = correlation_id;
        let response = M::Response::decode(&mut body, version).unwrap();
        assert_eq!(body.remaining(), 0);
        response
    }

    /// The client's address.
    pub(crate) fn address(&self) -> SocketAddr {
        self.stream.local_addr().unwrap()
    }

    /// Sends bytes without a length prefix.
    pub(crate) async fn send(&mut self, bytes: &[u8]) {
        self.stream.write_all(bytes).await.unwrap();
    }

    /// Sends a frame with its length prefix.
    pub(crate) async fn send_frame(&mut self, frame: &[u8]) {
        let size = i32::try_from(frame.len()).unwrap();
        self.send(&[&size.to_be_bytes()[..], frame].concat()).await;
    }

    /// The next frame without its length prefix; none if the connection was closed.
    pub(crate) async fn receive(&mut self) -> Option<Bytes> {
        let size = self.stream.read_i32().await.ok()?;
        let mut frame = vec![0; usize::try_from(size).unwrap()];
        self.stream.read_exact(&mut frame).await.ok()?;
        Some(frame.into())
    }

    pub(crate) async fn is_closed(&mut self) -> bool {
        self.receive().await.is_none()
    }
}

/// A request header of version 1 or, with its empty tag section, 2.
pub(crate) fn header(key: i16, version: i16, client_id: Option<&str>, flexible: bool) -> Vec<u8> {
    let mut bytes = Vec::new();
    bytes.extend_from_slice(&key.to_be_bytes());
    bytes.extend_from_slice(&version.to_be_bytes());
    bytes.extend_from_slice(&7_i32.to_be_bytes());
    match client_id {
        Some(id) => {
            bytes.extend_from_slice(&i16::try_from(id.len()).unwrap().to_be_bytes());
            bytes.extend_from_slice(id.as_bytes());
        }
        None => bytes.extend_from_slice(&(-1_i16).to_be_bytes()),
    }
    if flexible {
        bytes.push(0);
    }
    bytes
}
