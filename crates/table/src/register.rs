//! Registers: an array of values that packets read and write.

use bits::{Value, limbs_for};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Values of one width that a program finds by index. An index beyond the end gives `None` and does
/// nothing: what the program sees then is the engine's to decide.
///
/// A read and a write of more than 64 bits are not one step: whoever lets two packets at one register at
/// once orders them.
#[derive(Debug)]
pub struct RegisterArray {
    width: u32,
    size: usize,
    /// `limbs_for(width)` limbs a register.
    limbs: Box<[AtomicU64]>,
}

impl RegisterArray {
    /// `size` registers of `width` bits, all 0.
    pub fn new(width: u32, size: usize) -> Self {
        let limbs = (0..size * limbs_for(width))
            .map(|_| AtomicU64::new(0))
            .collect();
        Self { width, size, limbs }
    }

    /// The width of each in bits.
    pub fn width(&self) -> u32 {
        self.width
    }

    /// How many there are.
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

    /// Sets register `index` to the canonical number in the first `limbs_for(width)` limbs of `src`.
    #[inline]
    pub fn write(&self, index: u64, src: &[u64]) -> Option<()> {
        let register = self.register(index)?;
        for (limb, &src) in register.iter().zip(&src[..register.len()]) {
            limb.store(src, Relaxed);
        }
        Some(())
    }

    /// Register `index` as a value.
    pub fn get(&self, index: u64) -> Option<Value> {
        let limbs: Vec<u64> = self
            .register(index)?
            .iter()
            .map(|limb| limb.load(Relaxed))
            .collect();
        Some(Value::from_limbs(&limbs, self.width))
    }

    /// Sets register `index` to `value`, cut or extended with zeros to the width.
    pub fn set(&self, index: u64, value: &Value) -> Option<()> {
        self.write(index, value.resized(self.width).limbs())
    }

    /// Sets all to 0.
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
