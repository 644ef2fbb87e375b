//! Memory of a thread, by the counters of the allocator.

use std::cell::OnceCell;

use tikv_jemalloc_ctl::thread::{ThreadLocal, allocatedp, deallocatedp};

/// The allocator's counters of a thread.
struct Counters {
    allocated: ThreadLocal<u64>,
    freed: ThreadLocal<u64>,
}

thread_local! {
    /// Looked up once per thread, because a lookup by name is slower than a read.
    static COUNTERS: OnceCell<Option<Counters>> = const { OnceCell::new() };
}

/// Returns the bytes that the calling thread has allocated and not freed, by the allocator's
/// counters. Returns 0 if the allocator has none.
pub(crate) fn thread_bytes() -> i64 {
    COUNTERS.with(|counters| {
        let counters = counters.get_or_init(|| {
            Some(Counters {
                allocated: allocatedp::read().ok()?,
                freed: deallocatedp::read().ok()?,
            })
        });
        counters.as_ref().map_or(0, |counters| {
            // Both counters only grow, and may wrap around.
            counters.allocated.get().wrapping_sub(counters.freed.get()) as i64
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use support::work::{Interrupt, Work, WorkLimits, checkpoint, set_memory_probe};

    #[test]
    fn memory_of_a_thread_is_what_it_has_allocated_and_not_freed() {
        let before = thread_bytes();
        let block = vec![1_u8; 1 << 20];
        let grown = thread_bytes() - before;
        assert!((1 << 20..2 << 20).contains(&grown), "{grown}");
        drop(block);
        let left = thread_bytes() - before;
        assert!(left.abs() < 1 << 16, "{left}");
    }

    #[test]
    fn a_computation_that_holds_too_much_memory_ends() {
        set_memory_probe(thread_bytes);
        let bytes = 10 << 20;
        let work = Work::new(WorkLimits {
            time: None,
            bytes: Some(bytes),
        });
        let held = work.run(|| {
            let mut all = Vec::new();
            while all.len() < 1 << 20 {
                all.push(vec![0_u8; 1 << 10]);
                checkpoint();
            }
        });
        assert_eq!(held, Err(Interrupt::Memory(bytes)));
    }
}
