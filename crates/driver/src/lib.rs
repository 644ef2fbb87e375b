//! Compilation driver: P4 text, a file or a policy to pipeline IR and diagnostics.
//!
//! **In:** a [`Source`] (a text, or a file with the capability to read files), or a
//! [`PolicySource`] (a chain of programs). **Out:** an [`ir::Program`] that the verifier accepts,
//! and [`SourceDiagnostics`] of each text. **May import:** `syntax`, `sema`, `lower`, `passes`,
//! `ir`.
//!
//! [`compile`] runs all phases of a program: [`parse`], [`ParsedProgram::check`],
//! [`CheckedProgram::lower`]. A caller that needs one of them calls it by itself: an editor stops
//! after the check, a measurement takes the time between two phases. [`compile_policy`] compiles
//! the programs of a policy and composes them. [`compile_text`] is for programs that come as text,
//! for example from a controller.
//!
//! Invariants:
//! - nothing is printed: errors and warnings are values, and the caller shows them;
//! - each phase runs only if the phases before it found no errors;
//! - files are reached only by a [`FileSystem`] of the caller: a [`Source::Text`] includes the
//!   built-in files alone, and its diagnostics do not depend on the files of the machine;
//! - all phases are cancelled and limited by the caller's `support::work::Work`.
//!
//! Recursion follows the nesting of the program, which the parser bounds: a caller gives the
//! thread a stack of 256 MiB.
//!
//! Tests: `tests/` (programs and policies, with the expected program or diagnostics).

mod diagnostics;
mod error;
mod policy;
mod program;

pub use diagnostics::SourceDiagnostics;
pub use error::CompileError;
pub use policy::{
    CompiledPolicy, MAX_POLICY_BYTES, PolicyParts, PolicySource, StepSource, compile_policy,
    compile_steps, is_policy, program_name,
};
pub use program::{
    CheckedProgram, Compiled, ForeignBlock, Options, ParsedProgram, Source, check, compile,
    compile_text, describe, parse,
};
pub use syntax::files::FileSystem;
