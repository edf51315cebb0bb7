//! The broker's outside: sockets, limits, dispatch, and one file per Kafka API that turns a request into questions to the core.
//! It must not know how state is decided (core), how bytes last (store, layout) or how messages are encoded (wire).
#![forbid(unsafe_code)]

mod limits;
mod net;

pub use limits::Limits;
