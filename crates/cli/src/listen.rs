//! Options for the address of the P4Runtime server and for its access control.

use std::net::SocketAddr;
use std::path::PathBuf;

use clap::Args;
use p4rt::{Allow, Clients, Listen, Reach, Tls};

use crate::args::{limits, read};

/// Access control of the server.
#[derive(Args, Clone)]
pub(crate) struct Guard {
    /// Serve P4Runtime by TLS with this certificate (PEM), the server's first and then those
    /// between it and its CA.
    #[arg(long, value_name = "FILE", requires = "tls_key")]
    tls_cert: Option<PathBuf>,
    /// The private key of the certificate (PEM).
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    tls_key: Option<PathBuf>,
    /// Serve only clients with a certificate that one of these has signed (PEM).
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    tls_client_ca: Option<PathBuf>,
    /// Let clients with a certificate of this name (its subject alternative names, or its common
    /// name if it has none) be primary of a role, with NAME=* of any role, with NAME alone only
    /// read; the name * is everyone with a certificate. Give one for each; without any, each
    /// client may do everything.
    #[arg(long, value_name = "NAME[=ROLE]", requires = "tls_client_ca")]
    allow: Vec<Allow>,
    /// Allow an address that other machines reach; it needs TLS and --tls-client-ca.
    #[arg(long)]
    listen_beyond_loopback: bool,
    /// With --listen-beyond-loopback, need no client certificates: anyone who reaches the address
    /// controls the switch.
    #[arg(
        long,
        requires = "listen_beyond_loopback",
        conflicts_with = "tls_client_ca"
    )]
    anyone_may_control: bool,
}

impl Guard {
    /// Returns the server's address with its TLS configuration and reach.
    ///
    /// # Errors
    /// A file cannot be read.
    pub(crate) fn listen(&self, address: SocketAddr) -> Result<Listen, String> {
        let reach = match (self.listen_beyond_loopback, self.anyone_may_control) {
            (false, _) => Reach::Loopback,
            (true, false) => Reach::Certified,
            (true, true) => Reach::Anyone,
        };
        Ok(Listen {
            address,
            tls: self.tls()?,
            reach,
        })
    }

    /// Returns true if the server has a certificate.
    pub(crate) fn has_tls(&self) -> bool {
        self.tls_cert.is_some()
    }

    fn tls(&self) -> Result<Option<Tls>, String> {
        let (Some(certificate), Some(key)) = (&self.tls_cert, &self.tls_key) else {
            return Ok(None);
        };
        let clients = self.tls_client_ca.as_deref().map(|ca| {
            Ok::<_, String>(Clients {
                ca: read(ca, limits::CERTIFICATE)?,
                allowed: self.allow.clone(),
            })
        });
        Ok(Some(Tls {
            certificate: read(certificate, limits::CERTIFICATE)?,
            key: read(key, limits::CERTIFICATE)?,
            clients: clients.transpose()?,
        }))
    }
}
