//! Crate `tls`: settings of TLS from PEM texts, for both sides of a connection.
//!
//! **In:** certificates and keys in PEM. **Out:** configurations of rustls, or which text is wrong.
//!
//! It has no I/O and imports no other crate of the workspace. Its callers own the sockets.
//!
//! Tests: `p4rt/tests` and `cli/tests/pof.rs` connect with right, missing and foreign certificates.

use std::fmt;
use std::sync::Arc;

use rustls::crypto::{CryptoProvider, ring};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::WebPkiClientVerifier;
use rustls::{ClientConfig, RootCertStore, ServerConfig};

/// Names of the texts in messages for the user.
#[derive(Clone, Copy, Debug)]
pub struct PemNames {
    /// Of this side's certificate.
    pub certificate: &'static str,
    /// Of its key.
    pub key: &'static str,
    /// Of the certificates of those who sign the other side's.
    pub ca: &'static str,
}

/// Certificate chain and private key of a side.
#[derive(Clone, Copy)]
pub struct PemIdentity<'p> {
    /// The chain.
    pub certificate: &'p [u8],
    /// The key.
    pub key: &'p [u8],
}

/// Treatment of clients without a certificate, where there is a CA for those of clients.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClientCertificate {
    /// The handshake fails.
    Required,
    /// The handshake succeeds: the protocol above refuses them.
    Optional,
}

/// A certificate or a key that cannot be used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TlsError {
    /// Its name.
    pub what: &'static str,
    /// The reason.
    pub because: String,
}

impl fmt::Display for TlsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "cannot use TLS: {}: {}", self.what, self.because)
    }
}

impl std::error::Error for TlsError {}

fn wrong<E: fmt::Display>(what: &'static str) -> impl FnOnce(E) -> TlsError {
    move |error| TlsError {
        what,
        because: error.to_string(),
    }
}

fn certificates(what: &'static str, pem: &[u8]) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    let all: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(pem).collect();
    let all = all.map_err(wrong(what))?;
    match all.is_empty() {
        false => Ok(all),
        true => Err(wrong(what)("there is no certificate")),
    }
}

type Identity = (Vec<CertificateDer<'static>>, PrivateKeyDer<'static>);

fn read_identity(names: PemNames, identity: PemIdentity<'_>) -> Result<Identity, TlsError> {
    let chain = certificates(names.certificate, identity.certificate)?;
    let key = PrivateKeyDer::from_pem_slice(identity.key).map_err(wrong(names.key))?;
    Ok((chain, key))
}

fn roots(names: PemNames, ca: &[u8]) -> Result<RootCertStore, TlsError> {
    let mut roots = RootCertStore::empty();
    for certificate in certificates(names.ca, ca)? {
        roots.add(certificate).map_err(wrong(names.ca))?;
    }
    Ok(roots)
}

fn provider() -> Arc<CryptoProvider> {
    Arc::new(ring::default_provider())
}

/// Returns the configuration of the side that listens. `clients` is the CA of clients'
/// certificates; without it they need none.
///
/// # Errors
/// A text is wrong, or the key is not that of the certificate.
pub fn server_config(
    names: PemNames,
    identity: PemIdentity<'_>,
    clients: Option<(&[u8], ClientCertificate)>,
) -> Result<ServerConfig, TlsError> {
    let (chain, key) = read_identity(names, identity)?;
    let builder = ServerConfig::builder_with_provider(provider())
        .with_safe_default_protocol_versions()
        .map_err(wrong(names.certificate))?;
    let builder = match clients {
        None => builder.with_no_client_auth(),
        Some((ca, treatment)) => {
            let roots = roots(names, ca)?.into();
            let verifier = WebPkiClientVerifier::builder_with_provider(roots, provider());
            let verifier = match treatment {
                ClientCertificate::Required => verifier,
                ClientCertificate::Optional => verifier.allow_unauthenticated(),
            };
            builder.with_client_cert_verifier(verifier.build().map_err(wrong(names.ca))?)
        }
    };
    let config = builder.with_single_cert(chain, key);
    config.map_err(wrong(names.certificate))
}

/// Returns the configuration of the side that connects. `ca` has those who sign the other side's
/// certificate.
///
/// # Errors
/// As for [`server_config`].
pub fn client_config(
    names: PemNames,
    ca: &[u8],
    identity: Option<PemIdentity<'_>>,
) -> Result<ClientConfig, TlsError> {
    let builder = ClientConfig::builder_with_provider(provider())
        .with_safe_default_protocol_versions()
        .map_err(wrong(names.ca))?
        .with_root_certificates(roots(names, ca)?);
    let Some(identity) = identity else {
        return Ok(builder.with_no_client_auth());
    };
    let (chain, key) = read_identity(names, identity)?;
    let config = builder.with_client_auth_cert(chain, key);
    config.map_err(wrong(names.certificate))
}
