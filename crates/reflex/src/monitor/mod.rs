//! Monitors: detectors over reports.

pub(crate) mod flow_table;
pub(crate) mod instances;
pub(crate) mod microburst;
pub(crate) mod path_latency;
pub(crate) mod program;
pub(crate) mod rate_limit;
pub(crate) mod routing_loops;
pub(crate) mod spreader;
pub(crate) mod tuning;

use packet::Nanos;
use telemetry::{FlowKey, IntNodeId, PacketKind, ReportView, ReportedHops, ReportedPath};

use crate::classify::ReportFacts;
use crate::decision::{Measured, PathNodes, Subject};
use crate::loops::MonitorKind;
use crate::permission::Wish;
use crate::settings::Threshold;
use microburst::MicroburstMonitor;
use path_latency::PathLatencyMonitor;
use program::ProgramMonitor;
use rate_limit::RateLimitMonitor;
use routing_loops::RoutingLoopMonitor;
use spreader::SpreaderMonitor;
use tuning::TuningMonitor;

/// Report as monitors see it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct MonitoredReport<'a> {
    pub(crate) facts: ReportFacts,
    pub(crate) hops: ReportedHops<'a>,
    /// Length of the packet's frame without INT headers. `None` if it is not known.
    pub(crate) frame_bytes: Option<u32>,
}

impl<'a> MonitoredReport<'a> {
    /// Joins the facts of a report with its packet.
    pub(crate) fn new(
        facts: ReportFacts,
        view: &ReportView<'a>,
        packet: Option<(PacketKind, &[u8])>,
    ) -> MonitoredReport<'a> {
        let int_bytes = match &view.hops {
            ReportedHops::Path(path) => path.stack().length_in_packet(),
            ReportedHops::Hop(_) | ReportedHops::None => 0,
        };
        let frame_bytes = packet.and_then(|(kind, bytes)| frame_bytes(kind, bytes, int_bytes));
        MonitoredReport {
            facts,
            hops: view.hops,
            frame_bytes,
        }
    }

    /// Returns the packet's flow and path.
    pub(crate) fn flow_and_path(&self) -> Option<(FlowKey, &ReportedPath<'a>)> {
        match (self.facts.flow, &self.hops) {
            (Some(flow), ReportedHops::Path(path)) => Some((flow, path)),
            _ => None,
        }
    }
}

/// Length of an Ethernet header.
const ETHERNET: u32 = 14;
/// Length of the fixed header of IPv6.
const IPV6: u32 = 40;

/// Returns the length of a packet's frame without its INT headers, by the length of its IP header:
/// the report may have cut the packet.
fn frame_bytes(kind: PacketKind, bytes: &[u8], int_bytes: u32) -> Option<u32> {
    let field = |at: usize| {
        Some(u32::from(u16::from_be_bytes(
            *bytes.get(at..)?.first_chunk()?,
        )))
    };
    let ip = match kind {
        PacketKind::Ipv4 => field(2)?,
        PacketKind::Ipv6 => field(4)? + IPV6,
        PacketKind::Ethernet => match field(12)? {
            0x0800 => field(16)?,
            0x86dd => field(18)? + IPV6,
            _ => return None,
        },
    };
    Some(ETHERNET + ip.checked_sub(int_bytes)?)
}

/// Result of one report.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Observation {
    /// It is normal.
    Normal,
    /// It is not.
    Alarm,
    /// The report has not the flow or the path that the monitor needs.
    NoPath,
    /// Its path lacks hops, times or other values.
    NoSample,
    /// There is no place for its state.
    NoRoom,
}

/// Something that a monitor found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Finding {
    pub(crate) subject: Subject,
    pub(crate) path: PathNodes,
    pub(crate) measured: Measured,
    /// The change that it asks for. `None`: it is only reported.
    pub(crate) wish: Option<Wish>,
    pub(crate) targets: Targets,
}

/// Permissions of the monitor that a finding is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Targets {
    /// All of them.
    All,
    /// The first one of an element at one of these nodes, in their order.
    FirstOf(PathNodes),
    /// The one at this place of the monitor's list.
    Of(usize),
}

/// A monitor with its state.
pub(crate) enum Detector {
    PathLatency(PathLatencyMonitor),
    Spreader(SpreaderMonitor),
    Loops(RoutingLoopMonitor),
    RateLimit(RateLimitMonitor),
    Microburst(MicroburstMonitor),
    Tuning(TuningMonitor),
    Program(Box<ProgramMonitor>),
}

impl Detector {
    /// Creates a monitor. All its memory is allocated at once, but for that of queues and programs.
    pub(crate) fn new(kind: &MonitorKind, seed: u64) -> Detector {
        match kind {
            MonitorKind::PathLatency(spec) => {
                Detector::PathLatency(PathLatencyMonitor::new(*spec, seed))
            }
            MonitorKind::Spreader(spec) => {
                Detector::Spreader(SpreaderMonitor::new(spec.clone(), seed))
            }
            MonitorKind::Loops(spec) => Detector::Loops(RoutingLoopMonitor::new(*spec)),
            MonitorKind::Tuning(spec) => Detector::Tuning(TuningMonitor::new(*spec)),
            MonitorKind::Program(_) => Detector::Program(Box::new(ProgramMonitor::new())),
            MonitorKind::RateLimit(spec) => Detector::RateLimit(RateLimitMonitor::new(*spec)),
            MonitorKind::Microburst(spec) => {
                Detector::Microburst(MicroburstMonitor::new(spec.clone(), seed))
            }
        }
    }

    /// Sets a threshold from now on. A monitor has those of its kind.
    pub(crate) fn set(&mut self, threshold: Threshold, value: u64) {
        match self {
            Detector::PathLatency(monitor) => monitor.set_above(Nanos(value)),
            Detector::Spreader(monitor) => monitor.set_limit(value),
            Detector::RateLimit(monitor) => monitor.set_limit(value),
            Detector::Microburst(monitor) => monitor.set(threshold, value),
            Detector::Tuning(monitor) => monitor.set(threshold, value),
            Detector::Loops(_) | Detector::Program(_) => {}
        }
    }

    /// Returns true if it has state of the key of a report.
    pub(crate) fn knows(&self, report: &MonitoredReport<'_>, now: Nanos) -> bool {
        match self {
            Detector::PathLatency(monitor) => monitor.knows(report, now),
            Detector::Spreader(monitor) => monitor.knows(report, now),
            Detector::Loops(_)
            | Detector::RateLimit(_)
            | Detector::Microburst(_)
            | Detector::Tuning(_)
            | Detector::Program(_) => false,
        }
    }

    /// Notes that a change that it asked for was refused. Monitors that ask once ask again.
    pub(crate) fn refused(&mut self) {
        match self {
            Detector::RateLimit(monitor) => monitor.refused(),
            Detector::Tuning(monitor) => monitor.refused(),
            Detector::PathLatency(_)
            | Detector::Spreader(_)
            | Detector::Loops(_)
            | Detector::Microburst(_)
            | Detector::Program(_) => {}
        }
    }

    /// Takes a report, and adds what it finds.
    #[inline]
    pub(crate) fn observe(
        &mut self,
        report: &MonitoredReport<'_>,
        now: Nanos,
        findings: &mut Vec<Finding>,
    ) -> Observation {
        match self {
            Detector::PathLatency(monitor) => monitor.take(report, now, findings),
            Detector::Spreader(monitor) => monitor.take(report, now, findings),
            Detector::Loops(monitor) => monitor.take(report, findings),
            Detector::RateLimit(monitor) => monitor.take(report, now, findings),
            Detector::Microburst(monitor) => monitor.take(report, findings),
            Detector::Tuning(monitor) => monitor.take(report, now, findings),
            Detector::Program(monitor) => monitor.take(report, now, findings),
        }
    }
}

/// Returns the nodes of a path.
pub(crate) fn nodes(path: &ReportedPath<'_>) -> impl Iterator<Item = IntNodeId> {
    path.hops().filter_map(|hop| hop.node)
}
