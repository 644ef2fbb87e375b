//! What the processor does beyond what all of its kind do. The only `unsafe` of this room.
//!
//! A batch of lookups that first asks for all memory that it will read waits for it once, not once a key.

/// Asks for the cache line in which `items[index]` begins. An index beyond the end is harmless.
#[inline(always)]
pub fn prefetch<T>(items: &[T], index: usize) {
    prefetch_at(items.as_ptr().wrapping_add(index).addr());
}

/// Asks for the cache line of an address. One where nothing is, is harmless.
#[inline(always)]
#[cfg_attr(target_arch = "x86_64", expect(unsafe_code))]
pub fn prefetch_at(address: usize) {
    #[cfg(target_arch = "x86_64")]
    {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        let place = std::ptr::without_provenance(address);
        // SAFETY: a prefetch is a hint: it reads nothing that the program sees, and an address that
        // is not mapped is ignored. SSE, which has it, is part of every x86-64.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(place) }
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = address;
}

/// Asks for all cache lines of a value itself.
#[inline(always)]
#[cfg_attr(target_arch = "x86_64", expect(unsafe_code))]
pub fn prefetch_value<T: ?Sized>(value: &T) {
    #[cfg(target_arch = "x86_64")]
    {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        let first = std::ptr::from_ref(value).cast::<i8>();
        for at in (0..size_of_val(value)).step_by(LINE) {
            // SAFETY: as in [`prefetch`].
            unsafe { _mm_prefetch::<_MM_HINT_T0>(first.wrapping_add(at)) }
        }
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = value;
}

/// Bytes of a cache line.
const LINE: usize = 64;

/// Cache lines of which something in them is likely to be read whatever is looked for, at most.
const FEW_LINES: usize = 2;

/// Tells of an address in each cache line of a value itself; nothing of one that has no bytes, and may be nowhere.
pub fn tell_lines_of<T: ?Sized>(value: &T, tell: &mut dyn FnMut(usize)) {
    let bytes = size_of_val(value);
    if bytes > 0 {
        let begin = std::ptr::from_ref(value).cast::<u8>().addr();
        let lines = begin - begin % LINE..begin + bytes;
        lines.step_by(LINE).for_each(tell);
    }
}

/// The same of items that are in few lines; nothing of others.
pub fn tell_few_lines_of<T>(items: &[T], tell: &mut dyn FnMut(usize)) {
    if size_of_val(items) <= FEW_LINES * LINE {
        tell_lines_of(items, tell);
    }
}

/// Work that gains by certain instructions. A type and not a closure: [`run`](Self::run) has to be `#[inline(always)]`.
pub(crate) trait BitWork {
    /// Does it. What it calls has to be inlined as well.
    fn run(self);
}

/// Does work with the processor's instructions that count and move bits, if it has them: every one since 2013.
#[inline(always)]
#[cfg_attr(target_arch = "x86_64", expect(unsafe_code))]
pub(crate) fn counting_bits(work: impl BitWork) {
    #[cfg(target_arch = "x86_64")]
    if std::is_x86_feature_detected!("popcnt")
        && std::is_x86_feature_detected!("bmi1")
        && std::is_x86_feature_detected!("bmi2")
    {
        // SAFETY: the processor has the three sets of instructions that the function is compiled for.
        return unsafe { with_bit_instructions(work) };
    }
    work.run();
}

/// Does work with the processor's instructions on eight numbers at a time and those that count and move bits, if it has them.
#[inline(always)]
#[cfg_attr(target_arch = "x86_64", expect(unsafe_code))]
pub(crate) fn in_vectors(work: impl BitWork) {
    #[cfg(target_arch = "x86_64")]
    if std::is_x86_feature_detected!("popcnt")
        && std::is_x86_feature_detected!("bmi1")
        && std::is_x86_feature_detected!("bmi2")
        && std::is_x86_feature_detected!("avx2")
    {
        // SAFETY: the processor has the four sets of instructions that the function is compiled for.
        return unsafe { with_vector_instructions(work) };
    }
    work.run();
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "popcnt,bmi1,bmi2,avx2")]
fn with_vector_instructions(work: impl BitWork) {
    work.run();
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "popcnt,bmi1,bmi2")]
fn with_bit_instructions(work: impl BitWork) {
    work.run();
}
