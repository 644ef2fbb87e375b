//! Tests of the verifier: one rejected program for each rule, made from `sample.ir` by one change.

mod rig;

mod actions;
mod decl;
mod expr;
mod parsers;
mod pipeline;
mod stmt;
mod tables;
