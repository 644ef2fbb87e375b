//! The way to a server: its address, the device, who we are, and what to do when it does not work.

use std::path::{Path, PathBuf};

use clap::Args;
use controller::Catalog;
use p4info::p4::v1::get_forwarding_pipeline_config_request::ResponseType;
use p4rt::client::{Client, ClientError, Code, Endpoint, Tls};

use crate::args::read;

/// The version from which on replicas have ports of any form.
const PORTS_HAVE_BYTES: [u32; 2] = [1, 4];

/// Which server, and as whom.
#[derive(Args, Clone)]
pub(crate) struct LinkOptions {
    /// Where the P4Runtime server is.
    #[arg(
        long,
        global = true,
        value_name = "HOST:PORT",
        default_value = "127.0.0.1:9559"
    )]
    pub(crate) addr: String,
    /// The device's number on that server.
    #[arg(long, global = true, value_name = "N", default_value_t = 1)]
    pub(crate) device_id: u64,
    /// Be primary with this election id, though another controller may be. Without it, an id is chosen where nobody is primary.
    #[arg(long, global = true, value_name = "N")]
    pub(crate) election_id: Option<u128>,
    /// The role to control as; the default role controls everything.
    #[arg(
        long,
        global = true,
        value_name = "NAME",
        default_value = "",
        hide_default_value = true
    )]
    pub(crate) role: String,
    /// Speak TLS, with a server whose certificate is signed by one of these (PEM).
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

/// A connection to a device.
pub(crate) struct Link {
    pub(crate) client: Client,
    options: LinkOptions,
}

impl LinkOptions {
    /// Connects.
    ///
    /// # Errors
    /// A line that says what to do about it.
    pub(crate) fn connect(&self) -> Result<Link, String> {
        let endpoint = Endpoint {
            address: self.addr.clone(),
            tls: self.tls()?,
        };
        let client = Client::connect(&endpoint, self.device_id, &self.role);
        Ok(Link {
            client: client.map_err(|error| self.explain(&error))?,
            options: self.clone(),
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
            // `requires` would not do: these options may stand before the command, and the others behind it.
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

    /// What to try when a connection breaks: TLS tells no more than that.
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

    /// What failed, and what to do about it.
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

/// Whether a message is of a connection and not of a server.
fn is_broken(message: &str) -> bool {
    let message = message.to_ascii_lowercase();
    ["transport", "h2 ", "http2", "connection", "canceled"]
        .iter()
        .any(|word| message.contains(word))
}

/// The file of a key or certificate.
fn pem(path: &Path, what: &str) -> Result<Vec<u8>, String> {
    let bytes = read(path)?;
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

impl Link {
    /// What failed, and what to do about it.
    pub(crate) fn explain(&self, error: &ClientError) -> String {
        self.options.explain(error)
    }

    /// The program that the device has, as its P4Info tells it.
    ///
    /// # Errors
    /// There is none, or a P4Info that makes no sense.
    pub(crate) fn catalog(&mut self) -> Result<Catalog, String> {
        let config = match self.client.config(ResponseType::P4infoAndCookie) {
            Err(ClientError::Refused(refused)) if refused.code == Code::Unimplemented => {
                self.client.config(ResponseType::All)
            }
            answer => answer,
        };
        let config = config.map_err(|error| self.explain(&error))?;
        let Some(info) = config.and_then(|config| config.p4info) else {
            return Err(format!(
                "device {} has no program; load one with `polyplane ctl load PROGRAM.p4`",
                self.options.device_id
            ));
        };
        let mut catalog = Catalog::new(info).map_err(|error| error.to_string())?;
        // Servers that do not tell their version are of before it could be told.
        let version = self.client.capabilities().unwrap_or_default();
        catalog.ports_are_numbers = !is_at_least(&version, PORTS_HAVE_BYTES);
        Ok(catalog)
    }

    /// Becomes primary, which who writes must be: with the election id that was given; else if nobody is.
    ///
    /// # Errors
    /// Another controller is primary.
    pub(crate) fn become_primary(&mut self) -> Result<(), String> {
        let election = match self.options.election_id {
            Some(election) => election,
            None => self.free_election()?,
        };
        let arbitration = self.client.arbitrate(Some(election));
        let arbitration = arbitration.map_err(|error| self.not_primary(&error))?;
        match arbitration.is_primary {
            true => Ok(()),
            false => Err(self.taken(arbitration.highest)),
        }
    }

    /// An election id that is as high as any, if nobody is primary.
    fn free_election(&mut self) -> Result<u128, String> {
        match self.client.arbitrate(None) {
            Ok(arbitration) if arbitration.has_primary && !arbitration.is_primary => {
                Err(self.taken(arbitration.highest))
            }
            Ok(arbitration) => Ok(arbitration.highest.unwrap_or(1).max(1)),
            // A server that knows no controllers without an election id.
            Err(ClientError::Refused(refused)) if refused.code == Code::InvalidArgument => Ok(1),
            Err(error) => Err(self.explain(&error)),
        }
    }

    fn not_primary(&self, error: &ClientError) -> String {
        match error {
            ClientError::Refused(refused) if refused.code == Code::InvalidArgument => {
                format!("{error}; give another one with --election-id")
            }
            error => self.explain(error),
        }
    }

    fn taken(&self, highest: Option<u128>) -> String {
        let device = self.options.device_id;
        match highest {
            Some(highest) => format!(
                "another controller, with the election id {highest}, is primary for device {device}; stop it, or take its place with --election-id {}",
                highest.saturating_add(1)
            ),
            None => format!(
                "another controller is primary for device {device}; stop it, or take its place with --election-id N"
            ),
        }
    }
}

/// Whether a version such as `1.4.0-rc.1` is at least this one.
fn is_at_least(version: &str, least: [u32; 2]) -> bool {
    let mut parts = version
        .split(['.', '-'])
        .map(|part| part.parse::<u32>().unwrap_or(0));
    let given = [parts.next().unwrap_or(0), parts.next().unwrap_or(0)];
    given >= least
}
