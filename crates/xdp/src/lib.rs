//! Crate `xdp`: programs in the kernel, as eBPF that is made in this process.
//!
//! **In:** a verified [`ir::Program`], the [`exec::FastPath`] of its architecture, and the
//! [`exec::State`] that its packets read.
//! **Out:** [`emit_program`], the instructions and the places at which packets leave;
//! [`XdpEngine`], an [`exec::Engine`] by test runs; [`KernelPlane`], the kernel part of a running
//! switch.
//!
//! Invariants:
//! - A packet is finished in the kernel with the result that `interp` gives, or it leaves with its
//!   frame unchanged and nothing counted, and starts again in user space.
//! - A construct without a form in eBPF is known before anything is loaded. It is a place at which
//!   packets leave, or makes the program [`exec::Unsupported`]. The kernel's verifier refuses no
//!   code that is emitted here.
//! - The shapes of maps and values are defined once, for the code and its writer.
//! - System calls are in `port`.
//!
//! May not import: `runtime` and what is above it.
//!
//! Tests: in `assembler`, in `testkit/tests/xdp.rs` by test runs, and in `cli/tests/run_xdp.rs`
//! between interfaces.

#![cfg(target_os = "linux")]

mod assembler;
mod emit;
mod engine;
mod maps;
mod plane;
mod reads;
mod shape;

pub use assembler::{Bytecode, MapName};
pub use emit::{Ending, KernelCode, Leave};
pub use engine::{RunCounts, XdpEngine};
pub use plane::{KernelPlane, LATENESS, MAX_SLEEP, PlaneCounts, PlaneError, PortTraffic};
pub use shape::MapShape;

use exec::{FastPath, Unsupported};
use ir::{Layout, Program};

/// Emits a program for test runs.
///
/// # Errors
/// The program as a whole has no form in eBPF.
pub fn emit_program(program: &Program, pass: &FastPath) -> Result<KernelCode, Unsupported> {
    let layout = Layout::of(program);
    let shapes = shape::Shapes::of(program);
    emit::emit(program, &layout, &shapes, pass, Ending::Report)
}

/// Checks that this process may load programs into the kernel.
///
/// # Errors
/// What is missing.
pub fn permission() -> Result<(), port::BpfLoadError> {
    let mut asm = assembler::Assembler::default();
    asm.set(assembler::R0, 0);
    asm.exit();
    let code = asm.finish().unwrap_or_default();
    port::BpfProgram::load(code.words()).map(drop)
}
