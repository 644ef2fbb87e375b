//! Bounds on the compilations of servers: memory, time, and scheduling.

use std::cell::OnceCell;
use std::sync::Arc;
use std::time::Duration;

use p4rt::{Code, TenancyError};
use support::tsc_clock::{Clock, time_of_thread};
use tenancy::{BoundedCompiler, Cancelled, CompileError, CompilePermit, CompilePool, CompileQuota};
use tikv_jemalloc_ctl::thread::{ThreadLocal, allocatedp, deallocatedp};

/// Quota for programs that controllers of `serve` and `run` set. It is larger than that of a
/// tenant, which shares the switch with others.
pub(crate) const OF_CONTROLLERS: CompileQuota = CompileQuota {
    text_bytes: Some(64 << 20),
    time: Some(Duration::from_secs(60)),
    bytes: Some(2 << 30),
};

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

/// Returns the compile pool of a switch with virtual data planes. It counts in the cycles of the
/// packet clock.
pub(crate) fn pool() -> CompilePool {
    CompilePool {
        clock: || time_of_thread().unwrap_or_default(),
        cycles_per_second: (Clock::new().rate().ticks_per_ns * 1e9) as u64,
        ..CompilePool::default()
    }
}

/// Converts a compile error to the error answer for a client.
pub(crate) fn denied(error: CompileError) -> TenancyError {
    let code = match &error {
        CompileError::Wrong(_) => Code::InvalidArgument,
        CompileError::Cancelled(_) => Code::Aborted,
        CompileError::Failed => Code::Internal,
        CompileError::TooLong { .. }
        | CompileError::TooSlow(_)
        | CompileError::TooLarge(_)
        | CompileError::Busy
        | CompileError::TooMany { .. }
        | CompileError::InDebt => Code::ResourceExhausted,
    };
    TenancyError {
        code,
        message: error.to_string(),
    }
}

/// Compile permit ([`CompilePermit`]) in the form that the P4Runtime server uses.
struct Bounded(CompilePermit);

impl p4rt::ProgramPermit for Bounded {
    fn run(&self, work: &mut dyn FnMut()) -> Result<(), TenancyError> {
        self.0.run(work).map_err(denied)
    }

    fn cancel(&self) {
        self.0.canceller().cancel(Cancelled::ClientGone);
    }
}

/// Admits the compilation of one program.
///
/// # Errors
/// The compilation exceeds the compiler's quota.
pub(crate) fn admit(
    compiler: &BoundedCompiler,
    bytes: usize,
) -> Result<Arc<dyn p4rt::ProgramPermit>, TenancyError> {
    let leave = compiler.admit(bytes).map_err(denied)?;
    Ok(Arc::new(Bounded(leave)))
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
