//! `polyplane run`: a switch on real interfaces.

use std::time::{Duration, Instant};

use clap::Args;
use packet::{Nanos, PortId};
use port::{OpenedPort, PortError, PortSpec, PortTarget, TapPort};
use serde::Serialize;

use crate::args::{Io, Setup, Source};
use crate::early::Early;
use crate::engine::Choice;
use crate::forward::{Ending, Event, Forwarder, Stop};
use crate::live::LiveLine;
use crate::report::{self, DeviceReport, PortReport};
use crate::{Ended, amount, configure, out};

/// How often the live counters change.
const INTERVAL: Duration = Duration::from_secs(1);

/// More ports than this are shown as one sum.
const PORTS_SHOWN: usize = 4;

#[derive(Args)]
#[command(
    after_help = "Stops on SIGINT (Ctrl-C), SIGTERM and SIGHUP with a final report. Needs CAP_NET_RAW: run it with sudo, or give the capability \
                  to the program. AF_XDP, the faster way to carry frames, needs root.\n\nExit status: 0 when stopped by a signal, 1 for errors in what was given or when the last port has gone, 2 \
                  for wrong usage."
)]
pub(crate) struct Options {
    #[command(flatten)]
    source: Source,
    /// A switch port and its interface; `tap:NAME` makes a TAP device. Give one for each port.
    #[arg(long = "port", value_name = "NUMBER=INTERFACE", required = true)]
    ports: Vec<PortSpec>,
    /// How ports on interfaces work.
    #[arg(long, value_enum, default_value_t)]
    io: Io,
    #[command(flatten)]
    setup: Setup,
    #[command(flatten)]
    choice: Choice,
    /// Write the final report as JSON.
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(options: &Options, early: &Early) -> Result<Ended, String> {
    PortSpec::check_distinct(&options.ports).map_err(|e| e.to_string())?;
    let Some(device) =
        configure::load(&options.source, &options.setup, options.choice, Nanos::ZERO)?
    else {
        return Ok(Ended::WithErrors);
    };
    for spec in &options.ports {
        configure::check_port(device.program(), spec.id)?;
    }
    let open = |spec| open(spec, options.io);
    let opened: Result<Vec<OpenedPort>, String> = options.ports.iter().map(open).collect();
    let opened = opened?;
    announce(options, &opened);
    let ports = opened.into_iter().map(|opened| opened.port).collect();
    let mut forwarder = Forwarder::new(device, ports);

    let start = Instant::now();
    let mut counters = Counters::default();
    let stop = Stop { early, done: None };
    let ending = forwarder.run(&stop, INTERVAL, &mut |event| counters.observe(event))?;
    counters.line.clear();
    let final_report = Report {
        seconds: start.elapsed().as_secs_f64(),
        ports: forwarder.port_reports(),
        device: forwarder.device_report(),
    };
    final_report.write(options.json);
    forwarder.check_conservation()?;
    match ending {
        Ending::NoPortLeft => Err("no port is left to carry anything".to_owned()),
        Ending::Stopped(_) | Ending::Done => Ok(Ended::Well),
    }
}

fn open(spec: &PortSpec, io: Io) -> Result<OpenedPort, String> {
    let opened: Result<OpenedPort, PortError> = match &spec.target {
        PortTarget::Interface(name) => port::open_interface(spec.id, name, io.into()),
        PortTarget::Tap(name) => TapPort::open(spec.id, name).map(|port| OpenedPort {
            port: Box::new(port),
            how: "TAP".to_owned(),
        }),
    };
    opened.map_err(|e| format!("port {}: {e}", spec.id))
}

fn announce(options: &Options, opened: &[OpenedPort]) {
    for OpenedPort { port, how } in opened {
        out::note(&format!("port {}: {} by {how}", port.id(), port.name()));
    }
    let ports: Vec<String> = options.ports.iter().map(PortSpec::to_string).collect();
    out::note(&format!(
        "{} is running on {}; Ctrl-C stops it",
        options.source.program.display(),
        ports.join(", ")
    ));
}

/// The final report.
#[derive(Serialize)]
struct Report {
    seconds: f64,
    ports: Vec<PortReport>,
    #[serde(flatten)]
    device: DeviceReport,
}

impl Report {
    fn write(&self, json: bool) {
        if json {
            out::json(self);
        } else {
            let time = amount::time(Duration::from_secs_f64(self.seconds));
            out::line(&format!("ran for {time}"));
            out::text(&report::text(&self.ports, &self.device));
        }
    }
}

/// The live counters: rates since they were last shown.
struct Counters {
    line: LiveLine,
    last: Vec<PortReport>,
    shown_at: Instant,
}

impl Default for Counters {
    fn default() -> Counters {
        Counters {
            line: LiveLine::new(),
            last: Vec::new(),
            shown_at: Instant::now(),
        }
    }
}

impl Counters {
    fn observe(&mut self, event: Event<'_>) {
        match event {
            Event::Notice(line) => self.line.note(&line),
            Event::Tick(ports) => {
                let seconds = self.shown_at.elapsed().as_secs_f64();
                self.line.show(&rates(ports, &self.last, seconds));
                self.last = ports.to_vec();
                self.shown_at = Instant::now();
            }
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
