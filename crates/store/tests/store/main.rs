//! Tests of stored state.

mod common;
mod disk;
#[path = "../../../switch/tests/common/mod.rs"]
mod switches;

mod faults;
mod packets;
mod raft_log;
