//! Monitors: detectors over reports.

pub(crate) mod flow_table;
pub(crate) mod path_latency;
