//! Debian's command `tc` reads what this crate says is there.
