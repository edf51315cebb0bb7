//! HTTP of an embedded broker: off by default, an error if a configured address is in use, and skipped if the default
//! address is.
#![expect(clippy::unwrap_used, reason = "a step that fails ends its test")]

use ottla::{Broker, Config, Http, StartError, Storage};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};

fn get(address: SocketAddr, path: &str) -> String {
    let mut stream = TcpStream::connect(address).unwrap();
    write!(stream, "GET {path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}

#[test]
fn an_embedded_broker_serves_http_if_asked() {
    assert_eq!(Broker::in_memory().start().unwrap().http_address(), None);
    let broker = Broker::in_memory().http("127.0.0.1:0").start().unwrap();
    let address = broker.http_address().unwrap();
    for (path, expected) in
        [("/ready", "\"ready\""), ("/", "<h1>Overview</h1>"), ("/metrics", "ottla_build_info")]
    {
        let answer = get(address, path);
        assert!(answer.starts_with("HTTP/1.1 200") && answer.contains(expected), "{path}: {answer}");
    }
    broker.stop().unwrap();
    assert!(TcpStream::connect(address).is_err(), "it stops with the broker");
}

#[test]
fn an_address_that_was_asked_for_must_be_free() {
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let error = Broker::in_memory().http(&address).start().unwrap_err();
    assert!(matches!(&error, StartError::Listen { address: named, .. } if *named == address), "{error}");
}

#[test]
fn the_default_address_is_done_without_if_it_is_taken() {
    // Taken by this test, or in use already.
    let _taken = TcpListener::bind(Http::DEFAULT);
    let config = Config {
        listen: "127.0.0.1:0".to_owned(),
        http: Http::IfFree,
        storage: Storage::Memory,
        ..Config::default()
    };
    let broker = Broker::start(&config).unwrap();
    assert_eq!(broker.http_address(), None);
}
