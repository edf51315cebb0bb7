//! A connection for typed requests.

use ottla::Broker;
use ottla_wire::messages::Request;
use ottla_wire::{Message, Text, frame};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

pub(crate) struct Connection {
    stream: TcpStream,
    asked: i32,
}

impl Connection {
    pub(crate) async fn connect(broker: &Broker) -> Connection {
        Connection::to(&broker.address().to_string()).await
    }

    /// A connection to any broker.
    pub(crate) async fn to(address: &str) -> Connection {
        Connection { stream: TcpStream::connect(address).await.unwrap(), asked: 0 }
    }

    /// Sends a request and waits for its response.
    pub(crate) async fn call<R: Request>(&mut self, request: &R, version: i16) -> R::Response {
        self.asked += 1;
        let sent = frame::request(self.asked, Some(&Text::from_static("test")), request, version).unwrap();
        self.stream.write_all(&sent.to_bytes()).await.unwrap();
        let size = self.stream.read_i32().await.unwrap();
        let mut got = vec![0; usize::try_from(size).unwrap()];
        self.stream.read_exact(&mut got).await.unwrap();
        let got = got.into();
        let (_, mut body) = frame::read_response_header(&got, R::KEY, version).unwrap();
        R::Response::decode(&mut body, version).unwrap()
    }
}
