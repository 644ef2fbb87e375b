//! Tests of the semantics of table application: the entry, the action, and the next stage.

use super::common::{Engines, load, value};
use exec::ControlVerdict;

/// Loads a program with fields, one table `t` of these keys and entries, and these stages.
fn table(keys: &str, entries: &str, stages: &str) -> Engines {
    load(&format!(
        r#"program t pna
errors {{NoError}}
field a: bit<16>
field b: bit<8>
field wide: bit<100>
field ran: bit<32>
field was_hit: bool
field res: bit<16>
field after: bit<8>
action set(to: bit<16>, also: bit<8>) {{
    res = %to;
    b = %also;
}}
action quit() {{
    res = 16w0xdead;
    exit;
}}
table t {{
{keys}
    action set table_and_default;
    action quit table_and_default;
    default set(16w0xffff, 8w0x0);
{entries}
    size 16;
    largest_priority_wins;
}}
control c {{
{stages}
}}
"#
    ))
}

const APPLY: &str = "stage c.t: match t hit was_hit action_run ran next end;";

fn check(loaded: &mut Engines, before: &[(&str, u128)], after: &[(&str, u128)]) {
    let mut packet = loaded.packet(&[]);
    for (name, value) in before {
        loaded.set(&mut packet, name, *value);
    }
    assert_eq!(loaded.control("c", &mut packet), ControlVerdict::Done);
    for (name, expected) in after {
        assert_eq!(
            loaded.number(&packet, name),
            *expected,
            "{name} with {before:?}"
        );
    }
}

#[test]
fn the_longest_prefix_wins() {
    let entries = "entry (16w0x1200 / 8) -> set(16w0x1, 8w0x0);
        entry (16w0x1230 / 12) -> set(16w0x2, 8w0x0);
        entry (16w0x0 / 0) -> set(16w0x3, 8w0x0);";
    let mut t = table("key a: lpm as bit<16> = a;", entries, APPLY);
    check(
        &mut t,
        &[("a", 0x1234)],
        &[("res", 2), ("was_hit", 1), ("ran", 0)],
    );
    check(&mut t, &[("a", 0x12ff)], &[("res", 1)]);
    check(&mut t, &[("a", 0xffff)], &[("res", 3)]);
}

#[test]
fn the_largest_priority_wins_and_ranges_are_inclusive() {
    let keys = "key a: ternary as bit<16> = a; key b: range as bit<8> = b;";
    let entries = "entry (16w0x10 &&& 16w0xf0, 8w0x5 .. 8w0x9) -> set(16w0x1, 8w0x0) priority 5;
        entry (16w0x12 &&& 16w0xff, _) -> set(16w0x2, 8w0x0) priority 3;
        entry (_, 8w0x9 .. 8w0xff) -> set(16w0x3, 8w0x0) priority 9;";
    let mut t = table(keys, entries, APPLY);
    check(&mut t, &[("a", 0x12), ("b", 5)], &[("res", 1)]);
    check(&mut t, &[("a", 0x12), ("b", 4)], &[("res", 2)]);
    check(&mut t, &[("a", 0x12), ("b", 9)], &[("res", 3)]);
    check(
        &mut t,
        &[("a", 0x33), ("b", 1)],
        &[("res", 0xffff), ("was_hit", 0)],
    );
}

#[test]
fn keys_are_any_expression_of_any_width() {
    let keys =
        "key w: exact as bit<100> = wide + 100w0x1; key a: optional as bit<16> = a & 16w0xff;";
    let entries = "entry (100w0x80000000000000000, 16w0x7) -> set(16w0x1, 8w0x0) priority 1;
        entry (100w0x80000000000000000, _) -> set(16w0x2, 8w0x0) priority 0;";
    let mut t = table(keys, entries, APPLY);
    let wide = 0x7_ffff_ffff_ffff_ffffu128;
    check(&mut t, &[("wide", wide), ("a", 0x1207)], &[("res", 1)]);
    check(&mut t, &[("wide", wide), ("a", 0x1208)], &[("res", 2)]);
    check(&mut t, &[("wide", wide + 1), ("a", 7)], &[("was_hit", 0)]);
}

#[test]
fn a_table_without_keys_runs_its_default() {
    let mut t = table("", "", APPLY);
    check(
        &mut t,
        &[("b", 4)],
        &[("res", 0xffff), ("was_hit", 0), ("ran", 0), ("b", 0)],
    );
}

#[test]
fn where_to_go_depends_on_hit_or_action() {
    let entries = "entry (16w0x1) -> set(16w0x1, 8w0x0); entry (16w0x2) -> quit();";
    let stages = "stage c.t: match t next hit c.hit miss c.miss;
        stage c.hit: action next end { after = 8w0x1; }
        stage c.miss: action next end { after = 8w0x2; }";
    let mut t = table("key a: exact as bit<16> = a;", entries, stages);
    check(&mut t, &[("a", 1)], &[("after", 1)]);
    check(&mut t, &[("a", 9)], &[("after", 2)]);
    // An exit in the action ends the control.
    check(&mut t, &[("a", 2)], &[("after", 0), ("res", 0xdead)]);
    let stages = "stage c.t: match t next by_action (c.set, c.t2);
        stage c.set: action next end { after = 8w0x1; }
        stage c.t2: action next end { after = 8w0x3; }";
    let mut t = table("key a: exact as bit<16> = a;", entries, stages);
    check(&mut t, &[("a", 1)], &[("after", 1)]);
    check(&mut t, &[("a", 7)], &[("after", 1)]);
}

#[test]
fn a_back_edge_takes_work_and_conditions_choose() {
    let stages = "stage c.if: condition b < 8w0x5 then c.more else end;
        stage c.more: action next c.if { b = b + 8w0x1; res = res + 16w0x2; }";
    let mut t = table("", "", stages);
    check(&mut t, &[("b", 0)], &[("b", 5), ("res", 10)]);
    let mut packet = t.packet(&[]);
    packet.work_left = 3;
    assert_eq!(
        t.control("c", &mut packet),
        ControlVerdict::Drop(exec::DropReason::WorkBudget)
    );
}

#[test]
fn actions_can_be_run_with_computed_parameters() {
    let stages = "stage c.code: action next end { res = 16w0x3; run set(res + 16w0x1, b); run set(res + 16w0x1, b + 8w0x1); }";
    let mut t = table("", "", stages);
    check(&mut t, &[("b", 7)], &[("res", 5), ("b", 8)]);
}

#[test]
fn an_entry_that_a_packet_adds_is_there_for_the_next() {
    let text = "program t pna
errors {NoError}
field a: bit<16>
field failed: bit<8>
field res: bit<16>
action go(to: bit<16>) { res = %to; }
action learn() { call add_entry (=0, 8w0x0, {a + 16w0x100}, out failed); }
table t {
    key a: exact as bit<16> = a;
    action go table_and_default;
    action learn table_and_default;
    default learn();
    size 2;
    add_on_miss;
}
control c { stage c.t: match t next end; }
";
    let mut t = load(text);
    check(&mut t, &[("a", 1)], &[("failed", 0), ("res", 0)]);
    check(&mut t, &[("a", 1)], &[("res", 0x101)]);
    check(&mut t, &[("a", 2)], &[("failed", 0)]);
    check(&mut t, &[("a", 3)], &[("failed", 1)]);
    assert_eq!(t.get(&t.packet(&[]), "res"), value(0, 16));
}

#[test]
fn a_packet_adds_no_entry_for_a_key_that_it_hit() {
    let text = "program t pna
errors {NoError}
field a: bit<16>
field failed: bit<8>
field res: bit<16>
action go(to: bit<16>) { res = %to; }
action learn() { call add_entry (=0, 8w0x0, {16w0x7}, out failed); }
table t {
    key a: exact as bit<16> = a;
    action go table_and_default;
    action learn table_and_default;
    default learn();
    entry (16w0x1) -> learn();
    size 4;
    add_on_miss;
}
control c { stage c.t: match t next end; }
";
    let mut t = load(text);
    check(&mut t, &[("a", 1)], &[("failed", 1)]);
    for configuration in t.configurations() {
        let learned = configuration.learned.values().flatten();
        assert_eq!(learned.map(|learned| learned.len()).sum::<usize>(), 0);
    }
    check(&mut t, &[("a", 2)], &[("failed", 0)]);
}
