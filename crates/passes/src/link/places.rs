//! Translation of ids from one program to another, and of code that uses them.

use std::collections::HashMap;

use bits::{IdVec, Value};
use ir::{
    ActionId, Call, Control, Dim, EnumId, Expr, ExternId, FieldId, HeaderId, HeaderPlace,
    HeaderTypeId, KeySet, Keyset, Loc, Op, Operand, Parser, Place, ScalarTy, StackId, StageKind,
    Stmt, StmtKind, TableId, Transition, ValueSetId,
};

use support::work::checkpoint;

/// Maps each id of the source program to the id in the target program.
#[derive(Clone, Debug, Default)]
pub(crate) struct Places {
    pub(crate) files: Vec<u32>,
    pub(crate) errors: Vec<u32>,
    pub(crate) enums: IdVec<EnumId, EnumId>,
    pub(crate) header_types: IdVec<HeaderTypeId, HeaderTypeId>,
    pub(crate) fields: IdVec<FieldId, FieldId>,
    pub(crate) headers: IdVec<HeaderId, HeaderId>,
    pub(crate) stacks: IdVec<StackId, StackId>,
    pub(crate) actions: IdVec<ActionId, ActionId>,
    pub(crate) tables: IdVec<TableId, TableId>,
    pub(crate) value_sets: IdVec<ValueSetId, ValueSetId>,
    pub(crate) externs: IdVec<ExternId, ExternId>,
    /// Numbers of field lists.
    pub(crate) lists: HashMap<u64, u64>,
}

impl Places {
    pub(crate) fn loc(&self, loc: Option<Loc>) -> Option<Loc> {
        let file = |loc: Loc| self.files.get(loc.file as usize).copied();
        loc.and_then(|loc| {
            let file = file(loc)?;
            Some(Loc { file, ..loc })
        })
    }

    pub(crate) fn scalar_ty(&self, ty: ScalarTy) -> ScalarTy {
        match ty {
            ScalarTy::Enum(id) => ScalarTy::Enum(self.enums[id]),
            plain => plain,
        }
    }

    pub(crate) fn scalar_tys(&self, tys: &mut [ScalarTy]) {
        for ty in tys {
            checkpoint();
            *ty = self.scalar_ty(*ty);
        }
    }

    /// Translates a value of this type. Error codes have other numbers in the target.
    pub(crate) fn value(&self, ty: ScalarTy, value: &mut Value) {
        if ty == ScalarTy::Error
            && let Some(code) = value.to_u64()
            && let Some(code) = self.errors.get(code as usize)
        {
            *value = Value::truncated(u128::from(*code), ty.width());
        }
    }

    pub(crate) fn parser(&self, parser: &Parser, prefix: &str) -> Parser {
        let mut linked = parser.clone();
        linked.name = format!("{prefix}.{}", parser.name);
        for (_, state) in linked.states.iter_mut() {
            checkpoint();
            state.loc = self.loc(state.loc);
            self.body(&mut state.body);
            if let Transition::Select { keys, cases } = &mut state.transition {
                keys.iter_mut().for_each(|key| self.expr(key));
                cases
                    .iter_mut()
                    .for_each(|case| self.keyset(&mut case.keyset));
            }
        }
        linked
    }

    fn keyset(&self, keyset: &mut Keyset) {
        checkpoint();
        let sets = match keyset {
            Keyset::Sets(sets) => sets,
            Keyset::ValueSet(id) => {
                *id = self.value_sets[*id];
                return;
            }
        };
        for set in sets {
            match set {
                KeySet::Any => {}
                KeySet::Value(value) => self.expr(value),
                KeySet::Mask(a, b) | KeySet::Range(a, b) => {
                    self.expr(a);
                    self.expr(b);
                }
                KeySet::ValueSet(id) => *id = self.value_sets[*id],
            }
        }
    }

    /// Translates a control. Its stages get the prefix too, so that stages of several programs can
    /// be in one line.
    pub(crate) fn control(&self, control: &Control, prefix: &str) -> Control {
        let mut linked = control.clone();
        linked.name = format!("{prefix}.{}", control.name);
        for (_, stage) in linked.stages.iter_mut() {
            checkpoint();
            stage.name = format!("{prefix}.{}", stage.name);
            stage.loc = self.loc(stage.loc);
            self.stage(&mut stage.kind);
        }
        linked
    }

    fn stage(&self, stage: &mut StageKind) {
        match stage {
            StageKind::Condition { cond, .. } => self.expr(cond),
            StageKind::Action { body, .. } => self.body(body),
            StageKind::Match { table, outcome, .. } => {
                *table = self.tables[*table];
                for field in [&mut outcome.hit, &mut outcome.action_run] {
                    *field = field.map(|id| self.fields[id]);
                }
            }
        }
    }

    pub(crate) fn body(&self, body: &mut [Stmt]) {
        for stmt in body {
            checkpoint();
            stmt.loc = self.loc(stmt.loc);
            self.stmt(&mut stmt.kind);
        }
    }

    fn stmt(&self, stmt: &mut StmtKind) {
        match stmt {
            StmtKind::Assign(place, value) | StmtKind::AssignSlice(place, _, _, value) => {
                self.place(place);
                self.expr(value);
            }
            StmtKind::AssignVarbit(to, from) => {
                self.place(to);
                self.place(from);
            }
            StmtKind::ClearVarbit(place)
            | StmtKind::PacketLength(place)
            | StmtKind::EmitField(place) => self.place(place),
            StmtKind::CopyHeader(to, from) => {
                self.header_place(to);
                self.header_place(from);
            }
            StmtKind::If(cond, then, otherwise) => {
                self.expr(cond);
                self.body(then);
                self.body(otherwise);
            }
            StmtKind::Block(_, body) | StmtKind::Loop(_, body) | StmtKind::Atomic(body) => {
                self.body(body);
            }
            StmtKind::Leave(_) | StmtKind::Continue(_) | StmtKind::Exit => {}
            StmtKind::CallAction(action, args) => {
                *action = self.actions[*action];
                args.iter_mut().for_each(|arg| self.expr(arg));
            }
            StmtKind::Extract(header, size) => {
                self.header_place(header);
                size.iter_mut().for_each(|size| self.expr(size));
            }
            StmtKind::Advance(bits) => self.expr(bits),
            StmtKind::Lookahead { dests, .. } => {
                dests.iter_mut().for_each(|(place, _)| self.place(place));
            }
            StmtKind::Verify(cond, error) => {
                self.expr(cond);
                self.expr(error);
            }
            StmtKind::Fail(error) => *error = self.errors[*error as usize],
            StmtKind::Emit(header) => self.header_place(header),
            StmtKind::PushFront(stack, _) | StmtKind::PopFront(stack, _) => {
                *stack = self.stacks[*stack];
            }
            StmtKind::Call(call) => self.call(call),
        }
    }

    fn call(&self, call: &mut Call) {
        call.instance = call.instance.map(|id| self.externs[id]);
        for operand in &mut call.operands {
            checkpoint();
            match operand {
                Operand::In(value) => self.expr(value),
                Operand::Out(place) => self.place(place),
                Operand::Data(values) => values.iter_mut().for_each(|value| self.expr(value)),
                Operand::Outs(places) => places.iter_mut().for_each(|place| self.place(place)),
                Operand::Text(_) | Operand::Number(_) => {}
            }
        }
        let list = match call.op {
            Op::Clone => call.operands.get_mut(1),
            Op::Resubmit | Op::Recirculate => call.operands.get_mut(0),
            _ => None,
        };
        // The list's number plus one.
        if let Some(Operand::Number(number)) = list
            && let Some(place) = self.lists.get(&number.wrapping_sub(1))
        {
            *number = place + 1;
        }
    }

    pub(crate) fn expr(&self, expr: &mut Expr) {
        checkpoint();
        match expr {
            Expr::Const(ty, value) => {
                self.value(*ty, value);
                *ty = self.scalar_ty(*ty);
            }
            Expr::Param(_) => {}
            Expr::Read(place) | Expr::VarbitLen(place) => self.place(place),
            Expr::VarbitEq(a, b) => {
                self.place(a);
                self.place(b);
            }
            Expr::Unary(_, a) | Expr::Slice(a, _, _) => self.expr(a),
            Expr::Cast(ty, a) => {
                *ty = self.scalar_ty(*ty);
                self.expr(a);
            }
            Expr::Binary(_, a, b) | Expr::Concat(a, b) => {
                self.expr(a);
                self.expr(b);
            }
            Expr::Ternary(a, b, c) => {
                self.expr(a);
                self.expr(b);
                self.expr(c);
            }
        }
    }

    fn place(&self, place: &mut Place) {
        place.base = self.fields[place.base];
        self.dims(&mut place.dims);
    }

    fn header_place(&self, place: &mut HeaderPlace) {
        place.base = self.headers[place.base];
        self.dims(&mut place.dims);
    }

    fn dims(&self, dims: &mut [Dim]) {
        for dim in dims {
            self.expr(&mut dim.index);
        }
    }
}
