//! Tests of the migration rules in docs/reference/program-change.md, line by line. A test has an
//! old program with entries and a new program. It checks the report on each object, and the results
//! of packets.

mod rig;

mod actions;
mod cells;
mod devices;
mod keys;
mod profiles;
mod tables;
mod value_sets;
