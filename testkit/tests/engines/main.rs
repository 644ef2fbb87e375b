//! What programs mean, on every engine at once: see [`common`].

mod common;
mod expressions;
mod externs;
mod parsers;
mod random_expressions;
mod tables;
mod work;
