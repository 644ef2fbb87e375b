//! Processor-specific operations: prefetching, and code compiled for optional instruction set
//! extensions.
//!
//! A batch of lookups that first prefetches all memory that it will read waits for memory once, not
//! once for each key.

/// Prefetches the cache line in which `items[index]` starts. An index out of range is harmless.
#[inline(always)]
pub fn prefetch<T>(items: &[T], index: usize) {
    prefetch_at(items.as_ptr().wrapping_add(index).addr());
}

/// Prefetches the cache line of an address. An unmapped address is harmless.
#[inline(always)]
#[cfg_attr(target_arch = "x86_64", expect(unsafe_code))]
pub fn prefetch_at(address: usize) {
    #[cfg(target_arch = "x86_64")]
    {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        let place = std::ptr::without_provenance(address);
        // SAFETY:
        // - A prefetch is a hint and reads nothing that the program sees.
        // - An unmapped address is ignored.
        // - SSE, which has the instruction, is part of every x86-64 processor.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(place) }
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = address;
}

/// Prefetches all cache lines of a value itself.
#[inline(always)]
#[cfg_attr(target_arch = "x86_64", expect(unsafe_code))]
pub fn prefetch_value<T: ?Sized>(value: &T) {
    #[cfg(target_arch = "x86_64")]
    {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        let first = std::ptr::from_ref(value).cast::<i8>();
        for at in (0..size_of_val(value)).step_by(LINE) {
            // SAFETY:
            // - As in [`prefetch_at`].
            unsafe { _mm_prefetch::<_MM_HINT_T0>(first.wrapping_add(at)) }
        }
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = value;
}

/// Size of a cache line in bytes.
const LINE: usize = 64;

/// Maximum number of cache lines of an array of which any lookup is likely to read some.
const FEW_LINES: usize = 2;

/// Reports one address in each cache line of a value itself; none for a value of size 0, which may
/// have no address.
pub fn tell_lines_of<T: ?Sized>(value: &T, tell: &mut dyn FnMut(usize)) {
    let bytes = size_of_val(value);
    if bytes > 0 {
        let begin = std::ptr::from_ref(value).cast::<u8>().addr();
        let lines = begin - begin % LINE..begin + bytes;
        lines.step_by(LINE).for_each(tell);
    }
}

/// Reports one address in each cache line of `items` if they span few cache lines; otherwise none.
pub fn tell_few_lines_of<T>(items: &[T], tell: &mut dyn FnMut(usize)) {
    if size_of_val(items) <= FEW_LINES * LINE {
        tell_lines_of(items, tell);
    }
}

/// Work that benefits from certain instructions. This is a trait and not a closure, because
/// [`run`](Self::run) must be `#[inline(always)]`.
pub(crate) trait BitWork {
    /// Does the work. Everything that it calls must be inlined as well.
    fn run(self);
}

/// Runs `work`, compiled with bit-manipulation instructions (POPCNT, BMI1, BMI2) if the processor
/// has them. All x86-64 processors since 2013 do.
#[inline(always)]
#[cfg_attr(target_arch = "x86_64", expect(unsafe_code))]
pub(crate) fn counting_bits(work: impl BitWork) {
    #[cfg(target_arch = "x86_64")]
    if std::is_x86_feature_detected!("popcnt")
        && std::is_x86_feature_detected!("bmi1")
        && std::is_x86_feature_detected!("bmi2")
    {
        // SAFETY:
        // - The processor has the three instruction set extensions that the function is compiled
        //   for.
        return unsafe { with_bit_instructions(work) };
    }
    work.run();
}

/// Runs `work`, compiled with AVX2 and bit-manipulation instructions if the processor has them.
#[inline(always)]
#[cfg_attr(target_arch = "x86_64", expect(unsafe_code))]
pub(crate) fn in_vectors(work: impl BitWork) {
    #[cfg(target_arch = "x86_64")]
    if std::is_x86_feature_detected!("popcnt")
        && std::is_x86_feature_detected!("bmi1")
        && std::is_x86_feature_detected!("bmi2")
        && std::is_x86_feature_detected!("avx2")
    {
        // SAFETY:
        // - The processor has the four instruction set extensions that the function is compiled
        //   for.
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
