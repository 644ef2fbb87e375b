//! [`Word`]: a number that packets read and to which its owner may add bits.

use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

/// Number in an index. While packets read it, the only change is that a bit is set that marks the
/// result as outdated.
#[derive(Debug, Default)]
pub(crate) struct Word(AtomicU32);

impl Word {
    #[inline(always)]
    pub(crate) const fn new(number: u32) -> Self {
        Self(AtomicU32::new(number))
    }

    #[inline(always)]
    pub(crate) fn get(&self) -> u32 {
        self.0.load(Relaxed)
    }

    /// Sets bits with relaxed ordering. Readers that must see them are notified later, and that
    /// notification orders the two.
    pub(crate) fn add_bits(&self, bits: u32) {
        self.0.fetch_or(bits, Relaxed);
    }
}

impl Clone for Word {
    fn clone(&self) -> Self {
        Self::new(self.get())
    }
}
