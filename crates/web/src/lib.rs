//! The HTTP side of the broker: metrics, health, JSON, and the pages. It must not know how state is decided or kept.
//! One module, `shard`, reads the state machine's views and copies them into rows; every other module knows only those
//! rows, the broker's metrics and the trace.
//!
//! One rule for JSON: what a page at `/path?query` shows is at `/api/v1/path?query` as JSON. To add a page, write its
//! file under `pages/`: a struct that is an askama template and serializes, and a function from
//! [`request::PageRequest`] to it; then add its line to [`routes`].
#![forbid(unsafe_code)]

mod app;
mod error;
mod escape;
mod format;
mod guard;
mod health;
mod layout;
mod metrics;
mod pages;
mod reference;
mod request;
mod respond;
mod routes;
mod server;
mod shard;

pub use app::App;
pub use reference::{RenderError, Site};
pub use routes::routes;
pub use server::Web;
