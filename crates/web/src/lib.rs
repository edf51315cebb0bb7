//! The HTTP side of the broker: metrics, health, JSON, and the pages.
//! It must not know how state is decided or kept: it asks the broker and shows what it is told.

#![forbid(unsafe_code)]
