//! The parser: recursive descent over preprocessed tokens. It always returns a tree and
//! diagnostics.
//!
//! Parsing P4 requires to know which names are types. Lookahead over the tokens distinguishes
//! declarations and generic calls from expressions where possible. Only `(name) -e` and similar
//! forms depend on the names declared as types.

mod annotation;
mod cursor;
mod decl;
mod expr;
mod p4_14;
mod stmt;
mod types;

pub(crate) use cursor::Parser;
pub(crate) use p4_14::recognise;
