//! A core: registers, pipeline times, and the loop that runs instructions.

use std::sync::Arc;

use crate::cache::{Cache, LINE_BYTES};
use crate::cost::{Cost, CostTable};
use crate::csr::{MachineCsrs, SCHEDULER_INTERRUPT, TIMER_INTERRUPT};
use crate::decode::{Decoded, decode};
use crate::fault::{CoreFault, FaultKind};
use crate::instruction::{Instruction, Reg};
use crate::memory::Memory;
use crate::muldiv::MulDivCosts;
use crate::predictor::Predictor;
use crate::queues::{NetworkQueues, Output, RpcMessage};
use crate::time::Clock;
use crate::timer::Timer;
use crate::trace::TraceRecord;

/// Entries of the table of decoded instructions.
const DECODED: usize = 4096;
/// Equal rounds of a polling loop after which all of its state repeats: the branch history of
/// eight branches, counters of two bits, and the caches have settled.
const STEADY_ROUNDS: u32 = 24;

/// Memory and the last-level cache, which the cores of a device share.
#[derive(Clone)]
pub(crate) struct Shared {
    pub(crate) memory: Memory,
    pub(crate) llc: Cache,
    /// Reservation of `lr` of each core: a line.
    pub(crate) reservations: Vec<Option<u64>>,
}

impl Shared {
    pub(crate) fn new(memory: Memory, table: &CostTable, cores: usize) -> Self {
        Self {
            memory,
            llc: Cache::new(table.get(Cost::LlcBytes), table.get(Cost::LlcWays)),
            reservations: vec![None; cores],
        }
    }
}

/// Costs of a core, in cycles.
#[derive(Debug)]
pub(crate) struct CoreCosts {
    pub(crate) load_use: u64,
    pub(crate) subword_load_use: u64,
    pub(crate) mispredict: u64,
    pub(crate) jump_miss: u64,
    pub(crate) muldiv: MulDivCosts,
    pub(crate) float: u64,
    pub(crate) float_divide: u64,
    pub(crate) csr: u64,
    pub(crate) csr_use: u64,
    pub(crate) csr_flush: u64,
    pub(crate) fence: u64,
    pub(crate) trap: u64,
    pub(crate) atomic: u64,
    pub(crate) misaligned: u64,
    pub(crate) uncached: u64,
    llc: u64,
    dram: u64,
    yield_limit: u64,
}

impl CoreCosts {
    pub(crate) fn new(table: &CostTable) -> Self {
        let clock = Clock::new(table.get(Cost::ClockRate));
        Self {
            load_use: table.get(Cost::LoadUse),
            subword_load_use: table.get(Cost::SubwordLoadUse),
            mispredict: table.get(Cost::Mispredict),
            jump_miss: table.get(Cost::JumpMiss),
            muldiv: MulDivCosts {
                multiply: table.get(Cost::Multiply),
                divide: table.get(Cost::Divide),
                multiply_exits: table.get(Cost::MultiplyExit) == 1,
                divide_exits: table.get(Cost::DivideExit) == 1,
            },
            float: table.get(Cost::FloatOp),
            float_divide: table.get(Cost::FloatDivide),
            csr: table.get(Cost::CsrAccess),
            csr_use: table.get(Cost::CsrUse),
            csr_flush: table.get(Cost::CsrFlush),
            fence: table.get(Cost::Fence),
            trap: table.get(Cost::Trap),
            atomic: table.get(Cost::Atomic),
            misaligned: table.get(Cost::Misaligned),
            uncached: table.get(Cost::Uncached),
            llc: table.get(Cost::Llc),
            dram: clock.cycle_at(crate::Picos(table.get(Cost::Dram))),
            yield_limit: table.get(Cost::YieldLimit),
        }
    }
}

/// Cycles of a core, each in one named part. Their sum is the core's cycle.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CycleParts {
    /// One for each instruction.
    pub issue: u64,
    /// Instructions that are not in the first-level cache.
    pub fetch: u64,
    /// Results that are not ready: loads, multiplications, divisions, floating point.
    pub operands: u64,
    /// The data cache is busy with a miss.
    pub data: u64,
    /// Branches and jumps that were not predicted.
    pub control: u64,
    /// CSR accesses, fences and traps.
    pub system: u64,
    /// The transport has no buffer for the core's messages.
    pub transmit: u64,
    /// Rounds of a polling loop that were not run one by one.
    pub polling: u64,
    /// The whole device pauses, by a fault of a topology.
    pub paused: u64,
}

impl CycleParts {
    /// Returns each part with its name.
    pub fn named(&self) -> [(&'static str, u64); 9] {
        let Self {
            issue,
            fetch,
            operands,
            data,
            control,
            system,
            transmit,
            polling,
            paused,
        } = *self;
        [
            ("issue", issue),
            ("fetch", fetch),
            ("operands", operands),
            ("data", data),
            ("control", control),
            ("system", system),
            ("transmit", transmit),
            ("polling", polling),
            ("paused", paused),
        ]
    }

    /// Returns the sum.
    pub fn total(&self) -> u64 {
        self.named().iter().map(|(_, cycles)| cycles).sum()
    }
}

/// State of a core, between two calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CoreState {
    /// The program runs.
    Running,
    /// The program polls, and all of its state repeats until a message arrives.
    Polling,
    /// The program made a mistake and does not run any more.
    Faulted(CoreFault),
}

/// Detection of polling loops in which no state changes from one round to the next.
#[derive(Clone, Debug, Default)]
struct PollingLoop {
    last: Option<PollSample>,
    rounds: u32,
    period: u64,
    instructions: u64,
}

/// State at a poll.
#[derive(Clone, Debug, PartialEq, Eq)]
struct PollSample {
    pc: u64,
    registers: [u64; 32],
    cycle: u64,
    instret: u64,
    effects: u64,
}

/// A core.
#[derive(Clone)]
pub(crate) struct Core {
    pub(crate) x: [u64; 32],
    pub(crate) f: [u64; 32],
    pub(crate) pc: u64,
    /// Cycle in which the next instruction can issue.
    pub(crate) cycle: u64,
    pub(crate) instret: u64,
    /// Cycles from which registers have their values.
    pub(crate) ready: [u64; 32],
    pub(crate) float_ready: [u64; 32],
    data_free: u64,
    /// Cycle from which the multiplier and divider takes an operation.
    muldiv_free: u64,
    pub(crate) csrs: MachineCsrs,
    pub(crate) queues: NetworkQueues,
    pub(crate) timer: Timer,
    pub(crate) predictor: Predictor,
    pub(crate) instruction_cache: Cache,
    pub(crate) data_cache: Cache,
    fetched_line: u64,
    decoded: Vec<(u64, u32, Decoded)>,
    since_yield: u64,
    /// Number of changes that no polling loop may make.
    pub(crate) effects: u64,
    polling: PollingLoop,
    state: CoreState,
    pub(crate) costs: Arc<CoreCosts>,
    pub(crate) parts: CycleParts,
    pub(crate) clock: Clock,
    /// Number of the core, from 0.
    pub(crate) hart: usize,
    /// x30 and x31 are the network interface; else they are registers like the others.
    pub(crate) has_network: bool,
    pub(crate) trace: Option<Vec<TraceRecord>>,
}

impl Core {
    pub(crate) fn new(table: &CostTable, costs: Arc<CoreCosts>, hart: usize, entry: u64) -> Self {
        let ways = table.get(Cost::L1Ways);
        let nop = Decoded {
            instruction: Instruction::Fence,
            length: 4,
        };
        Self {
            x: [0; 32],
            f: [0; 32],
            pc: entry,
            cycle: 0,
            instret: 0,
            ready: [0; 32],
            float_ready: [0; 32],
            data_free: 0,
            muldiv_free: 0,
            csrs: MachineCsrs::default(),
            queues: NetworkQueues::new(table.get(Cost::MessageLimit)),
            timer: Timer::new(hart),
            predictor: Predictor::default(),
            instruction_cache: Cache::new(table.get(Cost::InstructionCacheBytes), ways),
            data_cache: Cache::new(table.get(Cost::DataCacheBytes), ways),
            fetched_line: u64::MAX,
            decoded: vec![(u64::MAX, 0, nop); DECODED],
            since_yield: 0,
            effects: 0,
            polling: PollingLoop::default(),
            state: CoreState::Running,
            costs,
            parts: CycleParts::default(),
            clock: Clock::new(table.get(Cost::ClockRate)),
            hart,
            has_network: true,
            trace: None,
        }
    }

    /// Makes x30 and x31 registers like the others.
    pub(crate) fn without_network(mut self) -> Self {
        self.has_network = false;
        self
    }

    pub(crate) fn state(&self) -> CoreState {
        self.state
    }

    /// Adds a message that arrives at a cycle.
    pub(crate) fn deliver(&mut self, cycle: u64, message: RpcMessage) {
        self.queues.deliver(cycle.max(self.cycle), message);
    }

    /// Returns the cycle of the next arrival, of the message limit or of the timer.
    fn next_event(&self) -> u64 {
        self.queues.next_event().min(self.timer.next_event())
    }

    /// Returns the cycle of the core's next action, or none if it waits for a message.
    pub(crate) fn next_cycle(&self) -> Option<u64> {
        match self.state {
            CoreState::Running => Some(self.cycle),
            CoreState::Polling => {
                let event = self.next_event();
                (event < u64::MAX).then_some(event.max(self.cycle))
            }
            CoreState::Faulted(_) => None,
        }
    }

    /// Stops the core from a cycle until another one, of which the cycles are in a part. A core
    /// that polled runs until it stops.
    pub(crate) fn stall(
        &mut self,
        from: u64,
        cycle: u64,
        part: impl Fn(&mut CycleParts) -> &mut u64,
    ) {
        if let CoreState::Polling = self.state {
            self.skip(from.min(self.next_event()));
        }
        if !matches!(self.state, CoreState::Faulted(_)) {
            let wait = cycle.saturating_sub(self.cycle);
            self.spend(wait, part);
        }
    }

    /// Returns the cycles by parts and the executed instructions up to a cycle: the rounds of a
    /// polling loop are counted when it ends.
    pub(crate) fn work_at(&self, cycle: u64) -> (CycleParts, u64) {
        let (mut parts, mut instructions) = (self.parts, self.instret);
        if let CoreState::Polling = self.state {
            let until = cycle.min(self.next_event());
            let rounds = until.saturating_sub(self.cycle) / self.polling.period;
            parts.polling += rounds * self.polling.period;
            instructions += rounds * self.polling.instructions;
        }
        (parts, instructions)
    }

    /// Runs until a cycle, an output, a polling loop or a fault.
    pub(crate) fn run(&mut self, shared: &mut Shared, until: u64) {
        if let CoreState::Polling = self.state {
            self.skip(self.next_event().min(until));
        }
        while self.state == CoreState::Running && self.cycle < until {
            self.step(shared);
            if !self.queues.outputs.is_empty() {
                break;
            }
        }
    }

    /// Skips whole rounds of a polling loop, until less than one is left before a cycle.
    fn skip(&mut self, until: u64) {
        let period = self.polling.period;
        let rounds = until.saturating_sub(self.cycle) / period;
        let cycles = rounds * period;
        self.cycle += cycles;
        self.parts.polling += cycles;
        self.instret += rounds * self.polling.instructions;
        for ready in self.ready.iter_mut().chain(&mut self.float_ready) {
            *ready += cycles;
        }
        self.data_free += cycles;
        self.muldiv_free += cycles;
        self.state = CoreState::Running;
        self.polling = PollingLoop::default();
    }

    /// Runs one instruction, or enters a trap.
    pub(crate) fn step(&mut self, shared: &mut Shared) {
        if self.next_event() <= self.cycle {
            self.timer.advance(self.cycle);
            self.queues.advance(self.cycle);
            // The next poll finds something else.
            self.effects += 1;
            if !self.queues.outputs.is_empty() {
                return;
            }
        }
        let pending = [
            (TIMER_INTERRUPT, self.timer.is_pending()),
            (SCHEDULER_INTERRUPT, self.queues.wants_switch()),
        ];
        let taken = |&(interrupt, is_pending): &(u32, bool)| {
            is_pending && self.csrs.takes_interrupt(interrupt)
        };
        if let Some((interrupt, _)) = pending.into_iter().find(taken) {
            self.effects += 1;
            self.pc = self.csrs.enter(self.pc, u64::from(interrupt), 0, true);
            self.spend(self.costs.trap, |parts| &mut parts.system);
        }
        let pc = self.pc;
        let issue = self.cycle;
        if let Err(kind) = self.fetch_and_execute(shared) {
            match kind.exception().filter(|_| self.csrs.has_handler()) {
                Some((cause, value)) => {
                    self.effects += 1;
                    self.pc = self.csrs.enter(pc, cause, value, false);
                    self.spend(self.costs.trap, |parts| &mut parts.system);
                }
                None => {
                    self.state = CoreState::Faulted(CoreFault {
                        kind,
                        pc,
                        cycle: issue,
                    })
                }
            }
        }
        self.since_yield += 1;
        if self.since_yield > self.costs.yield_limit && self.state == CoreState::Running {
            let kind = FaultKind::NeverYields {
                instructions: self.costs.yield_limit,
            };
            self.state = CoreState::Faulted(CoreFault {
                kind,
                pc,
                cycle: issue,
            });
        }
    }

    /// Adds cycles to a part.
    #[inline]
    pub(crate) fn spend(&mut self, cycles: u64, part: impl Fn(&mut CycleParts) -> &mut u64) {
        self.cycle += cycles;
        *part(&mut self.parts) += cycles;
    }

    fn fetch_and_execute(&mut self, shared: &mut Shared) -> Result<(), FaultKind> {
        let pc = self.pc;
        let outside = FaultKind::JumpOutsideMemory { target: pc };
        let low = shared.memory.read::<2>(pc).ok_or(outside)?;
        let low = u32::from(u16::from_le_bytes(low));
        let bits = if low & 3 == 3 {
            let high = shared.memory.read::<2>(pc.wrapping_add(2)).ok_or(outside)?;
            u32::from(u16::from_le_bytes(high)) << 16 | low
        } else {
            low
        };
        let slot = (pc >> 1) as usize % DECODED;
        let decoded = match self.decoded[slot] {
            (known, same, decoded) if known == pc && same == bits => decoded,
            _ => {
                let decoded = decode(bits).ok_or(FaultKind::UnknownInstruction { bits })?;
                self.decoded[slot] = (pc, bits, decoded);
                decoded
            }
        };
        self.fetch_line(shared, pc);
        let last = pc.wrapping_add(u64::from(decoded.length) - 1);
        self.fetch_line(shared, last);
        self.wait_for_operands(&decoded.instruction);
        let start = self.cycle;
        self.execute(shared, decoded, bits)?;
        self.instret += 1;
        self.spend(1, |parts| &mut parts.issue);
        if let Some(records) = &mut self.trace {
            let rd = decoded.instruction.destination();
            let value = self.x[rd.index()];
            records.push(TraceRecord {
                cycle: start,
                pc,
                bits,
                instruction: decoded.instruction,
                written: (rd != Reg::ZERO).then_some((rd, value)),
            });
        }
        Ok(())
    }

    /// Fetches the line of an address if the last instruction was of another one.
    #[inline]
    fn fetch_line(&mut self, shared: &mut Shared, address: u64) {
        let line = address / LINE_BYTES;
        if line != self.fetched_line {
            self.fetched_line = line;
            if !self.instruction_cache.access(address) {
                let miss = self.miss(shared, address);
                self.spend(miss, |parts| &mut parts.fetch);
            }
        }
    }

    /// Cycles of a first-level miss.
    fn miss(&self, shared: &mut Shared, address: u64) -> u64 {
        if shared.llc.access(address) {
            self.costs.llc
        } else {
            self.costs.llc + self.costs.dram
        }
    }

    /// Accesses the data cache and returns the cycle from which the data are there.
    pub(crate) fn access_data(&mut self, shared: &mut Shared, address: u64, bytes: u8) -> u64 {
        if self.data_free > self.cycle {
            let wait = self.data_free - self.cycle;
            self.spend(wait, |parts| &mut parts.data);
        }
        let last = address + u64::from(bytes) - 1;
        let mut miss = 0;
        if !self.data_cache.access(address) {
            miss += self.miss(shared, address);
        }
        if last / LINE_BYTES != address / LINE_BYTES && !self.data_cache.access(last) {
            miss += self.miss(shared, last);
        }
        if !address.is_multiple_of(u64::from(bytes)) {
            miss += self.costs.misaligned;
        }
        self.data_free = self.cycle + miss;
        self.cycle + miss
    }

    /// Starts an operation of the multiplier and divider, when it is free, and returns the cycle
    /// of the result.
    pub(crate) fn multiply_or_divide(&mut self, cycles: u64) -> u64 {
        let wait = self.muldiv_free.saturating_sub(self.cycle);
        self.spend(wait, |parts| &mut parts.operands);
        self.muldiv_free = self.cycle + cycles;
        self.muldiv_free
    }

    fn wait_for_operands(&mut self, instruction: &Instruction) {
        let mut ready = self.cycle;
        for source in instruction.sources() {
            ready = ready.max(self.ready[source.index()]);
        }
        // A result in flight is not overtaken.
        ready = ready.max(self.ready[instruction.destination().index()]);
        if let Some(floats) = instruction.float_sources() {
            for source in floats {
                ready = ready.max(self.float_ready[source.index()]);
            }
        }
        let wait = ready - self.cycle;
        self.spend(wait, |parts| &mut parts.operands);
    }

    /// Reads the integer registers of an instruction. An instruction that names `netRX` once or
    /// twice takes one word.
    pub(crate) fn read_sources(&mut self, sources: [Reg; 2]) -> Result<[u64; 2], FaultKind> {
        if !self.has_network {
            return Ok(sources.map(|reg| self.x[reg.index()]));
        }
        if sources.contains(&Reg::NET_TX) {
            return Err(FaultKind::ReadOfNetTx);
        }
        if sources.contains(&Reg::NET_RX) {
            self.effects += 1;
            self.since_yield = 0;
            self.x[30] = self.queues.read(self.cycle)?;
        }
        Ok(sources.map(|reg| self.x[reg.index()]))
    }

    /// Writes an integer register.
    pub(crate) fn write(&mut self, rd: Reg, value: u64) -> Result<(), FaultKind> {
        match rd {
            Reg::ZERO => {}
            Reg::NET_RX if self.has_network => return Err(FaultKind::WriteOfNetRx),
            Reg::NET_TX if self.has_network => {
                self.effects += 1;
                self.since_yield = 0;
                self.queues.write(value, self.cycle)?;
                self.x[31] = value;
            }
            _ => self.x[rd.index()] = value,
        }
        Ok(())
    }

    /// Records a poll of the network interface that found nothing, at the current instruction.
    pub(crate) fn poll(&mut self) {
        self.since_yield = 0;
        let sample = PollSample {
            pc: self.pc,
            registers: self.x,
            cycle: self.cycle,
            instret: self.instret,
            effects: self.effects,
        };
        let Some(last) = &self.polling.last else {
            self.polling.last = Some(sample);
            return;
        };
        if last.pc != sample.pc {
            // Another poll of the same loop, or of another one.
            if sample.effects != last.effects || sample.instret - last.instret > 1000 {
                self.polling = PollingLoop {
                    last: Some(sample),
                    ..PollingLoop::default()
                };
            }
            return;
        }
        let period = sample.cycle - last.cycle;
        let instructions = sample.instret - last.instret;
        let repeats = last.effects == sample.effects && last.registers == sample.registers;
        let is_equal = repeats && period == self.polling.period;
        self.polling.rounds = if is_equal { self.polling.rounds + 1 } else { 0 };
        self.polling.period = period;
        self.polling.instructions = instructions;
        self.polling.last = Some(sample);
        if self.polling.rounds >= STEADY_ROUNDS && self.trace.is_none() && period > 0 {
            self.state = CoreState::Polling;
        }
    }

    /// Records that the program used the network interface.
    pub(crate) fn yielded(&mut self) {
        self.since_yield = 0;
    }

    /// Takes the outputs, with their cycles.
    pub(crate) fn take_outputs(&mut self) -> Vec<(u64, Output)> {
        std::mem::take(&mut self.queues.outputs)
    }

    /// Forgets the fetched and decoded instructions (`fence.i`).
    pub(crate) fn flush_instructions(&mut self) {
        self.instruction_cache.clear();
        self.fetched_line = u64::MAX;
    }
}
