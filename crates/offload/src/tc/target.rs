//! The target of the kernel's traffic control: requests go to threads, so that a slow driver never
//! stops the owner.

use std::collections::HashMap;
use std::sync::Arc;
use std::thread::JoinHandle;

use packet::Nanos;

use super::codec;
use super::cookie::rule_of;
use super::ports::{InterfaceState, Ports, TcPort, TcPortReport};
use super::queue::{Queued, Shared, TcCounts};
use super::rule::RulePlanes;
use super::session::{Session, TcError, decoded};
use super::sys::RECEIVE_BUFFER;
use super::writer::{Writer, counts_at};
use crate::flow::{Flow, NotOffloadable};
use crate::target::{RuleCapacity, RuleCounts, RuleId, Target, TargetEvent, TargetInterface};

/// Settings of a [`TcTarget`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TcTargetOptions {
    /// Number by which rules are recognised as those of this switch, also after a crash. Two
    /// processes with one number in one network namespace remove each other's rules.
    pub owner: u32,
    /// The ports at interfaces.
    pub ports: Vec<TcPort>,
    /// Planes that may have the rules. [`RulePlanes::Hardware`] is the only one that is right where
    /// the switch itself takes packets from the interfaces: the kernel's software rules see a copy
    /// of each packet that the switch receives, so that both would send it.
    pub planes: RulePlanes,
    /// First priority of own rules.
    pub first_priority: u16,
    /// Number of rules that the hardware holds, if the owner knows it.
    pub rules: Option<u32>,
    /// Time after which the driver's counts certainly have a packet, with the time in which the
    /// list of rules is read.
    pub counts_delay: Nanos,
    /// Time between two looks at the interfaces.
    pub check_period: Nanos,
    /// Additions that may wait; more are refused.
    pub most_waiting: usize,
    /// Size in bytes of the receive queues.
    pub receive_buffer: usize,
}

impl TcTargetOptions {
    /// Returns the settings of an owner with these ports, for rules in hardware only.
    pub fn new(owner: u32, ports: Vec<TcPort>) -> TcTargetOptions {
        TcTargetOptions {
            owner,
            ports,
            planes: RulePlanes::Hardware,
            first_priority: 1_000,
            rules: None,
            counts_delay: Nanos::from_secs(1),
            check_period: Nanos::from_secs(1),
            most_waiting: 65_536,
            receive_buffer: RECEIVE_BUFFER,
        }
    }
}

/// Time after which a target that was full is asked for a little more than it held.
const PROBE_AFTER: Nanos = Nanos::from_secs(10);

/// Time after which results are looked for while requests wait, and while none do.
const SOON: Nanos = Nanos::from_millis(1);
const LATER: Nanos = Nanos::from_millis(100);

/// Names of the threads.
const WRITER: &str = "tc-write";
const READER: &str = "tc-read";

/// A rule as the owner of the target knows it.
#[derive(Clone, Copy, Debug, Default)]
struct Live {
    is_added: bool,
    /// Largest counts that were reported.
    counts: RuleCounts,
}

/// Rules of TC flower on interfaces of the kernel.
///
/// Two threads speak with the kernel: one writes rules, in batches, and looks at the interfaces;
/// one reads counts. The methods of [`Target`] only exchange requests and results with them.
/// Dropping the target removes its rules.
pub struct TcTarget {
    options: Arc<TcTargetOptions>,
    shared: Arc<Shared>,
    writer: Option<JoinHandle<()>>,
    reader: Option<JoinHandle<()>>,
    ports: Arc<Ports>,
    live: HashMap<RuleId, Live>,
    added: u32,
    /// Rules that the hardware held when it was full, and the time.
    held_when_full: Option<(u32, Nanos)>,
    /// Results that came up without the threads.
    own_events: Vec<TargetEvent>,
    polled: Nanos,
    /// Number of the last request for counts.
    asked_reads: u64,
}

/// State of a [`TcTarget`], for reports.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TcReport {
    /// The ports.
    pub ports: Vec<TcPortReport>,
    /// Requests that wait.
    pub waiting: usize,
    /// Rules that the kernel has.
    pub rules: u32,
    /// Numbers of what was done.
    pub counts: TcCounts,
}

impl TcTarget {
    /// Opens the target in the calling thread's network namespace. Own rules of an earlier process
    /// are removed first, on all interfaces; interfaces without a place for rules get one.
    ///
    /// # Errors
    /// [`TcError`]: an interface is not there, the process has no CAP_NET_ADMIN, or the kernel
    /// cannot remove a rule.
    pub fn open(options: TcTargetOptions) -> Result<TcTarget, TcError> {
        let options = Arc::new(options);
        let session = Session::open_with(options.receive_buffer)?;
        let reads = Session::open_with(options.receive_buffer)?;
        TcTarget::with(options, session, reads)
    }

    fn with(
        options: Arc<TcTargetOptions>,
        session: Session,
        reads: Session,
    ) -> Result<TcTarget, TcError> {
        let (writer, shared) = Writer::open(session, &options)?;
        let reader = Reader {
            session: reads,
            shared: Arc::clone(&shared),
            owner: options.owner,
        };
        let ports = Arc::clone(&shared.lock().ports);
        let start = |name: &str, run: Box<dyn FnOnce() + Send>| {
            let thread = std::thread::Builder::new().name(name.to_owned());
            thread.spawn(run).map_err(|source| TcError::System {
                doing: "starting a thread",
                source,
            })
        };
        let mut target = TcTarget {
            options,
            shared,
            writer: None,
            reader: None,
            ports,
            live: HashMap::new(),
            added: 0,
            held_when_full: None,
            own_events: Vec::new(),
            polled: Nanos::ZERO,
            asked_reads: 0,
        };
        // On an error the first thread ends with the target.
        target.writer = Some(start(WRITER, Box::new(|| writer.run()))?);
        target.reader = Some(start(READER, Box::new(|| reader.run()))?);
        Ok(target)
    }

    /// Returns the target's state.
    pub fn report(&self) -> TcReport {
        let inner = self.shared.lock();
        TcReport {
            ports: inner.ports.reports().collect(),
            waiting: inner.waiting(),
            rules: self.added,
            counts: inner.counts,
        }
    }

    /// Removes all rules of the target and the places for rules that it made and that are empty.
    ///
    /// # Errors
    /// [`TcError`]: rules are still there, or a thread has panicked.
    pub fn close(mut self) -> Result<(), TcError> {
        self.end()
    }

    fn end(&mut self) -> Result<(), TcError> {
        self.shared.stop();
        // A thread that panicked has printed why.
        let join = |thread: Option<JoinHandle<()>>, name| match thread.map(JoinHandle::join) {
            Some(Err(_)) => Err(TcError::Panicked(name)),
            _ => Ok(()),
        };
        let writer = join(self.writer.take(), WRITER);
        let reader = join(self.reader.take(), READER);
        let error = self.shared.lock().error.take();
        writer.and(error.map_or(Ok(()), Err)).and(reader)
    }

    /// Returns the number of rules that the target is thought to hold.
    fn most(&self) -> Option<u32> {
        let learned = self.held_when_full.map(|(held, since)| {
            let passed = self.polled.0.saturating_sub(since.0);
            let probes = u32::try_from(passed / PROBE_AFTER.0).unwrap_or(u32::MAX);
            held.saturating_add((held / 16 + 1).saturating_mul(probes))
        });
        match (self.options.rules, learned) {
            (Some(known), Some(learned)) => Some(known.min(learned)),
            (known, learned) => known.or(learned),
        }
    }

    fn push(&mut self, now: Nanos, requests: Vec<Queued>) {
        if has_ended(&self.writer) {
            return self.reject(
                requests,
                "the thread of the target that writes rules has ended",
            );
        }
        let most = self.options.most_waiting;
        let rejected = self.shared.push(now, requests, most);
        self.reject(rejected, "too many requests of the target wait");
    }

    fn reject(&mut self, requests: Vec<Queued>, words: &str) {
        for request in requests {
            self.own_events.push(match request {
                Queued::Add(id, _) | Queued::Replace(_, id, _) => {
                    TargetEvent::Refused(id, words.to_owned())
                }
                Queued::Remove(id) | Queued::Check(id) | Queued::Stray(id, _) => {
                    TargetEvent::Removed(id, RuleCounts::default())
                }
            });
        }
    }

    /// Notes an event. Counts are never below those of earlier ones.
    fn note(&mut self, now: Nanos, event: &mut TargetEvent) {
        match event {
            TargetEvent::Added(id, _) => {
                if let Some(live) = self.live.get_mut(id) {
                    self.added += u32::from(!live.is_added);
                    live.is_added = true;
                }
            }
            TargetEvent::Refused(id, _) => drop(self.forget(*id)),
            TargetEvent::Full(id) => {
                self.forget(*id);
                self.held_when_full = Some((self.added, now));
            }
            TargetEvent::Removed(id, counts)
            | TargetEvent::Evicted(id, counts)
            | TargetEvent::Lost(id, counts, _) => {
                if let Some(live) = self.forget(*id) {
                    *counts = most_of(live.counts, *counts);
                }
            }
            TargetEvent::Counts(id, _, counts) => {
                if let Some(live) = self.live.get_mut(id) {
                    live.counts = most_of(live.counts, *counts);
                    *counts = live.counts;
                }
            }
        }
    }

    fn forget(&mut self, id: RuleId) -> Option<Live> {
        let live = self.live.remove(&id)?;
        self.added -= u32::from(live.is_added);
        Some(live)
    }
}

fn has_ended(thread: &Option<JoinHandle<()>>) -> bool {
    thread.as_ref().is_none_or(JoinHandle::is_finished)
}

fn most_of(a: RuleCounts, b: RuleCounts) -> RuleCounts {
    RuleCounts {
        packets: a.packets.max(b.packets),
        bytes: a.bytes.max(b.bytes),
        last_use: a.last_use.max(b.last_use),
    }
}

impl Drop for TcTarget {
    fn drop(&mut self) {
        // Who wants the error calls `close`.
        let _ = self.end();
    }
}

impl Target for TcTarget {
    fn name(&self) -> &str {
        "tc"
    }

    fn interfaces(&self) -> Vec<TargetInterface> {
        let reports = self.ports.reports();
        reports
            .map(|report| TargetInterface {
                refusal: match report.state {
                    InterfaceState::Up => report.refusal,
                    InterfaceState::Down => Some("it is down".to_owned()),
                    InterfaceState::Gone => Some("it has gone".to_owned()),
                },
                port: report.port,
                name: report.interface,
            })
            .collect()
    }

    fn capacity(&self) -> RuleCapacity {
        RuleCapacity {
            rules: self.most(),
            used: self.live.len() as u32,
        }
    }

    fn counts_delay(&self) -> Nanos {
        self.options.counts_delay
    }

    fn can(&self, flow: &Flow) -> Result<(), NotOffloadable> {
        self.ports.translate(flow).map(|_| ())
    }

    fn takes(&self, flow: &Flow, frame: &[u8]) -> bool {
        let rule = self.ports.translate(flow);
        rule.is_ok_and(|(_, rule)| rule.takes(frame))
    }

    fn add(&mut self, now: Nanos, rules: Vec<(RuleId, Arc<Flow>)>) {
        let requests = rules.into_iter().map(|(id, flow)| {
            self.live.insert(id, Live::default());
            Queued::Add(id, flow)
        });
        let requests = requests.collect();
        self.push(now, requests);
    }

    fn replace(&mut self, now: Nanos, rules: Vec<(RuleId, RuleId, Arc<Flow>)>) {
        let requests = rules.into_iter().map(|(old, new, flow)| {
            self.live.insert(new, Live::default());
            Queued::Replace(old, new, flow)
        });
        let requests = requests.collect();
        self.push(now, requests);
    }

    fn remove(&mut self, now: Nanos, rules: &[RuleId]) {
        let requests = rules.iter().map(|id| Queued::Remove(*id)).collect();
        self.push(now, requests);
    }

    fn read(&mut self, now: Nanos, rules: &[RuleId]) {
        if rules.is_empty() {
            return;
        }
        if has_ended(&self.reader) {
            // Each rule is read for itself.
            let requests = rules.iter().map(|id| Queued::Check(*id));
            self.shared.push(now, requests, usize::MAX);
        } else {
            self.asked_reads = self.shared.read(now, rules);
        }
    }

    fn poll(&mut self, now: Nanos, events: &mut Vec<TargetEvent>) {
        self.polled = now;
        let mut own = std::mem::take(&mut self.own_events);
        if let Some((news, ports)) = self.shared.news() {
            own.extend(news);
            self.ports = ports;
        }
        for mut event in own {
            self.note(now, &mut event);
            events.push(event);
        }
    }

    fn next_time(&self) -> Option<Nanos> {
        let is_reading = self.asked_reads > self.shared.done_reads() && !has_ended(&self.reader);
        let is_waiting =
            is_reading || !self.own_events.is_empty() || self.live.len() as u32 != self.added;
        Some(self.polled + if is_waiting { SOON } else { LATER })
    }
}

/// The thread that reads counts.
struct Reader {
    session: Session,
    shared: Arc<Shared>,
    owner: u32,
}

impl Reader {
    fn run(mut self) {
        while let Some(reading) = self.shared.next_reading() {
            let mut missing = reading.rules;
            let (mut events, mut requests) = (Vec::new(), Vec::new());
            for interface in reading.interfaces {
                let list = self.session.filters(
                    interface,
                    netlink_packet_route::tc::TcHandle::MIN_INGRESS,
                    None,
                );
                let Ok(list) = list else {
                    // Each rule is read for itself.
                    self.shared.count(|counts| counts.failed_lists += 1);
                    continue;
                };
                let now = self.shared.now();
                for message in list {
                    let Some(cookie) = codec::cookie_of(&message) else {
                        continue;
                    };
                    let Some(id) = rule_of(self.owner, &cookie) else {
                        continue;
                    };
                    if !missing.remove(&id) {
                        requests.push(Queued::Stray(id, codec::place_of(&message)));
                        continue;
                    }
                    match decoded(&message) {
                        Ok(Some(installed)) => {
                            let counts = counts_at(now, &installed);
                            events.push(TargetEvent::Counts(id, now, counts));
                        }
                        _ => requests.push(Queued::Check(id)),
                    }
                }
            }
            self.shared.publish(&mut events);
            requests.extend(missing.into_iter().map(Queued::Check));
            let now = self.shared.now();
            if !requests.is_empty() {
                self.shared.push(now, requests, usize::MAX);
            }
            self.shared.end_reading(reading.number);
        }
    }
}

#[cfg(test)]
#[path = "target_tests.rs"]
mod tests;
