//! Tests of stored state.

mod common;
#[allow(dead_code, reason = "the tests of `runtime` use the rest")]
mod disk;
#[path = "../../../switch/tests/common/mod.rs"]
mod switches;

mod faults;
mod packets;
mod raft_log;
