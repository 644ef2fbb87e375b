//! Translation of a control's statements and stages to nodes, from the end to the beginning: a node
//! is created when its successors are known.

use std::collections::HashMap;

use bits::{Id, Value};
use ir::{
    Action, ActionId, Control, ControlId, Dim, Expr, FieldId, HeaderPlace, LabelId, MatchNext,
    Next, Place, Program, ScalarTy, StackId, StageId, StageKind, Stmt, StmtKind,
};

use passes::slots::links;

use super::cells::Cells;
use super::code::{Code, Operand};
use super::error::{TranslateError, refuse};
use super::frame::Frame;
use super::node::{Edge, Match, Node, NodeId, Nodes, Primitive};
use super::pattern::{self, Bits, Cube, Places};
use super::words;

type Made<T> = Result<T, TranslateError>;

/// Maximum number of argument bits in an entry of one table.
pub(super) const MAX_ARGUMENTS: u32 = crate::USER_BITS;

/// Number of loop iterations after which a packet is resubmitted.
const ROUNDS: usize = 8;

/// Creates the nodes of one path.
pub(super) struct Flow<'a> {
    pub(super) program: &'a Program,
    pub(super) nodes: &'a mut Nodes,
    pub(super) frame: Frame<'a>,
    pub(super) cells: &'a Cells,
}

/// Continuations of code.
#[derive(Clone)]
struct Around {
    /// Continuation of `exit`.
    exit: NodeId,
    /// Continuations of leaving and of continuing a label.
    labels: HashMap<LabelId, (NodeId, NodeId)>,
}

impl<'a> Flow<'a> {
    /// Translates a control, followed by `next`.
    pub(super) fn control(&mut self, id: ControlId, next: NodeId) -> Made<NodeId> {
        let control: &Control = &self.program.controls[id];
        let mut entries: HashMap<StageId, NodeId> = HashMap::new();
        let heads: Vec<StageId> = loop_heads(control);
        for head in &heads {
            entries.insert(*head, self.nodes.open());
        }
        let mut first = next;
        for (stage, kind) in control.stages.iter().rev() {
            let to = |to: Next| match to {
                Next::End => next,
                Next::Stage(stage) => entries.get(&stage).copied().unwrap_or(next),
            };
            let made = self
                .stage(&kind.kind, next, &to)
                .map_err(|error| error.at(kind.loc))?;
            first = made;
            match entries.get(&stage) {
                Some(head) => self.nodes.close(*head, made),
                None => {
                    entries.insert(stage, made);
                }
            }
        }
        Ok(first)
    }

    fn stage(
        &mut self,
        kind: &StageKind,
        exit: NodeId,
        to: &dyn Fn(Next) -> NodeId,
    ) -> Made<NodeId> {
        let around = Around {
            exit,
            labels: HashMap::new(),
        };
        match kind {
            StageKind::Condition {
                cond,
                then,
                otherwise,
            } => self.branch(cond, to(*then), to(*otherwise)),
            StageKind::Action { body, next } => self.body(body, to(*next), &around),
            StageKind::Match {
                table,
                outcome,
                next,
            } => {
                let declared = &self.program.tables[*table];
                if let Some(meter) = declared.direct_meter {
                    let name = &self.program.externs[meter].name;
                    return refuse(format!("direct meter ({name})"), declared.loc);
                }
                let mut edges = Vec::new();
                for (position, action) in declared.actions.iter().enumerate() {
                    let (hit, miss) = match next {
                        MatchNext::Always(next) => (to(*next), to(*next)),
                        MatchNext::ByHit { hit, miss } => (to(*hit), to(*miss)),
                        MatchNext::ByAction(nexts) => {
                            let next = nexts.get(position).copied().unwrap_or(Next::End);
                            (to(next), to(next))
                        }
                    };
                    let mut edge = |is_hit: bool, next: NodeId| -> Made<NodeId> {
                        let next = self.action(action.action, next, &around)?;
                        let mut code = Code::new(&self.frame);
                        let hit = outcome.hit.map(|field| (field, u32::from(is_hit), 1));
                        let ran = outcome.action_run.map(|field| (field, position as u32, 32));
                        for (field, value, width) in hit.into_iter().chain(ran) {
                            if let Some((at, _)) = code.target(field, None)? {
                                code.set(at, &words::number(value, width));
                            }
                        }
                        let made = code.made;
                        Ok(self.nodes.run(made, next))
                    };
                    edges.push(Edge {
                        hit: edge(true, hit)?,
                        miss: edge(false, miss)?,
                    });
                }
                self.matching(*table, edges)
            }
        }
    }

    /// Translates the application of a table. Keys that are expressions are computed before.
    fn matching(&mut self, table: ir::TableId, edges: Vec<Edge>) -> Made<NodeId> {
        let declared = &self.program.tables[table];
        let mark = self.frame.layout.mark();
        let mut code = Code::new(&self.frame);
        let mut keys: Vec<Bits> = Vec::new();
        for key in declared
            .keys
            .iter()
            .filter(|key| key.match_kind != ir::MatchKind::Selector)
        {
            let bits = match pattern::bits(&self.frame, &key.expr) {
                Some(bits) => bits,
                None => {
                    let width = pattern::ty(&self.frame, &key.expr).map_or(0, ScalarTy::width);
                    let own = code.temporary(width)?;
                    code.value(&key.expr, Some(own))?;
                    (own..own + width).rev().map(pattern::Bit::At).collect()
                }
            };
            keys.push(bits);
        }
        if declared
            .keys
            .iter()
            .any(|key| key.match_kind == ir::MatchKind::Selector)
        {
            return refuse("action selector", declared.loc);
        }
        let made = code.made;
        self.frame.layout.release(mark);
        let node = self.nodes.add(Node::Match(Match { table, keys, edges }));
        Ok(self.nodes.run(made, node))
    }

    /// Translates an action of a table. Its arguments are at fixed positions, written by its entry.
    fn action(&mut self, id: ActionId, next: NodeId, around: &Around) -> Made<NodeId> {
        let action = &self.program.actions[id];
        let params = argument_places(self.program, id);
        let params = params
            .into_iter()
            .map(|(at, width)| range(at, width))
            .collect();
        let made = self.action_body(action, params, next, around);
        made.map_err(|error| error.at(action.loc))
    }

    fn body(&mut self, body: &[Stmt], next: NodeId, around: &Around) -> Made<NodeId> {
        let mut next = next;
        for stmt in body.iter().rev() {
            next = self
                .stmt(stmt, next, around)
                .map_err(|error| error.at(stmt.loc))?;
        }
        Ok(next)
    }

    fn stmt(&mut self, stmt: &Stmt, next: NodeId, around: &Around) -> Made<NodeId> {
        let mark = self.frame.layout.mark();
        let made = match &stmt.kind {
            StmtKind::If(cond, then, otherwise) => {
                let then = self.body(then, next, around)?;
                let otherwise = self.body(otherwise, next, around)?;
                self.branch(cond, then, otherwise)?
            }
            StmtKind::Block(label, body) => {
                let mut inner = around.clone();
                inner.labels.insert(*label, (next, next));
                self.body(body, next, &inner)?
            }
            StmtKind::Loop(label, body) => {
                let head = self.nodes.open();
                let mut round = head;
                for _ in 0..ROUNDS {
                    let mut inner = around.clone();
                    inner.labels.insert(*label, (next, round));
                    round = self.body(body, round, &inner)?;
                }
                self.nodes.close(head, round);
                head
            }
            StmtKind::Leave(label) => around.labels.get(label).map_or(next, |(leave, _)| *leave),
            StmtKind::Continue(label) => around.labels.get(label).map_or(next, |(_, again)| *again),
            StmtKind::Exit => around.exit,
            StmtKind::CallAction(action, args) => self.call_action(*action, args, next, around)?,
            StmtKind::Call(call) => super::externs::call(self, call, next)?,
            _ => {
                let made = self.primitives(&stmt.kind)?;
                self.nodes.run(made, next)
            }
        };
        self.frame.layout.release(mark);
        Ok(made)
    }

    /// Translates a branch. The condition is computed first if it cannot be matched as a pattern.
    pub(super) fn branch(&mut self, cond: &Expr, then: NodeId, otherwise: NodeId) -> Made<NodeId> {
        let holds = pattern::dnf(&self.frame, cond, true);
        let fails = pattern::dnf(&self.frame, cond, false);
        match (holds, fails) {
            (Some(holds), Some(fails)) if fails.len() < holds.len() => {
                Ok(self.nodes.branch(fails, otherwise, then))
            }
            (Some(holds), _) => Ok(self.nodes.branch(holds, then, otherwise)),
            (None, Some(fails)) => Ok(self.nodes.branch(fails, otherwise, then)),
            (None, None) => self.branch_computed(cond, then, otherwise),
        }
    }

    fn branch_computed(&mut self, cond: &Expr, then: NodeId, otherwise: NodeId) -> Made<NodeId> {
        let mark = self.frame.layout.mark();
        let mut code = Code::new(&self.frame);
        let bit = code.value(cond, None)?;
        let made = code.made;
        self.frame.layout.release(mark);
        let node = match bit {
            Operand::Is(is) if is.is_zero() => otherwise,
            Operand::Is(_) => then,
            Operand::At(at, _) => {
                let cube = Cube([(at, true)].into_iter().collect());
                self.nodes.branch(vec![cube], then, otherwise)
            }
        };
        Ok(self.nodes.run(made, node))
    }

    /// Translates an action called by code. Its arguments are computed into temporaries.
    fn call_action(
        &mut self,
        id: ActionId,
        args: &[Expr],
        next: NodeId,
        around: &Around,
    ) -> Made<NodeId> {
        let action = &self.program.actions[id];
        let mut params = Vec::new();
        let mut code = Code::new(&self.frame);
        for (param, arg) in action.params.iter().zip(args) {
            let width = param.ty.width();
            let bits = pattern::bits(&self.frame, arg);
            if let Some(value) = bits.and_then(|bits| pattern::constant(&bits)) {
                params.push(pattern::of_value(&value));
                continue;
            }
            let at = code.temporary(width)?;
            code.value(arg, Some(at))?;
            params.push(range(at, width));
        }
        let made = code.made;
        let body = self.action_body(action, params, next, around)?;
        Ok(self.nodes.run(made, body))
    }

    /// Translates the body of an action with these bits as parameters.
    fn action_body(
        &mut self,
        action: &'a Action,
        params: Vec<Bits>,
        next: NodeId,
        around: &Around,
    ) -> Made<NodeId> {
        let params = std::mem::replace(&mut self.frame.params, params);
        let outer = self.frame.action.replace(action);
        let made = self.body(&action.body, next, around);
        (self.frame.params, self.frame.action) = (params, outer);
        made
    }

    /// Translates a statement without branches.
    fn primitives(&mut self, kind: &StmtKind) -> Made<Vec<Primitive>> {
        let mut code = Code::new(&self.frame);
        match kind {
            StmtKind::Assign(place, value) => code.assign(place, None, value)?,
            StmtKind::AssignSlice(place, hi, lo, value) => {
                code.assign(place, Some((*hi, *lo)), value)?;
            }
            StmtKind::CopyHeader(to, from) => copy_header(self.program, &mut code, to, from)?,
            StmtKind::PushFront(stack, by) => shift(self.program, &mut code, *stack, *by, true)?,
            StmtKind::PopFront(stack, by) => shift(self.program, &mut code, *stack, *by, false)?,
            other => return refuse(super::construct(other), None),
        }
        Ok(code.made)
    }
}

/// Returns the bits of a range of the register file.
pub(super) fn range(at: u32, width: u32) -> Bits {
    (at..at + width).rev().map(pattern::Bit::At).collect()
}

/// Returns the positions of a table action's arguments, which start at the end of the register
/// file.
pub(super) fn argument_places(program: &Program, action: ActionId) -> Vec<(u32, u32)> {
    let mut at = 0;
    let params = program.actions[action].params.iter();
    let places = params.map(|param| {
        let width = param.ty.width();
        at += width;
        (at - width, width)
    });
    places.collect()
}

/// Returns the stages to which later stages link back.
fn loop_heads(control: &Control) -> Vec<StageId> {
    let back = |stage: StageId| {
        let all = links(&control.stages[stage].kind).into_iter();
        all.filter(move |to| *to <= stage)
    };
    let mut heads: Vec<StageId> = control.stages.ids().flat_map(back).collect();
    heads.sort();
    heads.dedup();
    heads
}

/// Copies a header: all fields and the validity.
fn copy_header(
    program: &Program,
    code: &mut Code<'_>,
    to: &HeaderPlace,
    from: &HeaderPlace,
) -> Made<()> {
    let ty = program.headers[to.base].ty;
    let count = program.header_types[ty].fields.len();
    // The last field comes first, so that adjacent fields are copied together.
    for number in (0..=count).rev() {
        let place = |header: &HeaderPlace| field_place(program, header, number);
        code.assign(&place(to), None, &Expr::Read(place(from)))?;
    }
    Ok(())
}

/// Returns the place of a header's validity (0) or of one of its fields.
fn field_place(program: &Program, header: &HeaderPlace, number: usize) -> Place {
    let strides = header.field_strides(program);
    let dims = header.dims.iter().zip(strides);
    let dims = dims
        .map(|(dim, stride)| Dim {
            stride,
            ..dim.clone()
        })
        .collect();
    let valid = program.headers[header.base].valid;
    Place {
        base: FieldId::from_index(valid.index() + number),
        dims,
    }
}

/// Shifts the elements of a stack.
fn shift(program: &Program, code: &mut Code<'_>, id: StackId, by: u32, is_push: bool) -> Made<()> {
    let stack = &program.stacks[id];
    let by = by.min(stack.len);
    let element = |number: u32| {
        HeaderPlace::from(ir::HeaderId::from_index(
            stack.first.index() + number as usize,
        ))
    };
    let moved = stack.len - by;
    let pairs: Vec<(u32, u32)> = match is_push {
        true => (0..moved)
            .rev()
            .map(|number| (number + by, number))
            .collect(),
        false => (0..moved).map(|number| (number, number + by)).collect(),
    };
    for (to, from) in pairs {
        copy_header(program, code, &element(to), &element(from))?;
    }
    let emptied = if is_push { 0..by } else { moved..stack.len };
    for number in emptied {
        let valid = field_place(program, &element(number), 0);
        code.assign(&valid, None, &Expr::Const(ScalarTy::Bool, Value::zero(1)))?;
    }
    // Updates the number of elements, limited to the stack's size and to 0.
    let next = Place::from(stack.next_index);
    if code.frame.field(stack.next_index).is_some()
        && code.frame.layout.used(stack.next_index).is_some()
    {
        let read = || Box::new(Expr::Read(next.clone()));
        let number = |number: u32| Expr::Const(ScalarTy::Bit(32), words::number(number, 32));
        let moved_on = match is_push {
            false => Expr::Binary(ir::BinOp::SubSaturating, read(), Box::new(number(by))),
            true => Expr::Ternary(
                Box::new(Expr::Binary(ir::BinOp::Lt, read(), Box::new(number(moved)))),
                Box::new(Expr::Binary(ir::BinOp::Add, read(), Box::new(number(by)))),
                Box::new(number(stack.len)),
            ),
        };
        code.assign(&next, None, &moved_on)?;
    }
    Ok(())
}
