//! Hostile neighbours: what one virtual data plane does costs itself, and leaves another one its share and its latency. Costs are reckoned, not timed,
//! so that a run says the same on every machine; they are a worker's, so that what runs on other threads (compilers, the control side) costs it what
//! it makes the worker do, and not the processor that both may run on.

#[path = "../common/mod.rs"]
mod common;
mod scene;

mod changes;
mod links;
mod packets;
mod passes;
