//! A network that delivers old requests again later, while a client of version 2 continues with its next transactions.

use crate::network::{exchange, expected, frame, transact, values};
use ottla::Broker;
use ottla_client::{Client, Isolation};
use ottla_wire::ApiKey;
use std::sync::{Arc, Mutex};
use tokio::io::AsyncWriteExt;
use tokio::net::{TcpListener, TcpStream};

/// The APIs that are delivered again.
const REPEATED: [ApiKey; 5] = [
    ApiKey::PRODUCE,
    ApiKey::END_TXN,
    ApiKey::TXN_OFFSET_COMMIT,
    ApiKey::ADD_PARTITIONS_TO_TXN,
    ApiKey::ADD_OFFSETS_TO_TXN,
];

const ROUNDS: usize = 40;

/// The requests that can be delivered again, and how many were.
#[derive(Default)]
struct OldRequests {
    frames: Vec<Vec<u8>>,
    delivered: usize,
}

/// Relays one connection, and delivers an old request before each new one: each age in turn.
async fn carry(
    mut client: TcpStream,
    mut broker: TcpStream,
    mut late: TcpStream,
    old: Arc<Mutex<OldRequests>>,
) {
    while let Some(request) = frame(&mut client).await {
        let again = {
            let mut old = old.lock().unwrap();
            let age = old.delivered * 7 % old.frames.len().max(1);
            let again = old.frames.iter().rev().nth(age).cloned();
            old.delivered += usize::from(again.is_some());
            if REPEATED.contains(&ApiKey(i16::from_be_bytes([request[4], request[5]]))) {
                old.frames.push(request.clone());
            }
            again
        };
        if let Some(again) = again {
            exchange(&mut late, &again).await.unwrap();
        }
        let Some(answer) = exchange(&mut broker, &request).await else { return };
        if client.write_all(&answer).await.is_err() {
            return;
        }
    }
}

#[tokio::test]
async fn t_102_t_104_old_requests_that_come_again_change_nothing_at_version_2() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let broker = Broker::in_memory().advertise(&address).set("num.partitions", "3").start().unwrap();
    let (behind, old) = (broker.address(), Arc::<Mutex<OldRequests>>::default());
    let kept = old.clone();
    tokio::spawn(async move {
        while let Ok((client, _)) = listener.accept().await {
            let broker = TcpStream::connect(behind).await.unwrap();
            let late = TcpStream::connect(behind).await.unwrap();
            tokio::spawn(carry(client, broker, late, kept.clone()));
        }
    });
    let client = Client::connect(&address).await.unwrap();
    transact(&client, ROUNDS).await;
    let delivered = old.lock().unwrap().delivered;
    assert!(delivered >= 3 * ROUNDS, "{delivered}");
    let committed = expected((0..ROUNDS).filter(|round| round % 3 != 2));
    assert_eq!(values(&client, Isolation::ReadCommitted).await, committed);
    assert_eq!(values(&client, Isolation::ReadUncommitted).await, expected(0..ROUNDS));
    let offsets = client.committed_offsets("g", Some(("t", &[0]))).await.unwrap();
    assert_eq!(offsets[0].offset.offset, ROUNDS as i64 - 1);
}
