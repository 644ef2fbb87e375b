//! The room of a controller's knowledge: what a P4Info tells of a program, for people's texts on one side and P4Runtime's messages on the other.
//!
//! **In:** a [`p4info::P4Info`] of any P4Runtime server; [`entries::Update`]s against the [`entries::Schema`] that is made of it; messages that were
//! read. **Out:** messages to write; updates again; values in words.
//! **May import:** `entries`, `p4info`, `ir`, `bits`.
//!
//! Invariants: what a server tells is never trusted: a message that does not fit the P4Info is an error, not a panic; an update that becomes messages and
//! comes back as they are is the same update. Tests: `tests/`; the commands that use this room are tested in `cli` against a server.

mod catalog;
mod data;
mod decode;
mod encode;
mod number;
mod packet;

pub use catalog::{Catalog, CatalogError};
pub use data::{Datum, datum};
pub use decode::{Read, ReadError};
pub use encode::EncodeError;
pub use packet::Field;
