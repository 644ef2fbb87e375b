//! The engine interface. An engine compiles a program, and the result runs the program's blocks on
//! packets.

use std::fmt;
use std::sync::Arc;

use ir::{ControlId, Layout, Loc, ParserId, Program};

use crate::{CompiledFastPath, DropReason, Facts, FastPath, Natives, PacketContext, State, Tracer};

/// Execution engine: compiles programs to a form that it can run.
pub trait Engine: Send + Sync {
    /// Returns the engine's name, as users select it.
    fn name(&self) -> &'static str;

    /// Compiles a verified program. `layout` is the program's layout. The result holds no state, so
    /// several devices may share it.
    ///
    /// # Errors
    /// [`Unsupported`] names a construct that this engine does not support.
    fn load(
        &self,
        program: &Arc<Program>,
        layout: &Layout,
        natives: &Natives,
    ) -> Result<Arc<dyn Loaded>, Unsupported>;

    /// Compiles a program, and optionally its fast path at the same time. The caller will call
    /// [`Loaded::fuse`] with the same `_pass` afterwards.
    ///
    /// # Errors
    /// As [`Engine::load`].
    fn load_with(
        &self,
        program: &Arc<Program>,
        layout: &Layout,
        natives: &Natives,
        _pass: &FastPath,
    ) -> Result<Arc<dyn Loaded>, Unsupported> {
        self.load(program, layout, natives)
    }
}

/// Program compiled by an engine: code without state.
///
/// Engines charge the work units that [`ir::work`] defines to [`PacketContext::work_left`], and
/// drop a packet that has too few left. They also drop a packet that has emitted more than the
/// longest frame holds ([`PacketContext::has_emitted_too_much`]).
///
/// The `trace_` methods do the same and report each step to a [`Tracer`]. The other methods have no
/// tracing cost.
pub trait Loaded: Send + Sync {
    /// Returns the number of scratch limbs that the engine needs after the frame in
    /// [`PacketContext::limbs`].
    fn scratch_limbs(&self) -> usize;

    /// Initializes the scratch limbs of a new context. Called once: processing a packet restores
    /// them for the next one.
    fn prepare(&self, packet: &mut PacketContext);

    /// Runs a parser, starting at the packet's cursor.
    fn run_parser(
        &self,
        parser: ParserId,
        packet: &mut PacketContext,
        state: &State,
    ) -> ParserVerdict;

    /// Runs a control. A deparser appends to [`PacketContext::emitted`].
    fn run_control(
        &self,
        control: ControlId,
        packet: &mut PacketContext,
        state: &State,
    ) -> ControlVerdict;

    /// Returns the fast path compiled to one function, or `None` if the engine cannot compile it.
    fn fuse(&self, _pass: &FastPath) -> Option<Arc<dyn CompiledFastPath>> {
        None
    }

    /// Compiles a fast path that [`Loaded::fuse`] has compiled once more, for tables of which these
    /// facts hold. Its results are the same for every state for which the facts hold, and undefined
    /// for others. It runs with contexts and packets of the other code.
    ///
    /// # Errors
    /// The engine makes no such code, or the code does not fit contexts of the other.
    fn specialise(
        &self,
        _pass: &FastPath,
        _facts: &Facts,
    ) -> Result<Arc<dyn CompiledFastPath>, Unsupported> {
        Err(Unsupported {
            construct: "code made for the contents of tables".to_string(),
            loc: None,
        })
    }

    /// Runs a parser as [`Loaded::run_parser`] does, and reports each step.
    fn trace_parser(
        &self,
        parser: ParserId,
        packet: &mut PacketContext,
        state: &State,
        tracer: &mut dyn Tracer,
    ) -> ParserVerdict;

    /// Runs a control as [`Loaded::run_control`] does, and reports each step.
    fn trace_control(
        &self,
        control: ControlId,
        packet: &mut PacketContext,
        state: &State,
        tracer: &mut dyn Tracer,
    ) -> ControlVerdict;
}

/// Result of a parser.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ParserVerdict {
    /// The parser reached `accept`.
    Accept,
    /// The parser reached `reject`. Holds the error's index in [`Program::errors`].
    Reject(u32),
    /// The packet must be dropped, in every architecture.
    Drop(DropReason),
}

/// Result of a control.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ControlVerdict {
    /// The control ended normally or by `exit`.
    Done,
    /// The packet must be dropped, in every architecture.
    Drop(DropReason),
}

/// Error: the program has a construct that the engine does not run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unsupported {
    /// The construct, in the user's terms.
    pub construct: String,
    /// Source location of the construct.
    pub loc: Option<Loc>,
}

impl fmt::Display for Unsupported {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "this engine does not run {}", self.construct)
    }
}

impl std::error::Error for Unsupported {}

/// Indices of core.p4's errors in one program. An error that the program does not declare has index
/// 0 (`NoError`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ParserErrors {
    /// `error.PacketTooShort`
    pub packet_too_short: u32,
    /// `error.NoMatch`
    pub no_match: u32,
    /// `error.StackOutOfBounds`
    pub stack_out_of_bounds: u32,
    /// `error.HeaderTooShort`
    pub header_too_short: u32,
    /// `error.ParserInvalidArgument`
    pub invalid_argument: u32,
}

impl ParserErrors {
    /// Returns the indices in this program.
    pub fn of(program: &Program) -> ParserErrors {
        let number = |name: &str| {
            let at = program.errors.iter().position(|error| error == name);
            at.map_or(0, |at| at as u32)
        };
        ParserErrors {
            packet_too_short: number("PacketTooShort"),
            no_match: number("NoMatch"),
            stack_out_of_bounds: number("StackOutOfBounds"),
            header_too_short: number("HeaderTooShort"),
            invalid_argument: number("ParserInvalidArgument"),
        }
    }
}
