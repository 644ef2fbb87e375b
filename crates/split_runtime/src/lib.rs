//! Crate `split_runtime`: the processes of split programs: what a switch, a server and their
//! coordinator do to be one device.
//!
//! **In:** extension messages of P4Runtime, requests of controllers, the halves' devices.
//! **Out:** updates of planes by P4Runtime, the whole device for controllers.
//!
//! - [`SwitchExtension`] and [`ServerExtension`] extend the control loops of the halves: they
//!   report requests, used entries and the changes of handlers.
//! - [`CoordinatorLoop`] serves controllers with the whole device, and sends each change to the
//!   planes before the controller gets its answer.
//! - `group_change` is the protocol of a change of the group, `group_control` begins changes, and
//!   `operator` carries out the commands of operators.
//! - `agreement` reports that a half runs another program, or that no server answers.
//! - `code_change` is the protocol of new C code, and `server_code` its part in a server.
//! - `connection` is the thread of a connection to a plane, `remote_plane` the plane at its end,
//!   `update_queue` its updates on their way, and `difference` what it lacks. `all_servers` encodes
//!   changes once for all servers. `relay` passes packets and digests on.
//! - `commit_queue` delays answers, and `messages` converts the messages between planes.
//!
//! Invariants:
//! - A write is answered after all connected planes have it, or refused and undone. A long batch
//!   that continues on errors is sent in parts; a refused part is only reported.
//! - A plane that returns gets the whole state. Entries that it holds already stay.
//! - Messages of planes are checked before they are used as indices.
//!
//! Tests: in `request_log` and `code_change`; `cli/tests/split_control.rs` runs all processes.

mod agreement;
mod all_servers;
mod change_queue;
mod code_change;
mod commit_queue;
mod connection;
mod control;
mod difference;
mod fixed_program;
mod group_change;
mod group_control;
mod messages;
mod operator;
mod outbox;
mod relay;
mod remote_plane;
mod request_log;
mod server_code;
mod server_plane;
mod switch_plane;
mod update_queue;

pub use control::{
    ControllerEnds, CoordinatorError, CoordinatorLoop, CoordinatorOptions, PlaneSpec, StateStore,
};
pub use fixed_program::FixedProgram;
pub use messages::{FROM_PLANE, TO_PLANE};
pub use operator::{placement_of, policy_task};
pub use request_log::{LoggingFilter, RequestLog};
pub use server_code::{HandlerSource, NewHandlers, PreparedHandlers};
pub use server_plane::{ServerExtension, ServerIdentity};
pub use switch_plane::{SwitchExtension, SwitchParts};
