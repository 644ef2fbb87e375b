//! Checks that random parsers and controls give the same results on every engine. Fields have odd
//! widths, some wider than engines hold in registers.

use bits::Id;
use exec::{Natives, PacketContext};
use ir::{
    ControlId, Dim, Expr, HeaderId, HeaderPlace, KeySet, Keyset, LabelId, ParserId, Place, Program,
    ScalarTy, SelectCase, StackId, StageKind, StateId, Stmt, StmtKind, Target, Transition,
};
use proptest::prelude::*;

use super::common::load_program;
use super::maker::{Array, Maker};

const TEXT: &str = r#"program t v1model
errors {NoError, PacketTooShort, NoMatch, StackOutOfBounds, HeaderTooShort, ParserInvalidArgument, Mine}
header_type odd_t {
    a: bit<3>;
    b: int<7>;
    c: bool;
    d: bit<13>;
    e: bit<72>;
    f: bit<64>;
}
header_type even_t {
    a: bit<48>;
    b: bit<16>;
    c: bit<8>;
    d: bit<32>;
    e: bit<128>;
    f: int<24>;
}
header_type tag_t {
    id: bit<20>;
    more: bit<4>;
}
header_type opt_t {
    len: bit<8>;
    data: varbit<80>;
    tail: bit<16>;
}
header_type big_t {
    a: bit<600>;
    b: bit<8>;
}
header odd: odd_t
header odd2: odd_t
header even: even_t
header even2: even_t
header tag[0]: tag_t
header tag[1]: tag_t
header tag[2]: tag_t
field tag.$next$: bit<32>
stack tag: 3 from tag[0] next tag.$next$
header opt: opt_t
header opt2: opt_t
header big: big_t
field one: bit<1>
field b7: bit<7>
field b13: bit<13>
field b32: bit<32>
field b33: bit<33>
field b64: bit<64>
field b65: bit<65>
field b200: bit<200>
field b512: bit<512>
field b513: bit<513>
field b700: bit<700>
field i8: int<8>
field i64: int<64>
field i100: int<100>
field i640: int<640>
field yes: bool
field no: bool
field n[0]: bit<13>
field n[1]: bit<13>
field n[2]: bit<13>
field w[0]: bit<200>
field w[1]: bit<200>
field w[2]: bit<200>
field v[0]: bit<513>
field v[1]: bit<513>
field v[2]: bit<513>
action set(a: bit<13>, b: bit<65>, c: bit<700>) {
}
action deep(a: bit<65>) {
}
parser p start s0 {
    state s0 { goto accept; }
    state s1 { goto accept; }
    state s2 { goto accept; }
}
control c {
    stage c.code: action next end {
    }
}
"#;

/// Generates statements for one program.
struct Writer<'p> {
    maker: Maker,
    program: &'p Program,
    labels: u32,
    /// Labels of the enclosing blocks. The flag is true for a loop.
    around: Vec<(LabelId, bool)>,
    in_parser: bool,
    /// Actions that may be called.
    actions: Vec<u32>,
}

impl Writer<'_> {
    fn stmt(kind: StmtKind) -> Stmt {
        Stmt { kind, loc: None }
    }

    fn body(&mut self, depth: u32) -> Vec<Stmt> {
        let count = 1 + self.maker.below(5);
        (0..count).map(|_| Self::stmt(self.kind(depth))).collect()
    }

    fn kind(&mut self, depth: u32) -> StmtKind {
        match self.maker.below(24) {
            0..=5 => {
                let ty = self.maker.ty();
                self.assign(ty)
            }
            6 | 7 => self.assign_element(),
            8 | 9 => self.assign_slice(),
            10 | 11 if depth > 0 => {
                let cond = self.maker.expr(ScalarTy::Bool, 3);
                let then = self.body(depth - 1);
                let otherwise = match self.maker.below(2) {
                    0 => Vec::new(),
                    _ => self.body(depth - 1),
                };
                StmtKind::If(cond, then, otherwise)
            }
            12 | 13 if depth > 0 => self.labelled(depth),
            14 if !self.around.is_empty() => {
                let around = self.around.clone();
                match self.maker.pick(&around) {
                    (label, true) if self.maker.below(2) == 0 => StmtKind::Continue(label),
                    (label, _) => StmtKind::Leave(label),
                }
            }
            15 => self.copy_header(),
            16 => {
                let n = self.maker.below(5) as u32;
                match self.maker.below(2) {
                    0 => StmtKind::PushFront(StackId::new(0), n),
                    _ => StmtKind::PopFront(StackId::new(0), n),
                }
            }
            17 => self.varbit(),
            18 if !self.actions.is_empty() => self.run_action(),
            19 if self.maker.below(6) == 0 => StmtKind::Exit,
            _ if self.in_parser => self.parse(),
            20 => {
                let ty = self.maker.ty();
                match self.maker.field(ty) {
                    Some(field) => StmtKind::EmitField(field.into()),
                    None => self.emit(),
                }
            }
            _ => self.emit(),
        }
    }

    fn assign(&mut self, ty: ScalarTy) -> StmtKind {
        let field = self.maker.field(ty).expect("every type has a field");
        StmtKind::Assign(field.into(), self.maker.expr(ty, 3))
    }

    fn assign_element(&mut self) -> StmtKind {
        let arrays = self.maker.arrays.clone();
        let array = self.maker.pick(&arrays);
        let place = self.maker.element(array, 2);
        StmtKind::Assign(place, self.maker.expr(array.ty, 3))
    }

    fn assign_slice(&mut self) -> StmtKind {
        let arrays = self.maker.arrays.clone();
        let (place, ty): (Place, ScalarTy) = match self.maker.below(3) {
            0 => {
                let array = self.maker.pick(&arrays);
                (self.maker.element(array, 1), array.ty)
            }
            _ => {
                let ty = self.maker.number_ty();
                (
                    self.maker.field(ty).expect("every type has a field").into(),
                    ty,
                )
            }
        };
        let lo = self.maker.below(ty.width().into()) as u32;
        let hi = lo + self.maker.below(u64::from(ty.width() - lo)) as u32;
        let value = self.maker.expr(ScalarTy::Bit(hi + 1 - lo), 2);
        StmtKind::AssignSlice(place, hi, lo, value)
    }

    fn labelled(&mut self, depth: u32) -> StmtKind {
        let label = LabelId::new(self.labels);
        self.labels += 1;
        let is_loop = self.maker.below(2) == 0;
        self.around.push((label, is_loop));
        let mut body = self.body(depth - 1);
        self.around.pop();
        if is_loop {
            // Most loops end before the work budget is used up.
            let cond = self.maker.expr(ScalarTy::Bool, 2);
            let leave = vec![Self::stmt(StmtKind::Leave(label))];
            body.push(Self::stmt(StmtKind::If(cond, leave, Vec::new())));
            StmtKind::Loop(label, body)
        } else {
            StmtKind::Block(label, body)
        }
    }

    /// Returns a header by name. Elements of the stack sometimes have a run-time index.
    fn header(&mut self, names: &[&str]) -> HeaderPlace {
        let name = self.maker.pick(names);
        let at = self.program.headers.iter().find(|(_, h)| h.name == name);
        let base: HeaderId = at.expect("the header is there").0;
        if name == "tag[0]" && self.maker.below(2) == 0 {
            let index = self.maker.expr(ScalarTy::Bit(32), 1);
            let (len, stride) = (3, 1);
            return HeaderPlace {
                base,
                dims: vec![Dim { index, len, stride }],
            };
        }
        base.into()
    }

    fn copy_header(&mut self) -> StmtKind {
        let kind = self.maker.pick(&[
            &["odd", "odd2"][..],
            &["even", "even2"],
            &["tag[0]", "tag[1]", "tag[2]"],
            &["opt", "opt2"],
        ]);
        StmtKind::CopyHeader(self.header(kind), self.header(kind))
    }

    fn emit(&mut self) -> StmtKind {
        let all = [
            "odd", "even", "even2", "tag[0]", "tag[1]", "opt", "opt2", "big",
        ];
        match self.in_parser {
            true => self.copy_header(),
            false => StmtKind::Emit(self.header(&all)),
        }
    }

    fn varbit(&mut self) -> StmtKind {
        let fields = self.program.fields.iter();
        let fields = fields.filter(|(_, f)| matches!(f.ty, ScalarTy::Varbit(_)));
        let fields: Vec<_> = fields.map(|(id, _)| id).collect();
        let (to, from) = (self.maker.pick(&fields), self.maker.pick(&fields));
        let b32 = self.maker.field(ScalarTy::Bit(32)).expect("there is one");
        let yes = self.maker.field(ScalarTy::Bool).expect("there is one");
        match self.maker.below(4) {
            0 => StmtKind::AssignVarbit(to.into(), from.into()),
            1 => StmtKind::ClearVarbit(to.into()),
            2 => StmtKind::Assign(b32.into(), Expr::VarbitLen(to.into())),
            _ => StmtKind::Assign(yes.into(), Expr::VarbitEq(to.into(), from.into())),
        }
    }

    fn run_action(&mut self) -> StmtKind {
        let actions = self.actions.clone();
        let action = ir::ActionId::new(self.maker.pick(&actions));
        let params = &self.program.actions[action].params;
        let args = params.iter().map(|param| self.maker.expr(param.ty, 2));
        StmtKind::CallAction(action, args.collect())
    }

    fn parse(&mut self) -> StmtKind {
        let b32 = ScalarTy::Bit(32);
        match self.maker.below(8) {
            0 => {
                let size = self.maker.below(12) * self.maker.pick(&[8, 8, 8, 1]);
                let size = Expr::Const(b32, bits::Value::truncated(size.into(), 32));
                StmtKind::Extract(self.header(&["opt", "opt2"]), Some(size))
            }
            1 => {
                let bits = self.maker.below(4) * self.maker.pick(&[8, 8, 8, 3]);
                let bits = Expr::Const(b32, bits::Value::truncated(bits.into(), 32));
                StmtKind::Advance(bits)
            }
            2 => {
                let tys = [ScalarTy::Bit(13), ScalarTy::Bit(65), ScalarTy::Bit(200)];
                let mut dests = Vec::new();
                let mut total = 0;
                for _ in 0..1 + self.maker.below(3) {
                    let ty = self.maker.pick(&tys);
                    let field = self.maker.field(ty).expect("there is one");
                    let offset = self.maker.below(9) as u32;
                    dests.push((field.into(), offset));
                    total = total.max(offset + ty.width());
                }
                StmtKind::Lookahead { total, dests }
            }
            3 => {
                let cond = self.maker.expr(ScalarTy::Bool, 2);
                let error = bits::Value::truncated(self.maker.below(7).into(), 32);
                StmtKind::Verify(cond, Expr::Const(ScalarTy::Error, error))
            }
            4 => StmtKind::PacketLength(self.maker.field(b32).expect("there is one").into()),
            _ => StmtKind::Extract(
                self.header(&["odd", "odd2", "even", "even2", "tag[0]", "tag[1]", "big"]),
                None,
            ),
        }
    }

    fn transition(&mut self) -> Transition {
        let targets = [
            Target::Accept,
            Target::Reject,
            Target::State(StateId::new(0)),
            Target::State(StateId::new(1)),
            Target::State(StateId::new(2)),
        ];
        if self.maker.below(4) == 0 {
            return Transition::Direct(self.maker.pick(&targets));
        }
        let types: Vec<ScalarTy> = (0..1 + self.maker.below(2))
            .map(|_| self.maker.number_ty())
            .collect();
        let keys = types.iter().map(|ty| self.maker.expr(*ty, 2)).collect();
        let cases = (0..self.maker.below(9)).map(|_| SelectCase {
            keyset: Keyset::Sets(types.iter().map(|ty| self.set(*ty)).collect()),
            target: self.maker.pick(&targets),
        });
        let cases = cases.collect();
        Transition::Select { keys, cases }
    }

    fn set(&mut self, ty: ScalarTy) -> KeySet {
        match self.maker.below(8) {
            0 => KeySet::Any,
            1 => KeySet::Mask(self.maker.expr(ty, 1), self.maker.constant(ty)),
            2 => KeySet::Range(self.maker.constant(ty), self.maker.expr(ty, 1)),
            _ => KeySet::Value(self.maker.constant(ty)),
        }
    }
}

fn fields(program: &Program) -> Vec<(ir::FieldId, ScalarTy)> {
    let readable = |ty: ScalarTy| !matches!(ty, ScalarTy::Varbit(_));
    let fields = program.fields.iter().filter(|(_, f)| readable(f.ty));
    fields.map(|(id, field)| (id, field.ty)).collect()
}

/// Returns a program with random code.
fn program(seed: u64) -> Program {
    let empty = ir::read(TEXT).unwrap_or_else(|error| panic!("{error}"));
    let mut program = empty.clone();
    let array = |name: &str| {
        let (first, field) = empty.fields.iter().find(|(_, f)| f.name == name).unwrap();
        let (len, ty) = (3, field.ty);
        Array { first, len, ty }
    };
    let mut maker = Maker::new(seed, fields(&empty));
    maker.arrays = vec![array("n[0]"), array("w[0]"), array("v[0]")];
    let mut writer = Writer {
        maker,
        program: &empty,
        labels: 0,
        around: Vec::new(),
        in_parser: false,
        actions: Vec::new(),
    };
    // Action 0 calls action 1, and the control calls either.
    for (action, calls) in [(1, vec![]), (0, vec![1])] {
        writer.labels = 0;
        writer.actions = calls;
        program.actions[ir::ActionId::new(action)].body = action_body(&mut writer, action);
    }
    // Parsers cannot call actions.
    writer.actions = Vec::new();
    writer.in_parser = true;
    for state in 0..3 {
        writer.labels = 0;
        let body = writer.body(2);
        let transition = writer.transition();
        let state = &mut program.parsers[ParserId::new(0)].states[StateId::new(state)];
        (state.body, state.transition) = (body, transition);
    }
    writer.in_parser = false;
    writer.actions = vec![0, 1];
    writer.labels = 0;
    let mut body = Vec::new();
    for _ in 0..4 {
        body.extend(writer.body(3));
    }
    let stages = &mut program.controls[ControlId::new(0)].stages;
    if let StageKind::Action { body: empty, .. } = &mut stages[ir::StageId::new(0)].kind {
        *empty = body;
    }
    program
}

/// Returns the body of an action. It reads its parameters, and uses only statements permitted in
/// both parsers and controls.
fn action_body(writer: &mut Writer<'_>, action: u32) -> Vec<Stmt> {
    let params = &writer.program.actions[ir::ActionId::new(action)].params;
    let mut body = Vec::new();
    for (i, param) in params.iter().enumerate() {
        let field = writer
            .maker
            .field(param.ty)
            .expect("every type has a field");
        let value = Expr::Param(i as u32);
        body.push(Writer::stmt(StmtKind::Assign(field.into(), value)));
        let ty = writer.maker.ty();
        body.push(Writer::stmt(writer.assign(ty)));
    }
    if !writer.actions.is_empty() {
        let cond = writer.maker.expr(ScalarTy::Bool, 2);
        let run = vec![Writer::stmt(writer.run_action())];
        body.push(Writer::stmt(StmtKind::If(cond, run, Vec::new())));
    }
    for _ in 0..writer.maker.below(12) {
        let ty = writer.maker.ty();
        body.push(Writer::stmt(writer.assign(ty)));
    }
    body
}

fn fill(packet: &mut PacketContext, program: &Program, layout: &ir::Layout, maker: &mut Maker) {
    for (id, field) in program.fields.iter() {
        if matches!(field.ty, ScalarTy::Varbit(_)) || maker.below(3) == 0 {
            continue;
        }
        let at = layout.offset(id) as usize;
        let value = maker.value(field.ty.width());
        packet.frame_mut()[at..at + value.limbs().len()].copy_from_slice(value.limbs());
    }
}

fn check(seed: u64) {
    let program = program(seed);
    assert!(program.fields.len() > ir::FieldId::new(0).index());
    let mut engines = load_program(program, &Natives::default());
    let mut maker = Maker::new(seed ^ 1, Vec::new());
    for _ in 0..3 {
        let bytes: Vec<u8> = (0..maker.below(160))
            .map(|_| maker.below(256) as u8)
            .collect();
        let mut packet = engines.packet(&bytes);
        packet.work_left = 200;
        let (program, layout) = (engines.program.clone(), engines.layout.clone());
        fill(&mut packet, &program, &layout, &mut maker);
        engines.parse(&mut packet);
        engines.control("c", &mut packet);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]
    #[test]
    fn random_programs_come_out_the_same_on_every_engine(seed: u64) {
        check(seed);
    }
}
