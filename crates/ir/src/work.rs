//! Cost of code: the units of work that engines charge to a packet's budget.
//!
//! Code that may repeat (loops, parser states, back edges, recirculations) is bounded by a budget
//! for each packet. A unit must take about the same time whatever the code is. Otherwise a loop
//! over wide numbers would run for seconds within the budget. So a program's code is measured once,
//! before it runs, in *steps*. A step takes about as long as an operation on 64 bits, and
//! [`STEPS_PER_UNIT`] of them are a unit. Every engine charges the same units at the same points:
//!
//! - a parser state when it is entered ([`Work::state`]), a loop iteration when it begins
//!   ([`Work::round`]), and a back edge when it is taken ([`Work::back_link`]): one unit or more;
//! - an action when it begins to run, and a stage: their cost beyond one unit, so normally nothing
//!   ([`Work::action`], [`Work::stage`]).
//!
//! The code of a nested loop or action is not counted again, except actions that charge nothing
//! themselves. Of alternatives the longest counts. Costs known only at run time, such as the length
//! of a payload, are charged by `exec`.

use bits::IdVec;
use support::work::checkpoint;

use crate::code::*;
use crate::layout::limbs_of;
use crate::ops::Op;
use crate::program::*;
use crate::types::ScalarTy;

/// Number of steps in a unit of work.
pub const STEPS_PER_UNIT: u64 = 32;

/// Steps of a table lookup, including the selection of the action.
const LOOKUP: u64 = 64;

/// Returns the steps of an algorithm for data of this length.
pub fn hash_steps(algorithm: HashAlgorithm, bytes: u64) -> u64 {
    let each = match algorithm {
        // Computed bit by bit.
        HashAlgorithm::Crc16Custom | HashAlgorithm::Crc32Custom | HashAlgorithm::Toeplitz => 12,
        _ => 1,
    };
    bytes.saturating_mul(each)
}

/// Returns the number of whole units in these steps.
pub fn units(steps: u64) -> u32 {
    u32::try_from(steps / STEPS_PER_UNIT).unwrap_or(u32::MAX)
}

/// Costs of a program's code.
pub struct Work<'p> {
    program: &'p Program,
    /// Steps of the bodies of actions.
    actions: IdVec<ActionId, u64>,
}

impl<'p> Work<'p> {
    /// Measures a verified program.
    pub fn of(program: &'p Program) -> Work<'p> {
        let mut work = Work {
            program,
            actions: program.actions.ids().map(|_| 0).collect(),
        };
        let mut known = bits::IdSet::default();
        for id in program.actions.ids() {
            work.measure(id, &mut known);
        }
        work
    }

    /// Measures callees first. Recursion ends because the verifier rejects recursive actions.
    fn measure(&mut self, id: ActionId, known: &mut bits::IdSet<ActionId>) {
        if !known.insert(id) {
            return;
        }
        let Some(action) = self.program.actions.get(id) else {
            return;
        };
        let mut callees = Vec::new();
        called(&action.body, &mut callees);
        for callee in callees {
            self.measure(callee, known);
        }
        let code = Code {
            work: self,
            params: &action.params,
        };
        self.actions[id] = code.body(&action.body);
    }

    fn plain(&self) -> Code<'_> {
        Code {
            work: self,
            params: &[],
        }
    }

    /// Returns the units of a parser state.
    pub fn state(&self, state: &State) -> u32 {
        let code = self.plain();
        let transition = match &state.transition {
            Transition::Direct(_) => 1,
            Transition::Select { keys, cases } => {
                let keys = keys.iter().map(|key| code.expr(key).0);
                let cases = cases.iter().map(|case| code.keyset(&case.keyset));
                sum(keys.chain(cases))
            }
        };
        units(code.body(&state.body).saturating_add(transition)).saturating_add(1)
    }

    /// Returns the units of an iteration of a loop with this body, in an action with these
    /// parameters (outside of actions there are none).
    pub fn round(&self, params: &[ActionParam], body: &[Stmt]) -> u32 {
        let code = Code { work: self, params };
        units(code.body(body)).saturating_add(1)
    }

    /// Returns the units of an action for each run; 0 for most.
    pub fn action(&self, id: ActionId) -> u32 {
        units(self.actions.get(id).copied().unwrap_or(0))
    }

    /// Returns the units of a stage without the action that its table runs; 0 for most.
    pub fn stage(&self, stage: &Stage) -> u32 {
        match &stage.kind {
            StageKind::Match { .. } => units(self.stage_steps(stage).saturating_sub(LOOKUP)),
            _ => units(self.stage_steps(stage)),
        }
    }

    /// Returns the units of a back edge: all code from the stage `to` to the stage `from`, which
    /// may run until it is taken again.
    pub fn back_link(&self, control: &Control, from: StageId, to: StageId) -> u32 {
        let stages = control.stages.iter();
        let between = stages.filter(|(id, _)| (to..=from).contains(id));
        units(sum(between.map(|(_, stage)| self.whole_stage(stage)))).saturating_add(1)
    }

    /// Returns the units of all the program's controls: the code that a packet may run, when it
    /// starts over, without being charged.
    pub fn controls(&self) -> u32 {
        let stages = self
            .program
            .controls
            .values()
            .flat_map(|c| c.stages.values());
        units(sum(stages.map(|stage| self.whole_stage(stage))))
    }

    /// Returns the units of a control; 0 if the program does not have it.
    pub fn control(&self, id: ControlId) -> u32 {
        let control = self.program.controls.get(id);
        let stages = control.into_iter().flat_map(|c| c.stages.values());
        units(sum(stages.map(|stage| self.whole_stage(stage))))
    }

    fn stage_steps(&self, stage: &Stage) -> u64 {
        let code = self.plain();
        match &stage.kind {
            StageKind::Condition { cond, .. } => code.expr(cond).0,
            StageKind::Action { body, .. } => code.body(body),
            StageKind::Match { table, .. } => {
                let table = self.program.tables.get(*table);
                let selector = table.and_then(|table| self.selector(table));
                let keys = table.into_iter().flat_map(|table| &table.keys);
                let keys = keys.map(|key| {
                    let (steps, width) = code.expr(&key.expr);
                    let hashed = match selector.filter(|_| key.match_kind == MatchKind::Selector) {
                        Some(algorithm) => hash_steps(algorithm, u64::from(width) / 8),
                        None => limbs(width),
                    };
                    steps + hashed
                });
                LOOKUP.saturating_add(sum(keys))
            }
        }
    }

    fn whole_stage(&self, stage: &Stage) -> u64 {
        checkpoint();
        let own = self.stage_steps(stage);
        let StageKind::Match { table, .. } = &stage.kind else {
            return own;
        };
        let actions = self.program.tables.get(*table).map(|table| &table.actions);
        let steps = |listed: &TableAction| self.actions.get(listed.action).copied();
        let longest = actions.into_iter().flatten().filter_map(steps).max();
        own.saturating_add(longest.unwrap_or(0))
    }

    fn selector(&self, table: &Table) -> Option<HashAlgorithm> {
        match self.program.externs.get(table.implementation?)?.kind {
            ExternKind::ActionSelector { algorithm, .. } => Some(algorithm),
            _ => None,
        }
    }

    fn header_steps(&self, header: HeaderId) -> u64 {
        let ty = self.program.headers.get(header).map(|header| header.ty);
        let ty = ty.and_then(|ty| self.program.header_types.get(ty));
        let fields = ty.into_iter().flat_map(|ty| &ty.fields);
        4 + sum(fields.map(|field| 2 + u64::from(limbs_of(field.ty))))
    }

    fn hash_of(&self, call: &Call) -> HashAlgorithm {
        let instance = call.instance.and_then(|id| self.program.externs.get(id));
        let given = || {
            let number = call.operands.iter().find_map(|operand| match operand {
                Operand::Number(number) => Some(*number),
                _ => None,
            });
            number.and_then(HashAlgorithm::from_number)
        };
        match instance.map(|instance| &instance.kind) {
            Some(ExternKind::Hash { algorithm, .. } | ExternKind::Checksum { algorithm, .. }) => {
                *algorithm
            }
            _ => given().unwrap_or(HashAlgorithm::Csum16),
        }
    }
}

fn called(body: &[Stmt], callees: &mut Vec<ActionId>) {
    for stmt in body {
        checkpoint();
        match &stmt.kind {
            StmtKind::CallAction(callee, _) => callees.push(*callee),
            StmtKind::If(_, then, otherwise) => {
                called(then, callees);
                called(otherwise, callees);
            }
            StmtKind::Block(_, body) | StmtKind::Loop(_, body) | StmtKind::Atomic(body) => {
                called(body, callees);
            }
            _ => {}
        }
    }
}

fn sum(steps: impl Iterator<Item = u64>) -> u64 {
    steps.fold(0, u64::saturating_add)
}

fn limbs(width: u32) -> u64 {
    u64::from(width.div_ceil(64).max(1))
}

/// Code with the parameters that it reads. Costs are in steps. Expressions also return their width.
struct Code<'c> {
    work: &'c Work<'c>,
    params: &'c [ActionParam],
}

impl Code<'_> {
    fn body(&self, body: &[Stmt]) -> u64 {
        sum(body.iter().map(|stmt| self.stmt(&stmt.kind)))
    }

    fn stmt(&self, stmt: &StmtKind) -> u64 {
        checkpoint();
        match stmt {
            StmtKind::Assign(place, value) => {
                let (steps, width) = self.expr(value);
                sum([self.place(place).0, steps, limbs(width)].into_iter())
            }
            StmtKind::AssignSlice(place, _, _, value) => {
                let (at, width) = self.place(place);
                sum([at, self.expr(value).0, 1 + limbs(width)].into_iter())
            }
            StmtKind::AssignVarbit(to, from) => 2 + self.place(to).0 + self.place(from).0,
            StmtKind::ClearVarbit(place) | StmtKind::PacketLength(place) => 2 + self.place(place).0,
            StmtKind::CopyHeader(to, from) => {
                let copied = self.work.header_steps(to.base) / 4;
                2 + copied + self.dims(&to.dims) + self.dims(&from.dims)
            }
            StmtKind::If(cond, then, otherwise) => {
                let branches = self.body(then).max(self.body(otherwise));
                self.expr(cond).0.saturating_add(1).saturating_add(branches)
            }
            StmtKind::Block(_, body) | StmtKind::Atomic(body) => self.body(body),
            // Its iterations are charged separately.
            StmtKind::Loop(..)
            | StmtKind::Leave(_)
            | StmtKind::Continue(_)
            | StmtKind::Exit
            | StmtKind::Fail(_) => 1,
            StmtKind::CallAction(callee, args) => {
                let steps = self.work.actions.get(*callee).copied().unwrap_or(0);
                // An action that costs a unit or more charges it itself.
                let own = if steps < STEPS_PER_UNIT { steps } else { 0 };
                let args = args.iter().map(|arg| self.expr(arg).0 + 1);
                sum(args.chain([2 + own]))
            }
            StmtKind::Extract(header, size) => {
                let size = size.as_ref().map_or(0, |size| self.expr(size).0);
                let steps = self.work.header_steps(header.base);
                sum([size, steps, self.dims(&header.dims)].into_iter())
            }
            StmtKind::Advance(bits) => self.expr(bits).0 + 2,
            StmtKind::Lookahead { dests, .. } => {
                let dests = dests.iter().map(|(place, _)| {
                    let (steps, width) = self.place(place);
                    steps + 2 + limbs(width)
                });
                sum(dests.chain([2]))
            }
            StmtKind::Verify(cond, error) => self.expr(cond).0 + self.expr(error).0 + 1,
            StmtKind::Emit(header) => self.work.header_steps(header.base) + self.dims(&header.dims),
            StmtKind::EmitField(place) => {
                let (steps, width) = self.place(place);
                steps + 2 + limbs(width)
            }
            StmtKind::PushFront(stack, _) | StmtKind::PopFront(stack, _) => {
                let stack = self.work.program.stacks.get(*stack);
                let copied = stack.map_or(0, |stack| {
                    let each = self.work.header_steps(stack.first) / 4;
                    each.saturating_mul(stack.len.into())
                });
                copied.saturating_add(4)
            }
            StmtKind::Call(call) => self.call(call),
        }
    }

    fn call(&self, call: &Call) -> u64 {
        let (mut steps, mut data_bits, mut digits, mut text) = (0u64, 0u64, 0u64, 0);
        let mut add = |more: u64| steps = steps.saturating_add(more);
        for operand in &call.operands {
            match operand {
                Operand::In(value) => add(self.expr(value).0 + 1),
                Operand::Data(values) => {
                    for value in values {
                        let (steps, width) = self.expr(value);
                        add(steps.saturating_add(limbs(width)));
                        data_bits += u64::from(width);
                        digits = digits.saturating_add(limbs(width).saturating_mul(limbs(width)));
                    }
                }
                Operand::Out(place) => {
                    let (steps, width) = self.place(place);
                    add(steps + limbs(width));
                }
                Operand::Outs(places) => {
                    for place in places {
                        let (steps, width) = self.place(place);
                        add(steps + limbs(width));
                    }
                }
                Operand::Text(words) => text += words.len() as u64,
                Operand::Number(_) => {}
            }
        }
        let bytes = data_bits.div_ceil(8);
        let own = match call.op {
            Op::Hash
            | Op::HashGet
            | Op::HashGetBase
            | Op::VerifyChecksum
            | Op::VerifyChecksumWithPayload
            | Op::UpdateChecksum
            | Op::UpdateChecksumWithPayload => 8 + hash_steps(self.work.hash_of(call), bytes),
            Op::ChecksumUpdate | Op::InternetChecksumAdd | Op::InternetChecksumSubtract => {
                8 + bytes
            }
            // The text is built, by division, and passed on by the device.
            Op::LogMessage => {
                let text = 64 + text + bytes.saturating_mul(4);
                text.saturating_add(digits.saturating_mul(8))
            }
            Op::DigestSend => 64 + bytes / 4,
            Op::AddEntry | Op::Native | Op::Remote | Op::SendFrame => 64 + bytes / 8,
            Op::MeterExecute
            | Op::MeterExecuteColored
            | Op::MeterExecuteLength
            | Op::DirectMeterExecute
            | Op::DirectMeterExecuteColored
            | Op::DirectMeterExecuteLength => 16,
            _ => 4,
        };
        steps.saturating_add(own)
    }

    fn keyset(&self, keyset: &Keyset) -> u64 {
        checkpoint();
        const MEMBERSHIP: u64 = 16;
        let set = |set: &KeySet| match set {
            KeySet::Any => 0,
            KeySet::Value(value) => 1 + self.expr(value).0,
            KeySet::Mask(a, b) | KeySet::Range(a, b) => {
                let (steps, width) = self.expr(a);
                sum([steps, self.expr(b).0, 2 * limbs(width)].into_iter())
            }
            KeySet::ValueSet(_) => MEMBERSHIP,
        };
        match keyset {
            Keyset::Sets(sets) => sum(sets.iter().map(set)),
            Keyset::ValueSet(_) => MEMBERSHIP,
        }
    }

    fn dims(&self, dims: &[Dim]) -> u64 {
        sum(dims.iter().map(|dim| self.expr(&dim.index).0 + 2))
    }

    /// Returns the cost of locating a place, and its width.
    fn place(&self, place: &Place) -> (u64, u32) {
        let field = self.work.program.fields.get(place.base);
        let width = field.map_or(0, |field| field.ty.width());
        (self.dims(&place.dims), width)
    }

    fn expr(&self, expr: &Expr) -> (u64, u32) {
        checkpoint();
        match expr {
            Expr::Const(ty, _) => (0, ty.width()),
            Expr::Read(place) => {
                let (steps, width) = self.place(place);
                (steps.saturating_add(limbs(width) / 4), width)
            }
            Expr::Param(at) => {
                let ty = self.params.get(*at as usize).map(|param| param.ty);
                let width = ty.map_or(0, ScalarTy::width);
                (limbs(width) / 4, width)
            }
            Expr::Unary(_, a) => {
                let (steps, width) = self.expr(a);
                (steps.saturating_add(limbs(width)), width)
            }
            Expr::Binary(op, a, b) => {
                let ((a, width), (b, _)) = (self.expr(a), self.expr(b));
                let (own, result) = binary(*op, width);
                (sum([a, b, own].into_iter()), result)
            }
            Expr::Concat(a, b) => {
                let ((a, left), (b, right)) = (self.expr(a), self.expr(b));
                let width = left.saturating_add(right);
                (sum([a, b, limbs(width)].into_iter()), width)
            }
            Expr::Slice(a, hi, lo) => {
                let width = hi.saturating_sub(*lo).saturating_add(1);
                (self.expr(a).0.saturating_add(limbs(width)), width)
            }
            Expr::Cast(ty, a) => {
                let (steps, from) = self.expr(a);
                let width = ty.width();
                (steps.saturating_add(limbs(width.max(from))), width)
            }
            Expr::Ternary(cond, a, b) => {
                let ((a, width), (b, _)) = (self.expr(a), self.expr(b));
                let own = limbs(width).saturating_add(a.max(b));
                (self.expr(cond).0.saturating_add(own), width)
            }
            Expr::VarbitEq(a, b) => {
                let ((a, width), (b, _)) = (self.place(a), self.place(b));
                (sum([a, b, 1 + limbs(width) / 4].into_iter()), 1)
            }
            Expr::VarbitLen(place) => (self.place(place).0 + 1, 32),
        }
    }
}

/// Returns the steps of an operation on numbers of this width, and the width of its result.
fn binary(op: BinOp, width: u32) -> (u64, u32) {
    let limbs = limbs(width);
    match op {
        // A product of each pair of limbs.
        BinOp::Mul => (1 + limbs * limbs / 4, width),
        // Bit by bit, except for numbers of one limb.
        BinOp::Div | BinOp::Mod if limbs == 1 => (4, width),
        BinOp::Div | BinOp::Mod => (u64::from(width) * limbs, width),
        BinOp::Eq | BinOp::Ne | BinOp::Lt | BinOp::Le | BinOp::Gt | BinOp::Ge => (limbs, 1),
        BinOp::LogicalAnd | BinOp::LogicalOr => (1, 1),
        _ => (limbs, width),
    }
}
