//! Crate `p4rt`: P4Runtime (1.5). It has two parts: the server, through which controllers load
//! programs, write and read state, and exchange packets with devices; and a client that connects a
//! controller to any P4Runtime server.
//!
//! **In:** gRPC calls of controllers; a device's packets to the CPU port, digests and idle entries.
//! **Out:** jobs that a device's loop runs between batches, answers and notifications.
//!
//! A device belongs to a loop: the one that forwards its packets, or the control loop of its
//! workers. The loop has an [`Inbox`]. The server sends jobs to it: functions on the device that
//! the loop calls between batches. Packets of controllers enter and leave through a port of the
//! device, the [`CpuPort`]. The server runs on its own thread.
//!
//! - `control`: the ends of the channel: jobs, packets and events;
//! - `incoming`: connections, TLS and who may listen beyond this machine; `places`: how many
//!   connections each client may have; `caller`: a client that waits for an answer; `access`: what
//!   a client's certificate allows it; `logged`: what is logged; `figures`: what is counted;
//! - `server`, `services`, `stream`: the gRPC services and their sessions; `arbiter`: who is
//!   primary, as a state machine without I/O;
//! - `ports`: the service by which controllers watch ports, and operators change them;
//!   `observation`: the one by which they observe packets; `settings`: the service for settings
//!   that P4Runtime has no message for;
//! - `device_service`: a device in the server; `pipeline`: its program, running or saved;
//! - `platform`: checks of the platform properties in a P4Info;
//! - `schema`: maps P4Runtime ids to the program's objects, with the encoding of each value
//!   (`coding`, `bytes`, `data`);
//! - `write`: converts an update to an `Op`, checked against the schema outside the loop and
//!   applied by a job; `undo`: reverts an `Op`; `batch`: atomic batches;
//! - `read`: converts a request to a `Query`; a job collects the data, which is converted to
//!   messages outside the loop;
//! - `tenants`: the service that creates and changes virtual data planes, on a switch that hosts
//!   them;
//! - `packet_io`, `digests`, `idle`: packets and notifications from devices;
//! - `managed`: tables that one controller manages: writes of others go to it as proposals;
//! - `restriction`: `@entry_restriction` and `@action_restriction`;
//! - `pending_commits`: changes of a device with kept state that are not yet on the disk; `notes`:
//!   data that the device stores for the server;
//! - `client`: the controller's side, for commands; independent of the other modules;
//! - `device_config`: the format of compiled programs;
//! - `update_encoder`: a device's changes as updates for another device; `relayed`: the other
//!   device's packets and digests;
//! - `fuzz_server`: requests without a server, for fuzzing;
//! - `controller_state`: controller data that the device does not interpret (weights of one-shot
//!   actions, watch ports, metadata of groups).
//!
//! Invariants:
//! - No client input causes a panic. The packet path does not wait for clients, except for the few
//!   cells of a `DATAPLANE_ATOMIC` batch. Queues are bounded, and dropped items are counted.
//! - A write to a device with kept state is acknowledged when it is on the disk; otherwise it is
//!   refused and undone.
//! - A write finishes before a later arbitration of its role. So no write of an old primary is made
//!   after a new one is elected. Only a write to a managed table that was answered as unknown may
//!   be made later.
//! - Reads see a device between writes, never in the middle of one.
//! - A read returns exactly what was written, in canonical byte strings.
//! - A refused update changes nothing. Its error has the code that the specification requires, and
//!   names the object, the field and the value.
//!
//! Tests: `tests/` runs controllers over real gRPC against a device with a loop. `arbiter`, `bytes`
//! and `digests` have unit tests. docs/P4RUNTIME.md lists the specification's requirements with
//! their tests.

mod access;
mod arbiter;
mod batch;
mod bytes;
mod caller;
pub mod client;
mod coding;
mod control;
mod controller_state;
mod data;
mod device_config;
mod device_service;
mod digests;
mod figures;
mod fuzz_server;
mod idle;
mod incoming;
mod logged;
mod managed;
mod notes;
mod observation;
mod packet_io;
mod pending_commits;
mod pipeline;
mod places;
mod platform;
mod ports;
mod read;
mod relayed;
mod request_error;
mod restriction;
mod schema;
mod server;
mod services;
mod settings;
mod split_control;
mod stream;
mod tenants;
mod undo;
mod undo_map;
mod update_encoder;
mod write;

/// Generated code of the service: the server's side, and the client's for tests and controllers
/// written in Rust.
pub mod service {
    tonic::include_proto!("p4.v1");

    /// The service for the observation of packets.
    pub mod observation {
        tonic::include_proto!("polyplane.observation.v1");
    }

    /// The service for the state of ports.
    pub mod ports {
        tonic::include_proto!("polyplane.ports.v1");
    }

    /// The service for settings of devices.
    pub mod settings {
        tonic::include_proto!("polyplane.settings.v1");
    }

    /// The service for operators of split programs.
    pub mod split {
        tonic::include_proto!("polyplane.split.v1");
    }

    /// The service for operators of virtual data planes.
    pub mod tenancy {
        tonic::include_proto!("polyplane.tenancy.v1");
    }
}

pub use access::{Allow, AllowError};
pub use control::{
    CpuNumbers, CpuPort, Inbox, PortAction, PortAnswer, PortRequest, Remote, SettingsAction,
    SettingsRequest, ToControllers, channel,
};
pub use device_config::device_config;
pub use device_service::{Loader, ProgramPermit, Purpose};
pub use figures::{Figures, LATENCY_MICROS, Latencies};
pub use fuzz_server::{FuzzOutcome, FuzzServer};
pub use incoming::{Clients, Listen, ListenError, Reach, Tls};
pub use logged::Limit;
pub use managed::{pack, unpack};
pub use notes::{Notes, forget_config, forget_written, has_config, put_back as put_back_notes};
pub use observation::{Delivery, Observations, ObserveError, PacketObservation};
pub use pipeline::{check_p4info, compare_p4info, read_program};
pub use ports::KnownPorts;
pub use prost_types::Any;
pub use server::{Certificates, NewCertificates, Server, ServerConfig, ServerError, Urgency};
pub use split_control::SplitRequest;
pub use tenants::{
    Answer, Asker, RequestReceiver, RequestSender, TenancyError, TenancyRequest, Viewer, petitions,
};
pub use tonic::Code;
pub use update_encoder::{EncodeError, UpdateEncoder, controller_metadata, entry_number};
