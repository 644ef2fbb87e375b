//! Crate `foreign`: handlers in C of cross-plane programs (CLIP).
//!
//! **In:** a verified [`ir::Program`] with handlers ([`ir::ExternKind::Handler`]) and mirrored
//! tables, and the user's C text. **Out:** [`header()`], the text of `clip.h`; [`compile()`], a
//! shared object and diagnostics with places in the user's text; [`load()`], an [`exec::Natives`]
//! with an [`exec::RemoteHandler`] for each handler.
//!
//! Structure:
//! - `interface` has the C names and types of what a program and its C code exchange. `header`
//!   prints them, with functions that convert between structs and 64-bit limbs. So Rust code and C
//!   code exchange limbs only, and the layout of structs is the compiler's.
//! - `compile` runs the C compiler with a time limit, and checks the symbols of the object
//!   (`object_file`).
//! - `abi` loads the object and calls it. A handler calls the host through a table of functions in
//!   its context, so that this process exports no symbols. It uses `libc` itself, because `dlopen`
//!   and `sigaction` are all that is needed.
//! - [`HandlerState`] has stateful variables and pools. It outlives the code.
//!
//! Invariants:
//! - Code that was compiled for one interface is not loaded for a program with another one.
//! - A call allocates nothing and takes no lock, except the first call of a worker and the first
//!   use of a drop reason's name.
//! - `unsafe` is used only in `abi`. C code runs in this process, without protection from its
//!   errors. A signal that it causes, and a call that does not end, end the process with the
//!   handler's name (`watchdog`).
//!
//! Tests: in each module, and `tests/`, which runs C code on both engines.

#![deny(unsafe_code)]

#[allow(unsafe_code)]
mod abi;
mod compile;
mod diagnostics;
mod header;
mod host;
mod interface;
mod load;
mod names;
mod object_file;
mod pool;
mod state;
mod tokens;
mod watchdog;

pub use compile::{
    CodeError, CodeText, CompileOptions, Compiled, DEFAULT_TIME_LIMIT, compile, header,
};
pub use diagnostics::{CodeDiagnostic, CodePlace, Severity};
pub use load::{LoadError, LoadOptions, OpenedCode, load, open};
pub use state::{HandlerState, MAX_VARIABLE_BYTES, PoolLeases};
