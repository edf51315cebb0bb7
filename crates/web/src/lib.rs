//! The HTTP side of the broker: metrics, health, JSON, and the pages.
//! It must not know how state is decided or kept: it asks the broker and shows what it is told.
//!
//! One rule for JSON: what a page at `/path?query` shows is at `/api/v1/path?query` as JSON. To add a page, write its file under
//! `pages/`: a struct that is an askama template and serializes, and a function from [`asked::Asked`] to it; then add its line to
//! [`routes`].
#![forbid(unsafe_code)]

mod app;
mod asked;
mod escape;
mod guard;
mod health;
mod metrics;
mod pages;
mod routes;
mod server;
mod shell;
mod site;

pub use app::App;
pub use routes::routes;
pub use server::Web;
pub use site::{Failed, Site};
