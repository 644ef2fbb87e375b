//! The verifier. An accepted program accesses only its own packet and state, and ends for every
//! packet within its work budget.
//!
//! The rules, each with a rejected program in `tests/verify`:
//! - Storage: widths are at most [`MAX_WIDTH`](crate::MAX_WIDTH), the frame is at most
//!   [`MAX_FRAME_LIMBS`]. A header's fields follow its validity and have the types of its header
//!   type. Headers do not overlap. The headers of a stack have one type and are consecutive.
//! - Names of fields, actions, tables, externs and value sets are unique, and so are those of a
//!   parser's states and of a control's stages.
//! - Every id, source file and error code is in range.
//! - Expressions are well typed. A `varbit` is read only as data. Nesting is at most
//!   [`MAX_NESTING`].
//! - A place with dims reaches only fields of one type (headers of one type, at constant strides).
//! - The dims of all places together reach at most 2^24 elements, with each shape of a place
//!   counted once.
//! - Statements are allowed in their context. `Leave` and `Continue` name an enclosing label, which
//!   is unique in its body.
//! - Calls match [`OPS`](crate::OPS): operands, instance, and the types that the operation
//!   requires.
//! - Actions are not recursive and do not call each other deeper than [`MAX_CALL_DEPTH`]. Neither
//!   actions nor a control's stages expand to more than [`MAX_CALL_COST`] statements. This bounds
//!   the code that no back edge counts.
//! - Tables: default action and entries match keys and actions. Implementation and direct externs
//!   are of the right kind. Uses of a direct extern or of `add_entry` in the actions of a table
//!   refer to that table.
//! - A call of a remote handler is the only statement of its stage.
//! - Stages and states link inside their control and parser. Blocks have code of their kind.
//!   Transfers are typed pairwise.
//! - The steps of a chain are of v1model, have unique names and lead forward. Each has at most one
//!   block of a role.

mod actions;
mod calls;
mod decl;
mod expr;
mod stmt;

use std::collections::{HashMap, HashSet};
use std::fmt;

use bits::{Id, IdVec};
use support::count::count;
use support::work::checkpoint;

use crate::code::{HeaderPlace, Stmt, StmtKind};
use crate::ops::Op;
use crate::program::*;

/// Maximum nesting depth of expressions and statements.
pub const MAX_NESTING: u32 = 200;
/// Maximum call depth of actions.
pub const MAX_CALL_DEPTH: u32 = 64;
/// Maximum number of statements on one path through a control without loops, including the actions
/// that it runs.
pub const MAX_CALL_COST: u32 = 1 << 20;
/// Maximum size of a packet's frame in 64-bit limbs (1 MiB).
pub const MAX_FRAME_LIMBS: u32 = 1 << 17;
/// Maximum number of errors reported.
const MAX_ERRORS: usize = 100;
/// Maximum number of fields and headers that the dims of all places reach. Each shape of a place is
/// counted once.
const MAX_REACHED: usize = 1 << 24;

/// A violation of a rule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VerifyError {
    /// The offending item: `table ingress.ipv4_lpm`, `stage ingress.if_12`.
    pub item: String,
    /// Its source position, if known.
    pub loc: Option<Loc>,
    /// The error.
    pub message: String,
}

impl fmt::Display for VerifyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.item)?;
        if let Some(Loc { line, column, .. }) = self.loc {
            write!(f, " ({line}:{column})")?;
        }
        write!(f, ": {}", self.message)
    }
}

impl std::error::Error for VerifyError {}

/// Checks every rule of this module, and reports the first hundred violations.
pub fn verify(program: &Program) -> Result<(), Vec<VerifyError>> {
    let mut verifier = Verifier {
        program,
        errors: Vec::new(),
        item: String::new(),
        loc: None,
        places: HashMap::new(),
        reached: 0,
        expanded: HashMap::new(),
        calls: HashMap::new(),
    };
    verifier.storage();
    // Code is typed by the storage: errors in the storage would cause wrong errors in the code.
    if verifier.errors.is_empty() {
        verifier.code();
    }
    if verifier.errors.is_empty() {
        Ok(())
    } else {
        Err(verifier.errors)
    }
}

/// Checks that code of several statements calls no remote handler.
fn has_no_remote_call(body: &[Stmt]) -> Check {
    let mut calls = 0;
    actions::walk(body, &mut |stmt| {
        let is_remote = matches!(&stmt.kind, StmtKind::Call(call) if call.op == Op::Remote);
        calls += u32::from(is_remote);
    });
    match calls {
        0 => Ok(()),
        _ => Err("the call of a handler is not the only statement of the stage".to_owned()),
    }
}

/// State of the verifier.
struct Verifier<'a> {
    program: &'a Program,
    errors: Vec<VerifyError>,
    /// The current item, for messages.
    item: String,
    loc: Option<Loc>,
    /// Results for places with dims: base, header flag, and length and stride of each dim.
    places: HashMap<PlaceShape, Result<(), String>>,
    /// Number of elements that those reach in total.
    reached: usize,
    /// Expanded size of each action.
    expanded: HashMap<ActionId, actions::Expanded>,
    /// Calls in each action.
    calls: HashMap<ActionId, std::rc::Rc<actions::Calls<'a>>>,
}

type PlaceShape = (u32, bool, Vec<(u32, u32)>);

/// Result of a check. The error is the message.
type Check<T = ()> = Result<T, String>;

impl<'a> Verifier<'a> {
    /// Sets the current item.
    fn enter(&mut self, item: impl Into<String>, loc: Option<Loc>) {
        self.item = item.into();
        self.loc = None;
        let checked = self.check_loc(loc);
        self.tell(checked);
        self.loc = loc;
    }

    fn tell(&mut self, check: Check) {
        if let Err(message) = check
            && self.errors.len() < MAX_ERRORS
        {
            self.errors.push(VerifyError {
                item: self.item.clone(),
                loc: self.loc,
                message,
            });
        }
    }

    fn check_loc(&self, loc: Option<Loc>) -> Check {
        match loc {
            Some(loc) if loc.file as usize >= self.program.files.len() => {
                Err(format!("there is no source file {}", loc.file))
            }
            _ => Ok(()),
        }
    }

    fn code(&mut self) {
        self.externs();
        self.value_sets();
        self.actions();
        self.tables();
        self.parsers();
        self.controls();
        self.pipeline();
    }

    fn parsers(&mut self) {
        for parser in self.program.parsers.values() {
            checkpoint();
            self.enter(format!("parser {}", parser.name), None);
            let start = there(&parser.states, parser.start, "start state");
            self.tell(start.map(drop));
            self.unique("state", parser.states.values().map(|s| &s.name));
            for state in parser.states.values() {
                checkpoint();
                self.enter(
                    format!("parser {}, state {}", parser.name, state.name),
                    state.loc,
                );
                self.body(&state.body, stmt::Context::Parser);
                let transition = self.transition(parser, &state.transition);
                self.tell(transition);
            }
        }
    }

    fn transition(&mut self, parser: &Parser, transition: &Transition) -> Check {
        let goto = |target: Target| match target {
            Target::Accept | Target::Reject => Ok(()),
            Target::State(id) => there(&parser.states, id, "state").map(drop),
        };
        match transition {
            Transition::Direct(target) => goto(*target),
            Transition::Select { keys, cases } => {
                let keys = keys
                    .iter()
                    .map(|k| self.expr(k, None))
                    .collect::<Check<Vec<_>>>()?;
                cases.iter().try_for_each(|case| {
                    checkpoint();
                    goto(case.target)?;
                    self.keyset(&keys, &case.keyset)
                })
            }
        }
    }

    fn controls(&mut self) {
        for control in self.program.controls.values() {
            checkpoint();
            self.enter(format!("control {}", control.name), None);
            self.unique("stage", control.stages.values().map(|s| &s.name));
            for stage in control.stages.values() {
                checkpoint();
                self.enter(
                    format!("control {}, stage {}", control.name, stage.name),
                    stage.loc,
                );
                if let StageKind::Action { body, .. } = &stage.kind {
                    self.body(body, stmt::Context::Control);
                    if stage.kind.remote_call().is_none() {
                        let remote = has_no_remote_call(body);
                        self.tell(remote);
                    }
                }
                let stage = self.stage(control, &stage.kind);
                self.tell(stage);
            }
            self.enter(format!("control {}", control.name), None);
            let cost = self.control_cost(control);
            self.tell(cost);
        }
    }

    fn stage(&mut self, control: &Control, stage: &StageKind) -> Check {
        let to = |next: &Next| match next {
            Next::Stage(id) => there(&control.stages, *id, "stage").map(drop),
            Next::End => Ok(()),
        };
        match stage {
            StageKind::Condition {
                cond,
                then,
                otherwise,
            } => {
                self.expr_of(cond, crate::ScalarTy::Bool, None)?;
                to(then)?;
                to(otherwise)
            }
            StageKind::Action { next, .. } => to(next),
            StageKind::Match {
                table,
                outcome,
                next,
            } => {
                let table = there(&self.program.tables, *table, "table")?;
                self.field_of(outcome.hit, crate::ScalarTy::Bool)?;
                self.field_of(outcome.action_run, crate::ScalarTy::Bit(32))?;
                match next {
                    MatchNext::Always(next) => to(next),
                    MatchNext::ByHit { hit, miss } => to(hit).and_then(|()| to(miss)),
                    MatchNext::ByAction(all) if all.len() != table.actions.len() => Err(format!(
                        "{} for {}",
                        count(all.len() as u64, "transition"),
                        count(table.actions.len() as u64, "action")
                    )),
                    MatchNext::ByAction(all) => all.iter().try_for_each(to),
                }
            }
        }
    }

    fn field_of(&self, field: Option<FieldId>, ty: crate::ScalarTy) -> Check {
        match field {
            None => Ok(()),
            Some(id) => {
                let found = there(&self.program.fields, id, "field")?.ty;
                same(ty, found)
            }
        }
    }

    fn unique<'n>(&mut self, what: &str, names: impl Iterator<Item = &'n String>) {
        let mut seen = HashSet::new();
        for name in names {
            checkpoint();
            if !seen.insert(name) {
                self.tell(Err(format!("two {what}s are called '{name}'")));
            }
        }
    }

    fn pipeline(&mut self) {
        let pipeline = &self.program.pipeline;
        self.enter("pipeline", None);
        let mut roles = HashSet::new();
        for block in &pipeline.blocks {
            checkpoint();
            let check = if roles.insert((block.step, block.role)) {
                self.block(block)
            } else {
                Err(format!("two blocks are the {:?}", block.role))
            };
            self.tell(check);
        }
        if !pipeline.steps.is_empty() && self.program.arch != Arch::V1model {
            self.tell(Err(
                "only programs for v1model make a chain of steps".to_owned()
            ));
        }
        self.unique("step", pipeline.steps.values().map(|step| &step.name));
        for (id, step) in pipeline.steps.iter() {
            checkpoint();
            let check = self.step(id, step);
            self.tell(check);
        }
        for (key, field) in &pipeline.intrinsics {
            checkpoint();
            let check = self.scalar_field(*field);
            self.tell(check.map_err(|e| format!("intrinsic {key}: {e}")));
        }
        self.tell(self.kept_ports());
        for transfer in &pipeline.transfers {
            checkpoint();
            let check = self.transfer(transfer);
            self.tell(check);
        }
        for field in pipeline.field_lists.values().flatten() {
            checkpoint();
            self.tell(there(&self.program.fields, *field, "field").map(drop));
        }
    }

    /// Checks the intrinsics that hold ports: between the steps of a chain they are copied to each
    /// other.
    fn kept_ports(&self) -> Check {
        let pipeline = &self.program.pipeline;
        if pipeline.steps.is_empty() {
            return Ok(());
        }
        let mut ports = PORTS.iter().filter_map(|name| {
            let field = pipeline.intrinsics.get(*name)?;
            Some((name, self.program.fields.get(*field)?.ty))
        });
        let Some((_, expected)) = ports.next() else {
            return Ok(());
        };
        ports.try_for_each(|(name, ty)| {
            same(expected, ty).map_err(|e| format!("intrinsic {name}: {e}"))
        })
    }

    /// Checks that steps lead forward, so that a chain ends.
    fn step(&self, id: StepId, step: &Step) -> Check {
        let to = |next: StepId| match next > id {
            true => there(&self.program.pipeline.steps, next, "step").map(drop),
            false => Err(format!("step {} leads back", step.name)),
        };
        match &step.next {
            StepNext::End => Ok(()),
            StepNext::Step(next) => to(*next),
            StepNext::Branch { arms, otherwise } => {
                for (field, next) in arms {
                    checkpoint();
                    self.field_of(Some(*field), crate::ScalarTy::Bool)?;
                    to(*next)?;
                }
                to(*otherwise)
            }
        }
    }

    fn block(&self, block: &Block) -> Check {
        if block.step != StepId::new(0) {
            there(&self.program.pipeline.steps, block.step, "step")?;
        }
        use BlockRole::{Deparser, EgressParser, IngressDeparser, Parser};
        let is_parser = matches!(block.role, Parser | EgressParser);
        match block.code {
            BlockCode::Parser(id) if is_parser => {
                there(&self.program.parsers, id, "parser").map(drop)
            }
            BlockCode::Control(id) if !is_parser => {
                there(&self.program.controls, id, "control")?;
                let deparses = matches!(block.role, Deparser | IngressDeparser);
                if !deparses && self.emits(id) {
                    return Err(format!(
                        "the control of {:?} emits, as only deparsers may",
                        block.role
                    ));
                }
                Ok(())
            }
            _ => Err(format!("{:?} has code of the wrong kind", block.role)),
        }
    }

    fn scalar_field(&self, id: FieldId) -> Check {
        match there(&self.program.fields, id, "field")?.ty {
            crate::ScalarTy::Varbit(_) => Err("a varbit is not allowed here".to_owned()),
            _ => Ok(()),
        }
    }

    fn transfer(&self, transfer: &Transfer) -> Check {
        if transfer.from.len() != transfer.to.len() {
            return Err("a transfer's two sides differ in length".to_owned());
        }
        let pairs = transfer.from.iter().zip(&transfer.to);
        pairs.into_iter().try_for_each(|(from, to)| {
            let from = there(&self.program.fields, *from, "field")?.ty;
            same(there(&self.program.fields, *to, "field")?.ty, from)
        })
    }
}

/// Intrinsics of chains that hold ports.
const PORTS: &[&str] = &[
    "standard_metadata.egress_spec",
    "standard_metadata.egress_port",
    "chain.egress_spec",
];

/// Returns the item with this id.
fn there<'t, I: Id, T>(things: &'t IdVec<I, T>, id: I, what: &str) -> Check<&'t T> {
    things
        .get(id)
        .ok_or_else(|| format!("there is no {what} {}", id.index()))
}

/// Checks that the type is the expected one.
fn same(expected: crate::ScalarTy, found: crate::ScalarTy) -> Check {
    if expected == found {
        Ok(())
    } else {
        Err(format!("{expected:?} is expected, not {found:?}"))
    }
}

/// Returns all offsets that indices in range can yield, for dims of these lengths and strides.
/// Returns `None` if there are more than `most`.
fn reach(dims: &[(u32, u32)], most: usize) -> Option<Vec<u64>> {
    let mut offsets = vec![0u64];
    for &(len, stride) in dims {
        checkpoint();
        if offsets.len().saturating_mul(len as usize) > most || len == 0 {
            return None;
        }
        offsets = offsets
            .iter()
            .flat_map(|o| (0..u64::from(len)).map(move |i| o + i * u64::from(stride)))
            .collect();
    }
    Some(offsets)
}

impl Verifier<'_> {
    /// Returns the result for a place's shape, which is cached.
    fn shape(&mut self, shape: PlaceShape, check: impl FnOnce(&Self) -> Check) -> Check {
        if let Some(known) = self.places.get(&shape) {
            return known.clone();
        }
        checkpoint();
        let (_, _, dims) = &shape;
        let elements = dims
            .iter()
            .fold(1usize, |all, &(len, _)| all.saturating_mul(len as usize));
        // More elements than fields are rejected at once.
        if elements <= self.program.fields.len() {
            self.reached = self.reached.saturating_add(elements);
        }
        let result = if self.reached > MAX_REACHED {
            Err(format!(
                "all dims together reach more than {MAX_REACHED} elements"
            ))
        } else {
            check(self)
        };
        self.places.insert(shape, result.clone());
        result
    }

    /// Checks that all fields that the dims reach have the base's type.
    fn reached_fields(&self, base: FieldId, dims: &[(u32, u32)]) -> Check {
        let fields = &self.program.fields;
        let ty = there(fields, base, "field")?.ty;
        let offsets = reach(dims, fields.len()).ok_or("the dims are empty or reach too far")?;
        for offset in offsets {
            checkpoint();
            let at = offset + base.index() as u64;
            let field = usize::try_from(at)
                .ok()
                .and_then(|at| fields.as_slice().get(at));
            match field {
                Some(field) if field.ty == ty => {}
                Some(field) => {
                    return Err(format!(
                        "the dims reach '{}', which has another type",
                        field.name
                    ));
                }
                None => return Err("the dims reach beyond all fields".to_owned()),
            }
        }
        Ok(())
    }

    /// Checks that all headers that the dims reach have the base's type and are at constant
    /// strides.
    fn reached_headers(&self, place: &HeaderPlace, dims: &[(u32, u32)]) -> Check {
        let headers = &self.program.headers;
        let base = there(headers, place.base, "header")?;
        let strides: Vec<(u32, u32)> = std::iter::zip(dims, place.field_strides(self.program))
            .map(|(&(len, _), stride)| (len, stride))
            .collect();
        let too_far = "the dims are empty or reach too far";
        let offsets = reach(dims, headers.len()).ok_or(too_far)?;
        let field_offsets = reach(&strides, headers.len()).ok_or(too_far)?;
        for (offset, field_offset) in offsets.into_iter().zip(field_offsets) {
            checkpoint();
            let at = offset + place.base.index() as u64;
            let header = usize::try_from(at)
                .ok()
                .and_then(|at| headers.as_slice().get(at));
            let header = header.ok_or("the dims reach beyond all headers")?;
            let valid = base.valid.index() as u64 + field_offset;
            if header.ty != base.ty || header.valid.index() as u64 != valid {
                return Err(format!(
                    "the dims reach '{}', which has another type or is out of line",
                    header.name
                ));
            }
        }
        Ok(())
    }
}
