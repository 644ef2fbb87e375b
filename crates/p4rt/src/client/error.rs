//! Why a call of a controller failed.

use std::fmt;

use p4info::google::rpc;
use p4info::p4::v1 as rt;
use prost::Message;
use tonic::{Code, Status};

use crate::pipeline::MAY_LOSE;

/// Why a call failed.
#[derive(Debug)]
pub enum ClientError {
    /// The address is none.
    Address(String),
    /// A name has characters that gRPC's metadata cannot carry.
    Name(String),
    /// Nobody answers there, or not in this protocol.
    Unreachable {
        /// The address.
        address: String,
        /// What the operating system or TLS says.
        reason: String,
        /// Whether TLS was spoken.
        with_tls: bool,
    },
    /// The operating system's.
    Runtime(std::io::Error),
    /// The server says nothing about who is primary.
    NoArbitration,
    /// There is no stream, or it has ended.
    NoSession,
    /// The server's answer is an error.
    Refused(Refused),
}

/// An error that a server answers with.
#[derive(Clone, Debug)]
pub struct Refused {
    /// Its code.
    pub code: Code,
    /// What it says.
    pub message: String,
    /// How each update of a batch ended, in order; empty for errors of the whole call.
    pub updates: Vec<rt::Error>,
}

impl Refused {
    /// Whether the server does not have what was asked for, now or at all.
    pub fn is_missing(&self) -> bool {
        matches!(self.code, Code::Unimplemented | Code::NotFound)
    }

    /// Whether the program would take if the user let state go (`may_lose` of [`Client::set_config`](super::Client::set_config)).
    pub fn would_lose(&self) -> bool {
        self.code == Code::InvalidArgument && self.message.contains(MAY_LOSE)
    }
}

impl From<Status> for ClientError {
    fn from(status: Status) -> ClientError {
        let details = rpc::Status::decode(status.details()).unwrap_or_default();
        let updates = details.details.iter();
        let updates = updates.filter_map(|any| rt::Error::decode(&any.value[..]).ok());
        ClientError::Refused(Refused {
            code: status.code(),
            message: status.message().to_owned(),
            updates: updates.collect(),
        })
    }
}

impl fmt::Display for ClientError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ClientError::Address(address) => {
                write!(
                    f,
                    "`{address}` is no address; write HOST:PORT, as in 127.0.0.1:9559"
                )
            }
            ClientError::Name(name) => {
                write!(f, "`{name}` cannot be sent: names are of ASCII characters")
            }
            ClientError::Unreachable {
                address,
                reason,
                with_tls,
            } => {
                let how = if *with_tls { " with TLS" } else { "" };
                write!(
                    f,
                    "cannot reach a P4Runtime server at {address}{how}: {reason}"
                )
            }
            ClientError::Runtime(error) => write!(f, "cannot make a connection: {error}"),
            ClientError::NoArbitration => f.write_str("the server does not say who is primary"),
            ClientError::NoSession => f.write_str("the server has ended the session"),
            ClientError::Refused(refused) => {
                let Refused { code, message, .. } = refused;
                match message.is_empty() {
                    true => write!(f, "{code}"),
                    false => write!(f, "{message} ({code:?})"),
                }
            }
        }
    }
}

impl std::error::Error for ClientError {}
