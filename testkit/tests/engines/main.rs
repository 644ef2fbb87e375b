//! What programs mean, on every engine at once: see [`common`].

mod common;
mod expressions;
mod externs;
mod maker;
mod parsers;
mod random_expressions;
mod random_programs;
mod tables;
mod work;
