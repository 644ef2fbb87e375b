//! Crate `pof_runtime`: the process of a POF switch, and the connection of a small controller.
//!
//! **In:** frames of network interfaces, bytes of controllers, addresses to dial or listen at.
//! **Out:** frames, bytes for controllers, reports, a directory with the state.
//!
//! - [`PofSwitch`] is the loop that handles the messages of controllers. `forwarding` forwards
//!   frames on the threads of `runtime`'s workers; `program_maker` makes programs on another one.
//! - `dialing` and `listening` make connections on threads of their own; `connection` carries bytes
//!   between a socket and the loop, and `mailbox` brings news to the loop.
//! - [`TlsOptions`] and `link` are TLS and plain TCP.
//! - `flow_offload` lets a NIC carry flows, and gives its counts to the switch.
//! - `stored_state` keeps the objects of the switch in a directory.
//! - [`Controller`] is the other side of a connection: requests and their answers.
//!
//! Invariants:
//! - Only the loop touches the switch. No message, program, connection or reader of lines delays
//!   frames: workers read what the loop publishes.
//! - Without controllers the switch forwards by its entries, or floods if that was asked for.
//! - With stored state, an answer leaves after all changes before it are on the disk.
//! - What is lost is counted.
//!
//! Tests: here for each part; `tests/program_change.rs` runs a switch on ports in memory, of which
//! the engine stands still; `cli/tests/pof.rs` runs the command on real interfaces.

mod address;
mod back_off;
mod connection;
mod controller;
mod dialing;
mod error;
mod flow_offload;
mod forwarding;
mod link;
mod listening;
mod mailbox;
mod program_maker;
mod report;
mod sessions;
mod stored_state;
mod switch_loop;
mod tls;

pub use address::{AddressError, ControllerAddress};
pub use controller::{Controller, SwitchAnswer};
pub use error::PofError;
pub use flow_offload::{pof_role, pof_roles};
pub use listening::Listen;
pub use report::{ControllerReport, PofReport, PortReport, TableReport};
pub use stored_state::StoredState;
pub use switch_loop::{DescribedPort, Fail, PofSwitch, Stop, SwitchOptions};
pub use tls::TlsOptions;
