//! TLS settings of both sides.

use std::fmt;
use std::sync::Arc;

use rustls::pki_types::ServerName;
use rustls::{ClientConfig, ClientConnection, ServerConfig, ServerConnection};
use tls::{ClientCertificate, PemIdentity, PemNames, TlsError, client_config, server_config};

const NAMES: PemNames = PemNames {
    certificate: "this side's certificate (--tls-cert)",
    key: "this side's key (--tls-key)",
    ca: "the other side's CA (--tls-ca)",
};

/// TLS settings, as PEM texts.
#[derive(Clone, Default)]
pub struct TlsOptions {
    /// This side's certificate chain and private key.
    pub identity: Option<(Vec<u8>, Vec<u8>)>,
    /// Certificates of the authorities that sign the other side's certificate.
    pub ca: Option<Vec<u8>>,
    /// The name in the other side's certificate, if it is not the address's.
    pub name: Option<String>,
}

impl fmt::Debug for TlsOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The private key must not be printed.
        f.debug_struct("TlsOptions")
            .field("name", &self.name)
            .finish_non_exhaustive()
    }
}

impl TlsOptions {
    fn identity(&self) -> Option<PemIdentity<'_>> {
        let (certificate, key) = self.identity.as_ref()?;
        Some(PemIdentity { certificate, key })
    }

    /// Returns the side that dials a host.
    pub(crate) fn dialer(&self, host: &str) -> Result<TlsDialer, TlsError> {
        let ca = self.ca.as_deref().ok_or_else(|| TlsError {
            what: NAMES.ca,
            because: "it is not given".to_owned(),
        })?;
        let config = client_config(NAMES, ca, self.identity())?;
        let name = self.name.clone().unwrap_or_else(|| host.to_owned());
        let name = ServerName::try_from(name).map_err(|error| TlsError {
            what: "the other side's name",
            because: error.to_string(),
        })?;
        let config = Arc::new(config);
        Ok(TlsDialer { config, name })
    }

    /// Returns the side that listens, or `None` without a certificate. If a CA is given, the
    /// dialing side needs a certificate.
    pub(crate) fn listener(&self) -> Result<Option<TlsListener>, TlsError> {
        let Some(identity) = self.identity() else {
            return Ok(None);
        };
        let clients = self
            .ca
            .as_deref()
            .map(|ca| (ca, ClientCertificate::Required));
        let config = server_config(NAMES, identity, clients)?;
        Ok(Some(TlsListener(Arc::new(config))))
    }
}

/// The side that dials.
#[derive(Clone, Debug)]
pub(crate) struct TlsDialer {
    config: Arc<ClientConfig>,
    name: ServerName<'static>,
}

impl TlsDialer {
    pub(crate) fn begin(&self) -> Result<rustls::Connection, rustls::Error> {
        let begun = ClientConnection::new(Arc::clone(&self.config), self.name.clone());
        begun.map(rustls::Connection::Client)
    }
}

/// The side that listens.
#[derive(Clone, Debug)]
pub(crate) struct TlsListener(Arc<ServerConfig>);

impl TlsListener {
    pub(crate) fn begin(&self) -> Result<rustls::Connection, rustls::Error> {
        ServerConnection::new(Arc::clone(&self.0)).map(rustls::Connection::Server)
    }
}
