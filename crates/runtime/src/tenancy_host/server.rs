//! Server for the operators and controllers of a switch that hosts virtual data planes.

use std::net::SocketAddr;

use p4rt::{Certificates, Listen, RequestReceiver, Server, Urgency};

use crate::RuntimeError;

/// Running server, with the queue of the operators' requests.
pub struct OperatorServer {
    pub(super) server: Server,
    pub(super) requests: RequestReceiver,
}

impl OperatorServer {
    /// Starts the server. Requests wait until a control loop executes them.
    ///
    /// # Errors
    /// The address is not available, a certificate is wrong, or the operating system provides no
    /// descriptors.
    pub fn start(listen: Listen, urgency: Urgency) -> Result<OperatorServer, RuntimeError> {
        let made = p4rt::petitions();
        let (requests, sender) =
            made.map_err(RuntimeError::system("make a channel for operators"))?;
        let server = Server::for_tenants(listen, urgency, sender);
        Ok(OperatorServer {
            server: server.map_err(RuntimeError::Server)?,
            requests,
        })
    }

    /// Returns the handle that replaces the certificates.
    pub fn certificates(&self) -> Certificates {
        self.server.certificates()
    }

    /// Returns the address, with the port that the system chose if none was given.
    pub fn address(&self) -> SocketAddr {
        self.server.address()
    }
}
