//! Compiler from the IR to flat code.
//!
//! It runs twice: the first run counts constants and temporaries, the second one knows the start of
//! each region. The regions are, in order: frame, keys of tables, parameters and return addresses
//! of actions, constants, temporaries, operands of wide operations.

mod call;
mod control;
mod expr;
mod parser;
mod place;
mod stmt;

use std::collections::HashMap;

use bits::{IdVec, Value};
use exec::slots::Slot;
use exec::slots::table::TableSite;
use exec::{Natives, ParserErrors, Unsupported};
use ir::work::Work;
use ir::{Action, ActionId, FieldId, Layout, Loc, Program, ScalarTy, limbs_of};
use support::work::checkpoint;

use crate::code::{ActionCode, Code, Inst, NONE, Pc, Tell};

/// Kind of code to generate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mode {
    /// Code for packet processing.
    Plain,
    /// Code that reports its steps.
    Traced,
}

/// Sizes of the regions that are known only after a whole run.
#[derive(Clone, Copy, Debug, Default)]
struct Sizes {
    constants: u32,
    temporaries: u32,
}

/// Compiles a verified program.
pub(crate) fn compile(
    program: &Program,
    layout: &Layout,
    natives: &Natives,
    mode: Mode,
) -> Result<Code, Unsupported> {
    let work = Work::of(program);
    let new = |sizes| Compiler::new(program, &work, layout, natives, mode, sizes);
    let counted = new(Sizes::default()).whole()?;
    new(counted.sizes()).whole().map(Compiler::finish)
}

/// One run of the compiler over a program.
struct Compiler<'p> {
    program: &'p Program,
    /// Work units of the program's code.
    work: &'p Work<'p>,
    layout: &'p Layout,
    natives: &'p Natives,
    mode: Mode,
    code: Code,
    /// Instruction of each label; `NONE` until it is placed.
    labels: Vec<Pc>,
    constants: HashMap<Vec<u64>, Slot>,
    first_temporary: Slot,
    /// Number of temporaries in use by the current statement, and the maximum so far.
    temporaries: u32,
    most_temporaries: u32,
    /// Number of scratch limbs that wide operations need.
    wide: u32,
    /// Action that is being compiled.
    action: Option<ActionId>,
    /// Labels of the enclosing blocks and loops: the targets of leaving and continuing.
    enclosing: HashMap<ir::LabelId, (Pc, Pc)>,
    /// Parameter slots of each action.
    params: IdVec<ActionId, Vec<Slot>>,
    loc: Option<Loc>,
}

impl<'p> Compiler<'p> {
    fn new(
        program: &'p Program,
        work: &'p Work<'p>,
        layout: &'p Layout,
        natives: &'p Natives,
        mode: Mode,
        sizes: Sizes,
    ) -> Compiler<'p> {
        let mut next = layout.limbs();
        let mut take = |limbs: u32| {
            let slot = next;
            next += limbs;
            slot
        };
        let tables = TableSite::all(program, &mut take);
        let mut params = IdVec::default();
        let actions = program
            .actions
            .values()
            .map(|action| {
                checkpoint();
                let slots: Vec<Slot> = action
                    .params
                    .iter()
                    .map(|param| take(limbs_of(param.ty)))
                    .collect();
                let limbs = action.params.iter().map(|param| limbs_of(param.ty)).sum();
                let ret = take(1);
                let code = ActionCode {
                    entry: NONE,
                    params: slots.first().copied().unwrap_or(ret),
                    param_limbs: limbs,
                    ret,
                    is_empty: action.body.is_empty(),
                };
                params.push(slots);
                code
            })
            .collect();
        let first_constant = next;
        Compiler {
            program,
            work,
            layout,
            natives,
            mode,
            code: Code {
                tables,
                actions,
                errors: ParserErrors::of(program),
                first_constant,
                wide_scratch: first_constant + sizes.constants + sizes.temporaries,
                ..Code::default()
            },
            labels: Vec::new(),
            constants: HashMap::new(),
            first_temporary: first_constant + sizes.constants,
            temporaries: 0,
            most_temporaries: 0,
            wide: 0,
            action: None,
            enclosing: HashMap::new(),
            params,
            loc: None,
        }
    }

    /// Compiles the whole program.
    fn whole(mut self) -> Result<Self, Unsupported> {
        self.stacks_and_headers()?;
        for (id, action) in self.program.actions.iter() {
            checkpoint();
            self.whole_action(id, action)?;
        }
        for (id, parser) in self.program.parsers.iter() {
            checkpoint();
            let start = self.parser(id, parser)?;
            self.code.parsers.push(start);
        }
        for (id, control) in self.program.controls.iter() {
            checkpoint();
            let start = self.control(id, control)?;
            self.code.controls.push(start);
        }
        Ok(self)
    }

    fn whole_action(&mut self, id: ActionId, action: &Action) -> Result<(), Unsupported> {
        self.action = Some(id);
        let entry = self.code.insts.len() as Pc;
        self.code.actions[id].entry = entry;
        self.tell(Tell::Action(id));
        self.spend(self.work.action(id));
        self.body(&action.body)?;
        let ret = self.code.actions[id].ret;
        self.emit(Inst::Return { a: ret });
        self.action = None;
        Ok(())
    }

    fn sizes(&self) -> Sizes {
        Sizes {
            constants: self.code.constants.len() as u32,
            temporaries: self.most_temporaries,
        }
    }

    /// Resolves labels, and sets the number of scratch limbs.
    fn finish(mut self) -> Code {
        let labels = &self.labels;
        let place = |label: &mut Pc| {
            *label = labels.get(*label as usize).copied().unwrap_or(NONE);
        };
        for inst in &mut self.code.insts {
            checkpoint();
            match inst {
                Inst::Jump { to }
                | Inst::JumpIf { to, .. }
                | Inst::JumpIfNot { to, .. }
                | Inst::JumpEq { to, .. }
                | Inst::JumpNe { to, .. }
                | Inst::JumpLt { to, .. }
                | Inst::JumpGe { to, .. }
                | Inst::JumpIfMiss { to } => place(to),
                _ => {}
            }
        }
        self.code
            .switches
            .iter_mut()
            .flat_map(|switch| {
                checkpoint();
                switch.iter_mut()
            })
            .for_each(place);
        let end = self.code.wide_scratch + self.wide;
        self.code.scratch_limbs = (end - self.layout.limbs()) as usize;
        self.code
    }

    fn emit(&mut self, inst: Inst) {
        checkpoint();
        self.code.insts.push(inst);
    }

    /// Emits the charge of work units, unless it is zero.
    fn spend(&mut self, units: u32) {
        if units > 0 {
            self.emit(Inst::Work { units });
        }
    }

    /// In traced code, emits the report of a step.
    fn tell(&mut self, tell: Tell) {
        if self.mode == Mode::Traced {
            self.code.tells.push(tell);
            let at = self.code.tells.len() as u32 - 1;
            self.emit(Inst::Tell(at));
        }
    }

    fn label(&mut self) -> Pc {
        checkpoint();
        self.labels.push(NONE);
        self.labels.len() as Pc - 1
    }

    /// Places a label at the next instruction.
    fn place_label(&mut self, label: Pc) {
        self.labels[label as usize] = self.code.insts.len() as Pc;
    }

    /// Allocates a temporary for the current statement.
    fn temporary(&mut self, limbs: u32) -> Slot {
        let slot = self.first_temporary + self.temporaries;
        self.temporaries += limbs.max(1);
        self.most_temporaries = self.most_temporaries.max(self.temporaries);
        slot
    }

    /// Frees the temporaries at the end of a statement.
    fn free_temporaries(&mut self) {
        self.temporaries = 0;
    }

    fn constant(&mut self, limbs: Vec<u64>) -> Slot {
        if let Some(&slot) = self.constants.get(&limbs) {
            return slot;
        }
        let slot = self.code.first_constant + self.code.constants.len() as u32;
        self.code.constants.extend_from_slice(&limbs);
        self.constants.insert(limbs, slot);
        slot
    }

    fn number(&mut self, number: u64) -> Slot {
        self.constant(vec![number])
    }

    fn value(&mut self, value: &Value, ty: ScalarTy) -> Slot {
        let mut limbs = value.resized(ty.width()).limbs().to_vec();
        limbs.resize(limbs_of(ty) as usize, 0);
        self.constant(limbs)
    }

    fn slot(&self, field: FieldId) -> Slot {
        self.layout.offset(field)
    }

    fn current_action(&self) -> Option<&'p Action> {
        self.program.actions.get(self.action?)
    }

    fn unsupported(&self, construct: &str) -> Unsupported {
        Unsupported {
            construct: construct.to_string(),
            loc: self.loc,
        }
    }
}
