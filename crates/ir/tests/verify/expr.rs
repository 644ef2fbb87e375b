//! Tests of expressions and places.

use bits::Value;
use ir::*;

use crate::rig::*;

#[test]
fn expressions_are_well_typed() {
    stmt("meta.a = meta.b + 9w0x1;", "Bit(8) is expected, not Bit(9)");
    stmt("meta.ok = meta.ok + meta.ok;", "not Bool");
    stmt(
        "meta.signed = meta.signed / meta.signed;",
        "bit<..> is expected",
    );
    stmt("meta.a = meta.a << meta.signed;", "bit<..> is expected");
    stmt("meta.ok = meta.a && meta.a;", "Bool is expected");
    stmt("meta.ok = meta.error < meta.error;", "not Error");
    stmt("meta.a = !meta.a;", "Bool is expected");
    stmt("meta.ok = ~meta.ok;", "not Bool");
    stmt("meta.a = meta.ok ++ meta.a;", "not Bool");
    stmt("meta.a = meta.a[8:1];", "no bits 8:1");
    stmt("meta.a = meta.a[1:2];", "no bits 1:2");
    stmt("meta.ok = bool(meta.a);", "does not become");
    stmt("meta.a = bit<8>(meta.error);", "does not become");
    stmt("meta.error = error(meta.color);", "does not become");
    stmt("meta.a = meta.a ? meta.a : meta.b;", "Bool is expected");
    stmt("meta.a = meta.ok ? meta.a : 9w0x1;", "Bit(8) is expected");
    stmt("meta.a = meta.ok;", "Bit(8) is expected, not Bool");
    stmt("meta.a[3:0] = meta.b;", "Bit(4) is expected");
    stmt("meta.a[8:1] = meta.b;", "no bits 8:1");
    stmt("meta.ok[0:0] = 1w0x1;", "not Bool");
    stmt("if (meta.a) {}", "Bool is expected");
    refused(
        "condition hdr.ethernet.$valid$",
        "condition meta.a",
        "control ingress, stage ingress.if",
        "Bool is expected",
    );
    let narrow = |p: &mut Program| {
        let kind = StmtKind::Assign(
            FieldId::new(0).into(),
            Expr::Const(ScalarTy::Bool, Value::zero(2)),
        );
        p.actions[ActionId::new(0)]
            .body
            .push(Stmt { kind, loc: None });
    };
    changed(narrow, "action NoAction", "a constant of 2 bits");
}

#[test]
fn varbits_are_data_only() {
    stmt(
        "meta.ok = hdr.options.data == hdr.more.data;",
        "varbit is not allowed",
    );
    stmt("varbit meta.a = hdr.more.data;", "a varbit is expected");
    stmt("clear meta.a;", "a varbit is expected");
    stmt(
        "meta.ok = varbit_eq(meta.a, meta.b);",
        "a varbit is expected",
    );
    stmt("meta.i = varbit_len(meta.i);", "a varbit is expected");
    stmt(
        "call random.read on dice (out hdr.options.data);",
        "varbit is not allowed",
    );
    refused(
        "port: lpm as PortId = meta.port",
        "port: lpm as PortId = hdr.options.data",
        "table ingress.forward",
        "varbit",
    );
    refused(
        "'odd param': bit<8>",
        "'odd param': varbit<8>",
        "action ingress.set#1",
        "varbit is not allowed",
    );
    refused(
        "(8w0x0, 1w0x1)",
        "(8w0x0, 1w0x1, 8w0x0)",
        "extern cells",
        "not as many",
    );
    refused(
        "register (bit<8>, bool)",
        "register (varbit<8>, bool)",
        "extern cells",
        "varbit is not allowed",
    );
}

#[test]
fn dims_reach_equal_fields_only() {
    let code = |place: &str, message| stmt(&format!("{place} = meta.array[0];"), message);
    code(
        "meta.array[0]{meta.i in 5 by 1}",
        "reach 'hdr.late.$valid$'",
    );
    code(
        "meta.array[0]{meta.i in 3 by 2}",
        "reach 'hdr.late.$valid$'",
    );
    code("meta.array[0]{meta.i in 0 by 1}", "empty or reach too far");
    code(
        "meta.array[0]{meta.i in 4000000000 by 0}",
        "empty or reach too far",
    );
    code(
        "meta.array[0]{meta.i in 2 by 4000000000}",
        "beyond all fields",
    );
    code(
        "meta.array[0]{meta.i in 2 by 2}{meta.i in 3 by 1}",
        "reach 'hdr.late.$valid$'",
    );
    code("meta.array[0]{meta.ok in 2 by 1}", "an index is bit<..>");
    stmt(
        "header hdr.vlan[0]{meta.i in 3 by 1} = hdr.vlan[0];",
        "another type or is out of line",
    );
    stmt(
        "header hdr.vlan[0]{meta.i in 99 by 1} = hdr.vlan[0];",
        "empty or reach too far",
    );
    stmt(
        "header hdr.vlan[1]{meta.i in 2 by 9} = hdr.vlan[0];",
        "beyond all headers",
    );
    // hdr.mid has the type of hdr.vlan and follows it, but not at its stride.
    let text = SAMPLE.replace(
        "field hdr.vlan.$next$: bit<32>\n",
        "field hdr.vlan.$next$: bit<32>\nheader hdr.mid: vlan_t\n",
    );
    let copy = "header hdr.vlan[0]{meta.i in 3 by 1} = hdr.vlan[0];";
    let program = read(&text.replace("meta.ok = !meta.ok;", copy)).unwrap();
    let item = "control ingress, stage ingress.code";
    check_refused(
        &program,
        item,
        "reach 'hdr.mid', which has another type or is out of line",
    );
}

#[test]
fn expression_types_are_the_verifiers() {
    let program = read(SAMPLE).unwrap();
    let check = |e: Expr, ty| assert_eq!(e.ty(&program, None), Some(ty), "{e:?}");
    let a = || Box::new(bit(8, 1));
    check(Expr::Concat(a(), a()), ScalarTy::Bit(16));
    check(Expr::Slice(a(), 6, 2), ScalarTy::Bit(5));
    check(Expr::Binary(BinOp::Eq, a(), a()), ScalarTy::Bool);
    check(
        Expr::Binary(BinOp::Shl, a(), Box::new(bit(3, 1))),
        ScalarTy::Bit(8),
    );
    let place = HeaderPlace {
        base: HeaderId::new(1),
        dims: vec![Dim {
            index: bit(8, 0),
            len: 2,
            stride: 1,
        }],
    };
    assert_eq!(place.field_strides(&program), [3]);
}
