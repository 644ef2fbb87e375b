//! Checks statements: their context, and the types of the values that they read and write.

use support::work::checkpoint;

use super::expr::{slice, unsigned};
use super::{Check, MAX_NESTING, Verifier, same, there};
use crate::code::*;
use crate::program::*;
use crate::types::{MAX_WIDTH, ScalarTy};

/// Context of code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Context {
    /// A parser state.
    Parser,
    /// A stage of a control.
    Control,
    /// An action.
    Action(ActionId),
}

/// A label that encloses the current statement.
struct Enclosing {
    label: LabelId,
    is_loop: bool,
}

/// The current body.
struct Body<'p> {
    context: Context,
    action: Option<&'p Action>,
    enclosing: Vec<Enclosing>,
    labels: std::collections::HashSet<LabelId>,
    depth: u32,
}

impl<'a> Verifier<'a> {
    pub(super) fn body(&mut self, stmts: &[Stmt], context: Context) {
        let action = match context {
            Context::Action(id) => self.program.actions.get(id),
            _ => None,
        };
        let mut body = Body {
            context,
            action,
            enclosing: Vec::new(),
            labels: Default::default(),
            depth: 0,
        };
        self.stmts(stmts, &mut body);
    }

    fn stmts(&mut self, stmts: &[Stmt], body: &mut Body<'_>) {
        if body.depth >= MAX_NESTING {
            return self.tell(Err(format!(
                "statements are nested deeper than {MAX_NESTING}"
            )));
        }
        body.depth += 1;
        for stmt in stmts {
            checkpoint();
            let item_loc = self.loc;
            let loc = self.check_loc(stmt.loc);
            self.tell(loc);
            self.loc = stmt.loc.or(item_loc);
            let check = self.stmt(&stmt.kind, body);
            self.tell(check);
            self.loc = item_loc;
        }
        body.depth -= 1;
    }

    fn labelled(
        &mut self,
        label: LabelId,
        is_loop: bool,
        stmts: &[Stmt],
        body: &mut Body<'_>,
    ) -> Check {
        if !body.labels.insert(label) {
            return Err(format!("the label {label} is used twice"));
        }
        body.enclosing.push(Enclosing { label, is_loop });
        self.stmts(stmts, body);
        body.enclosing.pop();
        Ok(())
    }

    fn stmt(&mut self, stmt: &StmtKind, body: &mut Body<'_>) -> Check {
        let action = body.action;
        match stmt {
            StmtKind::If(cond, then, otherwise) => {
                let cond = self.expr_of(cond, ScalarTy::Bool, action);
                self.stmts(then, body);
                self.stmts(otherwise, body);
                cond
            }
            StmtKind::Block(label, stmts) => self.labelled(*label, false, stmts, body),
            StmtKind::Loop(label, stmts) => self.labelled(*label, true, stmts, body),
            StmtKind::Atomic(stmts) => {
                self.stmts(stmts, body);
                Ok(())
            }
            StmtKind::Leave(label) => {
                let encloses = body.enclosing.iter().any(|e| e.label == *label);
                encloses
                    .then_some(())
                    .ok_or_else(|| format!("leave: nothing around is labelled {label}"))
            }
            StmtKind::Continue(label) => {
                let encloses = body
                    .enclosing
                    .iter()
                    .any(|e| e.label == *label && e.is_loop);
                encloses
                    .then_some(())
                    .ok_or_else(|| format!("continue: no loop around is labelled {label}"))
            }
            StmtKind::Exit => Ok(()),
            StmtKind::Assign(..)
            | StmtKind::AssignSlice(..)
            | StmtKind::AssignVarbit(..)
            | StmtKind::ClearVarbit(..)
            | StmtKind::CopyHeader(..)
            | StmtKind::PushFront(..)
            | StmtKind::PopFront(..) => self.write(stmt, action),
            StmtKind::CallAction(callee, args) => self.call_action(*callee, args, body),
            StmtKind::Call(call) => self.call(call, action),
            StmtKind::Emit(header) => {
                not_in_parser(body)?;
                self.header_place(header, action).map(drop)
            }
            StmtKind::EmitField(place) => {
                not_in_parser(body)?;
                self.scalar_place(place, action).map(drop)
            }
            parsing => {
                if body.context != Context::Parser {
                    return Err("a statement of parsers stands elsewhere".to_owned());
                }
                self.parsing(parsing)
            }
        }
    }

    fn write(&mut self, stmt: &StmtKind, action: Option<&Action>) -> Check {
        match stmt {
            StmtKind::Assign(place, e) => {
                let ty = self.scalar_place(place, action)?;
                self.expr_of(e, ty, action)
            }
            StmtKind::AssignSlice(place, hi, lo, e) => {
                let ty = self.scalar_place(place, action)?;
                self.expr_of(e, slice(ty, *hi, *lo)?, action)
            }
            StmtKind::AssignVarbit(to, from) => {
                let ty = self.varbit(to, action)?;
                same(ty, self.varbit(from, action)?)
            }
            StmtKind::ClearVarbit(place) => self.varbit(place, action).map(drop),
            StmtKind::CopyHeader(to, from) => {
                let to = self.header_place(to, action)?;
                if to != self.header_place(from, action)? {
                    return Err("headers of two types are copied".to_owned());
                }
                Ok(())
            }
            StmtKind::PushFront(stack, _) | StmtKind::PopFront(stack, _) => {
                there(&self.program.stacks, *stack, "stack").map(drop)
            }
            _ => Ok(()),
        }
    }

    fn call_action(&mut self, callee: ActionId, args: &[Expr], body: &Body<'_>) -> Check {
        if body.context == Context::Parser {
            return Err("a parser runs an action".to_owned());
        }
        let callee = there(&self.program.actions, callee, "action")?;
        if callee.params.len() != args.len() {
            return Err(format!(
                "{} takes {} arguments",
                callee.name,
                callee.params.len()
            ));
        }
        for (param, arg) in callee.params.iter().zip(args) {
            checkpoint();
            self.expr_of(arg, param.ty, body.action)?;
        }
        Ok(())
    }

    fn parsing(&mut self, stmt: &StmtKind) -> Check {
        let bit32 = ScalarTy::Bit(32);
        match stmt {
            StmtKind::Extract(header, size) => {
                let ty = self.header_place(header, None)?;
                let fields = &there(&self.program.header_types, ty, "header type")?.fields;
                let varies = fields.iter().any(|f| matches!(f.ty, ScalarTy::Varbit(_)));
                match size {
                    Some(size) if varies => self.expr_of(size, bit32, None),
                    None if !varies => Ok(()),
                    _ => Err("a size is given exactly for a header with a varbit".to_owned()),
                }
            }
            StmtKind::Advance(amount) => self.expr_of(amount, bit32, None),
            StmtKind::Lookahead { total, dests } => {
                if *total > MAX_WIDTH {
                    return Err(format!("{total} bits are more than {MAX_WIDTH}"));
                }
                dests.iter().try_for_each(|(place, offset)| {
                    let end = self
                        .scalar_place(place, None)?
                        .width()
                        .saturating_add(*offset);
                    if end > *total {
                        return Err(format!("bits up to {end} of {total} are looked at"));
                    }
                    Ok(())
                })
            }
            StmtKind::PacketLength(place) => same(bit32, self.scalar_place(place, None)?),
            StmtKind::Verify(cond, error) => {
                self.expr_of(cond, ScalarTy::Bool, None)?;
                self.expr_of(error, ScalarTy::Error, None)
            }
            StmtKind::Fail(error) if *error as usize >= self.program.errors.len() => {
                Err(format!("there is no error {error}"))
            }
            _ => Ok(()),
        }
    }

    /// Checks an expression of type `bit`.
    pub(super) fn unsigned_expr(&mut self, e: &Expr, action: Option<&Action>) -> Check {
        unsigned(self.expr(e, action)?)
    }
}

/// Checks that `emit` is not in a parser. Whether a control may emit is checked for its block.
fn not_in_parser(body: &Body<'_>) -> Check {
    match body.context {
        Context::Parser => Err("emit stands in a parser".to_owned()),
        Context::Control | Context::Action(_) => Ok(()),
    }
}
