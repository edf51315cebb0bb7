//! The broker's network side: sockets, limits, dispatch, one file for each Kafka API that turns a request into commands
//! of the core, and the host that runs the core. It must not know how state is decided (core), how bytes are kept
//! (store, layout) or how messages are encoded (wire).
//!
//! The modules in their order; each uses only modules above it:
//!
//! ```text
//!   limits  randomness  metrics  stored
//!   trace           exchanges recorded for the microscope
//!   host            runs the state machine and the log
//!   shards          which shard serves what
//!   net             connections; knows no API
//!   security_protocol   how clients of a listener connect
//!   tls             keys and certificates of a listener
//!   login           who the client of a connection is
//!   session         what a connection knows of its client
//!   authorizer      who may do what
//!   reading         plans and reads records for Fetch
//!   fetch_session   KIP-227
//!   context         what every API uses
//!   api             the dispatch table, one file for each API
//!   server          composes all of it
//! ```
#![forbid(unsafe_code)]

mod api;
mod authorizer;
mod context;
mod deleted_topics;
mod fetch_session;
pub mod host;
mod limits;
mod listeners;
mod login;
mod metrics;
mod net;
mod randomness;
mod reading;
mod security_protocol;
mod server;
mod session;
mod shards;
mod stored;
mod tls;
mod trace;

pub use api::served_versions;
pub use context::{Context, ContextOptions, Memory};
pub use limits::Limits;
pub use listeners::{ListenerConfig, ListenerError, ServedListener};
pub use metrics::{ApiMetrics, Counter, Level, Metrics, TopicMetrics};
pub use ottla_store::HistogramView;
pub use randomness::Randomness;
pub use security_protocol::SecurityProtocol;
pub use server::{Server, StreamServer};
pub use session::AdvertisedAddress;
pub use shards::Shards;
pub use tls::TlsError;
pub use trace::{
    Ending, Exchange, FRAME_CAP, Stages, TRACE_BYTES, TRACE_RING, Trace, TraceFilter, TraceUsage,
    TracedFrame, Verdict,
};
