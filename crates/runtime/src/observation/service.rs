//! Observation of a device's packets for clients of its server.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use ir::Program;
use p4info::polyplane::observation::v1 as wire;
use p4info::polyplane::observation::v1::end::What as EndWhat;
use p4info::polyplane::observation::v1::observe_request::Wish as AskedWish;
use p4info::polyplane::observation::v1::observe_response::What;
use p4rt::{Code, Delivery, Observations, ObserveError, PacketObservation};
use packet::PortId;
use port::FrameDirection;
use switch::Device;
use tenancy::VpdpId;
use trace_format::{PacketTrace, WorkerPacket, default_action_text, entry_statement};

use super::budget::PacketBudget;
use super::paths::{LookedUp, PacketPath, PathCount, PathCounts, PathEnd};
use super::{
    CapturedFrame, ObservedPorts, Observer, ObserverGuard, ObserverLimits, PacketObservers, Wish,
};
use crate::trace_filter::{PacketFilter, TracedPacket};
use crate::worker_thread::{EventSender, WorkerEvent};

/// Maximum number of traces that wait to be formatted, for each observer.
const MAX_WAITING: u64 = 64;

/// Maximum numbers of packets a second of one observer: of a device that has the workers for
/// itself, and of a vPDP, which must not take the processor of others.
const RATES: Rates = Rates {
    traces: 1_000,
    frames: 100_000,
    followed: 2_000,
};
const RATES_OF_VPDP: Rates = Rates {
    traces: 200,
    frames: 2_000,
    followed: 500,
};

struct Rates {
    traces: u64,
    frames: u64,
    followed: u64,
}

/// Maximum number of bytes of a filter.
const MAX_FILTER: usize = 1024;

/// Time of a summary if the client does not give one, and the longest time.
const DEFAULT_SECONDS: u32 = 10;
const MAX_SECONDS: u32 = 3_600;

/// Interval of the messages of a summary.
const SUMMARY_EVERY: Duration = Duration::from_secs(1);

/// Maximum number of bytes of a frame.
const MAX_SNAP: usize = 65_535;

/// A traced packet of an observer, which the control loop formats.
pub struct Unrendered {
    traced: TracedPacket,
    /// The vPDP that processed it.
    pub(crate) vpdp: Option<VpdpId>,
    to: Arc<TraceClient>,
    budget: Arc<PacketBudget>,
    /// True if it was counted as delivered.
    is_sent: bool,
}

/// Client that gets traces.
struct TraceClient {
    client: Observations,
    /// Traces that wait to be formatted.
    waiting: AtomicU64,
}

impl Drop for Unrendered {
    fn drop(&mut self) {
        self.to.waiting.fetch_sub(1, Relaxed);
        if !self.is_sent {
            self.budget.give_back();
        }
    }
}

/// Gives a client what an observer has taken for it. At the observer's limit the call ends, with a
/// message of the packets that were skipped. Returns false if the client does not get it.
fn give(client: &Observations, budget: &PacketBudget, what: What) -> bool {
    let message = wire::ObserveResponse {
        what: Some(what),
        skipped: budget.skipped(),
    };
    match client.send(message) {
        Delivery::Full => return false,
        Delivery::Done => {}
        Delivery::Gone => return true,
    }
    if budget.delivered() {
        client.end(wire::ObserveResponse {
            what: None,
            skipped: budget.skipped(),
        });
    }
    true
}

impl Unrendered {
    /// Formats the trace with the device's tables, and sends it.
    pub(crate) fn send(mut self, device: &Device) {
        if let Some(trace) = self.rendered(device) {
            self.is_sent = give(&self.to.client, &self.budget, What::Trace(trace));
        }
    }

    /// Returns the trace; `None` if the program was replaced meanwhile.
    fn rendered(&self, device: &Device) -> Option<wire::Trace> {
        let traced = &self.traced;
        if !Arc::ptr_eq(&traced.program, device.program()) {
            return None;
        }
        // Clients must not read files of this machine, which a program may name.
        let no_source = |_: &str| None;
        let packet = (traced.port.0, &traced.bytes[..]);
        let trace = PacketTrace::new(device.configuration(), packet, &traced.events, &no_source);
        let trace = trace.without_middle_rounds();
        let live = WorkerPacket {
            plane: traced.plane.name(),
            worker: traced.worker,
            time_ns: traced.time.0,
        };
        Some(wire::Trace {
            text: trace.text(false),
            json: trace.json_line(live).ok()?,
        })
    }
}

/// A summary that a client gets.
struct Summary {
    observer: Arc<Observer>,
    client: Observations,
    begin: Instant,
    end: Instant,
    next: Instant,
}

/// The summaries that clients get now.
#[derive(Clone, Default)]
pub(crate) struct Summaries(Arc<Mutex<Vec<Summary>>>);

impl Summaries {
    fn lock(&self) -> MutexGuard<'_, Vec<Summary>> {
        // A change adds or removes a summary as a whole.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sends those that are due.
    pub(crate) fn turn(&self, device: &Device) {
        let mut all = self.lock();
        if all.is_empty() {
            return;
        }
        let now = Instant::now();
        let is_due = |summary: &mut Summary| now >= summary.next;
        let mut due: Vec<Summary> = all.extract_if(.., is_due).collect();
        // Clients that come and go do not wait while summaries are formatted.
        drop(all);
        due.retain_mut(|summary| summary.goes_on_after(device, now));
        // One that has ended meanwhile has a client that is gone, as its next message shows.
        self.lock().append(&mut due);
    }
}

impl Summary {
    /// Sends the counts. Returns false after the last message.
    fn goes_on_after(&mut self, device: &Device, now: Instant) -> bool {
        self.next = (now + SUMMARY_EVERY).min(self.end.max(now));
        if now >= self.end || self.observer.budget.is_used_up() {
            self.client.end(self.message(device, true));
            return false;
        }
        // A message that finds no room is followed by one with all counts.
        self.client.send(self.message(device, false)) != Delivery::Gone
    }

    fn message(&self, device: &Device, is_last: bool) -> wire::ObserveResponse {
        let Wish::Paths(table) = &self.observer.wish else {
            return wire::ObserveResponse::default();
        };
        // Workers take the lock for each packet that is followed.
        let counts = table.lock().clone();
        let passed = self.begin.elapsed().as_millis();
        let summary = wire::PathSummary {
            milliseconds: u64::try_from(passed).unwrap_or(u64::MAX),
            packets: counts.packets(),
            others: counts.others,
            paths: paths(&counts, device),
            is_last,
        };
        wire::ObserveResponse {
            what: Some(What::Paths(summary)),
            skipped: self.observer.skipped(),
        }
    }
}

/// Returns the counted ways, the most frequent first.
fn paths(counts: &PathCounts, device: &Device) -> Vec<wire::Path> {
    let Some(program) = &counts.program else {
        return Vec::new();
    };
    let mut all: Vec<(&PacketPath, &PathCount)> = counts.paths.iter().collect();
    all.sort_by_key(|(path, count)| (std::cmp::Reverse(count.packets), path.port));
    let one = |(path, count): (&PacketPath, &PathCount)| wire::Path {
        port: path.port.0,
        packets: count.packets,
        bytes: count.bytes,
        lookups: path
            .lookups
            .iter()
            .map(|lookup| lookup_of(lookup, program, device))
            .collect(),
        ends: path.ends.iter().map(end_of).collect(),
    };
    all.into_iter().map(one).collect()
}

fn lookup_of(lookup: &LookedUp, program: &Arc<Program>, device: &Device) -> wire::Lookup {
    // Entries of a program that was replaced have gone.
    let is_present = Arc::ptr_eq(program, device.program());
    let entry = lookup.entry.filter(|_| is_present);
    let entry = entry.and_then(|id| entry_statement(device.configuration(), lookup.table, id));
    let action = lookup.action.map(|id| &program.actions[id]);
    let ran = lookup.action.filter(|_| is_present && !lookup.is_hit);
    let default = ran.and_then(|id| default_action_text(device.configuration(), lookup.table, id));
    wire::Lookup {
        table: program.tables[lookup.table].name.clone(),
        is_hit: lookup.is_hit,
        entry: entry.unwrap_or_default(),
        action: action.map_or(String::new(), |action| action.control_plane_name.clone()),
        default_action: default.unwrap_or_default(),
    }
}

fn end_of(end: &PathEnd) -> wire::End {
    let what = match end {
        PathEnd::Sent(port) => EndWhat::Sent(port.0),
        PathEnd::Dropped(reason) => EndWhat::Dropped(reason.name().to_owned()),
        PathEnd::Queued(port) => EndWhat::Queued(port.0),
    };
    wire::End { what: Some(what) }
}

/// Observation of the packets of one device.
pub(crate) struct DeviceObservation {
    pub(crate) observers: Arc<PacketObservers>,
    pub(crate) events: EventSender,
    pub(crate) summaries: Summaries,
    pub(crate) ports: Arc<ObservedPorts>,
    /// The vPDP that the device is, on a switch that hosts vPDPs.
    pub(crate) vpdp: Option<VpdpId>,
}

/// Guard of an observation.
struct ObservationGuard {
    observer: ObserverGuard,
    summaries: Summaries,
}

impl Drop for ObservationGuard {
    fn drop(&mut self) {
        let own = self.observer.observer();
        let mut all = self.summaries.lock();
        all.retain(|summary| !Arc::ptr_eq(&summary.observer, own));
    }
}

impl PacketObservation for DeviceObservation {
    fn observe(
        &self,
        request: wire::ObserveRequest,
        client: Observations,
    ) -> Result<Box<dyn Send>, ObserveError> {
        let wrong = |message: String| ObserveError {
            code: Code::InvalidArgument,
            message,
        };
        // All packets are compared with it.
        if request.filter.len() > MAX_FILTER {
            return Err(wrong(format!("a filter has at most {MAX_FILTER} bytes")));
        }
        let filter = request.filter.parse::<PacketFilter>();
        let filter = filter.map_err(|error| wrong(format!("filter: {error}")))?;
        let limits = |rate| ObserverLimits {
            packets: (request.count > 0).then_some(request.count),
            rate,
        };
        let rates = match self.vpdp {
            None => &RATES,
            Some(_) => &RATES_OF_VPDP,
        };
        let mut summary = None;
        let observer = match request.wish {
            None => return Err(wrong("the request has no wish".to_owned())),
            Some(AskedWish::Traces(_)) => self.traces(filter, limits(rates.traces), client.clone()),
            Some(AskedWish::Frames(frames)) => {
                let port = frames.port.map(PortId);
                if let Some(port) = port
                    && !self.ports.has(port)
                {
                    return Err(wrong(format!("the device has no port {port}")));
                }
                captures(
                    filter,
                    port,
                    limits(rates.frames),
                    frames.snap_len,
                    client.clone(),
                    Arc::clone(&self.ports),
                )
            }
            Some(AskedWish::Paths(asked)) => {
                let seconds = match asked.seconds {
                    0 => DEFAULT_SECONDS,
                    seconds => seconds,
                };
                if seconds > MAX_SECONDS {
                    return Err(wrong(format!(
                        "a summary takes at most {MAX_SECONDS} seconds"
                    )));
                }
                summary = Some(Duration::from_secs(seconds.into()));
                Observer::of_paths(filter, limits(rates.followed))
            }
        };
        let interface = |(port, name): (PortId, Arc<str>)| wire::Interface {
            port: port.0,
            name: name.to_string(),
        };
        let begun = wire::Begun {
            interfaces: self.ports.all().into_iter().map(interface).collect(),
        };
        // The queue of a new client is empty.
        client.send(wire::ObserveResponse {
            what: Some(What::Begun(begun)),
            skipped: 0,
        });
        let guard = self
            .observers
            .add(observer.of_vpdp(self.vpdp))
            .map_err(|error| ObserveError {
                code: Code::ResourceExhausted,
                message: error.to_string(),
            })?;
        if let Some(time) = summary {
            let begin = Instant::now();
            self.summaries.lock().push(Summary {
                observer: Arc::clone(guard.observer()),
                client,
                begin,
                end: begin + time,
                next: begin + time.min(SUMMARY_EVERY),
            });
        }
        Ok(Box::new(ObservationGuard {
            observer: guard,
            summaries: self.summaries.clone(),
        }))
    }
}

impl DeviceObservation {
    fn traces(
        &self,
        filter: PacketFilter,
        limits: ObserverLimits,
        client: Observations,
    ) -> Observer {
        let to = Arc::new(TraceClient {
            client,
            waiting: AtomicU64::new(0),
        });
        let events = self.events.clone();
        let vpdp = self.vpdp;
        let deliver = move |traced, budget: &Arc<PacketBudget>| {
            if to.waiting.load(Relaxed) >= MAX_WAITING {
                return budget.give_back();
            }
            to.waiting.fetch_add(1, Relaxed);
            let to = Arc::clone(&to);
            events.send(WorkerEvent::Observed(Box::new(Unrendered {
                traced,
                vpdp,
                to,
                budget: Arc::clone(budget),
                is_sent: false,
            })));
        };
        Observer::new(filter, None, limits, Wish::Traces(Box::new(deliver)))
    }
}

fn captures(
    filter: PacketFilter,
    port: Option<PortId>,
    limits: ObserverLimits,
    snap_len: u32,
    client: Observations,
    ports: Arc<ObservedPorts>,
) -> Observer {
    let snap_len = match snap_len as usize {
        0 => MAX_SNAP,
        bytes => bytes.min(MAX_SNAP),
    };
    let deliver = Box::new(move |frame: CapturedFrame, budget: &Arc<PacketBudget>| {
        let interface = ports.name(frame.port);
        if !give(&client, budget, What::Frame(frame_of(frame, &interface))) {
            budget.give_back();
        }
    });
    Observer::new(filter, port, limits, Wish::Frames { snap_len, deliver })
}

fn frame_of(frame: CapturedFrame, interface: &str) -> wire::Frame {
    wire::Frame {
        interface: interface.to_owned(),
        port: frame.port.0,
        is_sent: frame.direction == FrameDirection::Sent,
        time_ns: frame.time.0,
        length: u32::try_from(frame.length).unwrap_or(u32::MAX),
        data: frame.bytes.into_vec(),
        comment: frame.comment.unwrap_or_default(),
    }
}
