//! Tests of IR text: printed text reads back as the same program, and no text causes a panic.

use bits::{IdVec, Value};
use ir::*;
use proptest::prelude::*;

const SAMPLE: &str = include_str!("sample.ir");

fn sample() -> Program {
    read(SAMPLE).unwrap_or_else(|e| panic!("sample.ir:{e}"))
}

fn check_round_trip(program: &Program) {
    let text = program.to_string();
    match read(&text) {
        Ok(again) => assert_eq!(again, *program, "text was:\n{text}"),
        Err(e) => panic!("{e} in:\n{text}"),
    }
}

#[test]
fn sample_is_verified_and_reads_back() {
    let program = sample();
    assert_eq!(verify(&program), Ok(()));
    check_round_trip(&program);
}

#[test]
fn printing_is_stable() {
    let text = sample().to_string();
    assert_eq!(read(&text).map(|p| p.to_string()), Ok(text));
}

#[test]
fn programs_at_other_places_have_one_text_without_positions() {
    let program = sample();
    let text = program.to_string();
    // Another column at each position, and another directory.
    let mut parts = text.split(" @");
    let mut moved = parts
        .next()
        .unwrap_or_default()
        .replace("file \"", "file \"moved/");
    for part in parts {
        let place = part
            .bytes()
            .take_while(|byte| byte.is_ascii_digit() || *byte == b':');
        let place = part[..place.count()].trim_end_matches(':');
        let rest = &part[place.len()..];
        let column = if place.is_empty() { "" } else { "0" };
        moved += &format!(" @{place}{column}{rest}");
    }
    let moved = read(&moved).unwrap_or_else(|error| panic!("{error}\n{moved}"));
    assert_ne!(moved, program);
    assert_eq!(
        moved.text_without_positions(),
        program.text_without_positions()
    );
    let unplaced = program.text_without_positions();
    assert_eq!(read(&unplaced).unwrap().text_without_positions(), unplaced);
}

#[test]
fn things_with_one_name_and_ids_that_point_nowhere_read_back() {
    let mut program = sample();
    let name = program.fields[FieldId::new(3)].name.clone();
    program.fields.push(Field {
        name,
        ty: ScalarTy::Bit(8),
    });
    let stray = Place::from(FieldId::new(9_999));
    let again = Place::from(program.fields.ids().next_back().unwrap());
    let body = &mut program.actions[ActionId::new(0)].body;
    for place in [stray, again] {
        let kind = StmtKind::Assign(place.clone(), Expr::Read(place));
        body.push(Stmt { kind, loc: None });
    }
    let states = &mut program.parsers[ParserId::new(0)].states;
    let again = states[StateId::new(0)].clone();
    states.push(again);
    program.tables[TableId::new(0)].default.action = 77;
    check_round_trip(&program);
}

#[test]
fn a_chain_of_steps_reads_back() {
    let mut program = sample();
    let valid = program.headers[HeaderId::new(0)].valid;
    let to = |number| StepId::new(number);
    let branch = StepNext::Branch {
        arms: vec![(valid, to(2)), (valid, to(1))],
        otherwise: to(2),
    };
    for (name, next) in [
        ("first", branch),
        ("odd name", StepNext::Step(to(2))),
        ("last", StepNext::End),
    ] {
        let name = name.to_owned();
        program.pipeline.steps.push(Step { name, next });
    }
    let mut again = program.pipeline.blocks.clone();
    again.iter_mut().for_each(|block| block.step = to(2));
    program.pipeline.blocks.extend(again);
    assert_eq!(verify(&program), Ok(()));
    check_round_trip(&program);
}

#[test]
fn headers_in_another_order_than_their_fields_read_back() {
    let mut program = sample();
    let mut headers = program.headers.into_vec();
    headers.reverse();
    program.headers = IdVec::from(headers);
    check_round_trip(&program);
}

#[test]
fn errors_say_where() {
    let check = |from: &str, to: &str, line: u32, column: u32, message: &str| {
        assert_eq!(SAMPLE.matches(from).count(), 1, "{from}");
        let error = read(&SAMPLE.replace(from, to)).unwrap_err();
        assert!(error.message.contains(message), "{error}");
        assert_eq!((error.line, error.column), (line, column), "{error}");
    };
    let line = |what: &str| SAMPLE.lines().position(|l| l.contains(what)).unwrap() as u32 + 1;
    check(
        "program sample v1model",
        "program sample v2model",
        2,
        16,
        "'v2model' is not an architecture",
    );
    check(
        "header_type options_t",
        "headertype options_t",
        line("options_t {"),
        1,
        "does not begin",
    );
    check(
        "meta.a = -meta.wide[",
        "meta.a = -meta.white[",
        line("-meta.wide"),
        19,
        "no field 'meta.white'",
    );
    check(
        "call random.read on",
        "call random.dread on",
        line("random.read"),
        14,
        "no operation 'random.dread'",
    );
    check(
        "then ingress.forward else",
        "then ingress.backward else",
        line("condition"),
        86,
        "'ingress.backward'",
    );
    check(
        "\"a is {}\"",
        "\"a is {}",
        line("a is {}"),
        23,
        "does not end",
    );
    check(
        "8w0x1 .. 8w0x6",
        "8w0x1 .. 8w0x6ff",
        line("dice: random"),
        30,
        "does not fit",
    );
    check(
        "(varbit_len(",
        "((varbit_len(",
        line("varbit_len"),
        54,
        "')' is expected",
    );
}

#[test]
fn nesting_is_bounded() {
    let deep = format!(
        "meta.ok = {}meta.ok{};",
        "(!".repeat(5_000),
        ")".repeat(5_000)
    );
    let error = read(&SAMPLE.replace("meta.ok = !meta.ok;", &deep)).unwrap_err();
    assert!(error.message.contains("nesting"), "{error}");
    let deep = format!("{}exit;{}", "atomic {".repeat(5_000), "}".repeat(5_000));
    let error = read(&SAMPLE.replace("meta.ok = !meta.ok;", &deep)).unwrap_err();
    assert!(error.message.contains("nesting"), "{error}");
}

#[test]
fn the_deepest_code_that_is_accepted_fits_a_small_stack() {
    let depth = MAX_NESTING as usize - 4;
    let parens = format!(
        "meta.ok = {}meta.ok{};",
        "!(".repeat(depth / 2),
        ")".repeat(depth / 2)
    );
    let blocks = format!("{}exit;{}", "atomic {".repeat(depth), "}".repeat(depth));
    for code in [parens, blocks] {
        let program = read(&SAMPLE.replace("meta.ok = !meta.ok;", &code)).unwrap();
        assert_eq!(verify(&program), Ok(()));
        check_round_trip(&program);
    }
}

/// Returns names, some of which need quotes.
fn names() -> impl Strategy<Value = String> {
    prop_oneof![
        "[a-z$_][a-z0-9_]{0,5}(\\.[a-z0-9]{1,3}|\\[[0-9]{1,2}\\]){0,2}",
        proptest::sample::select(vec![
            "out", "bit", "_", "hit.x", "end", "true", "error.x", ""
        ])
        .prop_map(str::to_owned),
        proptest::collection::vec(any::<char>(), 0..6).prop_map(String::from_iter),
    ]
}

fn places() -> impl Strategy<Value = Place> {
    let dim = (0u32..40, 0u32..9, 0u32..4).prop_map(|(at, len, stride)| Dim {
        index: Expr::Read(FieldId::new(at).into()),
        len,
        stride,
    });
    (0u32..45, proptest::collection::vec(dim, 0..3)).prop_map(|(base, dims)| Place {
        base: FieldId::new(base),
        dims,
    })
}

fn constants() -> impl Strategy<Value = Expr> {
    prop_oneof![
        (0u32..200, any::<u128>())
            .prop_map(|(w, n)| Expr::Const(ScalarTy::Bit(w), Value::truncated(n, w))),
        (1u32..200, any::<u128>())
            .prop_map(|(w, n)| Expr::Const(ScalarTy::Int(w), Value::truncated(n, w))),
        any::<bool>().prop_map(|b| Expr::Const(ScalarTy::Bool, Value::truncated(b.into(), 1))),
        (0u32..9).prop_map(|n| Expr::Const(ScalarTy::Error, Value::truncated(n.into(), 32))),
        (0u32..3, 0u32..9).prop_map(|(e, n)| {
            Expr::Const(
                ScalarTy::Enum(EnumId::new(e)),
                Value::truncated(n.into(), 32),
            )
        }),
    ]
}

fn binary_ops() -> impl Strategy<Value = BinOp> {
    use BinOp::*;
    proptest::sample::select(vec![
        Add,
        Sub,
        Mul,
        Div,
        Mod,
        AddSaturating,
        SubSaturating,
        And,
        Or,
        Xor,
        Shl,
        Shr,
        Eq,
        Ne,
        Lt,
        Le,
        Gt,
        Ge,
        LogicalAnd,
        LogicalOr,
    ])
}

fn exprs() -> impl Strategy<Value = Expr> {
    let leaf = prop_oneof![
        constants(),
        places().prop_map(Expr::Read),
        (0u32..4).prop_map(Expr::Param),
        places().prop_map(Expr::VarbitLen),
        (places(), places()).prop_map(|(a, b)| Expr::VarbitEq(a, b)),
    ];
    leaf.prop_recursive(6, 40, 3, |inner| {
        let e = || inner.clone().prop_map(Box::new);
        prop_oneof![
            (
                proptest::sample::select(vec![UnOp::Neg, UnOp::Complement, UnOp::Not]),
                e()
            )
                .prop_map(|(op, a)| Expr::Unary(op, a)),
            (binary_ops(), e(), e()).prop_map(|(op, a, b)| Expr::Binary(op, a, b)),
            (e(), e()).prop_map(|(a, b)| Expr::Concat(a, b)),
            (e(), 0u32..99, 0u32..99).prop_map(|(a, hi, lo)| Expr::Slice(a, hi, lo)),
            (0u32..99, e()).prop_map(|(w, a)| Expr::Cast(ScalarTy::Bit(w), a)),
            e().prop_map(|a| Expr::Cast(ScalarTy::Enum(EnumId::new(0)), a)),
            (e(), e(), e()).prop_map(|(c, a, b)| Expr::Ternary(c, a, b)),
        ]
    })
}

fn stmts() -> impl Strategy<Value = StmtKind> {
    let op = proptest::sample::select(OPS).prop_map(|row| row.0);
    let operand = prop_oneof![
        exprs().prop_map(Operand::In),
        places().prop_map(Operand::Out),
        proptest::collection::vec(exprs(), 0..3).prop_map(Operand::Data),
        proptest::collection::vec(places(), 0..3).prop_map(Operand::Outs),
        any::<String>().prop_map(Operand::Text),
        any::<u64>().prop_map(Operand::Number),
    ];
    prop_oneof![
        (places(), exprs()).prop_map(|(p, e)| StmtKind::Assign(p, e)),
        (places(), 0u32..99, 0u32..99, exprs())
            .prop_map(|(p, hi, lo, e)| StmtKind::AssignSlice(p, hi, lo, e)),
        (exprs(), places()).prop_map(|(c, p)| {
            let stmt = Stmt {
                kind: StmtKind::ClearVarbit(p),
                loc: None,
            };
            StmtKind::If(c, Vec::new(), vec![stmt])
        }),
        (
            op,
            proptest::option::of(0u32..20),
            proptest::collection::vec(operand, 0..4)
        )
            .prop_map(|(op, instance, operands)| {
                StmtKind::Call(Call {
                    op,
                    instance: instance.map(ExternId::new),
                    operands,
                })
            }),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn any_code_reads_back(
        kinds in proptest::collection::vec(stmts(), 0..6),
        loc in proptest::option::of((0u32..3, any::<u32>(), any::<u32>())),
    ) {
        let loc = loc.map(|(file, line, column)| Loc { file, line, column });
        let mut program = sample();
        program.actions[ActionId::new(1)].body = kinds.into_iter().map(|kind| Stmt { kind, loc }).collect();
        program.actions[ActionId::new(1)].loc = loc;
        check_round_trip(&program);
    }

    #[test]
    fn any_names_and_texts_read_back(all in proptest::collection::vec(names(), 12)) {
        let mut program = sample();
        let mut name = all.iter().cycle().cloned();
        let mut set = |slot: &mut String| *slot = name.next().unwrap();
        set(&mut program.name);
        program.fields.iter_mut().for_each(|(_, f)| set(&mut f.name));
        program.headers.iter_mut().for_each(|(_, h)| set(&mut h.name));
        program.actions.iter_mut().for_each(|(_, a)| set(&mut a.name));
        program.actions.iter_mut().for_each(|(_, a)| set(&mut a.control_plane_name));
        program.tables.iter_mut().for_each(|(_, t)| set(&mut t.name));
        program.externs.iter_mut().for_each(|(_, e)| set(&mut e.name));
        program.errors.iter_mut().for_each(&mut set);
        program.files.iter_mut().for_each(&mut set);
        for control in program.controls.iter_mut().map(|(_, c)| c) {
            set(&mut control.name);
            control.stages.iter_mut().for_each(|(_, s)| set(&mut s.name));
        }
        for annotation in &mut program.annotations {
            set(&mut annotation.name);
            annotation.body = AnnotationBody::Text(all[0].clone());
        }
        check_round_trip(&program);
    }

    #[test]
    fn damaged_text_never_panics_and_what_reads_reads_back(
        edits in proptest::collection::vec((any::<prop::sample::Index>(), 0usize..6, "[-a-z0-9#'\"{}();:@.,\\[\\]=\\\\é ]{0,3}"), 1..4)
    ) {
        let mut text = SAMPLE.to_owned();
        for (at, len, new) in edits {
            let at = at.index(text.len());
            let end = (at + len).min(text.len());
            if text.is_char_boundary(at) && text.is_char_boundary(end) {
                text.replace_range(at..end, &new);
            }
        }
        if let Ok(program) = read(&text) {
            let _ = verify(&program);
            check_round_trip(&program);
        }
    }
}
