//! Crate `controller`: the controller's view of a program, from its P4Info. It converts between
//! text and P4Runtime messages.
//!
//! **In:** a [`p4info::P4Info`] of any P4Runtime server; [`entries::Update`]s for the
//! [`entries::Schema`] built from it; messages that were read. **Out:** messages to write; updates;
//! readable values.
//!
//! Invariants: data from a server is not trusted, so a message that does not fit the P4Info is an
//! error, not a panic. An update that is converted to messages and back is unchanged.
//!
//! Tests: `tests/`. The commands that use this crate are tested in `cli` against a server.

mod catalog;
mod data;
mod decode;
mod encode;
mod number;
mod packet;

pub use catalog::{Catalog, CatalogError};
pub use data::{Datum, datum};
pub use decode::{DecodeError, Read};
pub use encode::EncodeError;
pub use packet::Field;
