//! The client when responses are lost: a proxy lets the broker serve a request, and then cuts the connection.

use crate::network::{exchange, expected, frame, records, transact, values};
use ottla::Broker;
use ottla_client::{Client, Isolation, Producer, ProducerOptions};
use ottla_wire::ApiKey;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use tokio::io::AsyncWriteExt;
use tokio::net::{TcpListener, TcpStream};

/// The APIs of which every second response is lost.
const LOST: [ApiKey; 4] =
    [ApiKey::PRODUCE, ApiKey::END_TXN, ApiKey::INIT_PRODUCER_ID, ApiKey::TXN_OFFSET_COMMIT];

/// Relays the requests of one connection one at a time, until a response is to be lost.
async fn carry(mut client: TcpStream, mut broker: TcpStream, asked: Arc<AtomicUsize>) {
    while let Some(request) = frame(&mut client).await {
        let key = ApiKey(i16::from_be_bytes([request[4], request[5]]));
        let Some(answer) = exchange(&mut broker, &request).await else { return };
        if LOST.contains(&key) && asked.fetch_add(1, Ordering::Relaxed).is_multiple_of(2) {
            return;
        }
        if client.write_all(&answer).await.is_err() {
            return;
        }
    }
}

/// A broker behind such a proxy, and the count of requests whose responses can be lost.
async fn broker_that_loses_answers() -> (Broker, String, Arc<AtomicUsize>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let broker = Broker::in_memory().advertise(&address).set("num.partitions", "3").start().unwrap();
    let (behind, asked) = (broker.address(), Arc::<AtomicUsize>::default());
    let count = asked.clone();
    tokio::spawn(async move {
        while let Ok((client, _)) = listener.accept().await {
            let broker = TcpStream::connect(behind).await.unwrap();
            tokio::spawn(carry(client, broker, count.clone()));
        }
    });
    (broker, address, asked)
}

#[tokio::test]
async fn t_41_a_batch_whose_answer_got_lost_is_sent_again_and_not_doubled() {
    let (_broker, address, asked) = broker_that_loses_answers().await;
    let client = Client::connect(&address).await.unwrap();
    let mut producer = Producer::start(client.clone(), ProducerOptions::default()).await.unwrap();
    let mut last = Vec::new();
    for round in 0..20 {
        let placed = producer.send("t", None, records(round)).await.unwrap();
        let moved = |place: usize| last.get(place).is_none_or(|last| placed[place].offset > *last);
        assert!((0..9).all(moved), "{placed:?}");
        last = placed.iter().map(|placed| placed.offset).collect();
    }
    assert!(asked.load(Ordering::Relaxed) >= 40);
    assert_eq!(values(&client, Isolation::ReadUncommitted).await, expected(0..20));
}

#[tokio::test]
async fn t_102_a_transaction_whose_answers_got_lost_counts_once() {
    let (_broker, address, asked) = broker_that_loses_answers().await;
    let client = Client::connect(&address).await.unwrap();
    transact(&client, 12).await;
    assert!(asked.load(Ordering::Relaxed) >= 60);
    assert_eq!(
        values(&client, Isolation::ReadCommitted).await,
        expected((0..12).filter(|round| round % 3 != 2))
    );
    assert_eq!(values(&client, Isolation::ReadUncommitted).await, expected(0..12));
    let committed = client.committed_offsets("g", Some(("t", &[0]))).await.unwrap();
    assert_eq!(committed[0].offset.offset, 10);
}
