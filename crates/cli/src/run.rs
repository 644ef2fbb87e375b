//! `polyplane run`: a switch on real interfaces.

mod tracer;

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use clap::Args;
use packet::{Nanos, PortId};
use port::{OpenedPort, PortError, PortSpec, PortTarget, TapPort};
use serde::Serialize;
use switch::Device;

use crate::args::{Io, Setup, Source};
use crate::control::{Control, Links, Numbers, Served};
use crate::early::Early;
use crate::engine::Choice;
use crate::forward::{Ending, Event, Forwarder, Plan, Stop, Tracing};
use crate::live::LiveLine;
use crate::report::{self, DeviceReport, PortReport, WorkerReport};
use crate::state::{self, Keeping};
use crate::station::Habits;
use crate::watch::{Filter, Sample};
use crate::{Ended, amount, compile, configure, out};
use tracer::Tracer;

/// How often the live counters change.
const INTERVAL: Duration = Duration::from_secs(1);

/// More ports than this are shown as one sum.
const PORTS_SHOWN: usize = 4;

/// The most workers.
const MOST_WORKERS: i64 = 64;

#[derive(Args)]
#[command(
    after_help = "Stops on SIGINT (Ctrl-C), SIGTERM and SIGHUP with a final report. Needs CAP_NET_RAW: run it with sudo, or give the capability \
                  to the program. AF_XDP, the faster way to carry frames, needs root.\n\nA FILTER joins conditions by and, or, not and parentheses: a \
                  field, one of == != < <= > >=, and a value. Fields are port, len, eth.src, eth.dst, eth.type, vlan.id, ipv4.src, ipv4.dst, \
                  ipv4.protocol, ipv4.ttl, ipv6.src, ipv6.dst, ipv6.next, ipv6.hops, tcp.src, tcp.dst, udp.src, udp.dst and bytes[OFFSET:LENGTH]; \
                  a header alone (arp, vlan, ipv4, ipv6, icmp, icmp6, tcp, udp) asks whether there is one, all means every packet. \
                  docs/TRACE.md tells more.\n\nExit status: 0 when stopped by a signal, 1 for errors in what was given or when the last port has gone, 2 \
                  for wrong usage."
)]
pub(crate) struct Options {
    #[command(flatten)]
    source: Source,
    /// A switch port and its interface; `tap:NAME` makes a TAP device. Give one for each port.
    #[arg(
        long = "port",
        value_name = "NUMBER=INTERFACE",
        required_unless_present = "address"
    )]
    ports: Vec<PortSpec>,
    #[command(flatten)]
    carrying: Carrying,
    #[command(flatten)]
    setup: Setup,
    #[command(flatten)]
    choice: Choice,
    /// Let controllers in by P4Runtime at this address of the machine's own, such as 127.0.0.1:9559 (docs/P4RUNTIME.md).
    #[arg(long = "p4runtime", value_name = "ADDRESS")]
    address: Option<SocketAddr>,
    #[command(flatten)]
    numbers: Numbers,
    #[command(flatten)]
    keeping: Keeping,
}

/// How packets are carried between ports.
#[derive(Args)]
pub(crate) struct Carrying {
    /// How ports on interfaces work.
    #[arg(long, value_enum, default_value_t)]
    io: Io,
    #[command(flatten)]
    workers: Workers,
    #[command(flatten)]
    trace: Trace,
    /// Write a report so often too, not only at the end; with --json each is one line.
    #[arg(long, value_name = "SECONDS", value_parser = clap::value_parser!(u64).range(1..=86_400))]
    every: Option<u64>,
    /// Write the final report as JSON.
    #[arg(long)]
    json: bool,
}

/// The threads that forward.
#[derive(Args)]
struct Workers {
    /// Threads that forward, each pinned to a core if there are several and cores enough. Packets of a flow go through one of them.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=MOST_WORKERS))]
    workers: u16,
    /// How long a worker goes on looking for packets before it sleeps, in microseconds: less latency for more processor time.
    #[arg(long, value_name = "MICROSECONDS", default_value_t = 0)]
    spin: u64,
}

/// What is traced.
#[derive(Args)]
struct Trace {
    /// Trace packets that this describes, as in 'ipv4.dst == 10.0.0.1 and udp', step by step as `polyplane trace` does; others go on at full speed.
    #[arg(long, value_name = "FILTER")]
    trace: Option<Filter>,
    /// Trace at most so many packets.
    #[arg(long, value_name = "N", requires = "trace", value_parser = clap::value_parser!(u64).range(1..))]
    trace_count: Option<u64>,
    /// Trace one of so many packets that the filter describes.
    #[arg(long, value_name = "1/N", requires = "trace", default_value = "1/1")]
    trace_sample: Sample,
    /// Write traces here, each as one line of JSON, instead of to standard error as text.
    #[arg(long, value_name = "FILE", requires = "trace")]
    trace_file: Option<PathBuf>,
}

impl Workers {
    fn number(&self) -> usize {
        self.workers.into()
    }

    fn habits(&self) -> Habits {
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        let workers = self.number();
        if workers > cores {
            out::note(&format!(
                "{workers} workers share {}: none has one of its own",
                amount::count(cores as u64, "core")
            ));
        }
        Habits {
            are_pinned: workers > 1 && workers <= cores,
            spin: Duration::from_micros(self.spin),
        }
    }
}

impl Trace {
    fn tracing(&self) -> Option<Tracing> {
        Some(Tracing {
            filter: self.trace.clone()?,
            sample: self.trace_sample,
            count: self.trace_count,
        })
    }
}

impl Carrying {
    /// How many threads forward.
    pub(crate) fn workers(&self) -> usize {
        self.workers.number()
    }
}

pub(crate) fn run(options: &Options, early: &Early) -> Result<Ended, String> {
    let Some(device) = device(options)? else {
        return Ok(Ended::WithErrors);
    };
    let carrying = &options.carrying;
    let start = |address| {
        let config = configure::device_config(&options.setup);
        let (ports, workers) = (&options.ports[..], carrying.workers());
        let served = Served {
            program: Some(device.program()),
            notes: device.notes(),
        };
        let numbers = options.numbers;
        numbers.start(address, served, ports, workers, options.choice, config)
    };
    let control = options.address.map(start).transpose()?;
    if let Some(control) = &control {
        out::note(&format!(
            "P4Runtime is served at {}",
            control.server.address()
        ));
    }
    let what = options.source.program.display().to_string();
    carry(device, &what, &options.ports, carrying, control, early)
}

/// The device, with the state that was kept. With errors in the program or its entries, they are shown and there is none.
fn device(options: &Options) -> Result<Option<Device>, String> {
    let found = options.keeping.open(options.numbers.device_id)?;
    let (source, setup, choice) = (&options.source, &options.setup, options.choice);
    let Some(found) = found else {
        return configure::load(source, setup, choice, Nanos::ZERO);
    };
    let Some(before) = found.program.clone() else {
        let Some(mut device) = configure::load(source, setup, choice, Nanos::ZERO)? else {
            return Ok(None);
        };
        found.keep(&mut device, false)?;
        return Ok(Some(device));
    };
    if let Some(entries) = &setup.entries {
        let name = entries.display();
        out::note(&format!(
            "{name} is not read: the switch has its state already"
        ));
    }
    let Some(program) = compile::compile(source) else {
        return Ok(None);
    };
    let (engine, config) = (choice.engine(), configure::device_config(setup));
    let is_same = state::is_same(&before, &program);
    let mut device = match is_same {
        true => found.go_on(&before, engine.as_ref(), &config)?,
        false => {
            let new = Device::new(Arc::new(program), engine.as_ref(), &config);
            let new = new.map_err(|error| error.to_string())?;
            found.carry_over(&before, new, engine.as_ref(), &config)?
        }
    };
    found.keep(&mut device, is_same)?;
    Ok(Some(device))
}

/// Carries packets through a device until something ends it, and reports.
pub(crate) fn carry(
    device: Device,
    what: &str,
    ports: &[PortSpec],
    options: &Carrying,
    control: Option<Control>,
    early: &Early,
) -> Result<Ended, String> {
    PortSpec::check_distinct(ports).map_err(|e| e.to_string())?;
    let tracer = Tracer::new(options.trace.trace_file.as_deref())?;
    for spec in ports {
        configure::check_port(device.program(), spec.id)?;
    }
    let open = |spec| open(spec, options);
    let opened: Result<Vec<OpenedPort>, String> = ports.iter().map(open).collect();
    let mut opened = opened?;
    announce(what, ports, options, &opened);
    let (inbox, links) = match control.map(Control::split) {
        Some((inbox, port, links)) => {
            opened.push(port);
            (Some(inbox), Some(links))
        }
        None => (None, None),
    };
    let plan = Plan {
        habits: options.workers.habits(),
        tracing: options.trace.tracing(),
        inbox,
    };
    let mut forwarder = Forwarder::new(device, opened, plan)?;
    let mut observer = Observer::new(options, tracer, links);
    let stop = Stop { early, done: None };
    let ending = forwarder.run(&stop, INTERVAL, &mut |event| observer.observe(event))?;
    observer.line.clear();
    forwarder.keep_state()?;
    observer.report(&forwarder);
    observer.tracer.finish()?;
    forwarder.check_conservation()?;
    match ending {
        Ending::NoPortLeft => Err("no port is left to carry anything".to_owned()),
        Ending::Stopped(_) | Ending::Done => Ok(Ended::Well),
    }
}

fn open(spec: &PortSpec, options: &Carrying) -> Result<OpenedPort, String> {
    let workers = options.workers.number();
    let opened: Result<OpenedPort, PortError> = match &spec.target {
        PortTarget::Interface(name) => {
            port::open_interface(spec.id, name, options.io.into(), workers)
        }
        PortTarget::Tap(name) => TapPort::open(spec.id, name)
            .and_then(|port| OpenedPort::new(Box::new(port), "TAP", workers)),
    };
    opened.map_err(|e| format!("port {}: {e}", spec.id))
}

fn announce(what: &str, ports: &[PortSpec], options: &Carrying, opened: &[OpenedPort]) {
    for OpenedPort { shares, how } in opened {
        if let Some(port) = shares.first() {
            out::note(&format!("port {}: {} by {how}", port.id(), port.name()));
        }
    }
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
        "{what} is running on {ports}{workers}; Ctrl-C stops it"
    ));
}

/// A report, of what there was so far.
#[derive(Serialize)]
struct Report {
    seconds: f64,
    ports: Vec<PortReport>,
    workers: Vec<WorkerReport>,
    #[serde(flatten)]
    device: DeviceReport,
}

impl Report {
    fn text(&self) -> String {
        let time = amount::time(Duration::from_secs_f64(self.seconds));
        let mut text = format!("ran for {time}\n");
        text.push_str(&report::text(&self.ports, &self.device));
        if self.workers.len() > 1 {
            text.push_str(&report::workers_text(&self.workers));
        }
        text
    }
}

/// Shows what happens: live counters (rates since they were last shown), lines, traces, reports.
struct Observer {
    line: LiveLine,
    last: Vec<PortReport>,
    shown_at: Instant,
    start: Instant,
    tracer: Tracer,
    json: bool,
    every: Option<Duration>,
    next_report: Duration,
    links: Option<Links>,
}

impl Observer {
    fn new(options: &Carrying, tracer: Tracer, links: Option<Links>) -> Observer {
        let every = options.every.map(Duration::from_secs);
        Observer {
            line: LiveLine::new(),
            last: Vec::new(),
            shown_at: Instant::now(),
            start: Instant::now(),
            tracer,
            json: options.json,
            every,
            next_report: every.unwrap_or_default(),
            links,
        }
    }

    fn observe(&mut self, event: Event<'_>) {
        match event {
            Event::Notice(line) => self.line.note(&line),
            Event::Link(port, is_up) => {
                if let Some(links) = &self.links {
                    links.changed(port, is_up);
                }
            }
            Event::Traced(device, traced) => self.tracer.show(device, &traced, &mut self.line),
            Event::Tick(forwarder) => {
                let ports = forwarder.port_reports();
                let seconds = self.shown_at.elapsed().as_secs_f64();
                self.line.show(&rates(&ports, &self.last, seconds));
                self.last = ports;
                self.shown_at = Instant::now();
                if let Some(every) = self.every
                    && self.start.elapsed() >= self.next_report
                {
                    self.next_report += every;
                    self.line.clear();
                    self.report(forwarder);
                }
            }
        }
    }

    fn report(&self, forwarder: &Forwarder) {
        let report = Report {
            seconds: self.start.elapsed().as_secs_f64(),
            ports: forwarder.port_reports(),
            workers: forwarder.worker_reports(),
            device: forwarder.device_report(),
        };
        match (self.json, self.every) {
            (true, Some(_)) => out::json_line(&report),
            (true, None) => out::json(&report),
            (false, _) => out::text(&report.text()),
        }
    }
}

/// One line with the rates of each port, or of all together if they are many.
fn rates(now: &[PortReport], before: &[PortReport], seconds: f64) -> String {
    let rate = |pick: fn(&PortReport) -> u64, i: usize| {
        let earlier = before.get(i).map_or(0, pick);
        pick(&now[i]).saturating_sub(earlier) as f64 / seconds.max(1e-3)
    };
    let dropped = |port: &PortReport| port.dropped.iter().map(|drops| drops.packets).sum::<u64>();
    let received = |i| rate(|port| port.received.packets, i);
    let sent = |i| rate(|port| port.sent.packets, i);
    let all = 0..now.len();
    let mut parts: Vec<String> = if now.len() <= PORTS_SHOWN {
        let part = |i: usize| {
            let [received, sent] = [received(i), sent(i)].map(amount::packet_rate);
            format!("port {}: in {received}, out {sent}", PortId(now[i].port))
        };
        all.map(part).collect()
    } else {
        let received = amount::packet_rate(all.clone().map(received).sum());
        let sent = amount::packet_rate(all.map(sent).sum());
        vec![format!("{} ports: in {received}, out {sent}", now.len())]
    };
    let dropped: u64 = now.iter().map(dropped).sum();
    if dropped > 0 {
        parts.push(format!("dropped by ports: {dropped}"));
    }
    parts.join("   ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::Traffic;

    #[test]
    fn rates_are_what_was_carried_since_the_last_time() {
        let port = |port, packets| PortReport {
            port,
            name: String::new(),
            received: Traffic { packets, bytes: 0 },
            sent: Traffic::default(),
            dropped: Vec::new(),
        };
        let line = rates(&[port(0, 3000)], &[port(0, 1000)], 2.0);
        assert_eq!(line, "port 0: in 1.00 kpps, out 0 pps");
        let many: Vec<PortReport> = (0..5).map(|n| port(n, 1000)).collect();
        assert_eq!(rates(&many, &[], 1.0), "5 ports: in 5.00 kpps, out 0 pps");
    }
}
