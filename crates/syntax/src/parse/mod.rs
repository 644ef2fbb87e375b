//! The parser: recursive descent over preprocessed tokens. It returns a tree and diagnostics and never fails.
//!
//! P4's grammar needs to know which names are types. Where a declaration or a generic call can be told from an expression by looking ahead
//! over the tokens, this does so; only `(name) -e` and the like consult the names that were declared as types.

mod annotation;
mod cursor;
mod decl;
mod expr;
mod p4_14;
mod stmt;
mod types;

pub(crate) use cursor::Parser;
pub(crate) use p4_14::recognise;
