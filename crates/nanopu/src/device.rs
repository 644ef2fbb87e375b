//! A device: cores with shared memory, the transport, and the choice of cores by JBSQ.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use crate::core::{Core, CoreCosts, CoreState, CycleParts, Shared};
use crate::cost::{Cost, CostTable};
use crate::image::Image;
use crate::memory::Memory;
use crate::queues::Output;
use crate::time::{Clock, Picos};
use crate::trace::TraceRecord;
use crate::transport::{Transport, TransportCounts};
use crate::wire::Packet;

/// Messages that wait for a transmit buffer before the cores stop.
const MAX_WAITING: usize = 4;

/// Messages of a context: those that wait, and how many each core has.
#[derive(Clone, Debug, Default)]
struct ContextLoad {
    /// Buffers of whole messages, in order, with the times at which a core can have them.
    waiting: VecDeque<(Picos, usize)>,
    /// Cores that have bound the context, with their outstanding messages.
    cores: Vec<(usize, u64)>,
}

/// Counters of a device.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DeviceCounts {
    /// Transport.
    pub transport: TransportCounts,
    /// Messages that a program removed unread with their context.
    pub removed: u64,
    /// Messages that arrived at a core after it removed their context.
    pub unbound: u64,
    /// Messages that reached the message limit.
    pub evictions: u64,
    /// Most messages that a core had at once, of one context.
    pub most_outstanding: u64,
}

/// A nanoPU.
#[derive(Clone)]
pub struct Device {
    cores: Vec<Core>,
    shared: Shared,
    transport: Transport,
    costs: CostTable,
    clock: Clock,
    contexts: BTreeMap<u16, ContextLoad>,
    /// Packets with the time of their last bit, in order of time and arrival.
    arrivals: BTreeMap<(Picos, u64), Packet>,
    sequence: u64,
    foreign: u64,
    removed: u64,
    most_outstanding: u64,
    /// Time since which the transport accepts no message.
    blocked_at: Option<Picos>,
}

impl Device {
    /// Creates a device with an IPv4 address. All cores run the image; `mhartid` has their numbers.
    /// Memory has at least the size for which the image was checked.
    pub fn new(
        image: &Image,
        memory_bytes: usize,
        cores: usize,
        address: u32,
        costs: &CostTable,
    ) -> Self {
        let mut memory = Memory::new(memory_bytes);
        image.load(&mut memory);
        let core_costs = Arc::new(CoreCosts::new(costs));
        let cores = cores.max(1);
        let make = |hart| Core::new(costs, Arc::clone(&core_costs), hart, image.entry());
        Self {
            cores: (0..cores).map(make).collect(),
            shared: Shared::new(memory, costs, cores),
            transport: Transport::new(address, costs),
            costs: costs.clone(),
            clock: Clock::new(costs.get(Cost::ClockRate)),
            contexts: BTreeMap::new(),
            arrivals: BTreeMap::new(),
            sequence: 0,
            foreign: 0,
            removed: 0,
            most_outstanding: 0,
            blocked_at: None,
        }
    }

    /// Delivers a frame, of which the last bit arrives at a time that is not in the past.
    pub fn receive(&mut self, frame: &[u8], last_bit: Picos) {
        match Packet::parse(frame) {
            Some(packet) => self.receive_packet(packet, last_bit),
            None => self.foreign += 1,
        }
    }

    /// Delivers a packet, of which the last bit arrives at a time that is not in the past.
    pub fn receive_packet(&mut self, packet: Packet, last_bit: Picos) {
        let time = last_bit + Picos(self.costs.get(Cost::SerialIo));
        self.arrivals.insert((time, self.sequence), packet);
        self.sequence += 1;
    }

    /// Returns the time of the next action, or none if the device waits for a packet.
    pub fn next_time(&self) -> Option<Picos> {
        let network = self.next_network_time();
        let core = self.next_core().map(|(_, time)| time);
        network.into_iter().chain(core).min()
    }

    /// Returns the time at which [`Device::step`] must be called at the latest, so that no packet
    /// is taken from [`Device::take_sent`] after the time of its first bit. What a core writes is
    /// on the link no earlier than the egress later, so a core that runs needs no call for each
    /// instruction.
    pub fn next_step_time(&self) -> Option<Picos> {
        let network = self.next_network_time();
        let egress = Picos(self.costs.get(Cost::Egress));
        let core = self.next_core().map(|(_, time)| time + egress);
        network.into_iter().chain(core).min()
    }

    fn next_network_time(&self) -> Option<Picos> {
        let arrival = self.arrivals.first_key_value().map(|((time, _), _)| *time);
        arrival.into_iter().chain(self.transport.next_time()).min()
    }

    fn is_blocked(&self) -> bool {
        self.transport.waiting() >= MAX_WAITING
    }

    /// The core that acts first, and when. While the transport accepts no message, none does.
    fn next_core(&self) -> Option<(usize, Picos)> {
        if self.is_blocked() {
            return None;
        }
        let times = self.cores.iter().enumerate();
        let times =
            times.filter_map(|(i, core)| Some((i, self.clock.start_of(core.next_cycle()?))));
        times.min_by_key(|&(i, time)| (time, i))
    }

    /// Does all that is due up to a time.
    pub fn step(&mut self, until: Picos) {
        loop {
            let network = self.next_network_time();
            let core = self.next_core();
            match (network, core) {
                (Some(time), core) if time <= until && core.is_none_or(|(_, t)| time <= t) => {
                    self.step_network(time);
                }
                (network, Some((index, time))) if time <= until => {
                    let end = network.unwrap_or(Picos::MAX).min(until + Picos(1));
                    self.run_core(index, end);
                }
                _ => break,
            }
        }
    }

    fn step_network(&mut self, now: Picos) {
        while let Some(entry) = self
            .arrivals
            .first_entry()
            .filter(|entry| entry.key().0 <= now)
        {
            let packet = entry.remove();
            let contexts = &self.contexts;
            let is_bound = |context| contexts.contains_key(&context);
            self.transport.receive(now, &packet, is_bound);
        }
        self.transport.step(now);
        for buffer in self.transport.take_whole() {
            let Some(context) = self.transport.context_of(buffer) else {
                continue;
            };
            let load = self.contexts.entry(context).or_default();
            let there = now + Picos(self.costs.get(Cost::Ingress));
            load.waiting.push_back((there, buffer));
            self.dispatch(context, there);
        }
        if !self.is_blocked()
            && let Some(since) = self.blocked_at.take()
        {
            let (since, cycle) = (self.clock.cycle_at(since), self.clock.cycle_at(now));
            for core in &mut self.cores {
                core.stall(since, cycle, |parts| &mut parts.transmit);
            }
        }
    }

    /// Gives waiting messages of a context to cores: each to the core with the fewest, below the
    /// bound of JBSQ.
    fn dispatch(&mut self, context: u16, time: Picos) {
        let bound = self.costs.get(Cost::Jbsq);
        let Some(load) = self.contexts.get_mut(&context) else {
            return;
        };
        while !load.waiting.is_empty() {
            let cores = load.cores.iter_mut();
            let Some((core, outstanding)) = cores.min_by_key(|(i, count)| (*count, *i)) else {
                return;
            };
            if *outstanding >= bound {
                return;
            }
            let Some((there, buffer)) = load.waiting.pop_front() else {
                return;
            };
            if let Some(message) = self.transport.take_message(time, buffer) {
                *outstanding += 1;
                self.most_outstanding = self.most_outstanding.max(*outstanding);
                let cycle = self.clock.cycle_at(time.max(there));
                self.cores[*core].deliver(cycle, message);
            }
        }
    }

    /// Runs a core until a time, until another core acts first, or until an output.
    fn run_core(&mut self, index: usize, end: Picos) {
        let others = self.cores.iter().enumerate().filter(|(i, _)| *i != index);
        let other = others.filter_map(|(_, core)| core.next_cycle()).min();
        let cycle = self.clock.cycle_at(end);
        let core = &mut self.cores[index];
        // At least one instruction; of two cores at one cycle, the first acts first.
        let least = core.next_cycle().unwrap_or(core.cycle) + 1;
        let until = other.map_or(cycle, |other| cycle.min(other)).max(least);
        core.run(&mut self.shared, until);
        for (cycle, output) in self.cores[index].take_outputs() {
            let time = self.clock.start_of(cycle);
            match output {
                Output::Message(message) => {
                    self.transport.send(time, message);
                    if self.is_blocked() {
                        self.blocked_at.get_or_insert(time);
                    }
                }
                Output::Done(context) => {
                    if let Some(load) = self.contexts.get_mut(&context)
                        && let Some((_, count)) = load.cores.iter_mut().find(|c| c.0 == index)
                    {
                        *count = count.saturating_sub(1);
                    }
                    self.dispatch(context, time + Picos(self.costs.get(Cost::Dispatch)));
                }
                Output::Bound(context) => {
                    let load = self.contexts.entry(context).or_default();
                    load.cores.push((index, 0));
                    self.dispatch(context, time + Picos(self.costs.get(Cost::Dispatch)));
                }
                Output::Removed(context, messages) => {
                    self.removed += messages as u64;
                    self.unbind(time, context, index);
                }
            }
        }
    }

    /// Removes a core from a context. Without a core, the context's messages are dropped.
    fn unbind(&mut self, now: Picos, context: u16, core: usize) {
        let Some(load) = self.contexts.get_mut(&context) else {
            return;
        };
        load.cores.retain(|(index, _)| *index != core);
        if load.cores.is_empty() {
            for (_, buffer) in std::mem::take(&mut load.waiting) {
                self.removed += u64::from(self.transport.take_message(now, buffer).is_some());
            }
            self.contexts.remove(&context);
            self.transport.forget_context(now, context);
        }
    }

    /// Lets nothing happen from a time until another one, which is now: cores execute nothing, and
    /// packets that are inside and the transport's deadlines are later by the pause. Timers of
    /// cores go on, since their time is that of the fabric.
    pub fn pause(&mut self, from: Picos, until: Picos) {
        self.step(from);
        let [begin, end] = [from, until].map(|time| self.clock.cycle_at(time));
        for core in &mut self.cores {
            core.stall(begin, end, |parts| &mut parts.paused);
        }
        let length = until.since(from);
        let arrivals = std::mem::take(&mut self.arrivals).into_iter();
        self.arrivals = arrivals
            .map(|((time, number), packet)| ((time + length, number), packet))
            .collect();
        self.transport.pause(until, length);
    }

    /// Takes the packets that were sent, with the times of their first bits.
    pub fn take_sent(&mut self) -> Vec<(Picos, Packet)> {
        self.transport.take_sent()
    }

    /// Returns the state of each core.
    pub fn states(&self) -> impl Iterator<Item = CoreState> + '_ {
        self.cores.iter().map(Core::state)
    }

    /// Returns the cycles of each core by parts.
    pub fn parts(&self) -> impl Iterator<Item = CycleParts> + '_ {
        self.cores.iter().map(|core| core.parts)
    }

    /// Returns the instructions that each core executed.
    pub fn instructions(&self) -> impl Iterator<Item = u64> + '_ {
        self.cores.iter().map(|core| core.instret)
    }

    /// Returns the cycles of each core by parts and its instructions, up to a time to which the
    /// device was stepped. Unlike [`Device::parts`], they have the rounds of polling loops that go
    /// on.
    pub fn work_at(&self, time: Picos) -> impl Iterator<Item = (CycleParts, u64)> + '_ {
        let cycle = self.clock.cycle_at(time);
        self.cores.iter().map(move |core| core.work_at(cycle))
    }

    /// Returns hits and misses of the first-level caches of instructions and of data of all cores,
    /// and of the shared cache.
    pub fn cache_counts(&self) -> [(u64, u64); 3] {
        let sum = |pick: fn(&Core) -> (u64, u64)| {
            let add = |a: (u64, u64), b: (u64, u64)| (a.0 + b.0, a.1 + b.1);
            self.cores.iter().map(pick).fold((0, 0), add)
        };
        [
            sum(|core| (core.instruction_cache.hits, core.instruction_cache.misses)),
            sum(|core| (core.data_cache.hits, core.data_cache.misses)),
            (self.shared.llc.hits, self.shared.llc.misses),
        ]
    }

    /// Returns the counters.
    pub fn counts(&self) -> DeviceCounts {
        let mut transport = self.transport.counts;
        transport.foreign += self.foreign;
        DeviceCounts {
            transport,
            removed: self.removed,
            unbound: self.cores.iter().map(|core| core.queues.unbound).sum(),
            evictions: self.cores.iter().map(|core| core.queues.evictions).sum(),
            most_outstanding: self.most_outstanding,
        }
    }

    /// Returns the transport's buffers in use, of messages that are sent and of received ones.
    pub fn buffers(&self) -> (usize, usize) {
        self.transport.buffers()
    }

    /// Records the instructions of a core from now on.
    pub fn start_trace(&mut self, core: usize) {
        if let Some(core) = self.cores.get_mut(core) {
            core.trace = Some(Vec::new());
        }
    }

    /// Takes the recorded instructions of a core.
    pub fn take_trace(&mut self, core: usize) -> Vec<TraceRecord> {
        let trace = self
            .cores
            .get_mut(core)
            .and_then(|core| core.trace.as_mut());
        trace.map(std::mem::take).unwrap_or_default()
    }
}
