//! TLS options of both sides of a POF connection.

use std::path::PathBuf;

use clap::Args;
use pof_runtime::TlsOptions;

use crate::address::pem;

/// Files of certificates and keys.
#[derive(Args, Clone)]
pub(crate) struct TlsFiles {
    /// Certificates of those who sign the other side's (PEM), for tls:HOST:PORT. One who listens
    /// lets only those in who have such a certificate.
    #[arg(long, value_name = "FILE")]
    tls_ca: Option<PathBuf>,
    /// This side's certificate (PEM). One who listens speaks TLS with it.
    #[arg(long, value_name = "FILE", requires = "tls_key")]
    tls_cert: Option<PathBuf>,
    /// The key of --tls-cert (PEM).
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    tls_key: Option<PathBuf>,
    /// The name in the other side's certificate, if it is not the address's.
    #[arg(long, value_name = "NAME", requires = "tls_ca")]
    tls_name: Option<String>,
}

impl TlsFiles {
    /// Reads the files.
    ///
    /// # Errors
    /// A file cannot be read, or is of another kind.
    pub(crate) fn read(&self) -> Result<TlsOptions, String> {
        let identity = match (&self.tls_cert, &self.tls_key) {
            (Some(certificate), Some(key)) => {
                Some((pem(certificate, "CERTIFICATE")?, pem(key, "PRIVATE KEY")?))
            }
            _ => None,
        };
        let ca = self.tls_ca.as_deref();
        Ok(TlsOptions {
            identity,
            ca: ca.map(|ca| pem(ca, "CERTIFICATE")).transpose()?,
            name: self.tls_name.clone(),
        })
    }
}
