//! The room of P4Runtime (1.5): the server that lets controllers load programs, write and read state, and exchange packets with devices; and a
//! controller's connection to any such server.
//!
//! **In:** gRPC calls of controllers; a device's packets for the CPU, digests and idle entries. **Out:** jobs that a device's loop does between
//! batches, answers and notifications.
//! **May import:** `switch`, `exec`, `table`, `packet`, `p4info`, `ir`, `bits`, `support`.
//!
//! A device belongs to a loop: the one that carries its packets, or the office of its workers. The loop has an [`Inbox`]; the server's side of it is
//! a channel of jobs, functions on the device that the loop calls between batches. Packets of controllers come and go by a port of the device like
//! others, [`CpuPort`]. The server runs on a thread of its own.
//!
//! - `control`: the ends of the channel: jobs, packets and events;
//! - `incoming`: connections, TLS and who may listen beyond this machine; `places`: how many
//!   connections each client may have; `caller`: a client that waits for an answer; `access`: what
//!   a client's certificate allows it; `logged`: what is logged; `figures`: what is counted;
//! - `server`, `services`, `stream`: the gRPC services and their sessions; `arbiter`: who is primary, as a state machine without I/O;
//! - `ports`: the service by which controllers watch ports;
//! - `site`: a device as the server sees it; `pipeline`: its program, running or saved;
//! - `platform`: what a P4Info asks of the platform;
//! - `schema`: P4Runtime's numbers against the program's objects, with how each value travels (`coding`, `bytes`, `data`);
//! - `write`: an update becomes an `Op` (checked against the schema, away from the loop), which a job applies; `undo`: what takes an `Op` back; `batch`: all of a batch or
//!   nothing;
//! - `read`: a request becomes a `Query`, a job collects what is asked for, and it becomes messages away from the loop;
//! - `tenants`: the service by which virtual data planes are made and changed, for whoever has them;
//! - `packet_io`, `digests`, `idle`: what devices tell controllers by themselves;
//! - `restriction`: `@entry_restriction` and `@action_restriction`;
//! - `keeping`: what of a device whose state is kept is not on the disk yet; `notes`: what the device keeps for the server;
//! - `client`: the controller's side, for commands; it uses none of the other parts;
//! - `device_config`: compiled programs as they travel;
//! - `rehearsal`: requests without a server, for fuzzing;
//! - `extras`: what a controller wrote that a device has no words for (weights of single actions, watch ports, metadata of groups).
//!
//! Invariants:
//! - whatever a client sends, nothing panics and the packet path does not wait for it, but for the cells of a `DATAPLANE_ATOMIC` batch, which are few; queues are bounded, and what they cannot hold is counted;
//! - a write to a device whose state is kept is acknowledged when it is on the disk, or refused and taken back;
//! - a write finishes before a later arbitration of its role does, so a new primary never finds an old one's writes still coming;
//! - reads see a device between writes, never in the middle of one;
//! - what was written is read back as it was written, in canonical byte strings;
//! - a refused update changes nothing; its error has the specification's code and names the object, the field and the value.
//!
//! Tests: `tests/`, controllers over real gRPC against a device with a loop; `arbiter`, `bytes` and `digests` beside the code.
//! docs/P4RUNTIME.md lists the specification's requirements with their tests.

mod access;
mod arbiter;
mod batch;
mod bytes;
mod caller;
pub mod client;
mod coding;
mod control;
mod data;
mod device_config;
mod digests;
mod extras;
mod fault;
mod figures;
mod idle;
mod incoming;
mod keeping;
mod logged;
mod noted;
mod notes;
mod packet_io;
mod pipeline;
mod places;
mod platform;
mod ports;
mod read;
mod rehearsal;
mod restriction;
mod schema;
mod server;
mod services;
mod site;
mod stream;
mod tenants;
mod undo;
mod write;

/// The service's generated code: the server's side, and the client's for tests and controllers written in Rust.
pub mod service {
    tonic::include_proto!("p4.v1");

    /// The service for the state of ports.
    pub mod ports {
        tonic::include_proto!("polyplane.ports.v1");
    }

    /// The service for operators of virtual data planes.
    pub mod tenancy {
        tonic::include_proto!("polyplane.tenancy.v1");
    }
}

pub use access::{Allow, AllowError};
pub use control::{CpuNumbers, CpuPort, Inbox, Remote, ToControllers, channel};
pub use device_config::device_config;
pub use figures::{Figures, LATENCY_MICROS, Latencies};
pub use incoming::{Clients, Listen, ListenError, Reach, Tls};
pub use logged::Limit;
pub use notes::{Notes, forget_config, has_config};
pub use pipeline::{check_p4info, compare_p4info, read_program};
pub use rehearsal::{Rehearsal, Rehearsed};
pub use server::{Server, ServerError, Setup, Urgency};
pub use site::{Leave, Loader, Purpose};
pub use tenants::{Answer, Asker, Denial, Petition, Petitioner, Petitions, Viewer, petitions};
pub use tonic::Code;
