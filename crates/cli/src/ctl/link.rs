//! Connection to a device of a server: its options, arbitration, and advice on errors.

use clap::Args;
use controller::Catalog;
use p4info::p4::v1::get_forwarding_pipeline_config_request::ResponseType;
use p4rt::client::{Client, ClientError, Code};

use crate::address::Address;

/// First version of P4Runtime in which replicas have ports as bytes.
const PORTS_HAVE_BYTES: [u32; 2] = [1, 4];

/// Options that select the server, the device and the role.
#[derive(Args, Clone)]
pub(crate) struct LinkOptions {
    #[command(flatten)]
    pub(crate) address: Address,
    /// The device's number on that server.
    #[arg(long, global = true, value_name = "N", default_value_t = 1)]
    pub(crate) device_id: u64,
    /// Be primary with this election id, though another controller may be. Default: an id is
    /// chosen if no controller is primary.
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
}

/// A connection to a device.
pub(crate) struct Link {
    pub(crate) client: Client,
    options: LinkOptions,
}

impl LinkOptions {
    /// Connects to the device.
    ///
    /// # Errors
    /// A line that names the cause and suggests a remedy.
    pub(crate) fn connect(&self) -> Result<Link, String> {
        let endpoint = self.address.endpoint()?;
        let client = Client::connect(&endpoint, self.device_id, &self.role);
        Ok(Link {
            client: client.map_err(|error| self.address.explain(&error))?,
            options: self.clone(),
        })
    }
}

impl Link {
    /// Describes an error and suggests a remedy.
    pub(crate) fn explain(&self, error: &ClientError) -> String {
        self.options.address.explain(error)
    }

    /// Returns the description of the device's program, from its P4Info.
    ///
    /// # Errors
    /// The device has no program, or its P4Info is inconsistent.
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
        // A server that does not report its version is older than the field for it.
        let version = self.client.capabilities().unwrap_or_default();
        catalog.ports_are_numbers = !is_at_least(&version, PORTS_HAVE_BYTES);
        Ok(catalog)
    }

    /// Becomes primary, which writes require: with the given election id, else only if there is
    /// no primary.
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

    /// Returns an election id that is as high as any other, if there is no primary.
    fn free_election(&mut self) -> Result<u128, String> {
        match self.client.arbitrate(None) {
            Ok(arbitration) if arbitration.has_primary && !arbitration.is_primary => {
                Err(self.taken(arbitration.highest))
            }
            Ok(arbitration) => Ok(arbitration.highest.unwrap_or(1).max(1)),
            // The server does not allow controllers without an election id.
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
        let (with, next) = match highest {
            Some(highest) => (
                format!(", with the election id {highest},"),
                highest.saturating_add(1).to_string(),
            ),
            None => (String::new(), "N".to_owned()),
        };
        let role = match self.options.role.as_str() {
            "" => "the default role".to_owned(),
            role => format!("the role `{role}`"),
        };
        format!(
            "another controller{with} is primary for device {device} in {role}; if it is a reflex plane, it manages its tables: use a role of your own with --role NAME, and its store takes the writes; otherwise stop it, or take its place with --election-id {next}"
        )
    }
}

/// Returns true if a version such as `1.4.0-rc.1` is at least this one.
fn is_at_least(version: &str, least: [u32; 2]) -> bool {
    let mut parts = version
        .split(['.', '-'])
        .map(|part| part.parse::<u32>().unwrap_or(0));
    let given = [parts.next().unwrap_or(0), parts.next().unwrap_or(0)];
    given >= least
}
