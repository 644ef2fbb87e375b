//! A tenant's text is compiled within bounds: of its length, and of time, on a thread of its own that packets and other tenants do not wait for.

use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use ir::Program;

/// What compiling may take; what is not given is not limited.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CompileQuota {
    /// Bytes of the text.
    pub text_bytes: Option<usize>,
    /// How long it is waited for.
    pub time: Option<Duration>,
}

/// Stack of a compiler's thread: deep expressions take it to walk.
const STACK_BYTES: usize = 512 << 20;

/// Compiles a vPDP's texts, one at a time. Clones are the same: they see quotas that come later.
#[derive(Clone, Debug)]
pub struct BoundedCompiler {
    quota: Arc<Mutex<CompileQuota>>,
    is_busy: Arc<AtomicBool>,
}

/// Why there is no program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CompileError {
    /// The text is longer than the quota allows.
    TooLong {
        /// Its bytes.
        asked: usize,
        /// What there may be.
        allowed: usize,
    },
    /// It took longer than the quota allows.
    TooSlow(Duration),
    /// The vPDP's last text is still being compiled, though nobody waits for it.
    Busy,
    /// The text is wrong: diagnostics.
    Wrong(String),
    /// No thread could be had, or the compiler failed.
    Failed,
}

impl fmt::Display for CompileError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            CompileError::TooLong { asked, allowed } => write!(
                f,
                "the program's text has {asked} bytes, but the quota is {allowed}; make it shorter, or ask for a larger quota"
            ),
            CompileError::TooSlow(time) => write!(
                f,
                "the program is not compiled within the quota of {} ms; make it simpler, or ask for a larger quota",
                time.as_millis()
            ),
            CompileError::Busy => f.write_str(
                "the program before, which took too long, is still being compiled; try again later",
            ),
            CompileError::Wrong(diagnostics) => f.write_str(diagnostics),
            CompileError::Failed => f.write_str("the compiler did not come to an end"),
        }
    }
}

impl std::error::Error for CompileError {}

/// Says that the compiler's thread is free again, however it ended.
struct Busy(Arc<AtomicBool>);

impl Drop for Busy {
    fn drop(&mut self) {
        self.0.store(false, Ordering::Release);
    }
}

impl BoundedCompiler {
    pub(crate) fn new(quota: CompileQuota) -> BoundedCompiler {
        BoundedCompiler {
            quota: Arc::new(Mutex::new(quota)),
            is_busy: Arc::default(),
        }
    }

    /// The bounds of texts that come from now on.
    pub(crate) fn set_quota(&self, quota: CompileQuota) {
        *self.quota.lock().unwrap_or_else(PoisonError::into_inner) = quota;
    }

    /// Compiles a text. A compiler that does not end in time goes on alone, and takes no other text of this vPDP meanwhile.
    ///
    /// # Errors
    /// The text is wrong, or more than the quota allows.
    pub fn compile(
        &self,
        text: String,
        compiler: impl FnOnce(&str) -> Result<Program, String> + Send + 'static,
    ) -> Result<Program, CompileError> {
        let quota = *self.quota.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(allowed) = quota.text_bytes.filter(|most| text.len() > *most) {
            let asked = text.len();
            return Err(CompileError::TooLong { asked, allowed });
        }
        if self.is_busy.swap(true, Ordering::AcqRel) {
            return Err(CompileError::Busy);
        }
        let busy = Busy(Arc::clone(&self.is_busy));
        let (told, compiled) = channel();
        let thread = thread::Builder::new().stack_size(STACK_BYTES);
        let begun = thread.spawn(move || {
            let compiled = compiler(&text);
            drop(busy);
            // Nobody may wait any more.
            let _ = told.send(compiled);
        });
        begun.map_err(|_| CompileError::Failed)?;
        let compiled = match quota.time {
            None => compiled.recv().map_err(|_| CompileError::Failed)?,
            Some(time) => compiled.recv_timeout(time).map_err(|error| match error {
                RecvTimeoutError::Timeout => CompileError::TooSlow(time),
                RecvTimeoutError::Disconnected => CompileError::Failed,
            })?,
        };
        compiled.map_err(CompileError::Wrong)
    }
}
