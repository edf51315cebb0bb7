//! A small typed Kafka client: connections, routing, a producer with transactions, a consumer, a group member.
//! It must not know how a broker works inside: it uses only the protocol, with Ottla and Apache Kafka alike.
//!
//! The `ottla` commands and the tests use it. It uses the newest version of each API that both sides have; every
//! request of the protocol can be sent with [`Client::call`].
//!
//! ```no_run
//! # async fn example() -> Result<(), ottla_client::ClientError> {
//! use ottla_client::{Client, Consumer, Isolation, Producer, ProducerOptions, Record};
//!
//! let client = Client::connect("127.0.0.1:9092").await?;
//! let options = ProducerOptions { transactional_id: Some("letters".to_owned()), ..Default::default() };
//! let mut producer = Producer::start(client.clone(), options).await?;
//! producer.begin().await?;
//! let letter = Record { value: Some("Dear Max".into()), ..Default::default() };
//! let placed = producer.send("letters", None, vec![letter]).await?;
//! producer.commit().await?;
//!
//! let mut consumer = Consumer::new(&client, Isolation::ReadCommitted);
//! consumer.assign("letters", placed[0].partition, placed[0].offset);
//! let letters = consumer.poll(std::time::Duration::from_secs(1)).await?;
//! # Ok(())
//! # }
//! ```
#![forbid(unsafe_code)]

mod aborted;
mod assign;
mod blocking;
mod client;
mod cluster;
mod commit;
mod connection;
mod consumer;
mod error;
mod group;
mod metadata;
mod murmur;
mod offsets;
mod producer;
mod record;
mod security;
mod transaction;
mod versions;

pub use assign::Strategy;
pub use blocking::BlockingConnection;
pub use client::{Client, Options};
pub use cluster::{Coordinator, Node, Partition, Topic};
pub use commit::{GroupOffset, Membership};
pub use consumer::{Consumer, Isolation, is_out_of_range};
pub use error::ClientError;
pub use group::{GroupConsumer, GroupOptions};
pub use offsets::{CommittedOffset, OffsetAndTimestamp, Start};
pub use ottla_wire::codec::Compression;
pub use producer::{Producer, ProducerOptions, RecordMetadata};
pub use record::{ConsumedRecord, Header, Record};
pub use security::{Properties, Security, SecurityError};

#[cfg(test)]
mod tests {
    use super::*;

    /// Every asynchronous method; compiled, never run.
    async fn all(client: Client) -> Result<(), ClientError> {
        let mut producer = Producer::start(client.clone(), ProducerOptions::default()).await?;
        producer.begin().await?;
        producer.send("t", None, Vec::new()).await?;
        producer.send_offsets(&Membership::outside("g"), &[]).await?;
        producer.commit().await?;
        producer.abort().await?;
        Consumer::new(&client, Isolation::ReadCommitted).poll(std::time::Duration::ZERO).await?;
        let mut member = GroupConsumer::new(&client, GroupOptions::new("g", &["t"]));
        member.poll(std::time::Duration::ZERO).await?;
        member.commit().await?;
        member.leave().await
    }

    #[test]
    fn whatever_waits_can_be_spawned_on_any_runtime() {
        fn sendable(_: impl Future + Send) {}
        let _: fn(Client) = |client| sendable(all(client));
    }
}
