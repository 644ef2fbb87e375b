//! Errors of controller calls.

use std::fmt;

use p4info::google::rpc;
use p4info::p4::v1 as rt;
use prost::Message;
use tonic::{Code, Status};

use crate::pipeline::MAY_LOSE;

/// Error of a call.
#[derive(Debug)]
pub enum ClientError {
    /// The text is not an address.
    Address(String),
    /// A name contains characters that gRPC metadata cannot hold.
    Name(String),
    /// The server does not answer, or does not use this protocol.
    Unreachable {
        /// The address.
        address: String,
        /// Message of the operating system or of TLS.
        reason: String,
        /// True if TLS was used.
        with_tls: bool,
    },
    /// The client's runtime could not be started.
    Runtime(std::io::Error),
    /// The server does not answer the arbitration update.
    NoArbitration,
    /// There is no stream, or it has ended.
    NoSession,
    /// The server answered with an error.
    Refused(UpdateError),
}

/// An error that a server returned.
#[derive(Clone, Debug)]
pub struct UpdateError {
    /// The gRPC status code.
    pub code: Code,
    /// The message.
    pub message: String,
    /// Result of each update of a batch, in order. Empty if the error concerns the whole call.
    pub updates: Vec<rt::Error>,
}

impl UpdateError {
    /// Returns true if the server does not have the requested item or does not implement the call.
    pub fn is_missing(&self) -> bool {
        matches!(self.code, Code::Unimplemented | Code::NotFound)
    }

    /// Returns true if the server has refused what was asked; false if the connection failed.
    pub fn is_refusal(&self) -> bool {
        let is_broken = matches!(
            self.code,
            Code::Unavailable | Code::Unknown | Code::Cancelled | Code::Internal
        );
        !self.updates.is_empty() || !is_broken
    }

    /// Returns true if the program would be accepted if state might be lost (`may_lose` of
    /// [`Client::set_config`](super::Client::set_config)).
    pub fn would_lose(&self) -> bool {
        self.code == Code::InvalidArgument && self.message.contains(MAY_LOSE)
    }
}

impl From<Status> for ClientError {
    fn from(status: Status) -> ClientError {
        let details = rpc::Status::decode(status.details()).unwrap_or_default();
        let updates = details.details.iter();
        let updates = updates.filter_map(|any| rt::Error::decode(&any.value[..]).ok());
        ClientError::Refused(UpdateError {
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
                let UpdateError { code, message, .. } = refused;
                match message.is_empty() {
                    true => write!(f, "{code}"),
                    false => write!(f, "{message} ({code:?})"),
                }
            }
        }
    }
}

impl std::error::Error for ClientError {}
