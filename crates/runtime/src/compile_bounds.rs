//! Bounds on the compilations of servers: memory, time, and scheduling.

use std::sync::Arc;
use std::time::Duration;

use p4rt::{Code, TenancyError};
use support::tsc_clock::{Clock, time_of_thread};
use tenancy::{BoundedCompiler, Cancelled, CompileError, CompilePermit, CompilePool, CompileQuota};

/// Quota for programs that controllers of `serve` and `run` set. It is larger than that of a
/// tenant, which shares the switch with others.
pub(crate) const OF_CONTROLLERS: CompileQuota = CompileQuota {
    text_bytes: Some(64 << 20),
    time: Some(Duration::from_secs(60)),
    bytes: Some(2 << 30),
};

/// Returns the compile pool of a switch with virtual data planes. It counts in the cycles of the
/// packet clock.
pub fn compile_pool() -> CompilePool {
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
