//! Rules and bug reports, tested through the protocol. The name of each test says what it shows.

mod compacting;
mod ends;
mod markers;
mod offsets;
mod produce;
mod readers;
mod restart;
