//! [`RegisterArray`]: values that packets read and write.

use bits::{Value, limbs_for};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Array of values of one width that a program accesses by index. Operations with an index out of
/// range return `None` and do nothing. The execution engine decides what the program sees then.
///
/// Reads and writes of more than 64 bits are not atomic. The caller must serialize packets that
/// access the same register concurrently.
#[derive(Debug)]
pub struct RegisterArray {
    width: u32,
    size: usize,
    /// `limbs_for(width)` limbs for each register.
    limbs: Box<[AtomicU64]>,
}

impl RegisterArray {
    /// Creates `size` registers of `width` bits, all 0.
    pub fn new(width: u32, size: usize) -> Self {
        let limbs = (0..size * limbs_for(width))
            .map(|_| AtomicU64::new(0))
            .collect();
        Self { width, size, limbs }
    }

    /// Returns the width of a register in bits.
    pub fn width(&self) -> u32 {
        self.width
    }

    /// Returns the number of registers.
    #[expect(clippy::len_without_is_empty, reason = "a size, not a filling")]
    pub fn len(&self) -> usize {
        self.size
    }

    /// Reads register `index` into the first `limbs_for(width)` limbs of `dst`.
    #[inline]
    pub fn read(&self, index: u64, dst: &mut [u64]) -> Option<()> {
        let register = self.register(index)?;
        for (dst, limb) in dst[..register.len()].iter_mut().zip(register) {
            *dst = limb.load(Relaxed);
        }
        Some(())
    }

    /// Sets register `index` to the canonical number in the first `limbs_for(width)` limbs of
    /// `src`.
    #[inline]
    pub fn write(&self, index: u64, src: &[u64]) -> Option<()> {
        let register = self.register(index)?;
        for (limb, &src) in register.iter().zip(&src[..register.len()]) {
            limb.store(src, Relaxed);
        }
        Some(())
    }

    /// Returns register `index` as a value.
    pub fn get(&self, index: u64) -> Option<Value> {
        let limbs: Vec<u64> = self
            .register(index)?
            .iter()
            .map(|limb| limb.load(Relaxed))
            .collect();
        Some(Value::from_limbs(&limbs, self.width))
    }

    /// Sets register `index` to `value`, truncated or zero-extended to the width.
    pub fn set(&self, index: u64, value: &Value) -> Option<()> {
        self.write(index, value.resized(self.width).limbs())
    }

    /// Sets all registers to 0.
    pub fn clear(&self) {
        self.limbs.iter().for_each(|limb| limb.store(0, Relaxed));
    }

    #[inline]
    fn register(&self, index: u64) -> Option<&[AtomicU64]> {
        let index = usize::try_from(index)
            .ok()
            .filter(|&index| index < self.size)?;
        let limbs = limbs_for(self.width);
        Some(&self.limbs[index * limbs..(index + 1) * limbs])
    }
}
