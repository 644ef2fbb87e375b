//! Names of what a program of v1model has about reports of drops.

/// The intrinsic with the clone session that gets a copy of the packet if it is dropped; 0 for a
/// packet that is not watched.
pub const DROP_SESSION: &str = "drop_report.session";

/// The intrinsic with the number of the reason, in that copy; 0 in other packets.
pub const DROP_REASON: &str = "drop_report.reason";

/// The annotation of the package with the reports a second and worker.
pub const DROP_REPORTS: &str = "drop_reports";
