//! `@atomic`: code that runs as one step with regard to other packets.

use std::hint;
use std::sync::atomic::{AtomicBool, Ordering};

/// The one gate of a device's `@atomic` code: whoever is inside, all other workers wait before theirs. What they wait for is bounded, since it is
/// code of one packet, which has a work budget; a device with one worker never waits.
#[derive(Debug, Default)]
pub struct AtomicGate {
    is_closed: AtomicBool,
}

impl AtomicGate {
    /// Waits until nobody is inside, and goes in.
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

/// How deep a packet is in `@atomic` code. Code that jumps out of it stays inside until its block ends.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AtomicDepth(u32);

impl AtomicDepth {
    /// The packet enters `@atomic` code.
    pub fn enter(&mut self, gate: &AtomicGate) {
        if self.0 == 0 {
            gate.enter();
        }
        self.0 = self.0.saturating_add(1);
    }

    /// The packet leaves what it entered last.
    pub fn leave(&mut self, gate: &AtomicGate) {
        match self.0 {
            0 => {}
            1 => self.leave_all(gate),
            depth => self.0 = depth - 1,
        }
    }

    /// The block of code ends, however.
    #[inline]
    pub fn leave_all(&mut self, gate: &AtomicGate) {
        if self.0 != 0 {
            self.0 = 0;
            gate.leave();
        }
    }
}
