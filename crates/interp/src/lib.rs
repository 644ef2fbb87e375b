//! Crate `interp`: the interpreter, the engine that defines the semantics of programs.
//!
//! **In:** a verified [`ir::Program`]. **Out:** [`Interp`], an [`exec::Engine`] that runs every
//! construct of the IR.
//!
//! A program is compiled once to flat code ([`code`]). All locations are slots of one array of
//! limbs: the packet's frame, then keys, parameters, constants and temporaries. All control flow is
//! jumps. Execution ([`run`]) is one loop over instructions.
//!
//! Invariants:
//! - No allocation, lock or text formatting for each packet. Traced code is separate code of the
//!   same program, compiled on first use.
//! - A slot always holds a canonical value: the bits above its width are zero.
//! - A `varbit` is its length in bits, in one limb, followed by its right-aligned value.
//!
//! Tests: `testkit/tests/engines` (expressions, parsers, tables, externs in IR text, on every
//! engine), and other tests of `switch` and `testkit`.

mod code;
mod compile;
mod run;

use std::sync::{Arc, OnceLock};

use exec::{
    ControlVerdict, DropReason, Engine, Loaded, Natives, PacketContext, ParserVerdict, State,
    Tracer, Unsupported,
};
use ir::{ControlId, Layout, ParserId, Program};

use code::Code;
use compile::Mode;
use run::{Machine, Outcome, Quiet, Telling};

/// The interpreter.
#[derive(Clone, Copy, Debug, Default)]
pub struct Interp;

impl Engine for Interp {
    fn name(&self) -> &'static str {
        "interp"
    }

    fn load(
        &self,
        program: &Arc<Program>,
        layout: &Layout,
        natives: &Natives,
    ) -> Result<Arc<dyn Loaded>, Unsupported> {
        Ok(Arc::new(LoadedProgram {
            code: compile::compile(program, layout, natives, Mode::Plain)?,
            traced: OnceLock::new(),
            program: program.clone(),
            layout: layout.clone(),
            natives: natives.clone(),
        }))
    }
}

/// Program compiled by the interpreter.
struct LoadedProgram {
    code: Code,
    /// The same code with trace instructions. Its slots are those of `code`.
    traced: OnceLock<Code>,
    program: Arc<Program>,
    layout: Layout,
    natives: Natives,
}

impl LoadedProgram {
    fn traced(&self) -> &Code {
        self.traced.get_or_init(|| {
            compile::compile(&self.program, &self.layout, &self.natives, Mode::Traced)
                .unwrap_or_else(|_| self.code.clone())
        })
    }

    fn telling<'t>(&'t self, tracer: &'t mut dyn Tracer) -> Telling<'t> {
        Telling::new(tracer, &self.program, &self.layout)
    }
}

fn parser_verdict(outcome: Outcome) -> ParserVerdict {
    match outcome {
        Outcome::Done => ParserVerdict::Accept,
        Outcome::Reject(error) => ParserVerdict::Reject(error),
        Outcome::Drop(reason) => ParserVerdict::Drop(reason),
    }
}

fn control_verdict(outcome: Outcome) -> ControlVerdict {
    match outcome {
        Outcome::Done => ControlVerdict::Done,
        // Verified controls have no statement that rejects.
        Outcome::Reject(_) => ControlVerdict::Drop(DropReason::ParserReject),
        Outcome::Drop(reason) => ControlVerdict::Drop(reason),
    }
}

impl Loaded for LoadedProgram {
    fn scratch_limbs(&self) -> usize {
        self.code.scratch_limbs
    }

    fn prepare(&self, packet: &mut PacketContext) {
        let first = self.code.first_constant as usize;
        packet.limbs[first..first + self.code.constants.len()]
            .copy_from_slice(&self.code.constants);
    }

    fn run_parser(
        &self,
        parser: ParserId,
        packet: &mut PacketContext,
        state: &State,
    ) -> ParserVerdict {
        let start = self.code.parsers[parser];
        parser_verdict(Machine::run(&self.code, start, packet, state, &mut Quiet))
    }

    fn run_control(
        &self,
        control: ControlId,
        packet: &mut PacketContext,
        state: &State,
    ) -> ControlVerdict {
        let start = self.code.controls[control];
        control_verdict(Machine::run(&self.code, start, packet, state, &mut Quiet))
    }

    fn trace_parser(
        &self,
        parser: ParserId,
        packet: &mut PacketContext,
        state: &State,
        tracer: &mut dyn Tracer,
    ) -> ParserVerdict {
        let code = self.traced();
        let mut tap = self.telling(tracer);
        let outcome = Machine::run(code, code.parsers[parser], packet, state, &mut tap);
        tap.parser_ended(outcome, packet.cursor);
        parser_verdict(outcome)
    }

    fn trace_control(
        &self,
        control: ControlId,
        packet: &mut PacketContext,
        state: &State,
        tracer: &mut dyn Tracer,
    ) -> ControlVerdict {
        let code = self.traced();
        let mut tap = self.telling(tracer);
        let start = code.controls[control];
        control_verdict(Machine::run(code, start, packet, state, &mut tap))
    }
}
