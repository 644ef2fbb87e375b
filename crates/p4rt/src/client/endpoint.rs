//! Where a server is and how it is spoken to.

use std::time::Duration;

use tokio::runtime::{Builder, Runtime};
use tonic::transport::{Certificate, Channel, ClientTlsConfig, Identity};

use super::error::ClientError;

/// How long a server may take to accept a connection.
const CONNECT: Duration = Duration::from_secs(10);

/// A server that says nothing for so long is asked whether it lives, and is gone without an answer in time: calls and the stream end.
const ASK_AFTER: Duration = Duration::from_secs(20);
const ANSWER_WITHIN: Duration = Duration::from_secs(10);

/// A server's address.
#[derive(Clone, Debug)]
pub struct Endpoint {
    /// `HOST:PORT`.
    pub address: String,
    /// Keys, if the server wants TLS.
    pub tls: Option<Tls>,
}

/// What TLS needs; all in PEM.
#[derive(Clone, Debug, Default)]
pub struct Tls {
    /// The certificates that the server's is signed by.
    pub ca: Vec<u8>,
    /// This side's certificate and key, if the server wants them.
    pub identity: Option<(Vec<u8>, Vec<u8>)>,
    /// The name in the server's certificate, if it is not the address's.
    pub name: Option<String>,
}

impl Endpoint {
    /// A connection, and the runtime that it runs on.
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
