//! Simulation of a cluster with clients and faults. All of a run follows from its seed.
//!
//! The tests of the crate compile this module, and the example `random` includes the same files.

mod admin;
mod check;
mod client;
mod disk;
mod linear;
mod plan;
#[cfg(test)]
mod scripts;
#[cfg(test)]
mod tests;
mod variant;
mod world;

pub(crate) use self::variant::Variant;
pub(crate) use self::world::{Report, run};
