//! Tests of the semantics of expressions and assignments, on IR text.

use bits::Value;

/// Runs statements over some fields. `before` and `after` give field values.
fn check(fields: &str, body: &str, before: &[(&str, u128)], after: &[(&str, u128)]) {
    let declared: String = fields
        .split(',')
        .map(|field| format!("field {}\n", field.trim()))
        .collect();
    let mut loaded = super::common::load(&format!(
        "program t v1model\nerrors {{NoError}}\n{declared}control c {{\n stage c.code: action next end {{\n{body}\n}}\n}}\n"
    ));
    let mut packet = loaded.packet(&[]);
    for (name, value) in before {
        loaded.set(&mut packet, name, *value);
    }
    loaded.control("c", &mut packet);
    for (name, value) in after {
        assert_eq!(loaded.number(&packet, name), *value, "{name} after {body}");
    }
}

/// Checks one operation on `a` and `b` of one type, with the result `r` of another.
fn op(ty: &str, result: &str, expr: &str, a: u128, b: u128, expected: u128) {
    check(
        &format!("a: {ty}, b: {ty}, r: {result}"),
        &format!("r = {expr};"),
        &[("a", a), ("b", b)],
        &[("r", expected)],
    );
}

#[test]
fn arithmetic_wraps_at_the_width() {
    op("bit<8>", "bit<8>", "a + b", 250, 10, 4);
    op("bit<8>", "bit<8>", "a - b", 3, 5, 254);
    op("bit<8>", "bit<8>", "a * b", 100, 3, 44);
    op("bit<64>", "bit<64>", "a + b", u64::MAX.into(), 2, 1);
    op("bit<100>", "bit<100>", "a + b", (1 << 100) - 1, 5, 4);
    op("bit<100>", "bit<100>", "a * b", 1 << 60, 1 << 41, 0);
    op("bit<100>", "bit<100>", "-a", 1, 0, (1 << 100) - 1);
    op("bit<9>", "bit<9>", "~a", 0, 0, 511);
}

#[test]
fn division_by_zero_gives_zero() {
    op("bit<8>", "bit<8>", "a / b", 17, 5, 3);
    op("bit<8>", "bit<8>", "a % b", 17, 5, 2);
    op("bit<8>", "bit<8>", "a / b", 17, 0, 0);
    op("bit<8>", "bit<8>", "a % b", 17, 0, 0);
    op("bit<90>", "bit<90>", "a / b", 1 << 80, 1 << 10, 1 << 70);
    op("bit<90>", "bit<90>", "a % b", (1 << 80) + 7, 1 << 10, 7);
    op("bit<90>", "bit<90>", "a % b", (1 << 80) + 7, 0, 0);
}

#[test]
fn saturating_arithmetic_stops_at_the_bounds() {
    op("bit<8>", "bit<8>", "a |+| b", 250, 10, 255);
    op("bit<8>", "bit<8>", "a |-| b", 3, 5, 0);
    op("int<8>", "int<8>", "a |+| b", 100, 100, 127);
    op("int<8>", "int<8>", "a |-| b", 0x80, 1, 0x80);
    op("bit<70>", "bit<70>", "a |-| b", 3, 5, 0);
    op(
        "int<70>",
        "int<70>",
        "a |+| b",
        (1 << 69) - 1,
        1,
        (1 << 69) - 1,
    );
}

#[test]
fn shifts_by_the_width_or_more_shift_all_out() {
    op("bit<8>", "bit<8>", "a << b", 0x81, 1, 2);
    op("bit<8>", "bit<8>", "a << b", 0x81, 8, 0);
    op("bit<8>", "bit<8>", "a >> b", 0x81, 200, 0);
    check(
        "a: int<8>, b: bit<8>",
        "a = a >> b;",
        &[("a", 0x80), ("b", 3)],
        &[("a", 0xf0)],
    );
    check(
        "a: int<8>, b: bit<8>",
        "a = a >> b;",
        &[("a", 0x80), ("b", 99)],
        &[("a", 0xff)],
    );
    op("bit<96>", "bit<96>", "a << b", 1, 95, 1 << 95);
    op("bit<96>", "bit<96>", "a << b", 1, 1 << 80, 0);
    check(
        "a: int<96>, b: bit<8>",
        "a = a >> b;",
        &[("a", 1 << 95), ("b", 95)],
        &[("a", (1 << 96) - 1)],
    );
}

#[test]
fn comparisons_follow_the_sign_of_the_type() {
    op("bit<8>", "bool", "a < b", 0x80, 1, 0);
    op("int<8>", "bool", "a < b", 0x80, 1, 1);
    op("int<8>", "bool", "a >= b", 0x80, 1, 0);
    op("bit<80>", "bool", "a > b", 1 << 79, 1, 1);
    op("int<80>", "bool", "a > b", 1 << 79, 1, 0);
    op("bit<80>", "bool", "a == b", 1 << 79, 1 << 79, 1);
    op("bit<80>", "bool", "a != b", 1 << 79, 1 << 79, 0);
    op(
        "bit<8>",
        "bool",
        "((a > b) && (b == a)) || (a <= b)",
        1,
        1,
        1,
    );
}

#[test]
fn concatenation_slices_and_casts_move_bits() {
    check(
        "a: bit<8>, b: bit<4>, r: bit<12>",
        "r = a ++ b;",
        &[("a", 0xab), ("b", 0xc)],
        &[("r", 0xabc)],
    );
    check(
        "a: bit<60>, b: bit<60>, r: bit<120>",
        "r = a ++ b;",
        &[("a", 0x123), ("b", 0x456)],
        &[("r", (0x123 << 60) | 0x456)],
    );
    check(
        "a: bit<16>, r: bit<4>",
        "r = a[11:8];",
        &[("a", 0xabcd)],
        &[("r", 0xb)],
    );
    check(
        "a: bit<128>, r: bit<16>",
        "r = a[71:56];",
        &[("a", 0xbeef << 56)],
        &[("r", 0xbeef)],
    );
    check(
        "a: bit<16>, r: bit<16>",
        "r[11:8] = a[3:0];",
        &[("a", 0xf), ("r", 0x1234)],
        &[("r", 0x1f34)],
    );
    check(
        "a: bit<8>, r: bit<128>",
        "r[71:64] = a;",
        &[("a", 0xff), ("r", 0)],
        &[("r", 0xff << 64)],
    );
    check(
        "a: int<8>, r: int<16>",
        "r = int<16>(a);",
        &[("a", 0x80)],
        &[("r", 0xff80)],
    );
    check(
        "a: int<8>, r: int<100>",
        "r = int<100>(a);",
        &[("a", 0x80)],
        &[("r", (1 << 100) - 0x80)],
    );
    check(
        "a: bit<100>, r: bit<8>",
        "r = bit<8>(a);",
        &[("a", (1 << 90) + 7)],
        &[("r", 7)],
    );
    check(
        "a: bool, r: bit<1>",
        "r = bit<1>(a);",
        &[("a", 1)],
        &[("r", 1)],
    );
}

#[test]
fn a_choice_reads_only_what_it_chose() {
    check(
        "a: bit<8>, b: bit<8>",
        "a = (a > b) ? (a - b) : (b - a);",
        &[("a", 3), ("b", 10)],
        &[("a", 7)],
    );
    check(
        "a: bool, b: bool",
        "a = (a && b) || (!a && !b);",
        &[("a", 0), ("b", 0)],
        &[("a", 1)],
    );
}

#[test]
fn an_index_out_of_range_reads_zero_and_writes_nothing() {
    let fields = "i: bit<8>, x[0]: bit<16>, x[1]: bit<16>, x[2]: bit<16>, r: bit<16>";
    let before = [("x[0]", 7), ("x[1]", 8), ("x[2]", 9)];
    let with = |i: u128| [&[("i", i)], &before[..]].concat();
    check(fields, "r = x[0]{i in 3 by 1};", &with(2), &[("r", 9)]);
    check(
        fields,
        "r = 16w5; r = x[0]{i in 3 by 1};",
        &with(3),
        &[("r", 0)],
    );
    check(
        fields,
        "x[0]{i in 3 by 1} = 16w1;",
        &with(1),
        &[("x[0]", 7), ("x[1]", 1), ("x[2]", 9)],
    );
    check(
        fields,
        "x[0]{i in 3 by 1} = 16w1;",
        &with(200),
        &[("x[0]", 7), ("x[1]", 8), ("x[2]", 9)],
    );
    check(
        fields,
        "x[0]{i in 3 by 1}[3:0] = 4w1;",
        &with(1),
        &[("x[1]", 1)],
    );
    let wide = "i: bit<8>, x[0]: bit<100>, x[1]: bit<100>, r: bit<100>";
    check(
        wide,
        "x[0]{i in 2 by 1} = 100w5; r = x[0]{i in 2 by 1};",
        &[("i", 1)],
        &[("x[1]", 5), ("r", 5)],
    );
    check(
        wide,
        "x[0]{i in 2 by 1} = 100w5; r = x[0]{i in 2 by 1};",
        &[("i", 2)],
        &[("x[1]", 0), ("r", 0)],
    );
}

#[test]
fn blocks_are_left_and_loops_continue() {
    check(
        "n: bit<8>, sum: bit<8>",
        "block 0 { loop 1 { if (n == 8w0) { leave 0; } n = n - 8w1; if (n == 8w3) { continue 1; } sum = sum + n; } }",
        &[("n", 6)],
        &[("n", 0), ("sum", 5 + 4 + 2 + 1)],
    );
}

#[test]
fn an_endless_loop_ends_with_the_work_budget() {
    let mut loaded = super::common::load(
        "program t v1model\nerrors {NoError}\nfield a: bit<8>\ncontrol c {\n stage c.code: action next end {\n loop 0 { a = a + 8w1; }\n}\n}\n",
    );
    let mut packet = loaded.packet(&[]);
    packet.work_left = 1000;
    assert_eq!(
        loaded.control("c", &mut packet),
        exec::ControlVerdict::Drop(exec::DropReason::WorkBudget)
    );
    assert_eq!(loaded.number(&packet, "a"), 1000 % 256);
}

#[test]
fn a_field_keeps_bits_of_its_width_only() {
    let mut loaded = super::common::load(
        "program t v1model\nerrors {NoError}\nfield a: bit<300>\nfield b: bit<300>\ncontrol c {\n stage c.code: action next end {\n a = ~a; b = a >> 16w299;\n}\n}\n",
    );
    let mut packet = loaded.packet(&[]);
    loaded.control("c", &mut packet);
    assert_eq!(loaded.get(&packet, "a"), Value::all_ones(300));
    assert_eq!(loaded.number(&packet, "b"), 1);
}
