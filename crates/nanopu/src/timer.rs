//! The timer of a core: `mtime` and `mtimecmp` of the CLINT, as SiFive's and Rocket's have them.

use crate::instruction::Width;
use crate::time::{Clock, Picos};

/// Address of the first core's `mtimecmp`; those of the others follow.
const MTIMECMP: u64 = 0x0200_4000;
/// Address of `mtime`: the time in nanoseconds.
const MTIME: u64 = 0x0200_bff8;

/// Timer of a core.
#[derive(Clone, Debug)]
pub(crate) struct Timer {
    address: u64,
    /// `mtimecmp`.
    compare: u64,
    /// Cycle in which the interrupt becomes pending.
    at: u64,
    is_pending: bool,
}

impl Timer {
    pub(crate) fn new(hart: usize) -> Self {
        Self {
            address: MTIMECMP + 8 * hart as u64,
            compare: u64::MAX,
            at: u64::MAX,
            is_pending: false,
        }
    }

    /// Returns the cycle in which the interrupt becomes pending.
    pub(crate) fn next_event(&self) -> u64 {
        self.at
    }

    /// Takes what is due at a cycle.
    pub(crate) fn advance(&mut self, cycle: u64) {
        if self.at <= cycle {
            self.at = u64::MAX;
            self.is_pending = true;
        }
    }

    pub(crate) fn is_pending(&self) -> bool {
        self.is_pending
    }

    /// Writes `mtimecmp` of this core. Returns false for another address or width.
    pub(crate) fn store(
        &mut self,
        address: u64,
        width: Width,
        value: u64,
        clock: Clock,
        cycle: u64,
    ) -> bool {
        if address != self.address || width != Width::Double {
            return false;
        }
        self.compare = value;
        let at = clock.cycle_at(Picos::from_nanos(value));
        self.is_pending = at <= cycle;
        self.at = if self.is_pending || value == u64::MAX {
            u64::MAX
        } else {
            at
        };
        true
    }

    /// Reads `mtime`, or `mtimecmp` of this core. Returns none for another address or width.
    pub(crate) fn load(&self, address: u64, width: Width, clock: Clock, cycle: u64) -> Option<u64> {
        if width != Width::Double {
            return None;
        }
        match address {
            MTIME => Some(clock.start_of(cycle).0 / 1000),
            _ if address == self.address => Some(self.compare),
            _ => None,
        }
    }
}
