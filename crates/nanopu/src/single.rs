//! A core with its memory and without a transport: messages go in and out as they are.

use std::sync::Arc;

use crate::core::{Core, CoreCosts, CoreState, CycleParts, Shared};
use crate::cost::CostTable;
use crate::image::Image;
use crate::instruction::Reg;
use crate::memory::Memory;
use crate::queues::{Output, RpcMessage};
use crate::trace::TraceRecord;

/// One core and its memory.
#[derive(Clone)]
pub struct SingleCore {
    core: Core,
    shared: Shared,
}

impl SingleCore {
    /// Loads an image to memory of a number of bytes, at least the one for which it was checked.
    pub fn new(image: &Image, memory_bytes: usize, costs: &CostTable) -> Self {
        let mut memory = Memory::new(memory_bytes);
        image.load(&mut memory);
        Self::from_memory(memory, image.entry(), costs)
    }

    /// Starts at an address of memory.
    pub fn from_memory(memory: Memory, entry: u64, costs: &CostTable) -> Self {
        let core_costs = Arc::new(CoreCosts::new(costs));
        Self {
            core: Core::new(costs, core_costs, 0, entry),
            shared: Shared::new(memory, costs, 1),
        }
    }

    /// Makes x30 and x31 registers like the others, for programs that know no network interface.
    #[must_use]
    pub fn without_network(mut self) -> Self {
        self.core = self.core.without_network();
        self
    }

    /// Adds a message that arrives at a cycle, not before those added earlier.
    pub fn deliver(&mut self, cycle: u64, message: RpcMessage) {
        self.core.deliver(cycle, message);
    }

    /// Runs until a cycle, and returns the outputs with their cycles. An instruction that issues
    /// before `until` runs to its end.
    pub fn run(&mut self, until: u64) -> Vec<(u64, Output)> {
        let mut outputs = Vec::new();
        while self.core.next_cycle().is_some_and(|cycle| cycle < until) {
            self.core.run(&mut self.shared, until);
            outputs.append(&mut self.core.take_outputs());
        }
        outputs
    }

    /// Executes nothing from a cycle until another one, apart from what is due before the first.
    /// Returns the outputs with their cycles.
    pub fn pause(&mut self, from: u64, until: u64) -> Vec<(u64, Output)> {
        let outputs = self.run(from);
        self.core.stall(from, until, |parts| &mut parts.paused);
        outputs
    }

    /// Runs one instruction, or enters a trap.
    pub fn step(&mut self) {
        if self.core.state() == CoreState::Running {
            self.core.step(&mut self.shared);
        }
    }

    /// Returns the state.
    pub fn state(&self) -> CoreState {
        self.core.state()
    }

    /// Returns the cycle in which the next instruction can issue.
    pub fn cycle(&self) -> u64 {
        self.core.cycle
    }

    /// Returns the number of instructions that were executed.
    pub fn instructions(&self) -> u64 {
        self.core.instret
    }

    /// Returns the cycles by parts.
    pub fn parts(&self) -> CycleParts {
        self.core.parts
    }

    /// Returns the address of the next instruction.
    pub fn pc(&self) -> u64 {
        self.core.pc
    }

    /// Returns an integer register.
    pub fn register(&self, reg: Reg) -> u64 {
        self.core.x[reg.index()]
    }

    /// Sets an integer register other than x0.
    pub fn set_register(&mut self, reg: Reg, value: u64) {
        if reg != Reg::ZERO {
            self.core.x[reg.index()] = value;
        }
    }

    /// Returns a floating-point register's 64 bits.
    pub fn float_register(&self, number: usize) -> Option<u64> {
        self.core.f.get(number).copied()
    }

    /// Returns the messages that reached the message limit.
    pub fn evictions(&self) -> u64 {
        self.core.queues.evictions
    }

    /// Returns memory.
    pub fn memory(&self) -> &Memory {
        &self.shared.memory
    }

    /// Records each instruction from now on. Polling loops run one round at a time.
    pub fn start_trace(&mut self) {
        self.core.trace = Some(Vec::new());
    }

    /// Takes the recorded instructions.
    pub fn take_trace(&mut self) -> Vec<TraceRecord> {
        self.core
            .trace
            .as_mut()
            .map(std::mem::take)
            .unwrap_or_default()
    }
}
