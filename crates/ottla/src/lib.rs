//! A Kafka-compatible event broker to embed, in memory for a test or on a folder; the binary adds the command line. It
//! holds configuration, flags, texts and the assembly of a broker from its parts. It must not know how the broker
//! decides, stores or speaks, how a data folder is read and salvaged (`ottla-salvage`), or how frames are relayed and
//! masked (`ottla-tap`).
//!
//! ```
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let broker = ottla::Broker::in_memory().set("num.partitions", "3").start()?;
//! let bootstrap = broker.address(); // 127.0.0.1 and a free port; any Kafka client connects here
//! assert!(std::net::TcpStream::connect(bootstrap).is_ok());
//! broker.stop()?; // or drop it
//! # Ok(())
//! # }
//! ```
#![forbid(unsafe_code)]

mod broker;
mod config;
pub mod tap;
mod users;

pub use broker::{Broker, BrokerFailure, Builder, StartError};
pub use config::{BadConfig, Config, Durability, Http, Storage};
pub use users::{NewUser, UserFolder, UserView};
