//! Errors of a running switch.

use std::fmt;
use std::io;
use std::net::SocketAddr;

use driver::CompileError;
use offload_runtime::OffloadError;
use p4rt::ServerError;
use packet::PortId;
use port::PortError;
use store::OpenError;
use switch::{AdoptError, ControlError, LedgerError, LoadError, StorageError};

/// Error: a switch cannot be set up, or cannot go on. Its text is one sentence for people.
#[derive(Debug)]
pub enum RuntimeError {
    /// The operating system refuses an action, for example `start a thread`.
    System {
        /// The action, as a verb with its object.
        action: &'static str,
        /// The system's reason.
        error: io::Error,
    },
    /// A port cannot be used.
    Port(PortError),
    /// A switch has no port.
    NoPort,
    /// A port has the number of the CPU port.
    CpuPortTaken(PortId),
    /// The P4Runtime server cannot start.
    Server(ServerError),
    /// A built-in program does not compile.
    Compile(CompileError),
    /// Other machines can reach the address for metrics.
    MetricsReachable(SocketAddr),
    /// Metrics cannot be served at the address.
    Metrics {
        /// The address.
        address: SocketAddr,
        /// The system's reason.
        error: io::Error,
    },
    /// The state directory cannot be used.
    State(OpenError),
    /// The state directory has no program, and none is given.
    NoStoredProgram {
        /// The directory.
        place: String,
    },
    /// The stored program does not run any more.
    StoredProgram {
        /// The directory.
        place: String,
        /// The reason.
        error: LoadError,
    },
    /// The stored state of a switch that hosts virtual data planes does not fit the switch.
    StoredHost {
        /// The directory.
        place: String,
        /// The reason, and a remedy.
        error: String,
    },
    /// The stored state of a virtual data plane cannot be restored.
    StoredVpdp {
        /// The directory.
        place: String,
        /// The name of the vPDP.
        vpdp: String,
        /// The reason.
        error: String,
    },
    /// The last state of virtual data planes cannot be stored: the name of each, and the reason.
    UnstoredVpdps(Vec<(String, String)>),
    /// The program cannot run on the engine.
    Load(LoadError),
    /// The device refuses a setting.
    Control(ControlError),
    /// State cannot be migrated to the new program.
    Adopt(AdoptError),
    /// A change cannot be stored.
    Storage(StorageError),
    /// The device has stopped storing its state.
    StorageEnded,
    /// The control loop of a device has ended.
    DeviceEnded,
    /// A controller has set another program during a reload.
    ProgramChanged,
    /// The offload of flows does not start.
    Offload(OffloadError),
    /// Packet counts are not conserved, which is a defect of the switch.
    Conservation(LedgerError),
}

impl RuntimeError {
    /// Returns a conversion of system errors of an action, for `map_err`.
    pub(crate) fn system(action: &'static str) -> impl Fn(io::Error) -> RuntimeError {
        move |error| RuntimeError::System { action, error }
    }
}

impl fmt::Display for RuntimeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            RuntimeError::System { action, error } => write!(f, "cannot {action}: {error}"),
            RuntimeError::Port(error) => error.fmt(f),
            RuntimeError::NoPort => f.write_str("a switch needs a port"),
            RuntimeError::CpuPortTaken(port) => {
                write!(f, "port {port} is the one for controllers")
            }
            RuntimeError::Server(error) => error.fmt(f),
            RuntimeError::Compile(error) => error.fmt(f),
            RuntimeError::MetricsReachable(address) => write!(
                f,
                "metrics on {address} would be open to other machines; use 127.0.0.1 or [::1], \
                 and a proxy or a tunnel from elsewhere"
            ),
            RuntimeError::Metrics { address, error } => {
                write!(f, "cannot serve metrics on {address}: {error}")
            }
            RuntimeError::State(error) => error.fmt(f),
            RuntimeError::NoStoredProgram { place } => write!(f, "no program is kept in {place}"),
            RuntimeError::StoredProgram { place, error } => write!(
                f,
                "the program whose state is in {place} does not run any more: {error}"
            ),
            RuntimeError::StoredHost { place, error } => {
                write!(f, "the state in {place}: {error}")
            }
            RuntimeError::StoredVpdp { place, vpdp, error } => {
                write!(f, "the state of vPDP `{vpdp}` in {place}: {error}")
            }
            RuntimeError::UnstoredVpdps(all) => {
                let lines = all
                    .iter()
                    .map(|(name, error)| format!("vPDP `{name}`: {error}"));
                f.write_str(&lines.collect::<Vec<_>>().join("\n"))
            }
            RuntimeError::Load(error) => error.fmt(f),
            RuntimeError::Control(error) => error.fmt(f),
            RuntimeError::Adopt(error) => error.fmt(f),
            RuntimeError::Storage(error) => write!(f, "cannot keep the state: {error}"),
            RuntimeError::StorageEnded => f.write_str("state is no longer kept"),
            RuntimeError::DeviceEnded => f.write_str("the switch stops"),
            RuntimeError::ProgramChanged => f.write_str(
                "a controller has set another program meanwhile; reload once more if that is meant",
            ),
            RuntimeError::Offload(error) => error.fmt(f),
            RuntimeError::Conservation(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for RuntimeError {}

impl From<RuntimeError> for String {
    fn from(error: RuntimeError) -> String {
        error.to_string()
    }
}
