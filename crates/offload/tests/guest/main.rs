//! Tests in the guest of `cargo xtask kernel`: rules of flower in a kernel and in a test NIC. In
//! other places each test says that it is skipped.

#![cfg(target_os = "linux")]

mod bed;
mod difficulties;
mod faults;
#[path = "../shared/ipv4_program.rs"]
mod ipv4_program;
mod paper;
#[path = "../shared/pof_role.rs"]
mod pof_role;
mod random;
mod random_flows;
mod target;
mod tc_command;
mod traced_flows;
