//! Use analysis: fields that code reads and writes, and operations that it calls.

use std::collections::HashSet;

use ir::{
    Action, ActionId, Call, Control, Dim, Expr, ExternId, FieldId, HeaderId, HeaderPlace, KeySet,
    Keyset, Op, Operand, Parser, Place, Program, StackId, Stage, StageKind, Stmt, StmtKind,
    TableId, Transition,
};
use support::work::checkpoint;

/// Items that code may use on any path through it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Uses {
    pub(crate) reads: HashSet<FieldId>,
    pub(crate) writes: HashSet<FieldId>,
    /// Headers that are emitted.
    pub(crate) emits: HashSet<HeaderId>,
    pub(crate) ops: HashSet<Op>,
    pub(crate) actions: HashSet<ActionId>,
    pub(crate) tables: HashSet<TableId>,
    pub(crate) externs: HashSet<ExternId>,
    /// True if the code can execute `exit`.
    pub(crate) exits: bool,
    /// Fields that are accessed by an index known only at run time.
    pub(crate) indexed: HashSet<FieldId>,
}

impl Uses {
    /// Returns the uses of a control, with all actions that it runs.
    pub(crate) fn of_control(program: &Program, control: &Control) -> Uses {
        let mut uses = Uses::default();
        let mut walk = Walk {
            program,
            uses: &mut uses,
        };
        for stage in control.stages.values() {
            checkpoint();
            walk.stage(stage);
        }
        uses
    }

    /// Returns the uses of a stage, with all actions that it runs.
    pub(crate) fn of_stage(program: &Program, stage: &Stage) -> Uses {
        let mut uses = Uses::default();
        let mut walk = Walk {
            program,
            uses: &mut uses,
        };
        walk.stage(stage);
        uses
    }

    /// Returns the uses of an action.
    pub(crate) fn of_action(program: &Program, action: ActionId) -> Uses {
        let mut uses = Uses::default();
        let mut walk = Walk {
            program,
            uses: &mut uses,
        };
        walk.action(action);
        uses
    }

    /// Returns the uses of a parser.
    pub(crate) fn of_parser(program: &Program, parser: &Parser) -> Uses {
        let mut uses = Uses::default();
        let mut walk = Walk {
            program,
            uses: &mut uses,
        };
        for state in parser.states.values() {
            checkpoint();
            walk.body(&state.body);
            if let Transition::Select { keys, cases } = &state.transition {
                keys.iter().for_each(|key| walk.expr(key));
                cases.iter().for_each(|case| walk.keyset(&case.keyset));
            }
        }
        uses
    }

    /// Returns the uses of a statement.
    pub(crate) fn of_stmt(program: &Program, stmt: &Stmt) -> Uses {
        let mut uses = Uses::default();
        let mut walk = Walk {
            program,
            uses: &mut uses,
        };
        walk.stmt(&stmt.kind);
        uses
    }

    /// Returns the uses of an expression.
    pub(crate) fn of_expr(program: &Program, expr: &Expr) -> Uses {
        let mut uses = Uses::default();
        let mut walk = Walk {
            program,
            uses: &mut uses,
        };
        walk.expr(expr);
        uses
    }

    /// Returns the union of both.
    pub(crate) fn and(mut self, other: Uses) -> Uses {
        self.reads.extend(other.reads);
        self.writes.extend(other.writes);
        self.emits.extend(other.emits);
        self.ops.extend(other.ops);
        self.actions.extend(other.actions);
        self.tables.extend(other.tables);
        self.externs.extend(other.externs);
        self.indexed.extend(other.indexed);
        self.exits |= other.exits;
        self
    }
}

/// Returns a header's validity field and its fields.
pub(crate) fn fields_of(program: &Program, header: HeaderId) -> impl Iterator<Item = FieldId> {
    let header = &program.headers[header];
    let count = program.header_types[header.ty].fields.len() as u32;
    let valid = header.valid.get();
    (valid..=valid + count).map(FieldId::new)
}

struct Walk<'a> {
    program: &'a Program,
    uses: &'a mut Uses,
}

impl Walk<'_> {
    fn stage(&mut self, stage: &Stage) {
        match &stage.kind {
            StageKind::Condition { cond, .. } => self.expr(cond),
            StageKind::Action { body, .. } => self.body(body),
            StageKind::Match { table, outcome, .. } => {
                self.table(*table);
                let outcome = [outcome.hit, outcome.action_run];
                self.uses.writes.extend(outcome.into_iter().flatten());
            }
        }
    }

    fn table(&mut self, id: TableId) {
        if !self.uses.tables.insert(id) {
            return;
        }
        let table = &self.program.tables[id];
        let externs = [
            table.implementation,
            table.direct_counter,
            table.direct_meter,
        ];
        self.uses.externs.extend(externs.into_iter().flatten());
        table.keys.iter().for_each(|key| self.expr(&key.expr));
        for listed in &table.actions {
            checkpoint();
            self.action(listed.action);
        }
    }

    fn action(&mut self, id: ActionId) {
        if self.uses.actions.insert(id) {
            let action: &Action = &self.program.actions[id];
            self.body(&action.body);
        }
    }

    fn body(&mut self, body: &[Stmt]) {
        for stmt in body {
            checkpoint();
            self.stmt(&stmt.kind);
        }
    }

    fn stmt(&mut self, stmt: &StmtKind) {
        match stmt {
            StmtKind::Assign(place, value) => {
                self.write(place);
                self.expr(value);
            }
            StmtKind::AssignSlice(place, _, _, value) => {
                self.read(place);
                self.write(place);
                self.expr(value);
            }
            StmtKind::AssignVarbit(to, from) => {
                self.write(to);
                self.read(from);
            }
            StmtKind::ClearVarbit(place) | StmtKind::PacketLength(place) => self.write(place),
            StmtKind::CopyHeader(to, from) => {
                let from = self.headers(from);
                let read = from.into_iter().flat_map(|h| fields_of(self.program, h));
                self.uses.reads.extend(read);
                self.write_header(to);
            }
            StmtKind::If(cond, then, otherwise) => {
                self.expr(cond);
                self.body(then);
                self.body(otherwise);
            }
            StmtKind::Block(_, body) | StmtKind::Loop(_, body) | StmtKind::Atomic(body) => {
                self.body(body);
            }
            StmtKind::Leave(_) | StmtKind::Continue(_) | StmtKind::Fail(_) => {}
            StmtKind::Exit => self.uses.exits = true,
            StmtKind::CallAction(action, args) => {
                args.iter().for_each(|arg| self.expr(arg));
                self.action(*action);
            }
            StmtKind::Extract(header, size) => {
                size.iter().for_each(|size| self.expr(size));
                self.write_header(header);
            }
            StmtKind::Advance(bits) => self.expr(bits),
            StmtKind::Lookahead { dests, .. } => {
                dests.iter().for_each(|(place, _)| self.write(place));
            }
            StmtKind::Verify(cond, error) => {
                self.expr(cond);
                self.expr(error);
            }
            StmtKind::Emit(header) => {
                for header in self.headers(header) {
                    self.uses.emits.insert(header);
                    self.uses.reads.extend(fields_of(self.program, header));
                }
            }
            StmtKind::EmitField(place) => self.read(place),
            StmtKind::PushFront(stack, _) | StmtKind::PopFront(stack, _) => self.stack(*stack),
            StmtKind::Call(call) => self.call(call),
        }
    }

    fn stack(&mut self, id: StackId) {
        let stack = &self.program.stacks[id];
        let headers = (0..stack.len).map(|at| {
            checkpoint();
            HeaderId::new(stack.first.get() + at)
        });
        let fields = headers.flat_map(|header| fields_of(self.program, header));
        let fields: Vec<FieldId> = fields.chain([stack.next_index]).collect();
        self.uses.reads.extend(&fields);
        self.uses.writes.extend(&fields);
    }

    fn call(&mut self, call: &Call) {
        self.uses.ops.insert(call.op);
        self.uses.externs.extend(call.instance);
        for operand in &call.operands {
            checkpoint();
            match operand {
                Operand::In(value) => self.expr(value),
                // An operation without a result leaves the place unchanged.
                Operand::Out(place) => self.write(place),
                Operand::Data(values) => values.iter().for_each(|value| self.expr(value)),
                Operand::Outs(places) => places.iter().for_each(|place| self.write(place)),
                Operand::Text(_) | Operand::Number(_) => {}
            }
        }
        if call.op == Op::MarkToDrop {
            let marks = [
                "standard_metadata.egress_spec",
                "standard_metadata.mcast_grp",
            ];
            let marks = marks.map(|name| self.program.pipeline.intrinsics.get(name));
            self.uses.writes.extend(marks.into_iter().flatten());
        }
    }

    fn keyset(&mut self, keyset: &Keyset) {
        checkpoint();
        let Keyset::Sets(sets) = keyset else { return };
        for set in sets {
            match set {
                KeySet::Any | KeySet::ValueSet(_) => {}
                KeySet::Value(value) => self.expr(value),
                KeySet::Mask(a, b) | KeySet::Range(a, b) => {
                    self.expr(a);
                    self.expr(b);
                }
            }
        }
    }

    fn expr(&mut self, expr: &Expr) {
        checkpoint();
        match expr {
            Expr::Const(..) | Expr::Param(_) => {}
            Expr::Read(place) | Expr::VarbitLen(place) => self.read(place),
            Expr::VarbitEq(a, b) => {
                self.read(a);
                self.read(b);
            }
            Expr::Unary(_, a) | Expr::Slice(a, _, _) | Expr::Cast(_, a) => self.expr(a),
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

    fn read(&mut self, place: &Place) {
        let fields = self.fields(place);
        self.uses.reads.extend(fields);
    }

    fn write(&mut self, place: &Place) {
        let fields = self.fields(place);
        self.uses.writes.extend(fields);
    }

    fn write_header(&mut self, place: &HeaderPlace) {
        let headers = self.headers(place);
        let fields = headers.into_iter().flat_map(|h| fields_of(self.program, h));
        self.uses.writes.extend(fields);
    }

    /// Returns the fields that a place may denote.
    fn fields(&mut self, place: &Place) -> Vec<FieldId> {
        let fields = self.reached(place.base.get(), &place.dims);
        let fields: Vec<FieldId> = fields.into_iter().map(FieldId::new).collect();
        if !place.dims.is_empty() {
            self.uses.indexed.extend(&fields);
        }
        fields
    }

    /// Returns the headers that a place may denote.
    fn headers(&mut self, place: &HeaderPlace) -> Vec<HeaderId> {
        let headers = self.reached(place.base.get(), &place.dims);
        let headers: Vec<HeaderId> = headers.into_iter().map(HeaderId::new).collect();
        if !place.dims.is_empty() {
            let fields = headers.iter().flat_map(|&h| fields_of(self.program, h));
            self.uses.indexed.extend(fields);
        }
        headers
    }

    fn reached(&mut self, base: u32, dims: &[Dim]) -> Vec<u32> {
        let mut reached = vec![base];
        for dim in dims {
            self.expr(&dim.index);
            checkpoint();
            let elements = |at: u32| (0..dim.len).map(move |index| at + index * dim.stride);
            reached = reached.into_iter().flat_map(elements).collect();
        }
        reached
    }
}
