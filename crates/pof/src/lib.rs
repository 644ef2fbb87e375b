//! Crate `pof`: a switch that a controller programs by protocol-oblivious forwarding (POF), in the
//! dialect of POFSwitch 1.4.
mod forwarder;
pub mod model;
pub mod tables;
mod translate;
pub mod wire;

pub use forwarder::{Count, Event, Forwarder, Options, Removed, RemovalReason};
pub use translate::{Fault, OnMiss};
