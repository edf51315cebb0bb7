//! The log line about a client that violates the protocol: it names the client, the field and the byte.

use crate::world::{Peer, broker, header};
use std::io;
use std::sync::{Arc, Mutex};
use tracing_subscriber::fmt::MakeWriter;

/// Collects the log.
#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<u8>>>);

impl Log {
    /// The lines since the last call.
    fn lines(&self) -> Vec<String> {
        let bytes = std::mem::take(&mut *self.0.lock().unwrap());
        String::from_utf8(bytes).unwrap().lines().map(str::to_owned).collect()
    }
}

impl io::Write for Log {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl<'a> MakeWriter<'a> for Log {
    type Writer = Log;

    fn make_writer(&'a self) -> Log {
        self.clone()
    }
}

#[tokio::test]
async fn a_closed_connection_leaves_one_line_with_peer_field_and_byte() {
    let log = Log::default();
    let subscriber = tracing_subscriber::fmt()
        .with_ansi(false)
        .with_max_level(tracing::Level::INFO)
        .with_writer(log.clone())
        .finish();
    let _guard = tracing::subscriber::set_default(subscriber);
    let server = broker(&[]).await;
    let framed = |frame: &[u8]| [&i32::try_from(frame.len()).unwrap().to_be_bytes()[..], frame].concat();
    let bytes = |head: Vec<u8>, body: &[u8]| framed(&[&head[..], body].concat());
    let cases = [
        (vec![0xff; 4], vec!["size", "byte 0"]),
        (framed(&header(999, 0, Some("x"), false)), vec!["RequestApiKey", "byte 4", "999"]),
        (framed(&header(4, 0, Some("x"), false)), vec!["LeaderAndIsr (4)", "RequestApiKey", "byte 4"]),
        (framed(&header(0, 2, Some("x"), false)), vec!["Produce (0)", "RequestApiVersion", "byte 6", "3-13"]),
        (framed(&header(3, 0, Some("x"), false)[..9]), vec!["ClientId", "byte 12"]),
        (bytes(header(3, 8, Some("x"), false), b"\x7f\xff\xff\xff"), vec!["Metadata", "Topics", "byte 15"]),
        (bytes(header(3, 0, Some("x"), false), b"\0\0\0\x01\xff\xff"), vec!["Metadata", "Name", "byte 19"]),
    ];
    for (bytes, expected) in cases {
        let mut peer = Peer::connect(&server).await;
        peer.send(&bytes).await;
        assert!(peer.is_closed().await);
        let lines = log.lines();
        assert_eq!(lines.len(), 1, "{lines:?}");
        for part in expected.into_iter().chain([&peer.address().to_string()[..]]) {
            assert!(lines[0].contains(part), "{part} in {}", lines[0]);
        }
    }
    Peer::connect(&server).await.send(b"\0\0").await;
    drop(Peer::connect(&server).await);
    let mut next = Peer::connect(&server).await;
    next.send(&[0xff; 4]).await;
    assert!(next.is_closed().await);
    let lines = log.lines();
    let torn = lines.iter().filter(|line| line.contains("after 2 of 4 bytes")).count();
    assert_eq!((lines.len(), torn), (2, 1), "a peer that comes and goes is not news: {lines:?}");
}
