//! Tests of the crate's formats and values by its public interface.

mod fields;
mod figures;
mod older;
mod paths;
mod random;
mod sequence;
mod written;
