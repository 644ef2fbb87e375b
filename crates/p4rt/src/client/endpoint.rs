//! Address and transport of a P4Runtime server, with or without TLS.

use std::time::Duration;

use tokio::runtime::{Builder, Runtime};
use tonic::transport::{Certificate, Channel, ClientTlsConfig, Identity};

use super::error::ClientError;

/// Timeout for establishing a connection.
const CONNECT: Duration = Duration::from_secs(10);

/// Keepalive: a server that is silent for `ASK_AFTER` receives a ping. If it does not answer within
/// `ANSWER_WITHIN`, calls and the stream end.
const ASK_AFTER: Duration = Duration::from_secs(20);
const ANSWER_WITHIN: Duration = Duration::from_secs(10);

/// Address of a server.
#[derive(Clone, Debug)]
pub struct Endpoint {
    /// `HOST:PORT`.
    pub address: String,
    /// TLS keys, if the server uses TLS.
    pub tls: Option<Tls>,
}

/// Keys and certificates for TLS, all in PEM.
#[derive(Clone, Debug, Default)]
pub struct Tls {
    /// Certificates of the authorities that sign the server's certificate.
    pub ca: Vec<u8>,
    /// The client's certificate and key, if the server requires them.
    pub identity: Option<(Vec<u8>, Vec<u8>)>,
    /// The name in the server's certificate, if it differs from the address.
    pub name: Option<String>,
}

impl Endpoint {
    /// Opens a connection. Returns it with the runtime that drives it.
    pub(super) fn connect(&self) -> Result<(Runtime, Channel), ClientError> {
        let runtime = Builder::new_current_thread()
            .enable_io()
            .enable_time()
            .build()
            .map_err(ClientError::Runtime)?;
        let channel = runtime.block_on(self.channel())?;
        Ok((runtime, channel))
    }

    async fn channel(&self) -> Result<Channel, ClientError> {
        let scheme = match self.tls {
            Some(_) => "https",
            None => "http",
        };
        let wrong = || ClientError::Address(self.address.clone());
        let uri = format!("{scheme}://{}", self.address);
        let mut endpoint = Channel::from_shared(uri).map_err(|_| wrong())?;
        if endpoint.uri().host().is_none() || endpoint.uri().port().is_none() {
            return Err(wrong());
        }
        endpoint = endpoint
            .connect_timeout(CONNECT)
            .tcp_nodelay(true)
            .http2_keep_alive_interval(ASK_AFTER)
            .keep_alive_timeout(ANSWER_WITHIN)
            .keep_alive_while_idle(true);
        if let Some(tls) = &self.tls {
            endpoint = endpoint
                .tls_config(tls.config())
                .map_err(|error| self.failed(&error))?;
        }
        endpoint
            .connect()
            .await
            .map_err(|error| self.failed(&error))
    }

    fn failed(&self, error: &dyn std::error::Error) -> ClientError {
        let mut reason = error.to_string();
        let mut source = error.source();
        while let Some(error) = source {
            reason = error.to_string();
            source = error.source();
        }
        ClientError::Unreachable {
            address: self.address.clone(),
            reason,
            with_tls: self.tls.is_some(),
        }
    }
}

impl Tls {
    fn config(&self) -> ClientTlsConfig {
        let mut config = ClientTlsConfig::new().ca_certificate(Certificate::from_pem(&self.ca));
        if let Some((certificate, key)) = &self.identity {
            config = config.identity(Identity::from_pem(certificate, key));
        }
        if let Some(name) = &self.name {
            config = config.domain_name(name);
        }
        config
    }
}
