//! The fields that a program may read.

use bits::IdSet;
use ir::{
    BlockCode, Dim, Expr, FieldId, HeaderId, KeySet, Keyset, Operand, Place, Program, StageKind,
    Stmt, StmtKind, Transition,
};
use support::work::checkpoint;

/// Returns the fields that some code of the program may read. An element selected at run time
/// stands for all fields.
pub(crate) fn fields_read(program: &Program) -> IdSet<FieldId> {
    let mut reads = Reads {
        program,
        fields: IdSet::default(),
        is_any: false,
    };
    for action in program.actions.values() {
        reads.body(&action.body);
    }
    for block in &program.pipeline.blocks {
        match block.code {
            BlockCode::Parser(id) => reads.parser(&program.parsers[id]),
            BlockCode::Control(id) => reads.control(&program.controls[id]),
        }
    }
    if reads.is_any {
        program.fields.ids().for_each(|id| {
            reads.fields.insert(id);
        });
    }
    reads.fields
}

struct Reads<'p> {
    program: &'p Program,
    fields: IdSet<FieldId>,
    is_any: bool,
}

impl Reads<'_> {
    fn parser(&mut self, parser: &ir::Parser) {
        for state in parser.states.values() {
            self.body(&state.body);
            let Transition::Select { keys, cases } = &state.transition else {
                continue;
            };
            keys.iter().for_each(|key| self.expr(key));
            for case in cases {
                let Keyset::Sets(sets) = &case.keyset else {
                    continue;
                };
                for set in sets {
                    match set {
                        KeySet::Value(value) => self.expr(value),
                        KeySet::Mask(a, b) | KeySet::Range(a, b) => {
                            self.expr(a);
                            self.expr(b);
                        }
                        KeySet::Any | KeySet::ValueSet(_) => {}
                    }
                }
            }
        }
    }

    fn control(&mut self, control: &ir::Control) {
        for stage in control.stages.values() {
            checkpoint();
            match &stage.kind {
                StageKind::Condition { cond, .. } => self.expr(cond),
                StageKind::Action { body, .. } => self.body(body),
                StageKind::Match { table, .. } => {
                    let program = self.program;
                    for key in &program.tables[*table].keys {
                        self.expr(&key.expr);
                    }
                }
            }
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
                self.dims(&place.dims);
                self.expr(value);
            }
            StmtKind::AssignSlice(place, _, _, value) => {
                self.place(place);
                self.expr(value);
            }
            StmtKind::AssignVarbit(to, from) => {
                self.dims(&to.dims);
                self.place(from);
            }
            StmtKind::If(cond, then, otherwise) => {
                self.expr(cond);
                self.body(then);
                self.body(otherwise);
            }
            StmtKind::Block(_, body) | StmtKind::Loop(_, body) | StmtKind::Atomic(body) => {
                self.body(body);
            }
            StmtKind::CallAction(_, args) => args.iter().for_each(|arg| self.expr(arg)),
            StmtKind::CopyHeader(_, from) => {
                self.dims(&from.dims);
                self.header(from.base);
            }
            StmtKind::Extract(header, size) => {
                self.dims(&header.dims);
                size.iter().for_each(|size| self.expr(size));
            }
            StmtKind::Advance(value) => self.expr(value),
            StmtKind::Verify(cond, error) => {
                self.expr(cond);
                self.expr(error);
            }
            StmtKind::Emit(header) => {
                self.dims(&header.dims);
                self.header(header.base);
            }
            StmtKind::EmitField(place) => self.place(place),
            // The elements move.
            StmtKind::PushFront(..) | StmtKind::PopFront(..) => self.is_any = true,
            StmtKind::Call(call) => {
                for operand in &call.operands {
                    match operand {
                        Operand::In(value) => self.expr(value),
                        Operand::Data(values) => values.iter().for_each(|value| self.expr(value)),
                        // A checksum that is not updated keeps its value.
                        Operand::Out(place) => self.place(place),
                        Operand::Outs(places) => places.iter().for_each(|place| self.place(place)),
                        Operand::Text(_) | Operand::Number(_) => {}
                    }
                }
            }
            StmtKind::ClearVarbit(place) | StmtKind::PacketLength(place) => self.dims(&place.dims),
            StmtKind::Lookahead { dests, .. } => {
                dests.iter().for_each(|(place, _)| self.dims(&place.dims));
            }
            StmtKind::Leave(_) | StmtKind::Continue(_) | StmtKind::Exit | StmtKind::Fail(_) => {}
        }
    }

    fn header(&mut self, header: HeaderId) {
        let program = self.program;
        let instance = &program.headers[header];
        let fields = program.header_types[instance.ty].fields.len() as u32;
        let first = instance.valid.get();
        for field in first..=first + fields {
            self.fields.insert(FieldId::new(field));
        }
    }

    fn place(&mut self, place: &Place) {
        self.dims(&place.dims);
        self.fields.insert(place.base);
    }

    fn dims(&mut self, dims: &[Dim]) {
        self.is_any |= !dims.is_empty();
        dims.iter().for_each(|dim| self.expr(&dim.index));
    }

    fn expr(&mut self, expr: &Expr) {
        checkpoint();
        match expr {
            Expr::Const(..) | Expr::Param(_) => {}
            Expr::Read(place) | Expr::VarbitLen(place) => self.place(place),
            Expr::Unary(_, a) | Expr::Slice(a, _, _) | Expr::Cast(_, a) => self.expr(a),
            Expr::Binary(_, a, b) | Expr::Concat(a, b) => {
                self.expr(a);
                self.expr(b);
            }
            Expr::Ternary(a, b, c) => [a, b, c].into_iter().for_each(|part| self.expr(part)),
            Expr::VarbitEq(a, b) => {
                self.place(a);
                self.place(b);
            }
        }
    }
}
