//! [`RegisterArray`]: values that packets read and write.

use bits::{Value, limbs_for};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Bytes and limbs of a cache line.
const LINE_BYTES: usize = 64;
const LINE_LIMBS: usize = LINE_BYTES / size_of::<u64>();

/// Array of values of one width that a program accesses by index. Operations with an index out of
/// range return `None` and do nothing. The execution engine decides what the program sees then.
///
/// Reads and writes of more than 64 bits are not atomic. The caller must serialize packets that
/// access the same register concurrently.
#[derive(Debug)]
pub struct RegisterArray {
    width: u32,
    size: usize,
    /// `limbs_for(width)` limbs for each register, from `first` on.
    memory: Box<[AtomicU64]>,
    /// First limb that begins a cache line, so that a register of 64 bytes is one line.
    first: usize,
}

impl RegisterArray {
    /// Creates `size` registers of `width` bits, all 0.
    pub fn new(width: u32, size: usize) -> Self {
        let limbs = size * limbs_for(width);
        let memory: Box<[AtomicU64]> = (0..limbs + LINE_LIMBS - 1)
            .map(|_| AtomicU64::new(0))
            .collect();
        // Not reached: an address that cannot be aligned.
        let first = memory.as_ptr().align_offset(LINE_BYTES).min(LINE_LIMBS - 1);
        Self {
            width,
            size,
            memory,
            first,
        }
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
        self.limbs().iter().for_each(|limb| limb.store(0, Relaxed));
    }

    #[inline]
    fn register(&self, index: u64) -> Option<&[AtomicU64]> {
        let index = usize::try_from(index)
            .ok()
            .filter(|&index| index < self.size)?;
        let limbs = limbs_for(self.width);
        Some(&self.limbs()[index * limbs..(index + 1) * limbs])
    }

    /// Returns the limbs of all registers.
    #[inline]
    pub fn limbs(&self) -> &[AtomicU64] {
        &self.memory[self.first..self.first + self.size * limbs_for(self.width)]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_register_of_64_bytes_is_one_cache_line() {
        for size in [0, 1, 3, 1000] {
            let registers = RegisterArray::new(512, size);
            assert_eq!(registers.limbs().len(), size * LINE_LIMBS);
            assert_eq!(registers.limbs().as_ptr() as usize % LINE_BYTES, 0);
            for index in 0..size as u64 {
                registers.write(index, &[index + 1; LINE_LIMBS]).unwrap();
            }
            for index in 0..size as u64 {
                let mut limbs = [0; LINE_LIMBS];
                registers.read(index, &mut limbs).unwrap();
                assert_eq!(limbs, [index + 1; LINE_LIMBS]);
            }
            assert_eq!(registers.get(size as u64), None);
        }
    }
}
