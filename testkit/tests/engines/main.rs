//! Tests of program semantics, on every engine at the same time: see [`common`].

mod common;
mod expressions;
mod externs;
mod maker;
mod parsers;
mod random_expressions;
mod random_programs;
mod tables;
mod work;
