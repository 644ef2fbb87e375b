//! The P4Info of programs, part by part; ids are computed apart, by the definition of p4c's hash.

mod externs;
mod objects;
mod programs;
