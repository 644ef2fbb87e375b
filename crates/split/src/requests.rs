//! Requests and responses of a switch: their numbers, the checks of responses, and the group of
//! servers. All workers of a switch share them.

use std::sync::atomic::{
    AtomicU32, AtomicU64,
    Ordering::{Acquire, Relaxed, Release, SeqCst},
};
use std::sync::{Arc, Mutex};

use exec::DropReason;
use packet::{Frame, Nanos, PortId};
use passes::split::{CutKind, SplitPlan};
use placement::{Group, GroupError, GroupOptions, ServerId};

use crate::flights::{FlightOptions, Flights};
use crate::gate::{Drained, Gate, GateId, KeyPattern, MAX_HOLD};
use crate::owners::{CutOwners, PoolOwners};
use crate::view::{Versions, View, lock};
use crate::wire::Wire;

/// Number of requests that can be outstanding. Of an older one the response is a duplicate.
const MAX_OUTSTANDING: usize = 1 << 16;

/// Time after which a gate counts a request without an answer as lost.
const LOST_AFTER: Nanos = Nanos(100_000_000);

/// Flow of a packet that goes to the owner of its value, wherever the group would send it.
pub(crate) const NO_FLOW: u32 = 0;

/// Port of the switch at which a server is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ServerPort {
    /// The server.
    pub server: ServerId,
    /// The port.
    pub port: PortId,
}

/// Order of the packets of a flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Order {
    /// An entry works when the earlier packets of its flow are answered.
    #[default]
    Strict,
    /// An entry works at once, and packets may overtake earlier ones of their flow.
    Loose,
}

/// Options of a switch half.
#[derive(Clone, Debug, Default)]
pub struct SwitchOptions {
    /// The servers, at least one.
    pub servers: Vec<ServerPort>,
    /// Egress port of requests in the program.
    pub request_port: u32,
    /// Sizes of the group's tables.
    pub group: GroupOptions,
}

/// A request that leaves, as the placement of entries sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SeenRequest {
    /// Number of the cut, from 1.
    pub cut: u16,
    /// The server.
    pub server: ServerId,
}

/// Numbers of a group, for operators.
#[derive(Clone, Debug, PartialEq)]
pub struct GroupStatus {
    /// The servers of the newest group.
    pub members: Vec<ServerId>,
    /// Servers that packets may go to and that are not members: they have flows of older groups.
    pub leaving: Vec<ServerId>,
    /// Servers that failed.
    pub down: Vec<ServerId>,
    /// Number of pins.
    pub pins: usize,
    /// True while a change is not complete.
    pub is_changing: bool,
    /// Share of new flows that the next group would take for older ones.
    pub error_rate: f64,
}

/// Requests and responses of a switch.
#[derive(Debug)]
pub struct Requests {
    wire: Wire,
    pub(crate) options: SwitchOptions,
    pub(crate) cuts: Box<[CutOfRequests]>,
    places: Box<[Place]>,
    next: AtomicU64,
    /// No request before this number is outstanding.
    oldest: AtomicU64,
    /// All requests before this number have their places.
    settled: AtomicU64,
    /// Number of answered requests.
    answered: AtomicU64,
    /// Number of requests that will have no answer: another one took their place, or they are too
    /// old.
    lost: AtomicU64,
    /// Number of requests to servers that failed before they answered.
    down: AtomicU64,
    /// Number of requests that workers hold.
    pub(crate) held: AtomicU64,
    /// Number of entries that worked while earlier packets of their flows were at servers.
    overtaken: AtomicU64,
    pub(crate) versions: Versions,
    control: Mutex<Control>,
    pub(crate) reasons: Reasons,
}

/// Cut, as requests need it.
#[derive(Clone, Debug)]
pub(crate) struct CutOfRequests {
    /// Width of the key in bits; 0 for a handler.
    pub(crate) key_width: usize,
    /// Number of the place where a held request goes on.
    pub(crate) resume: u16,
    /// Name of the pool of which requests have a value.
    pool: Option<Box<str>>,
}

/// Place of an outstanding request.
#[derive(Debug, Default)]
struct Place {
    /// Number of the request plus one; 0: free.
    state: AtomicU64,
    /// Number of the cut, server and flow.
    flow: AtomicU64,
    key_hash: AtomicU32,
    sent_ns: AtomicU64,
}

/// State that the control thread changes. Workers see a copy, the view.
#[derive(Debug, Default)]
struct Control {
    view: View,
    next_gate: u64,
    spare_flights: Option<Arc<Flights>>,
}

#[derive(Debug)]
pub(crate) struct Reasons {
    unknown: DropReason,
    stale: DropReason,
    duplicate: DropReason,
    pub(crate) no_server: DropReason,
    pub(crate) server_down: DropReason,
    pub(crate) too_many_held: DropReason,
}

impl Requests {
    /// Creates the requests of a switch. None is outstanding.
    pub fn new(plan: &SplitPlan, options: SwitchOptions) -> Requests {
        let cut = |(at, cut): (usize, &passes::split::CutPlan)| CutOfRequests {
            key_width: plan.key_width(cut.kind),
            resume: plan.resume_at_cut(at as u16 + 1),
            pool: cut.owner.as_ref().map(|owner| owner.pool.as_str().into()),
        };
        let requests = Requests {
            wire: Wire::new(&plan.frame),
            cuts: plan.cuts.iter().enumerate().map(cut).collect(),
            places: (0..MAX_OUTSTANDING).map(|_| Place::default()).collect(),
            next: AtomicU64::new(0),
            oldest: AtomicU64::new(0),
            settled: AtomicU64::new(0),
            answered: AtomicU64::new(0),
            lost: AtomicU64::new(0),
            down: AtomicU64::new(0),
            held: AtomicU64::new(0),
            overtaken: AtomicU64::new(0),
            versions: Versions::default(),
            control: Mutex::default(),
            reasons: Reasons {
                unknown: DropReason::named(b"unknown_response"),
                stale: DropReason::named(b"stale_response"),
                duplicate: DropReason::named(b"duplicate_response"),
                no_server: DropReason::named(b"no_server"),
                server_down: DropReason::named(b"server_down"),
                too_many_held: DropReason::named(b"too_many_held"),
            },
            options,
        };
        {
            let mut control = lock(&requests.control);
            control.view.servers = requests.options.servers.clone();
            control.view.group = first_group(&requests.options);
            requests.publish(&control);
        }
        requests
    }

    /// Sets the owners of the values of pools. `owners_of` returns those of a pool by its name in
    /// C; without them, packets with `@owner` go to the server of their flow.
    pub fn set_owners(&self, owners_of: impl Fn(&str) -> Option<Arc<dyn PoolOwners>>) {
        let owners = self.cuts.iter().map(|cut| owners_of(cut.pool.as_ref()?));
        let owners: CutOwners = owners.collect();
        self.change(|view| view.owners = owners);
    }

    /// Returns the reader of frames.
    pub fn wire(&self) -> &Wire {
        &self.wire
    }

    /// Returns the number of requests sent.
    pub fn sent(&self) -> u64 {
        self.next.load(Relaxed)
    }

    /// Returns the number of requests that have no answer yet, or never will.
    pub fn unanswered(&self) -> u64 {
        self.sent() - self.answered.load(Relaxed)
    }

    /// Returns the number of requests that will have no answer: another one needed their place, or
    /// they were too old.
    pub fn lost(&self) -> u64 {
        self.lost.load(Relaxed)
    }

    /// Returns the number of requests to servers that failed before they answered.
    pub fn down(&self) -> u64 {
        self.down.load(Relaxed)
    }

    /// Returns the number of requests that may still be answered.
    pub fn outstanding(&self) -> u64 {
        let state = |place: &&Place| place.state.load(Relaxed) != 0;
        self.places.iter().filter(state).count() as u64
    }

    /// Returns the number of requests that workers hold.
    pub fn held(&self) -> u64 {
        self.held.load(Relaxed)
    }

    /// Returns the number of entries that began to work while earlier packets of their flows were
    /// at servers.
    pub fn overtaken(&self) -> u64 {
        self.overtaken.load(Relaxed)
    }

    /// Returns true if frames that leave by this port are requests.
    pub fn is_request_port(&self, port: PortId) -> bool {
        port.0 == self.options.request_port
    }

    /// Checks a received frame: a response of a server, or a frame of a port without a server.
    pub(crate) fn check(&self, view: &View, frame: &Frame) -> Result<(), DropReason> {
        let mut servers = view.servers.iter();
        let server = servers.find(|server| server.port == frame.ingress);
        let is_response = self.wire.is_response(frame);
        match server {
            None if !is_response && !self.wire.is_request(frame) => Ok(()),
            None => Err(self.reasons.unknown),
            Some(_) if !is_response => Err(self.reasons.unknown),
            Some(_) if !self.wire.has_epoch(frame) => Err(self.reasons.stale),
            Some(_) if !self.wire.is_whole(frame) => Err(self.reasons.unknown),
            Some(server) if self.wire.server(frame) != server.server.0 => Err(self.reasons.unknown),
            Some(server) if view.down.contains(&server.server) => Err(self.reasons.unknown),
            Some(_) if !self.take(frame) => Err(self.reasons.duplicate),
            Some(_) => Ok(()),
        }
    }

    fn place(&self, number: u64) -> &Place {
        &self.places[number as usize % MAX_OUTSTANDING]
    }

    /// Takes out the request of a response. Returns false if it is not outstanding.
    fn take(&self, frame: &Frame) -> bool {
        let number = self.wire.sequence(frame);
        let place = &self.place(number.into()).state;
        let held = place.load(Relaxed);
        let is_outstanding = held != 0 && (held - 1) as u32 == number;
        let is_taken = is_outstanding && place.compare_exchange(held, 0, Relaxed, Relaxed).is_ok();
        self.answered.fetch_add(u64::from(is_taken), Relaxed);
        is_taken
    }

    /// Numbers a request and notes it as outstanding.
    pub(crate) fn number(&self, frame: &mut Frame, to: ServerId, key_hash: u32, now: Nanos) {
        let cut = u64::from(self.wire.point(frame));
        let flow = self.wire.flow(frame);
        let number = self.next.fetch_add(1, SeqCst);
        let place = self.place(number);
        let before = place.state.swap(0, Relaxed);
        self.lost.fetch_add(u64::from(before != 0), Relaxed);
        let packed = cut << 48 | u64::from(to.0) << 32 | u64::from(flow);
        place.flow.store(packed, Relaxed);
        place.key_hash.store(key_hash, Relaxed);
        place.sent_ns.store(now.0, Relaxed);
        place.state.store(number + 1, Release);
        self.wire.address(frame, to.0, number as u32);
    }

    /// Calls `each` with the places of the outstanding requests before this number.
    fn each_outstanding(&self, before: u64, mut each: impl FnMut(u64, &Place)) {
        let next = self.next.load(Relaxed);
        let mut oldest = self.oldest.load(Relaxed);
        oldest = oldest.max(next.saturating_sub(MAX_OUTSTANDING as u64));
        let is_outstanding = |number: u64| {
            let state = self.place(number).state.load(Acquire);
            state == number + 1
        };
        let settled = self.settled.load(Relaxed);
        while oldest < settled && !is_outstanding(oldest) {
            oldest += 1;
        }
        self.oldest.store(oldest, Relaxed);
        for number in oldest..before {
            if is_outstanding(number) {
                each(number, self.place(number));
            }
        }
    }

    /// Takes out an outstanding request that will have no answer.
    fn give_up(&self, number: u64, place: &Place, count: &AtomicU64) {
        let taken = place
            .state
            .compare_exchange(number + 1, 0, Relaxed, Relaxed);
        count.fetch_add(u64::from(taken.is_ok()), Relaxed);
    }

    /// Takes out all outstanding requests, because none will be answered. Returns their number.
    pub(crate) fn give_up_all(&self) -> u64 {
        let mut count = 0;
        self.each_outstanding(self.next.load(Relaxed), |number, place| {
            self.give_up(number, place, &self.lost);
            count += 1;
        });
        count
    }

    /// Gives the workers a copy of the control thread's view.
    fn publish(&self, control: &Control) {
        let next = self.next.load(SeqCst);
        self.versions.publish(control.view.clone());
        // The bursts in which these requests got their numbers have ended.
        self.settled.fetch_max(next, Relaxed);
    }

    fn change<T>(&self, change: impl FnOnce(&mut View) -> T) -> T {
        let mut control = lock(&self.control);
        let result = change(&mut control.view);
        self.publish(&control);
        result
    }

    /// Returns the server of a packet of which the flow needs a pin, and pins it.
    pub(crate) fn pin_packet(&self, key: &[u8]) -> Option<ServerId> {
        let mut control = lock(&self.control);
        let group = control.view.group.as_mut()?;
        let route = group.route(key);
        if route.needs_pin {
            group.pin_packet(key, route.server);
        }
        Some(route.server)
    }

    /// Changes the group, and gives the change to all workers.
    fn change_group<T>(
        &self,
        change: impl FnOnce(&mut Group) -> Result<T, GroupError>,
    ) -> Result<T, GroupError> {
        self.change(|view| match &mut view.group {
            Some(group) => change(group),
            None => Err(GroupError::NoChange),
        })
    }

    /// Begins a change that adds a server.
    ///
    /// # Errors
    /// Another change has begun, the server is in the group, or there are too few buckets.
    pub fn join(&self, server: ServerPort) -> Result<(), GroupError> {
        let buckets = self.options.group;
        self.change(|view| {
            match &mut view.group {
                // It was the last one, and has kept its flows.
                Some(group)
                    if view.down.contains(&server.server)
                        && group.members().contains(&server.server) => {}
                Some(group) => group.join(server.server)?,
                None => view.group = Some(Group::new(server.server, buckets)),
            }
            view.down.retain(|down| *down != server.server);
            view.gone.retain(|gone| *gone != server.server);
            view.servers.retain(|other| other.server != server.server);
            view.servers.push(server);
            Ok(())
        })
    }

    /// Begins a change that removes a server. Its flows stay with it until they end.
    ///
    /// # Errors
    /// Another change has begun, the server is not in the group, or it is the last one.
    pub fn leave(&self, server: ServerId) -> Result<(), GroupError> {
        self.change_group(|group| group.leave(server))
    }

    /// Begins a change that keeps the servers and starts a new generation.
    ///
    /// # Errors
    /// Another change has begun.
    pub fn renew(&self) -> Result<(), GroupError> {
        self.change_group(Group::renew)
    }

    /// Ends a change that has begun without an effect.
    pub fn cancel(&self) {
        self.change(|view| view.group.iter_mut().for_each(Group::cancel));
    }

    /// Returns the flows of requests that are on their way. With the flows that servers know later,
    /// these are all flows that began before.
    pub fn flows_on_their_way(&self) -> Vec<(u32, ServerId)> {
        let mut flows = Vec::new();
        self.each_outstanding(self.next.load(Relaxed), |_, place| {
            let packed = place.flow.load(Relaxed);
            if packed as u32 != NO_FLOW {
                flows.push((packed as u32, ServerId((packed >> 32) as u16)));
            }
        });
        flows
    }

    /// Pins those flows of a list that the change would move. Returns how many were pinned.
    ///
    /// # Errors
    /// No change has begun, or too few pins are free: then all that are free are taken.
    pub fn pin_missing(&self, known: &[(u32, ServerId)]) -> Result<usize, GroupError> {
        let keys = keys_of(known);
        self.change_group(|group| {
            let missing = group.missing_pins(as_known(&keys))?;
            let count = missing.len();
            for (key, server) in missing {
                group.pin(key, server)?;
            }
            Ok(count)
        })
    }

    /// Completes a change.
    ///
    /// # Errors
    /// No change has begun, or flows of `known` or later ones are not pinned; then the change goes
    /// on.
    pub fn commit(&self, known: &[(u32, ServerId)]) -> Result<(), GroupError> {
        let keys = keys_of(known);
        self.change(|view| {
            let group = view.group.as_mut().ok_or(GroupError::NoChange)?;
            group.commit(as_known(&keys))?;
            // The last server of a group stays in it when it fails.
            for &server in view.down.iter() {
                if group.members().len() > 1 && group.is_used(server) {
                    group.fail(server)?;
                }
            }
            let servers = view.servers.iter().map(|known| known.server);
            let is_gone = |server: &ServerId| !group.is_used(*server);
            view.gone = servers.filter(is_gone).collect();
            Ok(())
        })
    }

    /// Removes the pins of all flows but these, which are in order.
    pub fn keep_pins(&self, known: &[u32]) {
        self.change(|view| {
            if let Some(group) = &mut view.group {
                group.keep_pins(|key| {
                    let flow = key.try_into().map(u32::from_be_bytes);
                    flow.is_ok_and(|flow| known.binary_search(&flow).is_ok())
                });
            }
        });
    }

    /// Removes the pins of flows that ended or that the switch holds.
    pub fn unpin(&self, flows: &[u32]) {
        self.change(|view| {
            if let Some(group) = &mut view.group {
                for flow in flows {
                    group.unpin(&flow.to_be_bytes());
                }
            }
        });
    }

    /// Removes a server that failed. Requests that it has not answered are counted as dropped, and
    /// its flows go to other servers. If there is none, requests to it are dropped.
    ///
    /// # Errors
    /// The server is not in use, or it is the last one.
    pub fn fail(&self, server: ServerId) -> Result<u64, GroupError> {
        let result = self.change(|view| {
            let Some(group) = &mut view.group else {
                return Err(GroupError::Absent(server));
            };
            let result = group.fail(server);
            if !matches!(result, Err(GroupError::Absent(_))) && !view.down.contains(&server) {
                view.down.push(server);
            }
            result
        });
        if let Err(GroupError::Absent(_)) = result {
            return result.map(|()| 0);
        }
        let before = self.down();
        self.each_outstanding(self.next.load(Relaxed), |number, place| {
            if (place.flow.load(Relaxed) >> 32) as u16 == server.0 {
                self.give_up(number, place, &self.down);
            }
        });
        result.map(|()| self.down() - before)
    }

    /// Returns the numbers of the group.
    pub fn group(&self) -> GroupStatus {
        let control = lock(&self.control);
        let view = &control.view;
        let group = view.group.as_ref();
        let members: Vec<ServerId> =
            group.map_or_else(Vec::new, |group| group.members().into_iter().collect());
        let servers = view.servers.iter().map(|server| server.server);
        let is_leaving = |server: &ServerId| {
            !members.contains(server) && group.is_some_and(|group| group.is_used(*server))
        };
        GroupStatus {
            leaving: servers.filter(is_leaving).collect(),
            down: view.down.clone(),
            pins: group.map_or(0, Group::pins),
            is_changing: group.is_some_and(Group::is_changing),
            error_rate: group.map_or(0.0, Group::error_rate),
            members,
        }
    }

    /// Begins to hold the requests that an entry will match. `cuts` are the numbers of the cuts at
    /// which its table is applied.
    pub fn close(&self, cuts: &[u16], pattern: KeyPattern, now: Nanos) -> GateId {
        let mut control = lock(&self.control);
        control.next_gate += 1;
        let id = GateId(control.next_gate);
        let key_hash =
            (cuts.len() == 1 && pattern.is_exact()).then(|| key_hash(cuts[0], &pattern.bits));
        let gate = Gate {
            id,
            cuts: cuts.to_vec(),
            pattern,
            key_hash,
            began: now,
            first: u64::MAX,
            is_ready: false,
        };
        control.view.gates.push(Arc::new(gate));
        self.publish(&control);
        // All workers hold later requests.
        let first = self.next.load(Relaxed);
        for gate in &mut control.view.gates {
            if gate.id == id {
                Arc::make_mut(gate).first = first;
            }
        }
        id
    }

    /// Returns the state of the requests before a gate.
    pub fn drained(&self, id: GateId, now: Nanos) -> Drained {
        let gates = lock(&self.control).view.gates.clone();
        let Some(gate) = gates.iter().find(|gate| gate.id == id) else {
            return Drained::Yes;
        };
        let mut waits = false;
        self.each_outstanding(gate.first, |number, place| {
            let cut = (place.flow.load(Relaxed) >> 48) as u16;
            let hash = place.key_hash.load(Relaxed);
            if !gate.cuts.contains(&cut) || gate.key_hash.is_some_and(|key| key != hash) {
                return;
            }
            let sent = place.sent_ns.load(Relaxed);
            if now.0.saturating_sub(sent) > LOST_AFTER.0 {
                self.give_up(number, place, &self.lost);
            } else {
                waits = true;
            }
        });
        match waits {
            false => Drained::Yes,
            true if now.0.saturating_sub(gate.began.0) >= MAX_HOLD.0 => Drained::TooLate,
            true => Drained::NotYet,
        }
    }

    /// Prepares the begin of an entry's work: from now on held requests go on before all other
    /// packets of each burst, so that they meet the entry first.
    pub fn ready(&self, id: GateId) {
        self.change(|view| {
            let gate = view.gates.iter_mut().find(|gate| gate.id == id);
            gate.into_iter()
                .for_each(|gate| Arc::make_mut(gate).is_ready = true);
        });
    }

    /// Ends a gate. Its requests go on.
    pub fn open(&self, id: GateId) {
        self.change(|view| view.gates.retain(|gate| gate.id != id));
    }

    /// Notes that an entry begins to work without a gate. Counts it if packets that it matches are
    /// at servers.
    pub fn begin_loosely(&self, cuts: &[u16], pattern: &KeyPattern) {
        let exact =
            (cuts.len() == 1 && pattern.is_exact()).then(|| key_hash(cuts[0], &pattern.bits));
        let mut waits = false;
        self.each_outstanding(self.next.load(Relaxed), |_, place| {
            let cut = (place.flow.load(Relaxed) >> 48) as u16;
            let hash = place.key_hash.load(Relaxed);
            waits |= cuts.contains(&cut) && exact.is_none_or(|key| key == hash);
        });
        self.overtaken.fetch_add(u64::from(waits), Relaxed);
    }

    /// Counts requests for the placement of entries from now on, or no longer.
    pub fn count_flights(&self, options: Option<&FlightOptions>) {
        let made = || {
            let bytes = self.wire.max_key_bytes();
            options.map(|options| Arc::new(Flights::new(options, self.cuts.len(), bytes)))
        };
        let (first, spare) = (made(), made());
        let mut control = lock(&self.control);
        control.view.flights = first;
        control.spare_flights = spare;
        self.publish(&control);
    }

    /// Ends a window of the counts and returns them. They are right until the next call.
    pub fn end_window(&self) -> Option<Arc<Flights>> {
        let mut control = lock(&self.control);
        let spare = control.spare_flights.take()?;
        spare.clear();
        let ended = control.view.flights.replace(spare);
        if let (Some(ended), Some(begun)) = (&ended, &control.view.flights) {
            begun.copy_thresholds(ended);
        }
        self.publish(&control);
        control.spare_flights = ended.clone();
        ended
    }

    /// Sets the threshold of the running window: keys with more packets are reported.
    pub fn set_threshold(&self, cut: u16, threshold: u64) {
        if let Some(flights) = &lock(&self.control).view.flights {
            flights.set_threshold(cut, threshold);
        }
    }

    /// Returns the number of bytes of the key at a cut.
    pub fn key_bytes(&self, cut: u16) -> usize {
        let cut = usize::from(cut).checked_sub(1);
        let cut = cut.and_then(|at| self.cuts.get(at));
        cut.map_or(0, |cut| cut.key_width.div_ceil(8))
    }
}

/// Returns the hash of a request's cut and key.
pub(crate) fn key_hash(cut: u16, key: &[u8]) -> u32 {
    let mut tagged = cut.to_be_bytes().to_vec();
    tagged.extend_from_slice(key);
    placement::hash::RowHashes::new(&tagged).next_row()
}

fn first_group(options: &SwitchOptions) -> Option<Group> {
    let (first, others) = options.servers.split_first()?;
    let mut group = Group::new(first.server, options.group);
    for other in others {
        // A server that is listed twice, or for which no bucket is left, gets no new flow.
        if group.join(other.server).is_ok() && group.commit([]).is_err() {
            group.cancel();
        }
    }
    Some(group)
}

type FlowKey = ([u8; 4], ServerId);

fn keys_of(known: &[(u32, ServerId)]) -> Vec<FlowKey> {
    let key = |&(flow, server): &(u32, ServerId)| (flow.to_be_bytes(), server);
    known.iter().map(key).collect()
}

fn as_known(keys: &[FlowKey]) -> impl Iterator<Item = (&[u8], ServerId)> {
    keys.iter().map(|(key, server)| (&key[..], *server))
}

/// Returns the numbers of the cuts at which a table is applied.
pub(crate) fn cuts_of(plan: &SplitPlan, table: ir::TableId) -> Vec<u16> {
    let cuts = plan.cuts.iter().enumerate();
    cuts.filter(|(_, cut)| cut.kind == CutKind::Table(table))
        .map(|(at, _)| at as u16 + 1)
        .collect()
}
