//! Hostile neighbours: a virtual data plane pays for its own load, and another one keeps its share
//! and its latency. Costs are computed, not measured, so that results are the same on every
//! machine. They are a worker's costs: other threads (compilers, the control side) cost it only
//! the work that they cause in it, not time on a common processor.

#[path = "../common/mod.rs"]
mod common;
mod harness;

mod changes;
mod links;
mod packets;
mod passes;
