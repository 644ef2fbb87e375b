//! Errors of the process.

use std::fmt;
use std::io;

use offload_runtime::OffloadError;
use pof::wire::ErrorCode;
use runtime::RuntimeError;
use tls::TlsError;

/// Error that keeps a switch or a controller from working.
#[derive(Debug)]
pub enum PofError {
    /// An operation of the operating system failed.
    System {
        /// The operation.
        doing: String,
        /// Its error.
        source: io::Error,
    },
    /// The engine does not run a switch without tables.
    Load(switch::LoadError),
    /// The device has no room for the ports.
    Ports(ErrorCode),
    /// The stored state cannot be read.
    State(store::OpenError),
    /// An object of the stored state is refused.
    StoredObject {
        /// The object as a line of text.
        object: String,
        /// The reason.
        error: ErrorCode,
    },
    /// An object of the stored state is no message.
    StoredBytes,
    /// The threads that forward cannot start, or go on.
    Workers(RuntimeError),
    /// The offload of flows does not start.
    Offload(OffloadError),
    /// A certificate or a key cannot be used.
    Tls(TlsError),
    /// An address is open to other machines without proof of who connects.
    Reachable(std::net::SocketAddr),
    /// The other side closed the connection, or sent something else than it must.
    Peer {
        /// Its address.
        peer: String,
        /// Cause and remedy.
        message: String,
    },
}

impl PofError {
    pub(crate) fn system(doing: impl Into<String>) -> impl FnOnce(io::Error) -> PofError {
        let doing = doing.into();
        move |source| PofError::System { doing, source }
    }
}

impl fmt::Display for PofError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            PofError::System { doing, source } => write!(f, "cannot {doing}: {source}"),
            PofError::Load(error) => write!(f, "the engine does not run the switch: {error}"),
            PofError::Ports(error) => write!(
                f,
                "the device has no room for the ports: {error}; give fewer ports"
            ),
            PofError::State(error) => error.fmt(f),
            PofError::StoredObject { object, error } => write!(
                f,
                "the stored state has `{object}`, which the switch refuses: {error}; start the Polyplane that stored it, or give another directory"
            ),
            PofError::StoredBytes => f.write_str(
                "the stored state has an object that is no POF message; start the Polyplane that stored it, or give another directory",
            ),
            PofError::Workers(error) => error.fmt(f),
            PofError::Offload(error) => error.fmt(f),
            PofError::Tls(error) => error.fmt(f),
            PofError::Reachable(address) => write!(
                f,
                "{address} is open to other machines, and anyone who reaches it would be served; use 127.0.0.1 or [::1], or give --tls-cert, --tls-key and --tls-ca"
            ),
            PofError::Peer { peer, message } => write!(f, "{peer}: {message}"),
        }
    }
}

impl std::error::Error for PofError {}

impl From<RuntimeError> for PofError {
    fn from(error: RuntimeError) -> PofError {
        PofError::Workers(error)
    }
}

impl From<TlsError> for PofError {
    fn from(error: TlsError) -> PofError {
        PofError::Tls(error)
    }
}
