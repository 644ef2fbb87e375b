//! The architectures that programs are written for.

pub mod includes;
