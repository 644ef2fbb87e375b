//! Simulation of a cluster with clients and faults. All of a run follows from its seed.
//!
//! The tests of the crate compile this module, and the example `random` includes the same files.

mod admin;
mod check;
mod client;
mod disk;
#[cfg(test)]
mod explore;
mod linear;
mod plan;
mod record;
#[cfg(test)]
mod scripts;
#[cfg(test)]
mod tests;
mod variant;
mod world;

#[cfg_attr(test, expect(unused_imports, reason = "the example writes histories"))]
pub(crate) use self::record::{Recorder, RecorderError};
pub(crate) use self::variant::Variant;
pub(crate) use self::world::{Report, run};
