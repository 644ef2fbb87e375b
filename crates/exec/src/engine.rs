//! What an engine is: it loads a program, and what it loaded runs the program's blocks on packets.

use std::fmt;
use std::sync::Arc;

use ir::{ControlId, Layout, Loc, ParserId, Program};

use crate::{DropReason, Fused, Natives, PacketContext, Pass, State, Tracer};

/// A way to run programs.
pub trait Engine: Send + Sync {
    /// Its name, as users choose it.
    fn name(&self) -> &'static str;

    /// Makes a verified program ready to run. `layout` is the program's own. What is loaded has no state, so that several devices may run the same.
    ///
    /// # Errors
    /// [`Unsupported`] names a construct that this engine does not run.
    fn load(
        &self,
        program: &Arc<Program>,
        layout: &Layout,
        natives: &Natives,
    ) -> Result<Arc<dyn Loaded>, Unsupported>;

    /// [`Engine::load`] of a program of which [`Loaded::fuse`] will be asked for this pass: an engine may do both at the same time.
    ///
    /// # Errors
    /// As [`Engine::load`].
    fn load_with(
        &self,
        program: &Arc<Program>,
        layout: &Layout,
        natives: &Natives,
        _pass: &Pass,
    ) -> Result<Arc<dyn Loaded>, Unsupported> {
        self.load(program, layout, natives)
    }
}

/// A program as an engine runs it: code without state.
///
/// Engines take the units that [`ir::work`] says from [`PacketContext::work_left`], and drop a packet that has not so many left; they drop one
/// that has emitted more than any frame holds ([`PacketContext::has_emitted_too_much`]).
///
/// The `trace_` methods do the same and tell a [`Tracer`] each step; the others cost nothing for it.
pub trait Loaded: Send + Sync {
    /// Limbs that the engine needs behind the frame in [`PacketContext::limbs`].
    fn scratch_limbs(&self) -> usize;

    /// Fills a new context's scratch limbs, once; packets leave it as it must be for the next.
    fn prepare(&self, packet: &mut PacketContext);

    /// Runs a parser from the packet's cursor on.
    fn run_parser(
        &self,
        parser: ParserId,
        packet: &mut PacketContext,
        state: &State,
    ) -> ParserVerdict;

    /// Runs a control; a deparser appends to [`PacketContext::emitted`].
    fn run_control(
        &self,
        control: ControlId,
        packet: &mut PacketContext,
        state: &State,
    ) -> ControlVerdict;

    /// Makes one function of a pass, where the engine can.
    fn fuse(&self, _pass: &Pass) -> Option<Arc<dyn Fused>> {
        None
    }

    /// [`Loaded::run_parser`], telling each step.
    fn trace_parser(
        &self,
        parser: ParserId,
        packet: &mut PacketContext,
        state: &State,
        tracer: &mut dyn Tracer,
    ) -> ParserVerdict;

    /// [`Loaded::run_control`], telling each step.
    fn trace_control(
        &self,
        control: ControlId,
        packet: &mut PacketContext,
        state: &State,
        tracer: &mut dyn Tracer,
    ) -> ControlVerdict;
}

/// How a parser ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ParserVerdict {
    /// In `accept`.
    Accept,
    /// In `reject`, with the error's number in [`Program::errors`].
    Reject(u32),
    /// The packet must be dropped whatever the architecture.
    Drop(DropReason),
}

/// How a control ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ControlVerdict {
    /// At its end, or by `exit`.
    Done,
    /// The packet must be dropped whatever the architecture.
    Drop(DropReason),
}

/// A construct that an engine does not run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unsupported {
    /// What it is, in the user's words.
    pub construct: String,
    /// Where it stands.
    pub loc: Option<Loc>,
}

impl fmt::Display for Unsupported {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "this engine does not run {}", self.construct)
    }
}

impl std::error::Error for Unsupported {}

/// The numbers of core.p4's errors in one program; 0 (`NoError`) for one that the program does not have.
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
    /// The numbers in this program.
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
