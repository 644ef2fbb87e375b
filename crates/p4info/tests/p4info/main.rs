//! Tests of the P4Info of programs, part by part. The expected ids were computed separately, by the
//! definition of p4c's hash.

mod externs;
mod objects;
mod programs;
