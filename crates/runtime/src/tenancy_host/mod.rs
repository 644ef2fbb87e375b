//! Switch that hosts virtual data planes (vPDPs), each of which is a P4Runtime device.
//!
//! The [`ControlLoop`] runs on the caller's thread beside the workers. It executes the requests of
//! operators and controllers, which an [`OperatorServer`] receives. Programs are compiled on other
//! threads. With a [`StoredHost`], a change is answered when it is on disk: `storing` has the order
//! of its steps, `stored` what is on disk and how it comes back.

mod audit_log;
mod compile_job;
mod control_loop;
mod cycle_accounting;
mod metrics;
mod packet_processor;
mod report;
mod requests;
mod server;
mod stages;
mod stored;
mod storing;
mod view;
mod vpdp_server;

pub use control_loop::{ControlLoop, HostEvent, HostOptions};
pub use cycle_accounting::{Cycles, fairness};
pub use packet_processor::{FAIR_ROUND, FIRST_CONTROLLER_PORT, ROUND};
pub use report::HostReport;
pub use server::OperatorServer;
pub use stored::StoredHost;
