//! Programs of growing size, to measure the time and memory that each construct takes.
//!
//! [`CONSTRUCTS`] lists the constructs, each with a program of a given size. [`load`] takes a
//! program from text to an engine and returns the time of each step. A program that is too large is
//! refused by a diagnostic with a location.

mod programs;

use std::sync::Arc;
use std::time::Duration;

use exec::{Engine, Natives};
use rustix::time::{ClockId, clock_gettime};

pub use programs::CONSTRUCTS;

/// A construct with a scalable program.
#[derive(Clone, Copy)]
pub struct Construct {
    /// Its name.
    pub name: &'static str,
    /// Returns the program with `n` of the construct.
    pub program: fn(usize) -> String,
    /// The size at which measurements start. It takes some milliseconds.
    pub size: usize,
}

/// The steps of [`load`], in order.
pub const STEPS: [&str; 5] = ["parse", "check", "lower", "verify", "load"];

/// The time of each step.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Times(pub [Duration; STEPS.len()]);

impl Times {
    /// Returns the time of all steps.
    pub fn total(&self) -> Duration {
        self.0.iter().sum()
    }
}

/// Returns the processor time of this thread, which other processes affect little.
fn now() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    let seconds = u64::try_from(time.tv_sec).unwrap_or(0);
    Duration::new(seconds, u32::try_from(time.tv_nsec).unwrap_or(0))
}

/// Compiles a program from text and loads it into an engine.
///
/// # Errors
/// The diagnostics, or the error of the verifier or the engine.
pub fn load(text: &str, engine: &dyn Engine) -> Result<Times, String> {
    let mut times = Times::default();
    let mut last = now();
    let mut step = 0;
    let mut ended = |times: &mut Times| {
        let at = now();
        times.0[step] = at.saturating_sub(last);
        last = at;
        step += 1;
    };
    let source = driver::Source::Text {
        name: "scaled.p4",
        text,
    };
    let parsed = driver::parse(&source, &driver::Options::default());
    if parsed.diagnostics.has_errors() {
        return Err(parsed.diagnostics.render(false));
    }
    ended(&mut times);
    let checked = parsed.check();
    if checked.diagnostics.has_errors() {
        return Err(checked.diagnostics.render(false));
    }
    ended(&mut times);
    let program = checked.lower().into_result()?;
    ended(&mut times);
    ir::verify(&program).map_err(|errors| {
        let errors: Vec<String> = errors.iter().map(ToString::to_string).collect();
        format!("the program's IR is not well formed: {}", errors.join("\n"))
    })?;
    ended(&mut times);
    let program = Arc::new(program);
    let layout = ir::Layout::of(&program);
    let loaded = engine
        .load(&program, &layout, &Natives::default())
        .map_err(|refused| refused.to_string())?;
    ended(&mut times);
    drop(loaded);
    Ok(times)
}

/// Runs `f` on a thread with the stack size of compilations.
///
/// # Panics
/// If `f` panics.
pub fn on_large_stack<T: Send>(f: impl FnOnce() -> T + Send) -> T {
    const STACK: usize = 256 << 20;
    std::thread::scope(|scope| {
        let thread = std::thread::Builder::new().stack_size(STACK);
        let thread = thread.spawn_scoped(scope, f).expect("a thread starts");
        match thread.join() {
            Ok(result) => result,
            Err(panic) => std::panic::resume_unwind(panic),
        }
    })
}
