//! Tests of the P4Runtime server: controllers over real gRPC against a device with a loop.

mod rig;

mod access;
mod batches;
mod cells;
mod devices;
mod faults;
mod managed;
mod pipeline;
mod profiles;
mod reads;
mod replication;
mod sessions;
mod state;
mod streams;
mod tables;
