//! [`Word`]: a number that packets read and that its owner may still add bits to.

use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

/// A number of an index. Only a bit that says that what is found here is outdated comes while packets read.
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

    /// Adds bits. Who must see them is told of them later, which orders the two.
    pub(crate) fn add_bits(&self, bits: u32) {
        self.0.fetch_or(bits, Relaxed);
    }
}

impl Clone for Word {
    fn clone(&self) -> Self {
        Self::new(self.get())
    }
}
