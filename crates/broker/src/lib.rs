//! The broker's outside: sockets, limits, dispatch, and one file per Kafka API that turns a request into questions to the core.
//! It must not know how state is decided (core), how bytes last (store, layout) or how messages are encoded (wire).
#![forbid(unsafe_code)]

mod api;
mod context;
pub mod host;
mod limits;
mod metrics;
mod net;
mod randomness;
mod trace;

pub use api::served_versions;
pub use context::{Advertised, Context, Memory};
pub use limits::Limits;
pub use metrics::{ApiMetrics, Counter, Level, Metrics, TopicMetrics};
pub use net::{Door, Server};
pub use ottla_store::HistogramView;
pub use randomness::Randomness;
pub use trace::{
    Ending, Exchange, FRAME_CAP, Stages, TRACE_BYTES, TRACE_RING, Trace, TraceFilter, TraceUsage,
    TracedFrame, Verdict,
};
