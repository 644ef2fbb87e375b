//! Output of a running switch: its status line, its lines and traces, and its reports.

use std::time::{Duration, Instant};

use packet::PortId;
use runtime::report::{self, DeviceReport, PortReport, WorkerReport};
use runtime::{ControllerChannel, Forwarder, ForwarderEvent};
use serde::Serialize;

use super::DeviceProcessor;
use super::tracer::Tracer;
use crate::kernel_part::{KernelPart, KernelReport};
use crate::live::LiveLine;
use crate::{amount, out};

/// Maximum number of ports shown separately. More ports are shown as one sum.
const PORTS_SHOWN: usize = 4;

/// A report of all counts so far.
#[derive(Serialize)]
struct Report {
    /// Device id, if there are several devices.
    #[serde(rename = "device", skip_serializing_if = "Option::is_none")]
    id: Option<u64>,
    seconds: f64,
    ports: Vec<PortReport>,
    workers: Vec<WorkerReport>,
    #[serde(flatten)]
    device: DeviceReport,
    /// Part of the device in the kernel.
    #[serde(skip_serializing_if = "Option::is_none")]
    kernel: Option<KernelReport>,
}

impl Report {
    fn text(&self) -> String {
        let time = amount::time(Duration::from_secs_f64(self.seconds));
        let mut text = match self.id {
            Some(id) => format!("device {id} ran for {time}\n"),
            None => format!("ran for {time}\n"),
        };
        text.push_str(&report::text(&self.ports, &self.device));
        if let Some(status) = &self.device.specialisation {
            text.push_str(&status.text());
        }
        if self.workers.len() > 1 {
            text.push_str(&report::workers_text(&self.workers));
        }
        if let Some(kernel) = &self.kernel {
            text.push_str(&kernel.text());
        }
        text
    }
}

/// Shows events: live counters (rates since the last update), lines, traces, reports.
pub(super) struct Observer {
    line: LiveLine,
    last: Vec<PortReport>,
    shown_at: Instant,
    start: Instant,
    tracer: Tracer,
    json: bool,
    every: Option<Duration>,
    next_report: Duration,
    desk: Option<ControllerChannel>,
    /// Device id, if there are several devices.
    id: Option<u64>,
    kernel: Option<KernelPart>,
}

impl Observer {
    pub(super) fn new(
        options: &DeviceProcessor,
        tracer: Tracer,
        desk: Option<ControllerChannel>,
        (id, kernel): (Option<u64>, Option<KernelPart>),
    ) -> Observer {
        let every = options.every.map(Duration::from_secs);
        Observer {
            line: match id {
                None => LiveLine::new(),
                // Several status lines would overwrite each other.
                Some(_) => LiveLine::never(),
            },
            last: Vec::new(),
            shown_at: Instant::now(),
            start: Instant::now(),
            tracer,
            json: options.json,
            every,
            next_report: every.unwrap_or_default(),
            desk,
            id,
            kernel,
        }
    }

    /// Removes the status line.
    pub(super) fn clear_line(&mut self) {
        self.line.clear();
    }

    /// Ends the traces.
    ///
    /// # Errors
    /// Traces could not be written. Contains the first reason.
    pub(super) fn finish_traces(&mut self) -> Result<(), String> {
        self.tracer.finish()
    }

    /// Prints a line of the device.
    fn note(&mut self, line: &str) {
        match self.id {
            None => self.line.note(line),
            Some(id) => self.line.note(&format!("device {id}: {line}")),
        }
    }

    pub(super) fn observe(&mut self, event: ForwarderEvent<'_>) {
        match event {
            ForwarderEvent::Notice(line) => self.note(&line),
            ForwarderEvent::Link(port, is_up) => {
                if let Some(desk) = &self.desk {
                    desk.port_changed(port, is_up);
                }
            }
            ForwarderEvent::PortAdded(port, name, is_up) => {
                self.note(&format!("port {port}: {name} is added"));
                if let Some(desk) = &self.desk {
                    desk.port_added(port, name, is_up);
                }
            }
            ForwarderEvent::PortRemoved(port) => {
                self.note(&format!("port {port} is removed"));
                if let Some(desk) = &self.desk {
                    desk.port_removed(port);
                }
            }
            ForwarderEvent::Traced(device, traced) => {
                self.tracer.show(device, &traced, &mut self.line)
            }
            ForwarderEvent::Tick(forwarder) => {
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

    pub(super) fn report(&self, forwarder: &Forwarder) {
        let report = Report {
            id: self.id,
            seconds: self.start.elapsed().as_secs_f64(),
            ports: forwarder.port_reports(),
            workers: forwarder.worker_reports(),
            device: forwarder.device_report(),
            kernel: self.kernel.as_ref().map(KernelPart::report),
        };
        match (self.json, self.every) {
            (true, Some(_)) => out::json_line(&report),
            (true, None) => out::json(&report),
            (false, _) => out::text(&report.text()),
        }
    }
}

/// Formats the rates of each port on one line, or the sum for many ports.
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
    use runtime::report::Traffic;

    #[test]
    fn rates_are_what_was_carried_since_the_last_time() {
        let port = |port, packets| PortReport {
            port,
            name: String::new(),
            received: Traffic { packets, bytes: 0 },
            sent: Traffic::default(),
            dropped: Vec::new(),
            up: None,
        };
        let line = rates(&[port(0, 3000)], &[port(0, 1000)], 2.0);
        assert_eq!(line, "port 0: in 1.00 kpps, out 0 pps");
        let many: Vec<PortReport> = (0..5).map(|n| port(n, 1000)).collect();
        assert_eq!(rates(&many, &[], 1.0), "5 ports: in 5.00 kpps, out 0 pps");
    }
}
