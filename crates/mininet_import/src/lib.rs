//! Crate `mininet_import`: topology files of the P4 tutorials and of p4-utils, as topologies of a
//! fabric.
//!
//! **In:** the text of a `topology.json` (tutorials) or `p4app.json` (p4-utils). **Out:** a
//! [`MininetNetwork`], and the text of a topology file in TOML that says the same
//! ([`MininetNetwork::to_toml`]). It may import `json_text`, `toml_file` and `support`, and does no
//! I/O: the caller finds the files that a network names ([`p4_name`], [`program_of_runtime`]).
//!
//! Invariants:
//! - All mistakes are reported, each with its line and a hint.
//! - Each key that has no effect is named in a warning, once.
//!
//! Tests: `tests/`.

mod addresses;
mod names;
mod network;
mod p4utils;
mod reader;
mod toml_text;
mod tutorial;

pub use network::{
    ImportedHost, ImportedLink, ImportedSwitch, LinkEnd, MininetNetwork, p4_name,
    program_of_runtime, read,
};
