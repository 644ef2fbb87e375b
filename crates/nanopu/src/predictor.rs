//! Branch prediction of Rocket's default configuration: a branch history table of 512 two-bit
//! counters indexed by address and history, a branch target buffer, and a return address stack.

use crate::instruction::Reg;

const COUNTERS: usize = 512;
const HISTORY_BITS: u32 = 8;
/// Rocket has 28 entries, fully associative; here 32, direct-mapped.
const TARGETS: usize = 32;
const RETURNS: usize = 6;

/// State of the predictor.
#[derive(Clone, Debug)]
pub(crate) struct Predictor {
    counters: [u8; COUNTERS],
    history: u32,
    targets: [(u64, u64); TARGETS],
    returns: [u64; RETURNS],
    depth: usize,
}

impl Default for Predictor {
    fn default() -> Self {
        Self {
            counters: [1; COUNTERS],
            history: 0,
            targets: [(u64::MAX, 0); TARGETS],
            returns: [0; RETURNS],
            depth: 0,
        }
    }
}

impl Predictor {
    /// Records a branch and returns true if it was predicted: its direction, and its target if it
    /// is taken.
    pub(crate) fn branch(&mut self, pc: u64, taken: bool, target: u64) -> bool {
        let hash = (pc >> 1) as u32 ^ (pc >> 10) as u32 ^ self.history << 1;
        let counter = &mut self.counters[hash as usize % COUNTERS];
        let known = self.targets[target_slot(pc)];
        let predicted = *counter >= 2 && known.0 == pc;
        let correct = predicted == taken && (!taken || known.1 == target);
        *counter = if taken {
            (*counter + 1).min(3)
        } else {
            counter.saturating_sub(1)
        };
        self.history = (self.history << 1 | u32::from(taken)) & ((1 << HISTORY_BITS) - 1);
        if taken {
            self.targets[target_slot(pc)] = (pc, target);
        }
        correct
    }

    /// Records a jump with a known target and returns true if it was predicted. `link` is the
    /// register of the return address, and `next` that address.
    pub(crate) fn jump(&mut self, pc: u64, target: u64, link: Reg, next: u64) -> bool {
        self.push(link, next);
        self.target(pc, target)
    }

    /// Records a jump to an address in a register and returns true if it was predicted.
    pub(crate) fn indirect(
        &mut self,
        pc: u64,
        target: u64,
        base: Reg,
        link: Reg,
        next: u64,
    ) -> bool {
        let is_return = is_link(base) && link == Reg::ZERO;
        let correct = if is_return && self.depth > 0 {
            self.depth -= 1;
            self.returns[self.depth % RETURNS] == target
        } else {
            self.target(pc, target)
        };
        self.push(link, next);
        correct
    }

    fn push(&mut self, link: Reg, next: u64) {
        if is_link(link) {
            if self.depth == RETURNS {
                self.returns.rotate_left(1);
                self.depth -= 1;
            }
            self.returns[self.depth] = next;
            self.depth += 1;
        }
    }

    fn target(&mut self, pc: u64, target: u64) -> bool {
        let known = &mut self.targets[target_slot(pc)];
        let correct = *known == (pc, target);
        *known = (pc, target);
        correct
    }
}

/// True for x1 and x5, the link registers of the calling convention.
fn is_link(reg: Reg) -> bool {
    matches!(reg.index(), 1 | 5)
}

fn target_slot(pc: u64) -> usize {
    (pc >> 1) as usize % TARGETS
}
