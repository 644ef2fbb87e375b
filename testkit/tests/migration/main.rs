//! The rule of docs/MIGRATION.md, line by line: an old program with entries, a new one, what is told of each object, and what packets find then.

mod rig;

mod actions;
mod cells;
mod devices;
mod keys;
mod profiles;
mod tables;
mod value_sets;
