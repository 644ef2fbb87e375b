//! Asks the processor for memory that will soon be read. The only `unsafe` of this room.
//!
//! A batch of lookups that first asks for all that it will read waits for memory once, not once a key.

/// Asks for the cache line in which `items[index]` begins. An index beyond the end is harmless.
#[inline(always)]
#[cfg_attr(target_arch = "x86_64", expect(unsafe_code))]
pub fn prefetch<T>(items: &[T], index: usize) {
    #[cfg(target_arch = "x86_64")]
    {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        let place = items.as_ptr().wrapping_add(index).cast::<i8>();
        // SAFETY: a prefetch is a hint: it reads nothing that the program sees, and an address that
        // is not mapped is ignored. SSE, which has it, is part of every x86-64.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(place) }
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = (items, index);
}
