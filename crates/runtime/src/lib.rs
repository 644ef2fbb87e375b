//! Crate `runtime`: the switch as a library. Runs devices, or virtual data planes, between ports on
//! worker threads, with their control loop.
//!
//! **In:** a [`switch::Device`] or a [`tenancy_host::HostOptions`], opened ports
//! ([`port::OpenedPort`]), requests of controllers and operators (`p4rt`), and signals
//! ([`ProcessSetup`]). **Out:** sent frames, events for an observer ([`ForwarderEvent`],
//! [`tenancy_host::HostEvent`]), reports ([`report`]), metrics over HTTP ([`MetricsServer`]), and
//! state in a directory ([`StateDirectory`]). **May import:** `tenancy`, `switch`, `store`, `p4rt`,
//! `port`, `apply_entries`, `trace_format`, `driver` and the crates below these; neither `cli` nor
//! `stf` nor `bench`.
//!
//! [`Forwarder`] is one device with its workers. [`tenancy_host::ControlLoop`] is a switch of many
//! tenants. Both have a [`WorkerPool`]: each worker thread has a share of each port and a
//! [`ThreadProcessor`]. [`observation`] takes packets that match a filter out of their burst, for
//! captures, traces and summaries, while the switch runs. `examples/embed.rs` runs the example
//! router in 60 lines.
//!
//! Invariants:
//! - Nothing is printed: lines for people are events for the observer, and errors are values
//!   ([`RuntimeError`]). Operators' changes are logged by `tracing`.
//! - Workers do all packet processing. A worker's loop does not allocate, lock or wait, except to
//!   publish its statistics every few milliseconds and to sleep when no packet waits.
//! - The control loop never makes workers wait: it publishes, and they read.
//! - Files are reached only by `store`, in the directory that the caller names.
//!
//! Tests: in the modules, `tests/` (a switch on memory ports), and those of `cli`, which start the
//! built binary on real interfaces.

mod background_indexing;
mod compile_bounds;
mod control_loop;
mod cpu_port;
mod empty_program;
mod entries_file;
mod error;
mod metrics;
mod notifications;
pub mod observation;
mod packet_processor;
mod persistence;
mod port_changes;
mod port_commands;
mod process_setup;
mod reload;
pub mod report;
mod settings;
mod specialiser;
pub mod tenancy_host;
pub mod trace_filter;
mod worker_pool;
mod worker_thread;

pub use compile_bounds::compile_pool;
pub use control_loop::{
    ControlExtension, DeviceHandle, Ending, Forwarder, ForwarderEvent, ForwarderOptions,
    MakeFilter, StopSources, TraceSelection,
};
pub use cpu_port::{ChannelEnd, ControllerChannel, ControllerLink, Served, cpu_numbers};
pub use empty_program::EMPTY_PROGRAM;
pub use entries_file::{EntriesFileError, apply_entries, apply_entries_parts};
pub use error::RuntimeError;
pub use metrics::{MetricsServer, MetricsSource, PofSample, PofSampleQueue};
pub use notifications::{NotificationLevel, Notifications};
pub use packet_processor::ThreadProcessor;
pub use persistence::{StateDirectory, StoredDevice};
pub use port_changes::{
    InterfacePattern, InterfacePatternError, PortControl, TakenInterfaces, check_port,
};
pub use process_setup::{Guard, LoopTurns, ProcessSetup};
pub use reload::{DeviceReload, NewDevice, Reloaded};
pub use worker_pool::{WorkerPool, WorkerThreads};
pub use worker_thread::{EventSender, WorkerConfig, WorkerEvent};

/// Stack size of threads that compile programs. Programs may have very deep expressions, and
/// recursion over them takes stack.
pub const COMPILER_STACK_BYTES: usize = 512 << 20;
