//! `polyplane split switch` and `polyplane split server`: the halves on real interfaces.

use std::net::SocketAddr;
use std::path::Path;
use std::str::FromStr;
use std::sync::Arc;

use clap::Args;
use exec::Natives;
use ir::TableId;
use p4rt::{Server, Urgency};
use packet::{Nanos, PortId};
use passes::split::SplitPlan;
use port::{PortSpec, PortTarget};
use runtime::{
    ChannelEnd, ControllerChannel, ControllerLink, MakeFilter, ProcessSetup, Served, compile_pool,
};
use split::{
    Coordinator, DevicePlane, EntryIds, NoPlane, PlaneControl, Requests, ServerFilter, ServerPort,
};
use split_runtime::{
    FixedProgram, LoggingFilter, RequestLog, ServerExtension, ServerIdentity, SwitchExtension,
    SwitchParts, TO_PLANE,
};
use switch::{Device, FrameFilter};
use tenancy::Compilations;

use super::server_code::{self, ServerCode};
use super::{Cut, Prepared, add_entries, prepare};
use crate::args::{Setup, Source};
use crate::control::{self, Cpu};
use crate::engine::Choice;
use crate::handlers::engine_without_code;
use crate::listen::Guard;
use crate::run::{DeviceProcessor, ForwardedFrames, carry};
use crate::{Ended, configure, out};

/// Options of the switch.
#[derive(Args)]
#[command(
    after_help = "A frame to a server is longer than its packet (`split show` has the number of bytes): the links to servers need a larger MTU \
                  than the others.\n\nStops on SIGINT (Ctrl-C), SIGTERM and SIGHUP with a final report."
)]
pub(super) struct SwitchPlane {
    #[command(flatten)]
    source: Source,
    /// A switch port and its interface. Give one for each port, also for those to servers.
    #[arg(long = "port", value_name = "NUMBER=INTERFACE", required = true)]
    ports: Vec<PortSpec>,
    /// A server and the switch port that leads to it. Give one for each server.
    #[arg(long = "server", value_name = "ID=PORT", required = true)]
    servers: Vec<ServerSpec>,
    #[command(flatten)]
    carrying: DeviceProcessor,
    #[command(flatten)]
    setup: Setup,
    #[command(flatten)]
    cut: Cut,
    #[command(flatten)]
    choice: Choice,
    #[command(flatten)]
    serving: Serving,
}

/// Options of a server.
#[derive(Args)]
#[command(
    after_help = "The entries are those of the whole program: the server takes the ones of mirrored tables.\n\nStops on SIGINT (Ctrl-C), SIGTERM \
                  and SIGHUP with a final report."
)]
pub(super) struct ServerPlane {
    #[command(flatten)]
    source: Source,
    /// The number of this server.
    #[arg(long, value_name = "ID", default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=64))]
    id: u16,
    /// Number of servers of the group. Each leases only its part of the pools (`CLIP_POOL`): give
    /// all servers the same number, and numbers (--id) up to it.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=64))]
    group_size: u16,
    /// The interface at which requests arrive.
    #[arg(long = "port", value_name = "NUMBER=INTERFACE", required = true)]
    ports: Vec<PortSpec>,
    #[command(flatten)]
    carrying: DeviceProcessor,
    #[command(flatten)]
    setup: Setup,
    #[command(flatten)]
    cut: Cut,
    #[command(flatten)]
    choice: Choice,
    #[command(flatten)]
    serving: Serving,
}

/// Options of the P4Runtime server of a half, for its coordinator.
#[derive(Args)]
#[command(
    mut_group("Guard", |group| group.requires("address")),
    mut_group("Cpu", |group| group.requires("address"))
)]
struct Serving {
    /// Let the coordinator in by P4Runtime at this address of the machine's own, such as
    /// 127.0.0.1:9559 (`polyplane split control`).
    #[arg(long = "p4runtime", value_name = "ADDRESS")]
    address: Option<SocketAddr>,
    #[command(flatten)]
    guard: Guard,
    #[command(flatten)]
    cpu: Cpu,
}

impl Serving {
    /// Checks that the half has its entries from one place.
    ///
    /// # Errors
    /// It has a file of entries, and a coordinator.
    fn check(&self, setup: &Setup) -> Result<(), String> {
        match self.address.is_some() && setup.entries.is_some() {
            true => Err(
                "with --p4runtime a half gets its entries from the coordinator: give \
                         --entries to `polyplane split control`"
                    .to_owned(),
            ),
            false => Ok(()),
        }
    }

    /// Starts the server of a device, if an address is given.
    ///
    /// # Errors
    /// The server cannot listen on the address.
    fn start(
        &self,
        device: &Device,
        ports: &[PortSpec],
        carrying: &DeviceProcessor,
        (choice, setup): (Choice, &Setup),
        urgency: Urgency,
    ) -> Result<Option<(ChannelEnd, ControllerChannel)>, String> {
        let Some(address) = self.address else {
            return Ok(None);
        };
        let compilations = Compilations::new(compile_pool());
        let link = ControllerLink {
            id: DEVICE_ID,
            second_id: Some(0),
            cpu: self.cpu.numbers(Some(device.program().arch)),
            ports,
            workers: carrying.workers(),
            engine: Arc::from(choice.engine()),
            config: configure::device_config(setup),
            compilations: &compilations,
            extensions: &[TO_PLANE],
        };
        let served = Served {
            program: Some(device.program()),
            notes: device.notes(),
        };
        let (mut config, line) = control::connect(link, served)?;
        config.loader = Arc::new(FixedProgram::new(ports.iter().map(|spec| spec.id)));
        let listen = self.guard.listen(address)?;
        let server = Server::start(listen, vec![config], urgency);
        let server = server.map_err(|error| error.to_string())?;
        out::note(&format!("P4Runtime is served at {}", server.address()));
        let channel = ControllerChannel::new(&Arc::new(server), DEVICE_ID);
        Ok(Some((line, channel)))
    }
}

/// Device id of the halves.
const DEVICE_ID: u64 = 1;

/// A server and its port: `1=4`.
#[derive(Clone, Copy, Debug)]
struct ServerSpec {
    server: u16,
    port: u32,
}

impl FromStr for ServerSpec {
    type Err = String;

    fn from_str(text: &str) -> Result<ServerSpec, String> {
        let wrong = || format!("`{text}` is not a server and a port, such as 1=4");
        let (server, port) = text.split_once('=').ok_or_else(wrong)?;
        Ok(ServerSpec {
            server: server.parse().map_err(|_| wrong())?,
            port: port.parse().map_err(|_| wrong())?,
        })
    }
}

/// A plane with the whole program's tables.
struct Started {
    device: Device,
    plan: Arc<SplitPlan>,
}

impl SwitchPlane {
    pub(super) fn run(&self, early: &ProcessSetup) -> Result<Ended, String> {
        self.carrying.check()?;
        self.serving.check(&self.setup)?;
        let servers = self.server_ports()?;
        let (habits, urgency) = self.carrying.begin(1);
        let options = self.cut.options();
        let Some(prepared) = prepare(&self.source, &options, false)? else {
            return Ok(Ended::WithErrors);
        };
        let started = start(&prepared, &self.setup, self.choice, None)?;
        let Some(Started { mut device, plan }) = started else {
            return Ok(Ended::WithErrors);
        };
        self.warn_of_long_requests(&servers, plan.frame.header_bytes);
        let request_port = options.request_port;
        let options = ::split::SwitchOptions {
            servers: servers.clone(),
            request_port,
            ..::split::SwitchOptions::default()
        };
        let requests = Arc::new(Requests::new(&plan, options));
        let log = Arc::new(RequestLog::new());
        let widths = plan.cuts.iter().map(|cut| plan.key_width(cut.kind));
        let widths: Arc<[usize]> = [0].into_iter().chain(widths).collect();
        let parts = SwitchParts {
            log: Arc::clone(&log),
            requests: Arc::clone(&requests),
            servers,
            ports: self.ports.iter().map(|spec| spec.id).collect(),
            plan,
        };
        let extension = Box::new(SwitchExtension::new(&mut device, parts));
        let filter: MakeFilter = Box::new(move || {
            let (requests, log) = (Arc::clone(&requests), Arc::clone(&log));
            let filter = LoggingFilter::new(requests, log, Arc::clone(&widths));
            let filter: Box<dyn FrameFilter> = Box::new(filter);
            filter
        });
        let half = (self.choice, &self.setup);
        let control = self
            .serving
            .start(&device, &self.ports, &self.carrying, half, urgency)?;
        let carried = ForwardedFrames {
            id: DEVICE_ID,
            what: format!("{} (switch half)", self.source.program.display()),
            device,
            ports: self.ports.clone(),
            control,
            filter: Some(filter),
            extension: Some(extension),
            kernel: None,
            offload: None,
            changes: None,
        };
        carry(vec![carried], habits, &self.carrying, (early, None))
    }

    /// Warns if requests with long packets exceed the MTU of a server's link. Such frames are
    /// dropped when they are sent.
    fn warn_of_long_requests(&self, servers: &[ServerPort], header_bytes: u32) {
        let mtu_of = |spec: &PortSpec| match &spec.target {
            PortTarget::Interface(name) | PortTarget::Tap(name) => mtu(name),
            // It takes frames of any length.
            PortTarget::Ring(_) => None,
        };
        let server_at = |port: PortId| servers.iter().find(|server| server.port == port);
        let others = self
            .ports
            .iter()
            .filter(|spec| server_at(spec.id).is_none());
        let Some(longest) = others.filter_map(mtu_of).max() else {
            return;
        };
        let needed = longest + header_bytes;
        for spec in &self.ports {
            if let (Some(server), Some(mtu)) = (server_at(spec.id), mtu_of(spec))
                && mtu < needed
            {
                out::note(&format!(
                    "warning: packets above {} bytes do not reach server {}: requests have \
                     {header_bytes} bytes more, and the MTU of port {spec} is {mtu}; set it to \
                     {needed} at both ends",
                    mtu.saturating_sub(header_bytes),
                    server.server.0
                ));
            }
        }
    }

    /// Returns the servers, in the order of their numbers.
    ///
    /// # Errors
    /// A server or a port is named twice, or a port does not exist.
    fn server_ports(&self) -> Result<Vec<ServerPort>, String> {
        let mut servers = self.servers.clone();
        servers.sort_by_key(|spec| spec.server);
        for pair in servers.windows(2) {
            if pair[0].server == pair[1].server {
                return Err(format!(
                    "the server {} is given twice: give each server its own number",
                    pair[0].server
                ));
            }
        }
        let mut ports: Vec<u32> = servers.iter().map(|spec| spec.port).collect();
        ports.sort_unstable();
        if let Some(pair) = ports.windows(2).find(|pair| pair[0] == pair[1]) {
            return Err(format!("two servers are at port {}", pair[0]));
        }
        let is_port = |port: u32| self.ports.iter().any(|spec| spec.id == PortId(port));
        if let Some(spec) = servers.iter().find(|spec| !is_port(spec.port)) {
            return Err(format!(
                "the server {} is at port {}, which has no interface: add --port {}=INTERFACE",
                spec.server, spec.port, spec.port
            ));
        }
        let port = |spec: &ServerSpec| ServerPort {
            server: placement::ServerId(spec.server),
            port: PortId(spec.port),
        };
        Ok(servers.iter().map(port).collect())
    }
}

impl ServerPlane {
    /// Checks the server's number: one above the size of the group would lease values of another.
    ///
    /// # Errors
    /// The number is above the size.
    fn check_number(&self) -> Result<(), String> {
        match self.id > self.group_size {
            true => Err(format!(
                "--id {} is above --group-size {}: give all servers the number of servers that the \
                 group may have",
                self.id, self.group_size
            )),
            false => Ok(()),
        }
    }

    pub(super) fn run(&self, early: &ProcessSetup) -> Result<Ended, String> {
        self.carrying.check()?;
        let (habits, urgency) = self.carrying.begin(1);
        self.check_number()?;
        self.serving.check(&self.setup)?;
        let Some(mut prepared) = prepare(&self.source, &self.cut.options(), true)? else {
            return Ok(Ended::WithErrors);
        };
        let server = &prepared.program.server;
        let part = u32::from(self.id).saturating_sub(1);
        prepared.handlers.set_part(part, self.group_size.into());
        let state = Arc::new(prepared.handlers.server_state());
        let natives = prepared.handlers.load_into(&state, server, self.id.into());
        let Some(natives) = natives else {
            return Ok(Ended::WithErrors);
        };
        let whole = (&prepared.program.whole, self.id.into());
        let code = ServerCode::new(&self.source, self.cut.options(), whole, Arc::clone(&state));
        let started = start(&prepared, &self.setup, self.choice, Some(natives))?;
        let Some(Started { mut device, plan }) = started else {
            return Ok(Ended::WithErrors);
        };
        let filter = ServerFilter::new(&plan.frame);
        let identity = ServerIdentity {
            id: self.id,
            group_size: self.group_size,
            pools: server_code::pools(&state),
            epoch: plan.frame.epoch,
        };
        let flows = Arc::clone(filter.known_flows());
        let tables = mirrored_tables(&plan);
        let extension = ServerExtension::new(&mut device, identity, flows, tables);
        let extension = Box::new(extension.with_code_of(Arc::new(code)));
        let filter: MakeFilter = Box::new(move || Box::new(filter.clone()));
        let half = (self.choice, &self.setup);
        let control = self
            .serving
            .start(&device, &self.ports, &self.carrying, half, urgency)?;
        let carried = ForwardedFrames {
            id: DEVICE_ID,
            what: format!("{} (server {})", self.source.program.display(), self.id),
            device,
            ports: self.ports.clone(),
            control,
            filter: Some(filter),
            extension: Some(extension),
            kernel: None,
            offload: None,
            changes: None,
        };
        carry(vec![carried], habits, &self.carrying, (early, None))
    }
}

/// Returns the MTU of an interface, if it exists.
fn mtu(name: &str) -> Option<u32> {
    let text = crate::args::read_text(&Path::new("/sys/class/net").join(name).join("mtu"), 64);
    text.ok()?.trim().parse().ok()
}

fn mirrored_tables(plan: &SplitPlan) -> impl Iterator<Item = TableId> {
    plan.mirrored.iter().map(|mirrored| mirrored.table)
}

/// Loads a half with its part of the entries: a server with these handlers, or the switch. Shows
/// errors, and returns `None` if there are any.
fn start(
    prepared: &Prepared,
    setup: &Setup,
    choice: Choice,
    server: Option<Natives>,
) -> Result<Option<Started>, String> {
    let program = &prepared.program;
    let config = configure::device_config(setup);
    let plan = Arc::new(program.plan.clone());
    let whole = Arc::new(program.whole.clone());
    let mut coordinator =
        Coordinator::new(whole, Arc::clone(&plan), &config).map_err(|error| error.to_string())?;
    if !add_entries(&mut coordinator, setup.entries.as_deref())? {
        return Ok(None);
    }
    let is_server = server.is_some();
    let half = match is_server {
        true => &program.server,
        false => &program.switch,
    };
    let engine = engine_without_code(choice.engine_before_packets(), half);
    let mut device = Device::new(Arc::new(half.clone()), engine.as_ref(), &config)
        .map_err(|error| error.to_string())?;
    if let Some(natives) = server {
        device.set_handlers(&natives);
    }
    device.step(Nanos::ZERO);
    let mirrored = plan.mirrored.iter().map(|mirrored| mirrored.table);
    let mut ids = match is_server {
        true => EntryIds::default(),
        false => EntryIds::new(mirrored),
    };
    let mut plane = DevicePlane {
        device: &mut device,
        ids: &mut ids,
    };
    match is_server {
        true => {
            let mut servers: [&mut dyn PlaneControl; 1] = [&mut plane];
            coordinator.propagate(&mut NoPlane, &mut servers);
        }
        false => coordinator.propagate(&mut plane, &mut []),
    }
    let refused = coordinator.take_refused();
    for error in &refused {
        out::error(&error.to_string());
    }
    Ok(refused.is_empty().then_some(Started { device, plan }))
}
