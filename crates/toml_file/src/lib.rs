//! Crate `toml_file`: files of declarations in TOML, with all of their mistakes.
//!
//! **In:** the text of a file. **Out:** a value with the places of its parts ([`parse`]), and
//! mistakes with their lines and hints ([`Mistakes`], [`FileError`]). Topologies and loops of a
//! reflex plane are such files. It may import no other crate of the workspace, and does no I/O.
//!
//! Invariants:
//! - All mistakes are reported, each with its line and a hint, up to [`MAX_MISTAKES`].
//! - Quantities have units ([`Quantity`]).
//!
//! Tests: in the modules, and those of `fabric` for wrong topologies.

mod mistake;
mod parse;
mod quantity;

pub use mistake::{FileError, FileMistake, MAX_MISTAKES, Mistakes};
pub use parse::{Parsed, nearest_name, parse};
pub use quantity::Quantity;
pub use toml::Spanned;

/// A text with its place in the file.
pub type Text = Spanned<String>;
