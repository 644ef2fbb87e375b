//! A tenant's programs are made within bounds: of the text's length, of one at a time, and of the time to compile, on a thread of its own that packets
//! and other tenants do not wait for.

use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use ir::Program;

/// What making a program may take; what is not given is not limited.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CompileQuota {
    /// Bytes of the text: P4, or IR.
    pub text_bytes: Option<usize>,
    /// How long it is waited for until P4 text is compiled.
    pub time: Option<Duration>,
}

impl CompileQuota {
    fn check(&self, asked: usize) -> Result<(), CompileError> {
        match self.text_bytes {
            Some(allowed) if asked > allowed => Err(CompileError::TooLong { asked, allowed }),
            _ => Ok(()),
        }
    }
}

/// Stack of a compiler's thread: deep expressions take it to walk.
const STACK_BYTES: usize = 512 << 20;

/// Compiles a vPDP's texts, one at a time. Clones are the same: they see quotas that come later.
#[derive(Clone, Debug)]
pub struct BoundedCompiler {
    quota: Arc<Mutex<CompileQuota>>,
    /// A text is being compiled, though perhaps nobody waits for it.
    is_compiling: Arc<AtomicBool>,
    /// A program is on its way from text to device.
    is_building: Arc<AtomicBool>,
}

/// The leave to make one program, from its text to its device: no other is made for the vPDP until it is dropped.
#[derive(Debug)]
pub struct Leave {
    _building: Busy,
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
    /// Another program of the vPDP is on its way, or still being compiled though nobody waits for it.
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
                "the program's text has {asked} bytes as it was sent (P4, or the IR that `polyplane` makes of it), but the quota is {allowed} bytes; make it shorter, or ask for a larger quota"
            ),
            CompileError::TooSlow(time) => write!(
                f,
                "the program is not compiled within the quota of {} ms; make it simpler, or ask for a larger quota",
                time.as_millis()
            ),
            CompileError::Busy => f.write_str(
                "another program of this vPDP is still being compiled or loaded; try again later",
            ),
            CompileError::Wrong(diagnostics) => f.write_str(diagnostics),
            CompileError::Failed => f.write_str("the compiler did not come to an end"),
        }
    }
}

impl std::error::Error for CompileError {}

/// Something that is done once at a time; over when it is dropped, however that comes.
#[derive(Debug)]
struct Busy(Arc<AtomicBool>);

impl Busy {
    /// # Errors
    /// It is being done.
    fn begin(with: &Arc<AtomicBool>) -> Result<Busy, CompileError> {
        match with.swap(true, Ordering::AcqRel) {
            true => Err(CompileError::Busy),
            false => Ok(Busy(Arc::clone(with))),
        }
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        self.0.store(false, Ordering::Release);
    }
}

impl BoundedCompiler {
    pub(crate) fn new(quota: CompileQuota) -> BoundedCompiler {
        BoundedCompiler {
            quota: Arc::new(Mutex::new(quota)),
            is_compiling: Arc::default(),
            is_building: Arc::default(),
        }
    }

    /// The bounds of texts that come from now on.
    pub(crate) fn set_quota(&self, quota: CompileQuota) {
        *self.quota.lock().unwrap_or_else(PoisonError::into_inner) = quota;
    }

    fn quota(&self) -> CompileQuota {
        *self.quota.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Leave to make a program of a text of so many bytes, be it one to compile or not. To be kept until its device is made: that takes time, too.
    ///
    /// # Errors
    /// The text is longer than the quota allows, or another program is on its way.
    pub fn admit(&self, bytes: usize) -> Result<Leave, CompileError> {
        self.quota().check(bytes)?;
        let building = Busy::begin(&self.is_building)?;
        match self.is_compiling.load(Ordering::Acquire) {
            true => Err(CompileError::Busy),
            false => Ok(Leave {
                _building: building,
            }),
        }
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
        let quota = self.quota();
        quota.check(text.len())?;
        let busy = Busy::begin(&self.is_compiling)?;
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

#[cfg(test)]
mod tests {
    use super::*;

    fn bounded(text_bytes: usize, time: Duration) -> BoundedCompiler {
        BoundedCompiler::new(CompileQuota {
            text_bytes: Some(text_bytes),
            time: Some(time),
        })
    }

    #[test]
    fn one_program_is_on_its_way_at_a_time_and_none_that_is_too_long() {
        let compiler = bounded(100, Duration::from_secs(60));
        let too_long = CompileError::TooLong {
            asked: 101,
            allowed: 100,
        };
        assert_eq!(compiler.admit(101).unwrap_err(), too_long);
        let leave = compiler.admit(100).unwrap();
        assert_eq!(compiler.clone().admit(1).unwrap_err(), CompileError::Busy);
        // Who has leave may compile.
        let wrong = compiler.compile("text".to_owned(), |_| Err("wrong".to_owned()));
        assert_eq!(wrong.unwrap_err(), CompileError::Wrong("wrong".to_owned()));
        drop(leave);
        assert!(compiler.admit(100).is_ok());
    }

    #[test]
    fn no_program_is_made_while_a_compiler_goes_on_that_nobody_waits_for() {
        let compiler = bounded(100, Duration::from_millis(1));
        let (end, ended) = channel::<()>();
        let leave = compiler.admit(4).unwrap();
        let slow = compiler.compile("text".to_owned(), move |_| {
            let _ = ended.recv();
            Err("too late".to_owned())
        });
        assert!(matches!(slow, Err(CompileError::TooSlow(_))), "{slow:?}");
        drop(leave);
        assert_eq!(compiler.admit(4).unwrap_err(), CompileError::Busy);
        drop(end);
        while compiler.admit(4).is_err() {
            thread::yield_now();
        }
    }
}
