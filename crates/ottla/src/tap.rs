//! A proxy between Kafka clients and any Kafka cluster that reports every frame that passes: the crate `ottla-tap`.
//!
//! ```
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let broker = ottla::Broker::in_memory().start()?;
//! let (tap, mut events) = ottla::tap::Tap::start("127.0.0.1:0", &broker.address().to_string()).await?;
//! let client = std::net::TcpStream::connect(tap.address())?; // any Kafka client connects here
//! assert!(matches!(events.recv().await, Some(ottla::tap::Event::ConnectionOpened { connection: 1, .. })));
//! # Ok(())
//! # }
//! ```

pub use ottla_tap::*;
