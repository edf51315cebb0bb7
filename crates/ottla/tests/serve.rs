//! `ottla serve` when no process reads its log.
#![expect(
    clippy::unwrap_used,
    reason = "helpers of tests; clippy.toml lets tests unwrap, but not their helpers"
)]

use rustix::process::{Pid, Signal, kill_process};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Child, ChildStderr, Command, Stdio};
use std::time::{Duration, Instant};

const LONG: Duration = Duration::from_secs(30);
/// More lines than a pipe and the queue in front of it hold.
const CONNECTIONS: usize = 3000;

struct Serving {
    child: Child,
    address: String,
    log: ChildStderr,
}

impl Drop for Serving {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A broker whose log no process reads.
fn serve() -> Serving {
    let mut child = Command::new(env!("CARGO_BIN_EXE_ottla"))
        .args(["serve", "--memory", "--listen", "127.0.0.1:0", "--http", "off", "--log", "debug"])
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut line = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
    let address = line.strip_prefix("Ottla serves on ").unwrap().split(',').next().unwrap().to_owned();
    let log = child.stderr.take().unwrap();
    Serving { child, address, log }
}

/// Opens a connection, sends a request, and reads at most `most` bytes; fewer if the broker closes it.
fn talk(address: &str, request: &[u8], most: usize) -> Vec<u8> {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(LONG)).unwrap();
    stream.write_all(request).unwrap();
    let mut answer = vec![0; most];
    let mut length = 0;
    while length < most {
        match stream.read(&mut answer[length..]) {
            Ok(0) => break,
            Ok(read) => length += read,
            Err(error) if error.kind() == std::io::ErrorKind::ConnectionReset => break,
            Err(error) => panic!("the broker stands still: {error}"),
        }
    }
    answer.truncate(length);
    answer
}

/// Opens connections that the broker closes for what they send, and logs each.
fn fill_the_log(address: &str) {
    for _ in 0..CONNECTIONS {
        talk(address, &[0xff; 8], 1);
    }
}

#[test]
fn a_log_that_nobody_reads_does_not_stop_the_broker() {
    let mut serving = serve();
    fill_the_log(&serving.address);
    // ApiVersions version 0.
    let answer = talk(&serving.address, b"\0\0\0\x0a\0\x12\0\0\0\0\0\x07\xff\xff", 8);
    assert_eq!(answer[4..], [0, 0, 0, 7]);
    let began = Instant::now();
    let report = BufReader::new(&mut serving.log)
        .lines()
        .map(Result::unwrap)
        .find(|line| line.contains("log lines were dropped"))
        .unwrap();
    assert!(began.elapsed() < LONG, "{report}");
    let count = report.split("lines=").nth(1).unwrap().trim().parse::<usize>().unwrap();
    assert!((1..=CONNECTIONS).contains(&count), "{report}");
}

#[test]
fn a_log_that_nobody_reads_does_not_keep_the_broker_from_stopping() {
    let mut serving = serve();
    fill_the_log(&serving.address);
    kill_process(Pid::from_child(&serving.child), Signal::TERM).unwrap();
    let began = Instant::now();
    loop {
        if let Some(status) = serving.child.try_wait().unwrap() {
            assert!(status.success(), "{status}");
            return;
        }
        assert!(began.elapsed() < LONG, "it does not stop");
        std::thread::sleep(Duration::from_millis(10));
    }
}
