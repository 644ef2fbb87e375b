//! Tests in the guest of `cargo xtask kernel`: rules of flower in a kernel and in a test NIC. In
//! other places each test says that it is skipped.

#![cfg(target_os = "linux")]

mod bed;
mod difficulties;
mod faults;
mod paper;
mod random;
mod random_flows;
mod tc_command;
mod traced_flows;
