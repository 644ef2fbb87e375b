//! Table 1's latency on two cores: a report to a monitor on another thread, and its command back,
//! by a ring and by UDP.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use consensus::{
    ChangeBytes, ClientBody, ClientId, ClientMessage, ElementId, NodeId, Operation, Request,
};
use packet::Nanos;
use reflex::{
    Compare, DetourNode, LatencyMeasure, LatencyOutcome, Loops, PathLatencyMonitor, PathLatencySpec,
};
use support::quantile::quantile;
use telemetry::{ReportView, ReportedHops, TelemetryReport};

use super::links::{Link, Turns, Way, poll};
use super::reports::{LOOPS, five_hops};
use super::{Context, Origin, ROUNDS, Sheet, median, ratio};

const FLOWS: u32 = 256;
const WINDOW: usize = 10;
const LATENCY: u32 = 500;
const ABOVE: u32 = 1_000;
const CLUSTER: u64 = 1;

/// Path latency detection, with commands as requests to a store.
struct Monitor {
    loops: Loops,
    monitor: PathLatencyMonitor,
    now: Nanos,
    commands: u64,
    out: Vec<u8>,
}

impl Monitor {
    fn new() -> Result<Monitor, String> {
        let text = LOOPS.replace("{flows}", &FLOWS.to_string());
        let spec = PathLatencySpec {
            window: WINDOW,
            above: Nanos(ABOVE.into()),
            compare: Compare::Above,
            measure: LatencyMeasure::Hops,
            detour: DetourNode::First,
            flows: FLOWS as usize,
            forget: Nanos::from_secs(1),
        };
        Ok(Monitor {
            loops: Loops::read("loops", &text).map_err(|error| error.to_string())?,
            monitor: PathLatencyMonitor::new(spec, 1),
            now: Nanos::ZERO,
            commands: 0,
            out: Vec::new(),
        })
    }

    /// Takes a report. Passes the message of each command to `send`.
    fn take(&mut self, payload: &[u8], mut send: impl FnMut(&[u8])) {
        let Ok(report) = TelemetryReport::parse(payload) else {
            return;
        };
        let domain = self.loops.sources[0].domain;
        for individual in report.individuals() {
            let view = ReportView::new(report.header.exporter, &individual, &domain);
            let (Some(flow), ReportedHops::Path(path)) = (view.flow, &view.hops) else {
                continue;
            };
            self.now += Nanos(10);
            let Ok(sample) = self.monitor.sample(flow, path, self.now) else {
                continue;
            };
            let (commands, out) = (&mut self.commands, &mut self.out);
            self.monitor.observe_batch(&[sample], |_, outcome| {
                let LatencyOutcome::Alarm(alarm) = outcome else {
                    return;
                };
                *commands += 1;
                let key = u128::from(*commands).to_le_bytes();
                let change = ChangeBytes::new(&alarm.latency.0.to_le_bytes());
                let message = ClientMessage {
                    from: NodeId(1),
                    to: NodeId(2),
                    token: *commands,
                    body: ClientBody::Request(Request {
                        client: ClientId(1),
                        sequence: *commands,
                        operation: Operation::Change {
                            element: ElementId(0),
                            key,
                            change,
                        },
                    }),
                };
                out.clear();
                message.encode(CLUSTER, out);
                send(out);
            });
        }
    }
}

/// Sends alarms, each after the command of the one before. Returns the times in ns.
fn alarms(way: Way, count: usize) -> Result<Vec<f64>, String> {
    let (mut near, mut far) = Link::pair(way)?;
    let mut monitor = Monitor::new()?;
    // Averages are known before the first alarm.
    for _ in 0..=WINDOW {
        for flow in 0..FLOWS {
            let report = five_hops(flow, LATENCY)?;
            monitor.take(&report, |_| ());
        }
    }
    if monitor.commands != 0 {
        return Err("a normal report is an alarm: a defect".to_owned());
    }
    let reports = (0..FLOWS).map(|flow| five_hops(flow, LATENCY + ABOVE));
    let reports = reports.collect::<Result<Vec<_>, _>>()?;
    let stops = Arc::new(AtomicBool::new(false));
    let seen = Arc::clone(&stops);
    let mut out = Vec::new();
    let thread = std::thread::spawn(move || {
        let mut turns = Turns::default();
        while !seen.load(Ordering::Relaxed) {
            out.clear();
            let taken = far.receive(|payload| {
                monitor.take(payload, |command| out.extend_from_slice(command));
            });
            if !out.is_empty() {
                far.send(&out);
                far.flush();
            }
            if taken == 0 {
                turns.idle();
            }
        }
    });
    let mut times = Vec::with_capacity(count);
    let mut outcome = Ok(());
    for (number, report) in (1..=count as u64).zip(reports.iter().cycle()) {
        let start = Instant::now();
        near.send(report);
        near.flush();
        let mut command = None;
        outcome = poll(|| {
            near.receive(|bytes| command = ClientMessage::decode(CLUSTER, bytes).ok());
            command
        })
        .and_then(|command| match command.token == number {
            true => Ok(()),
            false => Err(format!(
                "command {} comes for alarm {number}",
                command.token
            )),
        });
        if outcome.is_err() {
            break;
        }
        times.push(start.elapsed().as_nanos() as f64);
    }
    stops.store(true, Ordering::Relaxed);
    thread.join().map_err(|_| "the other thread panics")?;
    outcome.map(|()| times)
}

/// Adds the rows of both ways, by turns.
///
/// # Errors
/// A command is missing, or a signal arrived.
pub(super) fn rows(context: &mut Context<'_>, sheet: &mut Sheet) -> Result<(), String> {
    let count = context.choose(50_000, 20);
    let mut found: [[Vec<f64>; 2]; 2] = Default::default();
    for round in 0..=ROUNDS {
        context.tell("reflex latency", round, ROUNDS + 1)?;
        for (way, found) in Way::BOTH.into_iter().zip(&mut found) {
            let mut times = alarms(way, count)?;
            // The first round warms.
            if round > 0 {
                found[0].push(median(&times));
                found[1].push(quantile(&mut times, 0.99).unwrap_or(0.0));
            }
        }
    }
    for (at, way) in Way::BOTH.into_iter().enumerate() {
        let subject = format!("report to command, two threads, over {}", way.name());
        let mut values = vec![
            ("latency ns", median(&found[at][0])),
            ("p99 ns", median(&found[at][1])),
        ];
        if way == Way::Ring {
            values.push(("of UDP", ratio(&found[0][0], &found[1][0])));
        }
        sheet.add(&subject, Origin::Measured, &values);
    }
    Ok(())
}
