//! TLS settings of both sides.

use std::fmt;
use std::sync::Arc;

use rustls::crypto::{CryptoProvider, ring};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::server::WebPkiClientVerifier;
use rustls::{ClientConfig, ClientConnection, RootCertStore, ServerConfig, ServerConnection};

use crate::PofError;

const CERTIFICATE: &str = "this side's certificate (--tls-cert)";
const KEY: &str = "this side's key (--tls-key)";
const CA: &str = "the other side's CA (--tls-ca)";

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

fn wrong<E: fmt::Display>(what: &'static str) -> impl FnOnce(E) -> PofError {
    move |error| PofError::Tls {
        what,
        because: error.to_string(),
    }
}

fn certificates(what: &'static str, pem: &[u8]) -> Result<Vec<CertificateDer<'static>>, PofError> {
    let all: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(pem).collect();
    let all = all.map_err(wrong(what))?;
    match all.is_empty() {
        false => Ok(all),
        true => Err(PofError::Tls {
            what,
            because: "there is no certificate in PEM".to_owned(),
        }),
    }
}

fn provider() -> Arc<CryptoProvider> {
    Arc::new(ring::default_provider())
}

type Identity = (Vec<CertificateDer<'static>>, PrivateKeyDer<'static>);

impl TlsOptions {
    fn identity(&self) -> Result<Option<Identity>, PofError> {
        let Some((certificate, key)) = &self.identity else {
            return Ok(None);
        };
        let chain = certificates(CERTIFICATE, certificate)?;
        let key = PrivateKeyDer::from_pem_slice(key).map_err(wrong(KEY))?;
        Ok(Some((chain, key)))
    }

    fn roots(&self) -> Result<Option<RootCertStore>, PofError> {
        let Some(ca) = &self.ca else {
            return Ok(None);
        };
        let mut roots = RootCertStore::empty();
        for certificate in certificates(CA, ca)? {
            roots.add(certificate).map_err(wrong(CA))?;
        }
        Ok(Some(roots))
    }

    /// Returns the side that dials a host.
    pub(crate) fn dialer(&self, host: &str) -> Result<TlsDialer, PofError> {
        let roots = self.roots()?.ok_or(PofError::Tls {
            what: CA,
            because: "it is not given".to_owned(),
        })?;
        let builder = ClientConfig::builder_with_provider(provider())
            .with_safe_default_protocol_versions()
            .map_err(wrong(CA))?
            .with_root_certificates(roots);
        let config = match self.identity()? {
            None => builder.with_no_client_auth(),
            Some((chain, key)) => builder
                .with_client_auth_cert(chain, key)
                .map_err(wrong(CERTIFICATE))?,
        };
        let name = self.name.clone().unwrap_or_else(|| host.to_owned());
        Ok(TlsDialer {
            config: Arc::new(config),
            name: ServerName::try_from(name).map_err(wrong("the other side's name"))?,
        })
    }

    /// Returns the side that listens, or `None` without a certificate. If a CA is given, the
    /// dialing side needs a certificate.
    pub(crate) fn listener(&self) -> Result<Option<TlsListener>, PofError> {
        let Some((chain, key)) = self.identity()? else {
            return Ok(None);
        };
        let builder = ServerConfig::builder_with_provider(provider())
            .with_safe_default_protocol_versions()
            .map_err(wrong(CERTIFICATE))?;
        let builder = match self.roots()? {
            None => builder.with_no_client_auth(),
            Some(roots) => {
                let verifier =
                    WebPkiClientVerifier::builder_with_provider(roots.into(), provider()).build();
                builder.with_client_cert_verifier(verifier.map_err(wrong(CA))?)
            }
        };
        let config = builder.with_single_cert(chain, key);
        Ok(Some(TlsListener(Arc::new(
            config.map_err(wrong(CERTIFICATE))?,
        ))))
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
