//! What is kept, and what becomes of it.

mod common;
mod disk;
#[path = "../../../switch/tests/common/mod.rs"]
mod switches;

mod faults;
mod packets;
