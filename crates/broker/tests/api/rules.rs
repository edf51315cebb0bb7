//! Rules and reports through the wire, each test named by what it shows.

mod compacting;
mod ends;
mod markers;
mod offsets;
mod produce;
mod readers;
mod restart;
