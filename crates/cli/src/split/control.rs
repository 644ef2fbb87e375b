//! `polyplane split control`: the coordinator of a switch and servers.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::str::FromStr;
use std::sync::Arc;

use clap::Args;
use p4rt::client::{Endpoint, Tls};
use p4rt::{Server, Urgency};
use packet::Nanos;
use passes::split::SplitProgram;
use runtime::{ControllerLink, ProcessSetup, Served, compile_pool};
use split::{Coordinator, NoEngine};
use split_runtime::{
    ControllerEnds, CoordinatorLoop, CoordinatorOptions, FixedProgram, PlaneSpec, StateStore,
};
use switch::DeviceConfig;
use tenancy::Compilations;

use super::placement::PlacementArgs;
use super::{Cut, add_entries, prepare};
use crate::address;
use crate::args::{Setup, Source};
use crate::control::{self, Cpu};
use crate::engine::Choice;
use crate::listen::Guard;
use crate::log::{self, Verbosity};
use crate::state::Keeping;
use crate::{Ended, configure, out};

/// Device id of a plane at its server, and of the whole device.
const DEVICE_ID: u64 = 1;

#[derive(Args)]
#[command(
    after_help = "Controllers see one device that runs the whole program. A write is answered when all connected planes have it. The planes are \
                  `polyplane split switch` and `polyplane split server` with --p4runtime, started with the same program and the same options of the \
                  split, without --entries; or another P4Runtime switch that runs the switch half.\n\nStops on SIGINT (Ctrl-C), SIGTERM and SIGHUP. \
                  The planes go on with what they have."
)]
pub(super) struct Options {
    #[command(flatten)]
    source: Source,
    /// P4Runtime address of the switch.
    #[arg(long, value_name = "HOST:PORT")]
    switch: String,
    /// P4Runtime address of a server. Give one for each server.
    #[arg(long = "server", value_name = "ID=HOST:PORT", required = true)]
    servers: Vec<ServerAddress>,
    /// Serve the whole device to controllers at this address of the machine's own.
    #[arg(
        long = "p4runtime",
        value_name = "ADDRESS",
        default_value = "127.0.0.1:9559"
    )]
    address: SocketAddr,
    #[command(flatten)]
    guard: Guard,
    #[command(flatten)]
    cpu: Cpu,
    /// Election id at the planes.
    #[arg(long, value_name = "N", default_value_t = 1)]
    election_id: u128,
    /// Speak TLS with the planes, which have certificates signed by one of these (PEM).
    #[arg(long, value_name = "FILE")]
    planes_ca: Option<PathBuf>,
    /// The coordinator's certificate, if the planes ask for one (PEM).
    #[arg(long, value_name = "FILE", requires_all = ["planes_ca", "planes_key"])]
    planes_cert: Option<PathBuf>,
    /// The key of --planes-cert (PEM).
    #[arg(long, value_name = "FILE", requires = "planes_cert")]
    planes_key: Option<PathBuf>,
    #[command(flatten)]
    setup: Setup,
    #[command(flatten)]
    keeping: Keeping,
    #[command(flatten)]
    placement: PlacementArgs,
    #[command(flatten)]
    cut: Cut,
    #[command(flatten)]
    choice: Choice,
    /// Log of the controllers on standard error: off, error, warn, info or debug; with `json,`
    /// before it, as lines of JSON.
    #[arg(long, value_name = "[json,]LEVEL", default_value_t)]
    log: Verbosity,
}

/// A server and the address of its P4Runtime server.
#[derive(Clone, Debug)]
struct ServerAddress {
    server: u16,
    address: String,
}

impl FromStr for ServerAddress {
    type Err = String;

    fn from_str(text: &str) -> Result<ServerAddress, String> {
        let wrong = || format!("`{text}` is not a server and an address, such as 1=127.0.0.1:9561");
        let (server, address) = text.split_once('=').ok_or_else(wrong)?;
        let server = server.parse().map_err(|_| wrong())?;
        match (1..=64).contains(&server) {
            true => Ok(ServerAddress {
                server,
                address: address.to_owned(),
            }),
            false => Err(format!(
                "there is no server {server}: servers have numbers from 1 to 64"
            )),
        }
    }
}

impl Options {
    pub(super) fn run(&self, early: &ProcessSetup) -> Result<Ended, String> {
        log::begin(self.log);
        let mut planes = self.planes()?;
        let Some(prepared) = prepare(&self.source, &self.cut.options(), false)? else {
            return Ok(Ended::WithErrors);
        };
        let program = &prepared.program;
        let config = configure::device_config(&self.setup);
        let Some((mut coordinator, store)) = self.coordinator(program, &config)? else {
            return Ok(Ended::WithErrors);
        };
        planes.store = store;
        coordinator.whole_mut().step(Nanos::ZERO);
        let compilations = Compilations::new(compile_pool());
        let device = coordinator.whole();
        let link = ControllerLink {
            id: DEVICE_ID,
            second_id: Some(0),
            cpu: self.cpu.numbers(Some(device.program().arch)),
            ports: &[],
            workers: 1,
            engine: Arc::from(self.choice.engine()),
            config,
            compilations: &compilations,
            extensions: &[],
        };
        let served = Served {
            program: Some(device.program()),
            notes: device.notes(),
        };
        let (mut config, mut line) = control::connect(link, served)?;
        // The planes would not follow another program.
        config.loader = Arc::new(FixedProgram::new([]));
        let listen = self.guard.listen(self.address)?;
        let (operators, requests) = p4rt::petitions().map_err(|error| error.to_string())?;
        let cpu_port = line.port.shares.pop();
        let ends = ControllerEnds {
            inbox: line.inbox,
            cpu_port: cpu_port.ok_or("the CPU port has no share")?,
            operators,
        };
        let control = CoordinatorLoop::start(program, coordinator, ends, planes);
        let mut control = control.map_err(|error| error.to_string())?;
        let server = Server::for_split(listen, vec![config], Urgency::AsWorkers, requests);
        let server = server.map_err(|error| error.to_string())?;
        out::note(&format!(
            "P4Runtime of the whole device is served at {}; Ctrl-C stops it",
            server.address()
        ));
        let ended = control.run(early, &mut out::note);
        ended
            .map(|_| Ended::Well)
            .map_err(|error| error.to_string())
    }

    /// Creates the coordinator, with the stored state. Shows errors in the entries, and returns
    /// `None` if there are any.
    fn coordinator(
        &self,
        program: &SplitProgram,
        config: &DeviceConfig,
    ) -> Result<Option<(Coordinator, Option<StateStore>)>, String> {
        let plan = Arc::new(program.plan.clone());
        let opened = self.keeping.open()?;
        let found = opened.map(|opened| opened.device(DEVICE_ID)).transpose()?;
        let entries = self.setup.entries.as_deref();
        let before = found.as_ref().and_then(|found| found.program().cloned());
        let (coordinator, has_it) = match (&found, before) {
            (Some(found), Some(before)) => {
                if let Some(entries) = entries {
                    let name = entries.display();
                    out::note(&format!(
                        "{name} is not read: the coordinator has its state already"
                    ));
                }
                let config = Coordinator::device_config(config);
                let whole = program.whole.clone();
                let (device, is_same) =
                    found.resume(&before, whole, &NoEngine, &config, &mut out::note)?;
                (Coordinator::with_device(device, plan), is_same)
            }
            _ => {
                let whole = Arc::new(program.whole.clone());
                let made = Coordinator::new(whole, plan, config);
                let mut made = made.map_err(|error| error.to_string())?;
                if !add_entries(&mut made, entries)? {
                    return Ok(None);
                }
                (made, false)
            }
        };
        let store = match found {
            Some(found) => {
                let (storage, cells) = found.into_storage()?;
                Some(StateStore {
                    storage,
                    cells,
                    has_it,
                })
            }
            None => None,
        };
        Ok(Some((coordinator, store)))
    }

    /// Returns the addresses of the planes.
    ///
    /// # Errors
    /// A server is given twice, or a file cannot be read.
    fn planes(&self) -> Result<CoordinatorOptions, String> {
        let identity = match (&self.planes_cert, &self.planes_key) {
            (Some(certificate), Some(key)) => Some((
                address::pem(certificate, "CERTIFICATE")?,
                address::pem(key, "PRIVATE KEY")?,
            )),
            _ => None,
        };
        let tls = match &self.planes_ca {
            Some(path) => Some(Tls {
                ca: address::pem(path, "CERTIFICATE")?,
                identity,
                name: None,
            }),
            None => None,
        };
        let spec = |server, address: &str| PlaneSpec {
            server,
            endpoint: Endpoint {
                address: address.to_owned(),
                tls: tls.clone(),
            },
            device: DEVICE_ID,
        };
        let mut servers = self.servers.clone();
        servers.sort_by_key(|server| server.server);
        for pair in servers.windows(2) {
            if pair[0].server == pair[1].server {
                return Err(format!(
                    "the server {} is given twice: give each server its own number",
                    pair[0].server
                ));
            }
        }
        let servers = servers.iter();
        Ok(CoordinatorOptions {
            switch: spec(None, &self.switch),
            servers: servers
                .map(|server| spec(Some(server.server), &server.address))
                .collect(),
            election: self.election_id,
            placement: self.placement.placement()?,
            order: self.placement.order(),
            store: None,
        })
    }
}
