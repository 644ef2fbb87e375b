//! Tests of handlers in C: each runs on both engines, with each C compiler that exists.

mod common;
mod errors;
mod headers;
mod packets;
mod reload;
mod signals;
mod tables;
mod values;
