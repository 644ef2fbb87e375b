//! Registers: cells of several scalars of any width. Each cell is read and written atomically.

use std::hint;
use std::sync::atomic::{AtomicU32, Ordering, fence};

use bits::{Value, limbs_for};
use table::RegisterArray;

/// Register array. Each cell is a list of scalars, with one array for each scalar.
///
/// A reader sees a cell as one write has left it, even if several workers write it. A cell of one
/// limb is one atomic word. Other cells are protected by sequence locks, each shared by a part of
/// the cells.
#[derive(Debug)]
pub struct Registers {
    arrays: Box<[RegisterArray]>,
    initial: Box<[Value]>,
    size: u32,
    /// Empty for cells of one limb.
    locks: Box<[SequenceLock]>,
}

/// Number of sequence locks if cells have several limbs: a power of two. The lock of a cell is that
/// of its index modulo this number.
pub const LOCKS: usize = 16;

/// Distance of two locks in bytes. A lock begins with its counter, 32 bits.
pub const LOCK_BYTES: usize = size_of::<SequenceLock>();

impl Registers {
    /// Creates `size` cells of scalars of these widths, all set to `initial`.
    pub fn new(widths: impl IntoIterator<Item = u32>, size: u32, initial: &[Value]) -> Registers {
        let arrays: Box<[_]> = widths
            .into_iter()
            .map(|width| RegisterArray::new(width, size as usize))
            .collect();
        let limbs: usize = arrays.iter().map(|array| limbs_for(array.width())).sum();
        let locks = if limbs > 1 { LOCKS } else { 0 };
        let registers = Registers {
            arrays,
            initial: initial.into(),
            size,
            locks: (0..locks).map(|_| SequenceLock::default()).collect(),
        };
        registers.reset();
        registers
    }

    /// Returns the number of cells.
    pub fn size(&self) -> u32 {
        self.size
    }

    /// Returns the initial value of every cell.
    pub fn initial(&self) -> &[Value] {
        &self.initial
    }

    /// Returns the arrays, one for each scalar of a cell.
    #[inline]
    pub fn arrays(&self) -> &[RegisterArray] {
        &self.arrays
    }

    /// Returns the sequence locks, none for cells of one limb. An engine that
    /// follows their protocol in its own code may access cells itself.
    #[inline]
    pub fn locks(&self) -> &[SequenceLock] {
        &self.locks
    }

    /// Reads a cell. Calls `read` for each array with its index, and again for all arrays if a
    /// write interfered.
    #[inline]
    pub fn read(&self, index: u64, mut read: impl FnMut(usize, &RegisterArray)) {
        let mut all = || {
            let arrays = self.arrays.iter().enumerate();
            arrays.for_each(|(at, array)| read(at, array));
        };
        match self.lock(index) {
            None => all(),
            Some(lock) => lock.read(all),
        }
    }

    /// Writes a cell. Calls `write` for each array with its index.
    #[inline]
    pub fn write(&self, index: u64, mut write: impl FnMut(usize, &RegisterArray)) {
        let mut all = || {
            let arrays = self.arrays.iter().enumerate();
            arrays.for_each(|(at, array)| write(at, array));
        };
        match self.lock(index) {
            None => all(),
            Some(lock) => lock.write(all),
        }
    }

    #[inline]
    fn lock(&self, index: u64) -> Option<&SequenceLock> {
        self.locks.get(index as usize & (LOCKS - 1))
    }

    /// Returns the scalars of a cell, or `None` if the index is out of range.
    pub fn get(&self, index: u64) -> Option<Vec<Value>> {
        let mut values = vec![None; self.arrays.len()];
        self.read(index, |at, array| values[at] = array.get(index));
        values.into_iter().collect()
    }

    /// Sets the scalars of a cell. Returns `None` if the index is out of range.
    pub fn set(&self, index: u64, values: &[Value]) -> Option<()> {
        let mut set = Some(());
        self.write(index, |at, array| {
            if let Some(value) = values.get(at) {
                set = set.and(array.set(index, value));
            }
        });
        set
    }

    /// Sets all cells to the initial value.
    pub fn reset(&self) {
        if self.locks.is_empty() && self.initial.iter().all(Value::is_zero) {
            return self.arrays.iter().for_each(RegisterArray::clear);
        }
        for index in 0..u64::from(self.size) {
            self.set(index, &self.initial);
        }
    }
}

/// Sequence lock: a counter that is odd during a write. A reader copies the data and checks that
/// the counter is unchanged. A writer spins while another one has the counter odd (Boehm, "Can
/// seqlocks get along with programming language memory models?", 2012, figure 6).
#[derive(Debug, Default)]
#[repr(C, align(64))]
pub struct SequenceLock(AtomicU32);

impl SequenceLock {
    #[inline]
    fn read(&self, mut copy: impl FnMut()) {
        loop {
            let before = self.0.load(Ordering::Acquire);
            if before.is_multiple_of(2) {
                copy();
                fence(Ordering::Acquire);
                if self.0.load(Ordering::Relaxed) == before {
                    return;
                }
            }
            hint::spin_loop();
        }
    }

    #[inline]
    fn write(&self, mut change: impl FnMut()) {
        let mut before = self.0.load(Ordering::Relaxed);
        loop {
            let odd = before | 1;
            let taken = before.is_multiple_of(2)
                && self
                    .0
                    .compare_exchange_weak(before, odd, Ordering::Acquire, Ordering::Relaxed)
                    .is_ok();
            if taken {
                break;
            }
            hint::spin_loop();
            before = self.0.load(Ordering::Relaxed);
        }
        fence(Ordering::Release);
        change();
        self.0.store(before.wrapping_add(2), Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::AtomicBool;

    /// Number of reads. Under Miri each takes a thousand times as long.
    const READS: u32 = if cfg!(miri) { 50 } else { 50_000 };

    #[test]
    fn a_cell_is_read_as_one_write_has_left_it() {
        let zero = [Value::zero(200), Value::zero(16)];
        let registers = Registers::new([200, 16], 3, &zero);
        let number = |n: u64| [Value::from_limbs(&[n; 4], 200), Value::from_limbs(&[n], 16)];
        let is_over = AtomicBool::new(false);
        std::thread::scope(|scope| {
            for writer in 0..2u64 {
                let (registers, is_over) = (&registers, &is_over);
                scope.spawn(move || {
                    for round in 0.. {
                        if is_over.load(Ordering::Relaxed) {
                            break;
                        }
                        registers.set(1, &number((round * 2 + writer) & 0xff));
                    }
                });
            }
            let is_whole = |cell: Vec<Value>| cell == number(cell[1].limbs()[0]);
            let all_whole = (0..READS).all(|_| is_whole(registers.get(1).unwrap()));
            is_over.store(true, Ordering::Relaxed);
            assert!(all_whole, "two writes are mixed");
        });
        assert_eq!(registers.get(0).unwrap(), zero);
        assert_eq!(registers.get(3), None);
        assert_eq!(registers.set(3, &zero), None);
    }
}
