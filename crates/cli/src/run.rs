//! `polyplane run`: a switch on real interfaces.

mod observer;
mod opening;
mod tracer;

use std::net::SocketAddr;
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use clap::{Args, ValueEnum};
use foreign::CodeText;
use p4rt::{Server, Urgency};
use packet::Nanos;
use port::{Cores, OpenedPort, Poller, PortSpec};
use runtime::trace_filter::{PacketFilter, SamplingRate};
use runtime::{
    ChannelEnd, ControlExtension, ControllerChannel, ControllerLink, DeviceReload, Ending,
    Forwarder, ForwarderOptions, InterfacePattern, MakeFilter, MetricsServer, MetricsSource,
    NotificationLevel, PortControl, ProcessSetup, Served, StopSources, StoredDevice,
    TakenInterfaces, TraceSelection, WorkerConfig, compile_pool,
};
use support::wakeup::WakeupFd;
use switch::Device;
use tenancy::Compilations;
use tracing::level_filters::LevelFilter;

use crate::args::{Io, MAX_WORKERS, Setup, Source};
use crate::capture::{CaptureOptions, RunningCapture};
use crate::config::{ConfigOption, ConfigWatch};
use crate::control::{self, Cpu};
use crate::engine::Choice;
use crate::handlers::engine_with;
use crate::kernel_part::KernelPart;
use crate::listen::Guard;
use crate::log::{self, Verbosity};
use crate::offload::arguments::{OffloadArguments, OffloadPorts, roles};
use crate::service::{CertificateFiles, DeviceFiles, Reload, Service};
use crate::state::Keeping;
use crate::{Ended, amount, compile, configure, out};
use observer::Observer;
pub(crate) use opening::{MissingPorts, PortOpening, open, open_all, tell_ports, warn_of_missing};
use tracer::Tracer;

/// Interval between updates of the live counters.
const INTERVAL: Duration = Duration::from_secs(1);

#[derive(Args)]
#[command(
    after_help = "Stops on SIGINT (Ctrl-C) and SIGTERM with a final report. SIGHUP reads the program, the entries and the certificates again and makes the \
                  switch equal to them, without loss; a file with an error changes nothing. Needs CAP_NET_RAW: run it with sudo, or give the capability \
                  to the program. AF_XDP, the faster way to carry frames, needs root.\n\nA FILTER joins conditions by and, or, not and parentheses: a \
                  field, one of == != < <= > >=, and a value. Fields are port, len, eth.src, eth.dst, eth.type, vlan.id, ipv4.src, ipv4.dst, \
                  ipv4.protocol, ipv4.ttl, ipv6.src, ipv6.dst, ipv6.next, ipv6.hops, tcp.src, tcp.dst, udp.src, udp.dst and bytes[OFFSET:LENGTH]; \
                  a header alone (arp, vlan, ipv4, ipv6, icmp, icmp6, tcp, udp) asks whether there is one, all means every packet. \
                  docs/reference/trace.md tells more.\n\nExit status: 0 when stopped by a signal, 1 for errors in what was given or when the last port has gone, 2 \
                  for wrong usage, 78 for errors in the file of --config or in files that it names.",
    // These options configure the server.
    mut_group("Guard", |group| group.requires("address")),
    mut_group("Cpu", |group| group.requires("address")),
    mut_group("AllowedPorts", |group| group.requires("address"))
)]
pub(crate) struct Options {
    #[command(flatten)]
    source: Source,
    /// A switch port and its interface; `tap:NAME` creates a TAP device, `ring:NAME` is shared
    /// memory with another process. Give one for each port.
    #[arg(
        long = "port",
        value_name = "NUMBER=INTERFACE",
        required_unless_present = "address"
    )]
    ports: Vec<PortSpec>,
    #[command(flatten)]
    carrying: DeviceProcessor,
    #[command(flatten)]
    setup: Setup,
    #[command(flatten)]
    choice: Choice,
    /// Let controllers in by P4Runtime at this address of the machine's own, such as
    /// 127.0.0.1:9559 (docs/reference/p4runtime.md).
    #[arg(long = "p4runtime", value_name = "ADDRESS")]
    address: Option<SocketAddr>,
    #[command(flatten)]
    guard: Guard,
    /// The number by which controllers know the device; if none is given, it is 1 and answers to 0,
    /// BMv2's default, too.
    #[arg(long, value_name = "N")]
    device_id: Option<u64>,
    #[command(flatten)]
    cpu: Cpu,
    #[command(flatten)]
    changes: AllowedPorts,
    #[command(flatten)]
    keeping: Keeping,
    #[command(flatten)]
    offload: OffloadArguments,
    #[command(flatten)]
    config: ConfigOption,
}

/// Option of the interfaces that become ports while the switch runs.
#[derive(Args, Clone)]
pub(crate) struct AllowedPorts {
    /// Let `polyplane ctl port add` take this interface, written as in --port: eth1, tap:t0,
    /// ring:r, or all that begin so: eth*. Interfaces of --port may be added again without it.
    #[arg(long = "port-allow", value_name = "INTERFACE")]
    pub(crate) port_allow: Vec<InterfacePattern>,
}

/// Options of packet forwarding.
#[derive(Args)]
pub(crate) struct DeviceProcessor {
    /// Packet I/O of ports on interfaces.
    #[arg(long, value_enum, default_value_t)]
    io: Io,
    /// Treatment of ports without an interface at the start.
    #[arg(long, value_name = "TREATMENT", value_enum, default_value_t)]
    missing_ports: MissingPorts,
    #[command(flatten)]
    workers: Workers,
    /// Make native code for what the tables hold, in the background, and run it while they hold
    /// it (docs/explanation/specialisation.md).
    #[arg(long, value_enum, value_name = "on|off", default_value_t)]
    specialise: Specialise,
    #[command(flatten)]
    trace: Trace,
    #[command(flatten)]
    capture: CaptureOptions,
    /// Also write a report at this interval, not only at the end; with --json each is one line.
    #[arg(long, value_name = "SECONDS", value_parser = clap::value_parser!(u64).range(1..=86_400))]
    every: Option<u64>,
    /// Write the final report as JSON.
    #[arg(long)]
    json: bool,
    /// Serve metrics for Prometheus at this loopback address, such as 127.0.0.1:9100
    /// (docs/reference/metrics.md).
    #[arg(long, value_name = "ADDRESS")]
    metrics: Option<SocketAddr>,
    /// Log of the controllers on standard error: off, error, warn, info or debug; with `json,`
    /// before it, as lines of JSON.
    #[arg(long, value_name = "[json,]LEVEL", default_value_t)]
    log: Verbosity,
}

/// Choice of code made for what the tables hold.
#[derive(Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
enum Specialise {
    /// A thread makes it while packets run code for any tables.
    #[default]
    On,
    /// Packets always run code for any tables.
    Off,
}

/// Options of worker threads.
#[derive(Args)]
pub(crate) struct Workers {
    /// Threads that forward, each pinned to a core if there are several and cores enough. All
    /// packets of a flow are processed by one of them.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=MAX_WORKERS))]
    workers: u16,
    /// Time that a worker keeps polling for packets before it sleeps, in microseconds: less
    /// latency for more processor time.
    #[arg(long, value_name = "MICROSECONDS", default_value_t = 0)]
    spin: u64,
}

/// Options of packet tracing.
#[derive(Args)]
struct Trace {
    /// Trace packets that this describes, as in 'ipv4.dst == 10.0.0.1 and udp', step by step as
    /// `polyplane trace` does; others go on at full speed.
    #[arg(long, value_name = "FILTER")]
    trace: Option<PacketFilter>,
    /// Trace at most this number of packets.
    #[arg(long, value_name = "N", requires = "trace", value_parser = clap::value_parser!(u64).range(1..))]
    trace_count: Option<u64>,
    /// Trace one of N packets that the filter describes.
    #[arg(long, value_name = "1/N", requires = "trace", default_value = "1/1")]
    trace_sample: SamplingRate,
    /// Write traces here, each as one line of JSON, instead of to standard error as text.
    #[arg(long, value_name = "FILE", requires = "trace")]
    trace_file: Option<PathBuf>,
}

impl Workers {
    pub(crate) fn number(&self) -> usize {
        self.workers.into()
    }

    /// Reserves the first cores for the workers of all devices, if there are more cores than
    /// workers. Must be called before threads start. Returns the worker configuration of each
    /// device, and the priority of servers relative to workers.
    pub(crate) fn begin(&self, devices: usize) -> (Vec<WorkerConfig>, Urgency) {
        let workers = self.number() * devices;
        // If the system does not report the allowed cores, threads are not pinned.
        let cores = Cores::allowed().unwrap_or_default();
        if workers > cores.count() && cores.count() > 0 {
            out::note(&format!(
                "{workers} workers share {}: none has one of its own",
                amount::count(cores.count() as u64, "core")
            ));
        }
        let others = cores.behind(workers);
        let urgency = match others.count() > 0 && others.keep_to().is_ok() {
            true => Urgency::AsWorkers,
            false => Urgency::BelowWorkers,
        };
        let habits = |device| self.habits(device, workers, &cores);
        ((0..devices).map(habits).collect(), urgency)
    }

    /// Returns the configuration of a device's workers. `all` is the number of workers of all
    /// devices.
    fn habits(&self, device: usize, all: usize, cores: &Cores) -> WorkerConfig {
        let of_worker = |worker| match all > 1 && all <= cores.count() {
            true => cores.nth(worker),
            // A single worker is not pinned to the first core, which other switches on the
            // machine may use, too.
            false => Some(cores.clone()),
        };
        let first = device * self.number();
        WorkerConfig {
            cores: (first..first + self.number())
                .filter_map(of_worker)
                .collect(),
            spin: Duration::from_micros(self.spin),
        }
    }
}

impl Trace {
    fn tracing(&self) -> Option<TraceSelection> {
        Some(TraceSelection {
            filter: self.trace.clone()?,
            sample: self.trace_sample,
            count: self.trace_count,
        })
    }
}

impl DeviceProcessor {
    /// Starts logging, then prepares the workers as [`Workers::begin`] does. Must be called
    /// before any output.
    pub(crate) fn begin(&self, devices: usize) -> (Vec<WorkerConfig>, Urgency) {
        log::begin(self.log);
        self.workers.begin(devices)
    }

    /// Returns the number of worker threads.
    pub(crate) fn workers(&self) -> usize {
        self.workers.number()
    }
}

impl DeviceProcessor {
    /// Checks the options. Must be called before ports are opened.
    ///
    /// # Errors
    /// Other machines can reach the address for metrics.
    pub(crate) fn check(&self) -> Result<(), String> {
        Ok(MetricsServer::check(self.metrics)?)
    }
}

impl Options {
    fn device_id(&self) -> u64 {
        self.device_id.unwrap_or(1)
    }
}

/// Returns the notifications of devices that are shown at this log level. Those that a controller
/// may receive need `debug` if controllers are served.
pub(crate) fn notifications() -> NotificationLevel {
    if log::says(LevelFilter::DEBUG) {
        NotificationLevel::All
    } else if log::says(LevelFilter::ERROR) {
        NotificationLevel::WithoutControllers
    } else {
        NotificationLevel::Off
    }
}

pub(crate) fn run(options: &Options, early: &ProcessSetup) -> Result<Ended, String> {
    early.expect_hangup();
    let (habits, urgency) = options.carrying.begin(1);
    if let Err(error) = check_options(options) {
        out::error(&error);
        return Ok(Ended::Misconfigured);
    }
    let found = kept(options)?;
    let made = device(options, found).and_then(|made| {
        let Some((device, handlers)) = made else {
            return Ok(None);
        };
        check_program(options, device.program())?;
        Ok(Some((device, handlers)))
    });
    let (mut device, handlers) = match made {
        Ok(Some(made)) => made,
        Ok(None) => return Ok(Ended::Misconfigured),
        Err(error) => {
            out::error(&error);
            return Ok(Ended::Misconfigured);
        }
    };
    let carrying = &options.carrying;
    let kernel = options.choice.is_xdp();
    let kernel = kernel.then(|| KernelPart::start(&mut device)).flatten();
    let start = |address| {
        let compilations = Compilations::new(compile_pool());
        let id = options.device_id();
        let second_id = options.device_id.is_none().then_some(0);
        let served = Served {
            program: Some(device.program()),
            notes: device.notes(),
        };
        let link = ControllerLink {
            id,
            second_id,
            cpu: options.cpu.numbers(Some(device.program().arch)),
            ports: &options.ports,
            workers: carrying.workers(),
            engine: Arc::from(options.choice.in_user_space().engine()),
            config: configure::device_config(&options.setup),
            compilations: &compilations,
            extensions: &[],
        };
        let (setup, line) = control::connect(link, served)?;
        line.inbox.take_port_requests();
        line.inbox.take_settings_requests();
        let listen = options.guard.listen(address)?;
        let server = Server::start(listen, vec![setup], urgency);
        let server = server.map_err(|error| error.to_string())?;
        out::note(&format!("P4Runtime is served at {}", server.address()));
        let certificates = CertificateFiles {
            server: server.certificates(),
            guard: options.guard.clone(),
            address,
        };
        let channel = ControllerChannel::new(&Arc::new(server), id);
        Ok::<_, String>(((line, channel), certificates))
    };
    let (control, certificates) = options.address.map(start).transpose()?.unzip();
    let carried = ForwardedFrames {
        id: options.device_id(),
        what: options.source.program.display().to_string(),
        device,
        ports: options.ports.clone(),
        control,
        filter: None,
        extension: None,
        kernel,
        offload: Some(options.offload.clone()),
        changes: Some(options.changes.clone()),
    };
    let choice = options.choice.in_user_space();
    let files = DeviceFiles::new(&options.source, &options.setup, choice, handlers);
    let reload = ReloadFiles {
        certificates,
        device: Some(files),
        config: options.config.watch("run")?,
    };
    carry(vec![carried], habits, carrying, (early, Some(reload)))
}

/// Checks the options and the files that they name. Opens no port and no directory.
///
/// # Errors
/// The first error of a file, with its place.
pub(crate) fn check(options: &Options) -> Result<(), String> {
    check_options(options)?;
    warn_of_missing(&options.ports);
    let choice = options.choice.in_user_space();
    let files = DeviceFiles::new(&options.source, &options.setup, choice, Vec::new());
    check_program(options, files.read()?.device.wanted.program())
}

/// Checks the options and the certificates that they name.
fn check_options(options: &Options) -> Result<(), String> {
    options.carrying.check()?;
    PortSpec::check_distinct(&options.ports).map_err(|error| error.to_string())?;
    PortSpec::check_interfaces(&options.ports).map_err(|error| error.to_string())?;
    let listen = options.address.map(|address| options.guard.listen(address));
    let listen = listen.transpose()?;
    let checked = listen.map(|listen| listen.check_certificates());
    checked.transpose().map_err(|error| error.to_string())?;
    Ok(())
}

/// Checks that the program can have the ports and the offload of the options.
fn check_program(options: &Options, program: &ir::Program) -> Result<(), String> {
    for spec in &options.ports {
        configure::check_port(program, spec.id)?;
    }
    options.offload.check_tables(program)
}

/// Returns the stored state, if state is stored.
fn kept(options: &Options) -> Result<Option<StoredDevice>, String> {
    let opened = options.keeping.open()?;
    let found = opened.map(|opened| opened.device(options.device_id()));
    Ok(found.transpose()?)
}

/// Creates the device, with the stored state, and returns it with the C code of its handlers. Shows
/// errors in the program or its entries, and returns `None` if there are any.
fn device(
    options: &Options,
    found: Option<StoredDevice>,
) -> Result<Option<(Device, Vec<CodeText>)>, String> {
    let (source, setup) = (&options.source, &options.setup);
    let choice = options.choice.in_user_space();
    let load = || configure::load_with_handlers(source, setup, choice, Nanos::ZERO);
    let Some(found) = found else {
        return load();
    };
    let Some(before) = found.program().cloned() else {
        let Some((mut device, handlers)) = load()? else {
            return Ok(None);
        };
        found.keep(&mut device, false)?;
        return Ok(Some((device, handlers)));
    };
    if let Some(entries) = &setup.entries {
        let name = entries.display();
        out::note(&format!(
            "{name} is not read: the switch has its state already"
        ));
    }
    let Some(compiled) = compile::compile_with_handlers(source)? else {
        return Ok(None);
    };
    let engine = engine_with(choice.engine_before_packets(), compiled.handlers);
    let config = configure::device_config(setup);
    let program = compiled.program;
    let device = found.run(&before, program, engine.as_ref(), &config, &mut out::note)?;
    Ok(Some((device, compiled.texts)))
}

/// A device that is ready to forward packets.
pub(crate) struct ForwardedFrames {
    /// Device id for controllers and metrics.
    pub(crate) id: u64,
    /// Description of what runs on it.
    pub(crate) what: String,
    pub(crate) device: Device,
    pub(crate) ports: Vec<PortSpec>,
    /// Connection to the server, and a handle to the server.
    pub(crate) control: Option<(ChannelEnd, ControllerChannel)>,
    /// Filter of the workers' frames.
    pub(crate) filter: Option<MakeFilter>,
    /// Extension of the control loop.
    pub(crate) extension: Option<Box<dyn ControlExtension>>,
    /// Part of the device in the kernel.
    pub(crate) kernel: Option<KernelPart>,
    /// Options of the offload of flows.
    pub(crate) offload: Option<OffloadArguments>,
    /// Options of changes of its ports. Without them the ports are fixed.
    pub(crate) changes: Option<AllowedPorts>,
}

impl ForwardedFrames {
    /// Describes the device for the service manager.
    fn status(&self) -> String {
        let ports = amount::count(self.ports.len() as u64, "port");
        format!("{} on {ports}", self.what)
    }
}

/// Files that SIGHUP reads again.
pub(crate) struct ReloadFiles {
    /// Of the server of controllers.
    pub(crate) certificates: Option<CertificateFiles>,
    /// Of the only device.
    pub(crate) device: Option<DeviceFiles>,
    /// The file of options.
    pub(crate) config: Option<ConfigWatch>,
}

/// Forwards packets on devices, each with its worker configuration, until an event ends it. Then
/// reports. SIGHUP reads the files again, if there are any, and ends it otherwise.
pub(crate) fn carry(
    carried: Vec<ForwardedFrames>,
    habits: Vec<WorkerConfig>,
    options: &DeviceProcessor,
    (early, files): (&ProcessSetup, Option<ReloadFiles>),
) -> Result<Ended, String> {
    let what: Vec<String> = carried.iter().map(ForwardedFrames::status).collect();
    let are_several = carried.len() > 1;
    if are_several && options.trace.trace_file.is_some() {
        return Err("--trace-file takes the traces of one device".to_owned());
    }
    let mut rounds = Vec::new();
    let mut sources = Vec::new();
    let mut reloads = Vec::new();
    let mut loops = Vec::new();
    let taken = TakenInterfaces::default();
    for (one, habits) in carried.into_iter().zip(habits) {
        let (id, server) = (
            one.id,
            one.control.as_ref().map(|(_, server)| server.clone()),
        );
        let round = Round::prepare(one, options, (habits, &taken), are_several)?;
        sources.push(round.forwarder.metrics(id, server.clone()));
        reloads.push(DeviceReload::new(round.forwarder.device_handle(), server));
        loops.push(round.forwarder.turns());
        rounds.push(round);
    }
    let _metrics = serve_metrics(options.metrics, sources)?;
    let reload = files.map(|files| {
        let device = files.device.zip(reloads.pop());
        Reload::new(files.certificates, device, files.config)
    });
    if are_several {
        // The loop that takes signals is another one.
        loops.push(early.turns());
    }
    let start = |reload| Service::start(early, reload, loops, &what.join("; "));
    let service = reload.map(start).transpose()?;
    // The server is stopped when this function returns.
    carry_all(rounds, early, service.as_ref())
}

/// Starts the metrics server if an address is given, and prints its URL.
///
/// # Errors
/// The address is not available, or is not a loopback address.
pub(crate) fn serve_metrics(
    address: Option<SocketAddr>,
    sources: Vec<MetricsSource>,
) -> Result<Option<MetricsServer>, String> {
    let Some(address) = address else {
        return Ok(None);
    };
    let server = MetricsServer::start(address, sources)?;
    let address = server.address();
    out::note(&format!("metrics are served at http://{address}/metrics"));
    Ok(Some(server))
}

fn carry_all(
    mut rounds: Vec<Round>,
    early: &ProcessSetup,
    service: Option<&Service>,
) -> Result<Ended, String> {
    match &mut rounds[..] {
        [one] => {
            let stop = StopSources {
                process: early,
                done: None,
            };
            one.run(&stop, service)
        }
        all => carry_several(all, early, service),
    }
}

/// Runs each device on a separate thread, until a signal arrives or all have ended.
fn carry_several(
    rounds: &mut [Round],
    early: &ProcessSetup,
    service: Option<&Service>,
) -> Result<Ended, String> {
    let no_descriptor = |e| format!("cannot make a descriptor to wait for: {e}");
    // Becomes readable for all threads when the other end is closed.
    let (going_on, over) = UnixStream::pair().map_err(no_descriptor)?;
    let office = WakeupFd::new().map_err(no_descriptor)?;
    // Signals are handled by this thread only.
    let none = ProcessSetup::default();
    std::thread::scope(|scope| {
        let mut threads = Vec::new();
        let mut started = Ok(());
        for round in rounds {
            let (none, over, office) = (&none, &over, &office);
            let work = move || {
                let stop = StopSources {
                    process: none,
                    done: Some(over.as_fd()),
                };
                let ended = round.run(&stop, None);
                office.wake();
                ended
            };
            let builder = std::thread::Builder::new().stack_size(crate::STACK_BYTES);
            match builder.spawn_scoped(scope, work) {
                Ok(thread) => threads.push(thread),
                Err(error) => started = Err(format!("cannot start a thread: {error}")),
            }
        }
        let mut poller = Poller::new();
        while started.is_ok() && early.take_signal().is_none() {
            let rung = office.before_sleep();
            if threads.iter().all(|thread| thread.is_finished()) {
                break;
            }
            let fds = early.signal_fd().into_iter().chain([rung]);
            // Threads end shortly after they ring.
            let waited = poller.wait(fds, Duration::from_millis(100));
            office.after_sleep();
            started = waited
                .map(drop)
                .map_err(|e| format!("cannot wait for signals: {e}"));
        }
        drop(going_on);
        if let Some(service) = service {
            service.stop();
        }
        threads.into_iter().fold(
            started.map(|()| Ended::Well),
            |sofar, thread| match thread.join() {
                Ok(ended) => sofar.and(ended),
                Err(panic) => std::panic::resume_unwind(panic),
            },
        )
    })
}

/// A device with its forwarder and observer.
struct Round {
    forwarder: Forwarder,
    observer: Observer,
    capture: Option<RunningCapture>,
}

impl Round {
    fn prepare(
        carried: ForwardedFrames,
        options: &DeviceProcessor,
        (habits, taken): (WorkerConfig, &TakenInterfaces),
        is_one_of_several: bool,
    ) -> Result<Round, String> {
        let ports = &carried.ports[..];
        PortSpec::check_distinct(ports).map_err(|e| e.to_string())?;
        let program = carried.device.program();
        let tracer = Tracer::new(options.trace.trace_file.as_deref(), program)?;
        for spec in ports {
            configure::check_port(carried.device.program(), spec.id)?;
        }
        let kernel = carried.kernel;
        let opening = PortOpening {
            io: options.io,
            missing: options.missing_ports,
            workers: options.workers(),
            needs_one: carried.control.is_none(),
            kernel: kernel.as_ref(),
        };
        let mut opened = open_all(ports, &opening)?;
        let status = (carried.id, &carried.what[..], ports);
        announce(status, options, &opened, is_one_of_several);
        let mut controllers = Vec::new();
        let mut known = None;
        let (inbox, desk) = match carried.control {
            Some((line, desk)) => {
                known = Some(line.known);
                if let Some(share) = line.port.shares.first() {
                    controllers.extend([share.id()].into_iter().chain(share.second_id()));
                }
                opened.push(line.port);
                (Some(line.inbox), Some(desk))
            }
            None => (None, None),
        };
        let roles = roles(ports, &controllers);
        let cpu = controllers.clone();
        let of = OffloadPorts {
            device: carried.id,
            ports,
            controllers,
            keeps_entries: false,
            table_name: str::to_owned,
        };
        let table_of = |name: &str| Ok(name.to_owned());
        let offload = carried.offload;
        let offload = offload.map(|offload| offload.setup(of, roles, table_of));
        for spec in ports {
            taken.take(spec).map_err(|error| error.to_string())?;
        }
        let changes = carried.changes.map(|changes| PortControl {
            may_change: true,
            is_in_kernel: kernel.is_some(),
            ports: ports.to_vec(),
            allowed: changes.port_allow,
            io: options.io.into(),
            taken: taken.clone(),
            known,
            cpu: cpu.clone(),
        });
        let plan = ForwarderOptions {
            workers: habits,
            notifications: notifications(),
            tracing: options.trace.tracing(),
            trace_control: None,
            inbox,
            filter: carried.filter,
            extension: match &kernel {
                Some(kernel) => Some(Box::new(kernel.clone())),
                None => carried.extension,
            },
            offload: offload.transpose()?.flatten(),
            ports: changes,
            specialise: options.specialise == Specialise::On,
        };
        let name = is_one_of_several.then_some(carried.id);
        let forwarder = Forwarder::new(carried.device, opened, plan)?;
        if let Some(desk) = &desk {
            desk.observe_by(forwarder.observation());
        }
        let capture = RunningCapture::start(
            &options.capture,
            &format!("device-{}", carried.id),
            forwarder.observers(),
        )?;
        Ok(Round {
            forwarder,
            capture,
            observer: Observer::new(options, tracer, desk, (name, kernel)),
        })
    }

    /// Forwards packets until an event ends it, which `service` reports. Then stores and reports.
    fn run(&mut self, stop: &StopSources<'_>, service: Option<&Service>) -> Result<Ended, String> {
        let Round {
            forwarder,
            observer,
            capture,
        } = self;
        let ended = forwarder.run(stop, INTERVAL, &mut |event| observer.observe(event));
        if let Some(service) = service {
            service.stop();
        }
        observer.clear_line();
        if let Some(capture) = capture.take() {
            capture.finish();
        }
        let ending = ended?;
        let kept = forwarder.keep_state();
        // The report is written even after an error.
        observer.report(forwarder);
        let ends = [
            forwarder.check_conservation().map_err(String::from),
            observer.finish_traces(),
            kept.map_err(String::from),
        ];
        let errors: Vec<String> = ends.into_iter().filter_map(Result::err).collect();
        if !errors.is_empty() {
            return Err(errors.join("; "));
        }
        match ending {
            Ending::NoPortLeft => Err("no port is left to carry anything".to_owned()),
            Ending::Stopped(_) | Ending::Done => Ok(Ended::Well),
        }
    }
}

fn announce(
    (id, what, ports): (u64, &str, &[PortSpec]),
    options: &DeviceProcessor,
    opened: &[OpenedPort],
    says_which: bool,
) {
    let which = match says_which {
        true => format!("device {id}: "),
        false => String::new(),
    };
    tell_ports(&which, opened);
    let ports: Vec<String> = ports.iter().map(PortSpec::to_string).collect();
    let ports = match ports.is_empty() {
        true => "no port but the controllers'".to_owned(),
        false => ports.join(", "),
    };
    let workers = match options.workers.number() {
        1 => String::new(),
        several => format!(" with {several} workers"),
    };
    out::note(&format!(
        "{which}{what} is running on {ports}{workers}; Ctrl-C stops it"
    ));
}
