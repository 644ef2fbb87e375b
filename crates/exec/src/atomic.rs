//! `@atomic` blocks: code that is atomic with respect to other packets.

use std::hint;
use std::sync::atomic::{AtomicBool, Ordering};

/// Spin lock for all `@atomic` code of a device. The wait is bounded, because each packet has a
/// work budget. A device with one worker never waits.
#[derive(Debug, Default)]
pub struct AtomicGate {
    is_closed: AtomicBool,
}

impl AtomicGate {
    /// Acquires the lock.
    fn enter(&self) {
        while self.is_closed.swap(true, Ordering::Acquire) {
            while self.is_closed.load(Ordering::Relaxed) {
                hint::spin_loop();
            }
        }
    }

    fn leave(&self) {
        self.is_closed.store(false, Ordering::Release);
    }
}

/// Nesting depth of a packet in `@atomic` code. Code that jumps out of it holds the lock until its
/// block ends.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AtomicDepth(u32);

impl AtomicDepth {
    /// Enters `@atomic` code. Acquires the lock at the outermost level.
    pub fn enter(&mut self, gate: &AtomicGate) {
        if self.0 == 0 {
            gate.enter();
        }
        self.0 = self.0.saturating_add(1);
    }

    /// Leaves the innermost level. Releases the lock at the outermost one.
    pub fn leave(&mut self, gate: &AtomicGate) {
        match self.0 {
            0 => {}
            1 => self.leave_all(gate),
            depth => self.0 = depth - 1,
        }
    }

    /// Releases the lock, if held, at the end of a block.
    #[inline]
    pub fn leave_all(&mut self, gate: &AtomicGate) {
        if self.0 != 0 {
            self.0 = 0;
            gate.leave();
        }
    }
}
