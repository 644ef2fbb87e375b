//! Connection to a P4Runtime server: its address, its TLS options, and advice on connection
//! errors.

use std::path::{Path, PathBuf};

use clap::Args;
use p4rt::client::{ClientError, Code, Endpoint, Tls};

use crate::args::{limits, read};
use crate::fabric::served::find;

/// Options that select a server and the output format.
#[derive(Args, Clone)]
pub(crate) struct Address {
    /// Address of the server, or the name of a switch of a running fabric.
    #[arg(
        long,
        global = true,
        value_name = "HOST:PORT",
        default_value = "127.0.0.1:9559"
    )]
    pub(crate) addr: String,
    /// Speak TLS, with a server that has a certificate signed by one of these (PEM).
    #[arg(long, global = true, value_name = "FILE")]
    pub(crate) tls_ca: Option<PathBuf>,
    /// This side's certificate, if the server asks for one (PEM).
    #[arg(long, global = true, value_name = "FILE")]
    pub(crate) tls_cert: Option<PathBuf>,
    /// The key of --tls-cert (PEM).
    #[arg(long, global = true, value_name = "FILE")]
    pub(crate) tls_key: Option<PathBuf>,
    /// The name in the server's certificate, if it is not the address's.
    #[arg(long, global = true, value_name = "NAME")]
    pub(crate) tls_name: Option<String>,
    /// Write JSON; of what is followed, an object a line.
    #[arg(long, global = true)]
    pub(crate) json: bool,
}

impl Address {
    /// Returns the endpoint to connect to.
    ///
    /// # Errors
    /// One line that describes what is wrong with the options or files.
    pub(crate) fn endpoint(&self) -> Result<Endpoint, String> {
        Ok(Endpoint {
            // A switch of a running fabric has a name.
            address: find(&self.addr)?,
            tls: self.tls()?,
        })
    }

    fn tls(&self) -> Result<Option<Tls>, String> {
        let identity = match (&self.tls_cert, &self.tls_key) {
            (Some(certificate), Some(key)) => {
                Some((pem(certificate, "CERTIFICATE")?, pem(key, "PRIVATE KEY")?))
            }
            (None, None) => None,
            _ => return Err("--tls-cert and --tls-key go together: give both".to_owned()),
        };
        let Some(ca) = &self.tls_ca else {
            // `requires` of clap is not enough: these options may come before the subcommand, and
            // the others after it.
            let lonely = match (&identity, &self.tls_name) {
                (None, None) => return Ok(None),
                (Some(_), _) => "--tls-cert",
                (None, Some(_)) => "--tls-name",
            };
            return Err(format!(
                "{lonely} needs --tls-ca: give the certificate that the server's is signed by"
            ));
        };
        Ok(Some(Tls {
            ca: pem(ca, "CERTIFICATE")?,
            identity,
            name: self.tls_name.clone(),
        }))
    }

    /// Returns advice for a broken connection. TLS gives no more precise reason.
    fn advice_on_tls(&self) -> String {
        match (&self.tls_ca, &self.tls_cert) {
            (None, _) => format!(
                "does a P4Runtime server listen at {}, and does it want TLS (--tls-ca)?",
                self.addr
            ),
            (_, None) => {
                "does the server want a certificate of yours (--tls-cert, --tls-key)?".to_owned()
            }
            _ => "does the server accept the certificate of --tls-cert?".to_owned(),
        }
    }

    /// Describes an error and suggests a remedy.
    pub(crate) fn explain(&self, error: &ClientError) -> String {
        let advice = match error {
            ClientError::Unreachable { with_tls: true, .. } => {
                "is it there, does it speak TLS, and do --tls-ca, --tls-cert and --tls-key fit it?"
                    .to_owned()
            }
            ClientError::Unreachable { .. } => {
                "start one with `polyplane serve`, or name another with --addr HOST:PORT".to_owned()
            }
            ClientError::Refused(refused) => match refused.code {
                Code::Unimplemented => "this server does not have it".to_owned(),
                Code::NotFound if refused.message.contains("device") => {
                    "choose the device with --device-id".to_owned()
                }
                Code::Unauthenticated => "give --tls-cert and --tls-key".to_owned(),
                _ if is_broken(&refused.message) => self.advice_on_tls(),
                _ => return error.to_string(),
            },
            _ => return error.to_string(),
        };
        format!("{error}; {advice}")
    }
}

/// Returns true if a message describes a broken connection, not an answer of the server.
fn is_broken(message: &str) -> bool {
    let message = message.to_ascii_lowercase();
    ["transport", "h2 ", "http2", "connection", "canceled"]
        .iter()
        .any(|word| message.contains(word))
}

/// Reads the file of a key or certificate.
pub(crate) fn pem(path: &Path, what: &str) -> Result<Vec<u8>, String> {
    let bytes = read(path, limits::CERTIFICATE)?;
    let marked = String::from_utf8_lossy(&bytes).lines().any(|line| {
        line.starts_with("-----BEGIN ") && line.trim_end().ends_with(&format!("{what}-----"))
    });
    match marked {
        true => Ok(bytes),
        false => Err(format!(
            "{} has no {} in PEM (a line `-----BEGIN {what}-----`)",
            path.display(),
            what.to_ascii_lowercase()
        )),
    }
}
